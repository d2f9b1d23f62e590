"""Each way to say what an output looks like means what it says."""

from __future__ import annotations

import json

import pytest

from litert_lm.errors import ExecutionError, InvalidArgumentError
from tests.sampling.constraint.walks import constrain, model_of, walk

pytest.importorskip("llguidance", reason="needs the extra structured")

KIND = "gemma"
FULL, PART, NO = "may end here", "must go on", "does not fit"


def fit(constraint, text):
    """How `text` fits as the beginning of an output."""
    constraint = constraint.fork()
    try:
        for token_id in model_of(KIND)[0].encode(text):
            constraint.accept(token_id)
    except ExecutionError:
        return NO
    return FULL if constraint.is_accepting else PART


def check(name, value, texts):
    constraint = constrain(KIND, name, value)
    assert {text: fit(constraint, text) for text in texts} == texts


EBNF = {
    'root ::= "a" | "ab" ("c" | [0-9]{2,3}) # a note': {
        "a": FULL,
        "abc": FULL,
        "ab12": FULL,
        "ab1": PART,
        "ab1234": NO,
    },
    'root ::= item+\nitem ::= "x" ws\n  "y"\nws ::= [ \\t\\n]*': {"xyx\n y": FULL},
    'root ::= sum\nsum ::= term ("+" term)*\nterm ::= "(" sum ")" | [0-9]+': {
        "1+(2+3)": FULL,
        "((1": PART,
        "1)": NO,
    },
    'root ::= [a-c]* "b" root | "x"': {"aabbx": FULL, "x": FULL, "aax": NO},
    'root ::= "é" [^"\\\\] . "\\x41\\u00e9\\U0001F600"': {"éz\nAé😀": FULL, 'é"': NO},
    "root ::= 'it''s' | \"a\\\"b\"": {"its": FULL, 'a"b': FULL},
    "root ::= [a\\]\\-^z-]+ no-thing?\nno-thing ::= [\\n]": {"a]-^z-\n": FULL, "b": NO},
    'root ::= root "a" | "b"': {"baaa": FULL, "a": NO},
}


@pytest.mark.parametrize("grammar", EBNF)
def test_ebnf(grammar):
    check("grammar", grammar, EBNF[grammar])


LARK = {
    'start: "a" number?\nnumber: /[0-9]+/': {"a": FULL, "a12": FULL, "b": NO},
    '?start: greet\ngreet: "hi" WS NAME\nWS: / +/\nNAME: /[a-z]+/': {"hi  bob": FULL},
    'start: "x ::= y"': {"x ::= y": FULL},
    'start: "v" %json {"type": "boolean"}': {"vtrue": FULL, "v1": NO},
}


@pytest.mark.parametrize("grammar", LARK)
def test_lark(grammar):
    check("grammar", grammar, LARK[grammar])


@pytest.mark.parametrize(
    "grammar", ['root ::= "a" ("b" | "é")', 'start: "a" ("b" | "é")']
)
def test_both_notations_of_a_finite_language(grammar):
    constraint = constrain(KIND, "grammar", grammar)
    texts = {walk(constraint.fork(), KIND, seed).text for seed in range(20)}
    assert texts == {"ab", "aé"}


