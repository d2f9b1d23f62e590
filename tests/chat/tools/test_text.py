"""Tools as text, as the official runtime lays them out for templates that want it."""

from __future__ import annotations

import pytest

from litert_lm.chat.parsers.dialects import DIALECTS
from litert_lm.chat.tools.text import argument_texts, declaration, result_text
from litert_lm.errors import InvalidArgumentError

PYTHON, FC = DIALECTS["gemma3n"], DIALECTS["function_gemma"]


def tool(properties=None, required=(), **body):
    if properties is not None:
        body["parameters"] = {"type": "object", "properties": properties}
        body["parameters"]["required"] = list(required)
    return {"type": "function", "function": {"name": "f", **body}}


def test_a_stub_of_python():
    properties = {
        "a": {"type": "integer", "description": "the a"},
        "b": {"type": "array", "items": {"type": "string"}},
        "c": {"type": "array"},
        "d": {"type": ["string", "number"]},
        "e": {},
    }
    made = declaration(tool(properties, ["a", "e"], description="Do it."), PYTHON)
    assert made == (
        "def f(\n    a: int,\n    b: list[str] | None = None,\n"
        "    c: list[Any] | None = None,\n    d: str | float | None = None,\n"
        '    e: Any,\n) -> dict:\n  """Do it.\n\n  Args:\n    a: the a\n  """\n'
    )


def test_stubs_of_functions_without_parameters():
    assert declaration(tool(), PYTHON) == "def f() -> dict:\n"
    assert declaration(tool({}, description="D"), PYTHON) == (
        'def f(\n\n) -> dict:\n  """D\n\n  Args:\n  """\n'
    )


def test_a_declaration_of_fc():
    properties = {"a": {"type": "integer", "description": "the a"}}
    assert declaration(tool(properties, ["a"], description="D"), FC) == (
        "declaration:f{description:<escape>D<escape>,parameters:{type:<escape>OBJECT"
        "<escape>,properties:{a:{type:<escape>INTEGER<escape>,description:<escape>the a"
        "<escape>}},required:[<escape>a<escape>]}}"
    )


def test_arguments():
    arguments = {"a": 1, "b": "z", "c": ["p", None], "d": {"e": 2.5}, "g": True}
    assert argument_texts(arguments, PYTHON) == {
        "a": "1",
        "b": '"z"',
        "c": '["p", None]',
        "d": '{"e": 2.5}',
        "g": "True",
    }
    assert argument_texts(arguments, FC) == {
        "a": "1",
        "b": "<escape>z<escape>",
        "c": "[<escape>p<escape>,null]",
        "d": "{e:2.5}",
        "g": "true",
    }


def test_results():
    assert result_text("f", {"x": [1, None]}, PYTHON) == '{"x": [1, None]}'
    assert result_text("f", {"x": [1, None]}, FC) == "f{x:[1,null]}"
    assert result_text("f", "text", FC) == "f{value:<escape>text<escape>}"


def test_a_string_cannot_close_its_quotes():
    text = '<escape>,b:"\n'
    assert argument_texts({"a": text}, FC) == {"a": '<escape>,b:"\n<escape>'}
    assert argument_texts({"a": text}, PYTHON) == {"a": r'"<escape>,b:\"\n"'}


@pytest.mark.parametrize("dialect", [PYTHON, FC])
def test_values_that_no_model_can_be_told(dialect):
    deep: list = []
    for _ in range(100):
        deep = [deep]
    for value in (deep, object()):
        with pytest.raises(InvalidArgumentError):
            argument_texts({"a": value}, dialect)
