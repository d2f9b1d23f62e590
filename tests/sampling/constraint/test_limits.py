"""Constraints made to hurt cost little and fail with one clear error, if at all."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from string import ascii_lowercase as LETTERS

import pytest

from litert_lm.errors import ExecutionError, InvalidArgumentError
from tests.sampling.constraint.walks import allowed_ids, constrain, walk

pytest.importorskip("llguidance", reason="needs the extra structured")

KIND = "gemma"
MAX_SECONDS = 10


def chain(link, last, num_links):
    return "\n".join([*(link.format(i, i + 1) for i in range(num_links)), last])


def refs(num_links):
    links = {
        f"d{i}": {"items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(num_links)
    }
    return json.dumps({"$ref": "#/$defs/d0", "$defs": {**links, f"d{num_links}": {}}})


def short_chain(num_links):
    names = [f"{a}{b}{c}" for a in LETTERS for b in LETTERS for c in LETTERS]
    rules = [f"{a}:{b}" for a, b in pairwise(names[:num_links])]
    return "\n".join([f"start:{names[0]}", *rules, f'{names[num_links - 1]}:"b"'])


HOSTILE = {
    "a schema of 50 MB": ("json", '{"a": "' + "x" * 50_000_000 + '"}'),
    "a schema 100,000 deep": ("json", '{"items":' * 10_000 + "{}" + "}" * 10_000),
    "a chain of references": ("json", refs(2800)),
    "many names that are required": (
        "json",
        json.dumps({"required": [f"p{i}" for i in range(5000)]}),
    ),
    "an enormous minimum": ("json", '{"type": "string", "minLength": 4000000000}'),
    "a long constant": ("json", json.dumps({"const": "x" * 100_000})),
    "repeats of repeats": ("regex", "a{1000}{1000}{1000}"),
    "an exponential automaton": ("regex", "((a|b)*a(a|b){900}){900}"),
    "optional parts": ("regex", "(a?){10000}a{10000}"),
    "a long regex": ("regex", "x" * 40_000),
    "brackets": ("regex", "(" * 10_000 + "a" + ")" * 10_000),
    "rules that use rules": ("grammar", chain("a{}: a{}", "a4000: 'b'", 4000)),
    "a chain of rules": (
        "grammar",
        "start: a0\n" + chain("a{}: a{}", 'a4000: "b"', 4000),
    ),
    "a chain of EBNF": (
        "grammar",
        "root ::= a0\n" + chain('a{} ::= a{} "b"', 'a2000 ::= root | "b"', 2000),
    ),
    "a chain of short rules": ("grammar", short_chain(8000)),
    "doubling rules": (
        "grammar",
        "root ::= a0\n" + chain("a{0} ::= a{1} a{1}", 'a60 ::= "x"', 60),
    ),
    "an ambiguous rule": ("grammar", 'start: x\nx: x x x | "a" x | ""'),
    "rules repeated": ("grammar", 'start: x{1000000}\nx: y{1000000}\ny: "a" | x'),
    "a token that is none": ("grammar", "start: <[99999999]>"),
    "a huge list of choices": ("choice", tuple(str(i) for i in range(50_000))),
    "many tags": (
        "structural_tag",
        json.dumps(
            {
                "structures": [
                    {"begin": f"<{i}>", "schema": {}, "end": "</>"} for i in range(2000)
                ],
                "triggers": [f"<{i}>" for i in range(2000)],
            }
        ),
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_constraints_are_bounded(what):
    start = time.monotonic()
    try:
        walk(constrain(KIND, *HOSTILE[what]), KIND, max_tokens=20)
    except (InvalidArgumentError, ExecutionError) as error:
        assert str(error).endswith(".")
        assert len(str(error)) < 1000
    assert time.monotonic() - start < MAX_SECONDS


def test_a_constraint_that_grows_too_complex_says_so():
    names = "|".join(f'"{i}" /(.|\\n)*/' for i in range(2500))
    with pytest.raises((ExecutionError, InvalidArgumentError), match="grammar"):
        walk(constrain(KIND, "grammar", f"start: {names}"), KIND)


def test_a_refused_constraint_leaves_the_compiler_sound():
    with pytest.raises(InvalidArgumentError):
        constrain(KIND, "regex", "(")
    assert allowed_ids(constrain(KIND, "choice", ("a",)), KIND)