def test_lark_may_name_a_special_token():
    tokenizer, _ = model_of(KIND)
    special = min(tokenizer.special_ids)
    constraint = constrain(KIND, "grammar", f'start: "a" <[{special}]> "b"')
    (token_id,) = tokenizer.encode("a")
    constraint.accept(token_id)
    assert constraint.forced_ids()[:1] == [special]


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ('x ::= "a"', "no rule 'root'"),
        ("root ::= y", "'root' uses 'y'"),
        ('root ::= "a', "line 1, column 10"),
        ('root ::= "b"\nx ::= (("a")', "line 2, column 7"),
        ('root ::= "a")', "does not belong"),
        ("root ::= [z-a]", "backwards"),
        ("root ::= []", "empty set"),
        ("root ::= ", "rule 'root' is empty"),
        ('root ::= "a"{3,2}', "maximum is below"),
        ('root ::= "a"{99999}', "go up to 10000"),
        ('root ::= "\\uD800"', "no character"),
        ('root ::= "a" root', "comes to an end"),
        ('root ::= "a"\nroot ::= "b"', "defined twice"),
        ("root ::= (?=x)", "nothing of EBNF starts here"),
        ("root ::= " + "(" * 60 + '"a"' + ")" * 60, "brackets are open"),
        ('start: "a" x', 'unknown name: "x"'),
        ("start: /(/", "unclosed group"),
        ('foo: "a"', "no start rule"),
        ("  ", "blank"),
        ('start: "\0"', "NUL character"),
    ],
)
def test_wrong_grammars_are_named(grammar, reason):
    with pytest.raises(InvalidArgumentError, match=r"^grammar ") as caught:
        constrain(KIND, "grammar", grammar)
    assert reason in str(caught.value)
    assert str(caught.value).endswith("or EBNF with `root ::= ...`.")


def tag(begin, content, end):
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def schema(value):
    return {"type": "json_schema", "json_schema": value}


ANY = {"type": "any_text"}
A = {"type": "const_string", "value": "ab"}
BOOL_TAG = tag("<f=a>", schema({"type": "boolean"}), "</f>")
TRIGGERED = {"type": "triggered_tags", "triggers": ["<f"], "tags": [BOOL_TAG]}
LEGACY = {
    "structures": [
        {"begin": "<f=a>", "schema": {"type": "boolean"}, "end": "</f>"},
        {"begin": "<f=b>", "schema": {"enum": [1]}, "end": "</f>"},
    ],
    "triggers": ["<f="],
}
FORMATS = [
    (A, {"ab": FULL, "a": PART}),
    (
        {"type": "sequence", "elements": [A, schema({"type": "boolean"}), ANY]},
        {"abtrue": FULL, "abfalse zz": FULL, "abx": NO},
    ),
    (
        {"type": "or", "elements": [A, tag("<t>", ANY, "</t>")]},
        {"ab": FULL, "<t>x < y": PART, "<t>x</t>": FULL, "<t>x</t>y": NO},
    ),
    (TRIGGERED, {"": FULL, "hi <f=a>true</f> yo": FULL, "hi <fx": NO}),
    (
        {**TRIGGERED, "at_least_one": True},
        {"zz": PART, "zz<f=a>true</f>": FULL, "zz<f=a>true</f>z": FULL},
    ),
    (
        {**TRIGGERED, "stop_after_first": True},
        {"zz": FULL, "zz<f=a>true</f>": FULL, "zz<f=a>true</f>z": NO},
    ),
    (
        tag("<x>", TRIGGERED, ["</x>", "</y>"]),
        {"<x></x>": FULL, "<x>hi<f=a>true</f>yo</y>": FULL, "<x>hi</x>z": NO},
    ),
    (
        {"type": "tags_with_separator", "separator": ",", "tags": [BOOL_TAG]},
        {"": FULL, "<f=a>true</f>,<f=a>true</f>": FULL, "<f=a>true</f><": NO},
    ),
    (
        {
            "type": "tags_with_separator",
            "separator": ",",
            "tags": [tag("<", {"type": "regex", "pattern": "[0-9]+"}, ">")],
            "at_least_one": True,
            "stop_after_first": True,
        },
        {"": PART, "<12>": FULL, "<12>,": NO},
    ),
    ({"type": "grammar", "grammar": 'root ::= "(" root ")" | "x"'}, {"((x))": FULL}),
    ({"type": "star", "content": A}, {"": FULL, "abab": FULL}),
    ({"type": "plus", "content": A}, {"": PART, "abab": FULL}),
    ({"type": "optional", "content": A}, {"": FULL, "ab": FULL, "abab": NO}),
]


