"""Calls are read as each dialect writes them, and refused where they are none."""

from __future__ import annotations

import json
import math
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert_lm.chat.parsers.base import CallSyntaxError
from litert_lm.chat.parsers.dialects import DIALECTS
from litert_lm.chat.parsers.fc_calls import parse_fc
from litert_lm.chat.parsers.json_calls import parse_json
from litert_lm.chat.parsers.python_calls import parse_python
from litert_lm.chat.parsers.tool_call import ToolCall
from litert_lm.chat.parsers.xml_calls import parse_xml
from litert_lm.chat.tools.text import argument_texts

NAMES = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)


def nested(keys):
    return st.recursive(
        SCALARS,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)
        ),
        max_leaves=8,
    )


def one(calls):
    (call,) = calls
    return call.arguments


@given(st.dictionaries(NAMES, nested(TEXTS), max_size=4))
def test_python_reads_what_is_written(arguments):
    texts = argument_texts(arguments, DIALECTS["gemma3"])
    inside = ", ".join(f"{name}={text}" for name, text in texts.items())
    assert parse_python(f"f({inside})") == [ToolCall("f", arguments)]


@given(st.dictionaries(NAMES, nested(TEXTS), max_size=4))
def test_json_reads_what_is_written(arguments):
    text = json.dumps({"name": "f", "arguments": arguments})
    assert parse_json(text) == [ToolCall("f", arguments)]


@given(st.dictionaries(NAMES, nested(NAMES), max_size=4))
def test_fc_reads_what_is_written(arguments):
    texts = argument_texts(arguments, DIALECTS["function_gemma"])
    inside = ",".join(f"{name}:{text}" for name, text in texts.items())
    assert parse_fc(f"call:f{{{inside}}}") == [ToolCall("f", arguments)]


@given(st.dictionaries(NAMES, TEXTS, max_size=4))
def test_xml_reads_what_is_written(arguments):
    inside = "".join(
        f'<param name="{name}">{escape(text)}</param>'
        for name, text in arguments.items()
    )
    text = f'<function name="f">{inside}</function>'
    assert parse_xml(text) == [ToolCall("f", arguments)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"q\"uo\nte\t\\"', 'q"uo\nte\t\\'),
        (r"'it\'s \u00e9 \x41 \U0001F600'", "it's é A 😀"),
        (r'"\d stays"', r"\d stays"),
        (r'r"\n"', r"\n"),
        ('"""two\nlines "quoted" """', 'two\nlines "quoted" '),
        ("\"one\" 'two'", "onetwo"),
        (r'"\ud83d\ude00 \ud800"', "😀 \ufffd"),
        ("-3", -3),
        ("0x1F", 31),
        ("1_000", 1000),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("(1, 2)", [1, 2]),
        ("(1)", 1),
        ("[true, False, null, None]", [True, False, None, None]),
        ('{"a": {1: [2,],},}', {"a": {"1": [2]}}),
    ],
)
def test_values_of_python(text, value):
    assert one(parse_python(f"f(a={text})")) == {"a": value}


def test_python_takes_several_statements():
    text = "x = f(a=1)\nprint(g(b='2'))  # why\n[h(), api.k(c=3)]; m()"
    names = [call.name for call in parse_python(text)]
    assert names == ["f", "g", "h", "api.k", "m"]


def test_arguments_without_names_are_named_by_the_tool():
    assert one(parse_python("f(1, 'x', c=2)", {"f": ["a", "b", "c"]})) == {
        "a": 1,
        "b": "x",
        "c": 2,
    }


@pytest.mark.parametrize(
    "text",
    [
        *("", "f", "f(", "f(1)", "f(a=)", "f(a=b)", "f(a=1", "f(a=1 b=2)"),
        *("f(a=1, a=2)", 'f(a="x)', "f(a=g())", "1 + 1", "[f()", "f(a={[]: 1})"),
        *("f(a=1e999)", "f(a=" + "9" * 5000 + ")", "f(a=" + "[" * 90 + "]" * 90 + ")"),
        "f(a='x\\",
    ],
)
def test_what_is_no_python_call_is_refused(text):
    with pytest.raises(CallSyntaxError):
        parse_python(text)


