"""A function's signature and docstring become the description of a tool."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest

from litert_lm.chat.tools.docstrings import parse_docstring
from litert_lm.chat.tools.tool import tool_from_function
from litert_lm.chat.tools.type_schema import schema_of_type
from litert_lm.errors import InvalidArgumentError


class Unit(enum.Enum):
    CELSIUS = "celsius"
    KELVIN = "kelvin"


class Odd(enum.Enum):
    ONE = object()


@dataclasses.dataclass
class Place:
    """Where.

    Attributes:
        name: of the town
    """

    name: str
    near: Place | None = None
    zoom: int = 3


class Options(TypedDict):
    """Options."""

    depth: int
    tags: NotRequired[list[str]]


def described(function):
    return tool_from_function(function).get_tool_description()["function"]


def schema(hint):
    return schema_of_type(hint)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (str, {"type": "string"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (
            dict[str, float],
            {"type": "object", "additionalProperties": {"type": "number"}},
        ),
        (int | None, {"type": "integer", "nullable": True}),
        (int | str, {"type": ["integer", "string"]}),
        (
            int | list[int],
            {
                "anyOf": [
                    {"type": "integer"},
                    {"type": "array", "items": {"type": "integer"}},
                ]
            },
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, None], {"type": "integer", "enum": [1], "nullable": True}),
        (Unit, {"type": "string", "enum": ["celsius", "kelvin"]}),
        (Odd, {"type": "string", "enum": ["ONE"]}),
        (datetime.date, {"type": "string", "format": "date"}),
        (Annotated[int, "a count"], {"type": "integer", "description": "a count"}),
        (bytes, {"type": "string"}),
    ],
)
def test_types(hint, expected):
    assert schema(hint) == expected


def test_a_tuple_has_as_many_items():
    assert schema(tuple[int, str]) == {
        "type": "array",
        "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "minItems": 2,
        "maxItems": 2,
    }


def test_a_dataclass_is_an_object_and_may_hold_itself():
    assert schema(Place) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "of the town"},
            "near": {"type": "object", "nullable": True},
            "zoom": {"type": "integer", "default": 3},
        },
        "required": ["name"],
    }


def test_a_typed_dict_is_an_object():
    made = schema(Options)
    assert list(made["properties"]) == ["depth", "tags"]
    assert made["required"] == ["depth"]


def test_a_function_is_described():
    def weather(
        place: Place, unit: Unit = Unit.CELSIUS, *rest: int, **more: int
    ) -> str:
        """Tell the weather.

        Of today.

        Args:
            place: the town,
                or a village
            unit (Unit): of the answer
        """
        return ""

    made = described(weather)
    assert made["name"] == "weather"
    assert made["description"] == "Tell the weather. Of today."
    properties = made["parameters"]["properties"]
    assert list(properties) == ["place", "unit"]
    assert properties["place"]["description"] == "the town, or a village"
    assert properties["unit"] == {
        "type": "string",
        "enum": ["celsius", "kelvin"],
        "default": "celsius",
        "description": "of the answer",
    }
    assert made["parameters"]["required"] == ["place"]


def test_parameters_without_hints_are_strings_or_like_their_default():
    def f(a, b=2, c=None):
        pass

    assert described(f)["parameters"]["properties"] == {
        "a": {"type": "string"},
        "b": {"type": "integer", "default": 2},
        "c": {"type": "string"},
    }


def test_a_hint_that_names_nothing_is_left_out():
    def f(a: Missing, b: int = 1):  # noqa: F821
        pass

    assert described(f)["parameters"]["properties"] == {
        "a": {"type": "string"},
        "b": {"type": "integer", "default": 1},
    }


def test_methods_partials_and_callable_objects_are_tools():
    class Adder:
        def add(self, a: int, b: int = 1):
            """Add."""

        def __call__(self, c: float):
            """Call."""

    partial = functools.partial(Adder().add, b=3)
    assert list(described(partial)["parameters"]["properties"]) == ["a"]
    assert described(Adder().add)["name"] == "add"
    called = described(Adder())
    assert (called["name"], called["description"]) == ("Adder", "Call.")
    assert called["parameters"]["properties"] == {"c": {"type": "number"}}


@pytest.mark.parametrize("wrong", [lambda a: a, 3, "f"])
def test_what_has_no_name_or_is_no_function_is_refused(wrong):
    with pytest.raises(InvalidArgumentError):
        tool_from_function(wrong)


@pytest.mark.parametrize(
    "text",
    [
        "Do it.\n\nArgs:\n    a: first\n      line\n    b: second: x\n\n"
        "Returns:\n    c: no",
        "Do it.\n\nParameters\n----------\na : int\n    first\n    line\nb\n"
        "    second: x\n\nReturns\n-------\nc : int\n    no",
        "Do it.\n\n:param int a: first\n    line\n:type a: int\n:param b: second: x\n"
        ":returns: no",
    ],
    ids=["google", "numpy", "sphinx"],
)
def test_docstrings_of_each_style(text):
    said = parse_docstring(text)
    assert said.summary == "Do it."
    assert said.parameters == {"a": "first line", "b": "second: x"}


@pytest.mark.parametrize(
    "text", [None, "", "Args:", ":param", ":param :", "a\n---", "\n"]
)
def test_a_docstring_may_be_anything(text):
    assert parse_docstring(text).parameters == {}