@pytest.mark.parametrize(("content", "texts"), FORMATS)
def test_structural_tags_by_format(content, texts):
    value = json.dumps({"type": "structural_tag", "format": content})
    check("structural_tag", value, texts)


def test_structural_tags_by_trigger():
    texts = {
        "": FULL,
        "hi <f": FULL,
        "hi <f=": PART,
        "hi <f=a>true</f> and <f=b>1</f> bye": FULL,
        "<f=c>": NO,
        "<f=a>1": NO,
    }
    check("structural_tag", json.dumps(LEGACY), texts)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x", "no JSON: Expecting value at line 1, column 1"),
        ("{}", "needs either"),
        ("[]", "must be a JSON object"),
        ('{"structures": [], "triggers": ["a"]}', "structures must be a list"),
        ('{"structures": [{}], "triggers": ["a"]}', "structures[0] lacks 'begin'"),
        (json.dumps({**LEGACY, "triggers": ["g"]}), "structures[0].begin"),
        (json.dumps({"structures": LEGACY["structures"]}), "triggers must be a list"),
        ('{"type": "structural_tag"}', "format must be a JSON object"),
    ],
)
def test_wrong_structural_tags_are_named(value, reason):
    with pytest.raises(InvalidArgumentError, match=r"^structural_tag ") as caught:
        constrain(KIND, "structural_tag", value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"type": "qwen_xml_parameter"}, "'qwen_xml_parameter', which is not supp"),
        ({"type": "sequence", "elements": [ANY, A]}, "elements[0] never ends"),
        ({"type": "tag", "begin": "a", "end": "b"}, "lacks 'content'"),
        (tag("a", A, ["", "b"]), "empty text among others"),
        (tag(3, A, "b"), "format.begin must be text"),
        ({**TRIGGERED, "triggers": ["g"]}, "starts with no trigger"),
        ({"type": "grammar", "grammar": "root ::= ("}, "format.grammar, line 1"),
        ({"type": "regex", "pattern": "("}, "unclosed group"),
        ({"type": "regex", "pattern": "a\\"}, "format.pattern, it ends in a backslash"),
        (schema({"type": "zzz"}), "Invalid type: zzz"),
    ],
)
def test_wrong_formats_are_named(content, reason):
    value = json.dumps({"type": "structural_tag", "format": content})
    with pytest.raises(InvalidArgumentError, match=r"^structural_tag ") as caught:
        constrain(KIND, "structural_tag", value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("json", "{", "line 1, column 2"),
        ("json", "[1]", "an object, true or false"),
        ("json", '{"type": "zzz"}', "Invalid type: zzz"),
        ("json", '{"$ref": "http://a.example/c"}', "does not fetch"),
        ("json", '{"$ref": "#/nope"}', "does not exist"),
        ("json", '{"not": {}}', "Unimplemented keys"),
        ("json", '{"$ref": "#"}', "no text fits"),
        ("json", "false", "Unsatisfiable"),
        ("json", '{"minimum": 1e400}', "out of range"),
        ("json", '{"maximum": NaN}', "NaN is no number"),
        ("json", '{"enum": ["\\ud800"]}', "surrogate"),
        ("regex", "(", "unclosed group"),
        ("regex", "(?=a)b", "look-around"),
        ("regex", "a\0", "NUL character at position 1"),
        ("regex", "a\\", "ends in a backslash"),
        ("regex", r"\d\\" + "\\", "ends in a backslash"),
        ("regex", "", "blank"),
        ("regex", "\ud800", "lone surrogate"),
        ("choice", (), "it is empty"),
        ("choice", "abc", "list of texts"),
        ("choice", (1,), "not int"),
        ("choice", ("\ud800",), "lone surrogate"),
        ("json", 3, "not int"),
        ("xml", "x", "no such kind"),
    ],
)
def test_wrong_values_are_named(name, value, reason):
    with pytest.raises(InvalidArgumentError, match=f"^{name} ") as caught:
        constrain(KIND, name, value)
    assert reason in str(caught.value)
    assert str(caught.value).endswith(".")
