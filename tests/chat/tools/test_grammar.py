"""Under a grammar of tool_choice every tokenizer writes calls that can be read."""

from __future__ import annotations

import dataclasses
import enum
import functools
import random
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest

from litert_lm.chat.parsers.dialects import DIALECTS
from litert_lm.chat.parsers.reply import parse_reply
from litert_lm.chat.tools.grammar import chosen_tools, tool_choice_grammar
from litert_lm.chat.tools.tool import as_tools
from litert_lm.errors import InvalidArgumentError, UnsupportedModelError
from litert_lm.sampling.constraint.compiler import ConstraintCompiler, ConstraintSpec
from tests.sampling.constraint.walks import KINDS, model_of, walk

pytest.importorskip("llguidance", reason="needs the extra structured")


class Unit(enum.Enum):
    ODD = 'a"<&b'
    PLAIN = "kelvin"


@dataclasses.dataclass
class Place:
    x: float
    tag: Literal["a", "b"] | None = None


def look(
    a: int,
    b: Unit,
    c: Place | None = None,
    d: list[bool] | None = None,
    e: float = 1.0,
    f: tuple[int, int] | None = None,
):
    return a, b, c, d, e, f


def empty():
    return ()


def free(a: dict[str, int] | None = None, b: Any = None, c: str = ""):
    return a, b, c


TOOLS = as_tools([look, empty, free])
DESCRIPTIONS = [tool.get_tool_description() for tool in TOOLS.values()]
EOS = "<eos>"
MARKS = frozenset(b'")]}>,<|')
PIECES = ("the ", '"}', '": "', "call:", "f(", ", ", "</", "ool_call", "<para", "é")


class Bytes:
    """A tokenizer of bytes, a few longer pieces, and special tokens."""

    def __init__(self, *special):
        plain = [bytes([i]) for i in range(256)] + [text.encode() for text in PIECES]
        self.data = plain + [text.encode() for text in (*special, EOS)]
        self.ids = {text: len(plain) + i for i, text in enumerate((*special, EOS))}
        self.vocab_size = len(self.data)
        self.special_ids = frozenset(self.ids.values())
        self.pieces = {
            i: SimpleNamespace(data=data, at_start=data, ends_start=False)
            for i, data in enumerate(self.data)
        }

    def encode(self, text):
        return list(text.encode())

    def id_to_token(self, token_id):
        return self.data[token_id].decode("latin1")


#: Families with their markers as text and as special tokens; some end a reply.
CASES = [
    *((family, (), ()) for family in DIALECTS if family != "function_gemma"),
    ("qwen3", ("<tool_call>", "</tool_call>"), ()),
    (
        "function_gemma",
        ("<start_function_call>", "<end_function_call>", "<escape>"),
        ("<end_function_call>",),
    ),
    ("gemma4", ("<|tool_call>", "<tool_call|>", '<|"|>'), ()),
    ("lfm2", ("<|tool_call_start|>", "<|tool_call_end|>"), ()),
]


@functools.cache
def compiled(family, special, stops, choice, channels=()):
    tokenizer = Bytes(*special)
    stop_ids = [tokenizer.ids[text] for text in (EOS, *stops)]
    grammar = tool_choice_grammar(
        choice,
        DESCRIPTIONS,
        DIALECTS[family],
        special_id=tokenizer.ids.get,
        stop_ids=stop_ids,
        channels=channels,
    )
    compiler = ConstraintCompiler(tokenizer, tokenizer.vocab_size, stop_ids)
    return tokenizer, stop_ids, compiler.compile(ConstraintSpec("grammar", grammar))


def written(family, special, stops, choice, seed, start="", channels=()):
    """A random reply under the grammar, behind `start`; None where it does not end."""
    tokenizer, stop_ids, constraint = compiled(family, special, stops, choice, channels)
    constraint = constraint.fork()
    draw = random.Random(seed)
    data = bytearray()
    for token_id in encoded(tokenizer, start):
        constraint.accept(token_id)
        data += tokenizer.data[token_id]
    for _ in range(400):
        logits = np.zeros(tokenizer.vocab_size, np.float32)
        constraint.apply(logits)
        allowed = np.flatnonzero(np.isfinite(logits)).tolist()
        ends = [i for i in allowed if i in stop_ids]
        rest = [i for i in allowed if i not in stop_ids]
        if ends and (not rest or draw.random() < 0.3):
            return data.decode()
        marks = [i for i in rest if i in MARKS or i >= 256 + len(PIECES)]
        readable = [i for i in rest if 32 <= i < 127 or i >= 256] or rest
        token_id = draw.choice(marks if marks and draw.random() < 0.6 else readable)
        constraint.accept(token_id)
        data += tokenizer.data[token_id]
    return None


def encoded(tokenizer, text):
    """Ids of a text of which special tokens are single ids."""
    ids = []
    while text:
        special = next((s for s in tokenizer.ids if text.startswith(s)), None)
        ids += [tokenizer.ids[special]] if special else list(text[0].encode())
        text = text[len(special or text[0]) :]
    return ids