def test_json_takes_objects_and_arrays():
    text = '{"name": "f"}\n[{"name": "g"}, {"name": "h"}] , {"name": "k"};'
    assert [call.name for call in parse_json(text)] == ["f", "g", "h", "k"]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "f", "arguments": {"a": 1}}',
        '{"name": "f", "arguments": "{\\"a\\": 1}"}',
        '{"name": "f", "parameters": {"a": 1}}',
        '{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}',
    ],
)
def test_spellings_of_a_json_call(text):
    assert parse_json(text) == [ToolCall("f", {"a": 1})]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            "1",
            '"f"',
            "[]x",
            '{"name": 1}',
            '{"arguments": {}}',
            "{'name': 1}",
        ),
        *('{"name": "f", "arguments": [1]}', '{"name": "f", "arguments": "x"}'),
        '{"name": "f", "arguments": {"a": 1e999}}',
        '{"name": "f", "arguments": {"a": NaN}}',
        '{"name": "f", "arguments": ' + '{"a":' * 90 + "1" + "}" * 91,
    ],
)
def test_what_is_no_json_call_is_refused(text):
    with pytest.raises(CallSyntaxError):
        parse_json(text)


def test_fc_has_nested_values_and_bare_words():
    text = 'call:f{a:<escape>{x}<escape>,b:[1,{c:true}],d:null,e:New York,g:"h\\n"}'
    assert one(parse_fc(text)) == {
        "a": "{x}",
        "b": [1, {"c": True}],
        "d": None,
        "e": "New York",
        "g": "h\n",
    }


def test_fc_takes_other_quotes_and_several_calls():
    calls = parse_fc('call:f{a:<|"|>"x"<|"|>}call:g{}', '<|"|>', '<|"|>')
    assert calls == [ToolCall("f", {"a": '"x"'}), ToolCall("g", {})]


@pytest.mark.parametrize(
    "text",
    [
        *("", "f{}", "call:", "call:f", "call:f{a}", "call:f{a:}", "call:f{a:1"),
        *("call:f{a:[}", "call:f{a:<escape>x}", 'call:f{a:"x}'),
        "call:f{a:" + "[" * 90 + "]" * 90 + "}",
    ],
)
def test_what_is_no_fc_call_is_refused(text):
    with pytest.raises(CallSyntaxError):
        parse_fc(text)


def test_xml_resolves_entities_but_not_in_cdata():
    text = (
        "<function name='f'><param name=\"a\"> &lt;&#65;&#x42;&amp;&x; </param>"
        '<parameter name="b"><![CDATA[</param>&lt;]]>!</parameter></function>'
    )
    assert one(parse_xml(text)) == {"a": " <AB&&x; ", "b": "</param>&lt;!"}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "x",
            "<function>",
            "<function name='f'>",
            "<function name=''></function>",
        ),
        *("<function name='f'>x</function>", "<function name='f'><param name='a'>1"),
        "<function name='f'><param name='a'><![CDATA[x</param></function>",
    ],
)
def test_what_is_no_xml_call_is_refused(text):
    with pytest.raises(CallSyntaxError):
        parse_xml(text)


@pytest.mark.parametrize("parse", [parse_python, parse_json, parse_fc, parse_xml])
@given(text=st.text("f(){}[]<>\"'\\=:,/ 1anm\n#&;!-", max_size=40))
def test_any_text_is_calls_or_refused(parse, text):
    try:
        calls = parse(text)
    except CallSyntaxError as error:
        assert str(error).endswith(".")
    else:
        assert calls and all(call.name for call in calls)


@given(st.text("-+.eE_0123456789xXbBoO", max_size=12))
def test_numbers_are_finite_or_refused(text):
    try:
        value = one(parse_python(f"f(a={text})"))["a"]
    except CallSyntaxError:
        return
    assert math.isfinite(value)