def checked(text, family):
    """The reply, whose calls the tools take."""
    reply = parse_reply(text, DIALECTS[family], DESCRIPTIONS)
    assert reply.parse_error is None, text
    for call in reply.calls:
        TOOLS[call.name].execute(call.arguments)
    return reply


@pytest.mark.parametrize(("family", "special", "stops"), CASES)
def test_required_gives_calls_that_the_tools_take(family, special, stops):
    texts = [written(family, special, stops, "required", seed) for seed in range(25)]
    found = [checked(text, family) for text in texts if text is not None]
    assert all(reply.calls and not reply.text.strip() for reply in found)
    assert {call.name for reply in found for call in reply.calls} == set(TOOLS)


@pytest.mark.parametrize(("family", "special", "stops"), CASES)
def test_a_named_tool_is_called_once(family, special, stops):
    for seed in range(5):
        text = written(family, special, stops, "look", seed)
        if text is not None:
            assert [call.name for call in checked(text, family).calls] == ["look"]


@pytest.mark.parametrize(("family", "special", "stops"), CASES)
def test_auto_lets_text_through_and_holds_calls(family, special, stops):
    start = "Hi <b>! " + DIALECTS[family].fence_start
    texts = [written(family, special, stops, "auto", seed, start) for seed in range(8)]
    found = [checked(text, family) for text in texts if text is not None]
    assert found and all(reply.calls for reply in found)
    assert checked(written(family, special, stops, "auto", 1, "Hi"), family).text


@pytest.mark.parametrize(("family", "special", "stops"), CASES)
def test_none_lets_no_fence_through(family, special, stops):
    tokenizer, _, constraint = compiled(family, special, stops, "none")
    *before, last = encoded(tokenizer, "Hi " + DIALECTS[family].fence_start)
    constraint = constraint.fork()
    for token_id in before:
        constraint.accept(token_id)
    logits = np.zeros(tokenizer.vocab_size, np.float32)
    constraint.apply(logits)
    assert np.isneginf(logits[last])
    assert np.isfinite(logits[ord("a")])


@pytest.mark.parametrize("special", [(), ("<think>", "</think>")])
def test_thoughts_may_come_before_required_calls(special):
    channels = (("<think>", "</think>"),)
    start = "<think>a <b> c</think>\n\n"
    text = written("qwen3", special, (), "empty", 0, start, channels)
    assert text.startswith(start)
    assert [call.name for call in checked(text, "qwen3").calls] == ["empty"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["qwen3", "gemma3", "lfm2", "minicpm5"])
def test_each_kind_of_tokenizer_writes_calls(kind, family):
    grammar = tool_choice_grammar("empty", DESCRIPTIONS, DIALECTS[family])
    _, compiler = model_of(kind)
    output = walk(compiler.compile(ConstraintSpec("grammar", grammar)), kind)
    assert output.is_ended
    assert [call.name for call in checked(output.text, family).calls] == ["empty"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("none", ("none", 0)),
        ("auto", ("auto", 3)),
        ("required", ("required", 3)),
        ("look", ("named", 1)),
        ({"type": "function", "function": {"name": "free"}}, ("named", 1)),
    ],
)
def test_choices(choice, expected):
    mode, tools = chosen_tools(choice, DESCRIPTIONS)
    assert (mode, len(tools)) == expected


@pytest.mark.parametrize("choice", ["any", {"function": {"name": "x"}}, {}])
def test_a_choice_of_nothing_is_refused(choice):
    with pytest.raises(InvalidArgumentError):
        chosen_tools(choice, DESCRIPTIONS)
    with pytest.raises(InvalidArgumentError, match="tool_choice is 'required'"):
        chosen_tools("required", [])


@pytest.mark.parametrize("name", ["a b", "", "x)", "1"])
def test_a_name_that_cannot_be_written_is_refused(name):
    tool = {"function": {"name": "f", "parameters": {"properties": {name: {}}}}}
    with pytest.raises(InvalidArgumentError, match="parameter"):
        tool_choice_grammar("required", [tool], DIALECTS["gemma3"])


def test_expressions_of_a_model_cannot_be_constrained():
    dialect = dataclasses.replace(DIALECTS["qwen3"], call_pattern="x")
    with pytest.raises(UnsupportedModelError, match="regular expressions"):
        tool_choice_grammar("auto", DESCRIPTIONS, dialect)


def test_hostile_schemas_give_grammars_of_bounded_size():
    loop = {"$ref": "#/$defs/a"}
    wide = {"type": "object", "properties": {f"k{i}": loop for i in range(50)}}
    schema = {"$defs": {"a": wide}, "properties": {"x": loop, "y": {"enum": [1, None]}}}
    tool = {"function": {"name": "f", "parameters": schema}}
    for family in ("gemma3", "gemma4", "minicpm5"):
        assert len(tool_choice_grammar("f", [tool], DIALECTS[family])) < 1_000_000
