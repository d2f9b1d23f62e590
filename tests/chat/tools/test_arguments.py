"""Arguments of a call become what the function's hints ask for."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import pathlib
from typing import Any, Literal, TypedDict

import pytest

from litert_lm.chat.tools.coercion import coerce
from litert_lm.chat.tools.tool import tool_from_function
from litert_lm.errors import InvalidArgumentError


class Unit(enum.Enum):
    CELSIUS = "c"
    KELVIN = "k"


class Level(enum.IntEnum):
    LOW = 1


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0
    unit: Unit = Unit.CELSIUS


class Box(TypedDict):
    corner: Point


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (3.0, int, 3),
        ("3", int, 3),
        ("3.0", int, 3),
        (3, float, 3.0),
        ("2.5", float, 2.5),
        (5, str, "5"),
        (True, str, "true"),
        ("False", bool, False),
        ("c", Unit, Unit.CELSIUS),
        ("kelvin", Unit, Unit.KELVIN),
        ("1", Level, Level.LOW),
        ("A", Literal["a", 1], "a"),
        ("1", Literal["a", 1], 1),
        ([1, "2"], list[int], [1, 2]),
        ("[1, 2]", list[int], [1, 2]),
        ([1, 1], set[int], {1}),
        ([1, "x"], tuple[int, str], (1, "x")),
        ([1, 2], tuple[int, ...], (1, 2)),
        ({"1": "2"}, dict[int, int], {1: 2}),
        ({"x": 1, "unit": "k"}, Point, Point(1.0, 0.0, Unit.KELVIN)),
        ('{"x": 1}', Point, Point(1.0)),
        ({"corner": {"x": 1}}, Box, {"corner": Point(1.0)}),
        ("2020-01-02", datetime.date, datetime.date(2020, 1, 2)),
        ("a/b", pathlib.Path, pathlib.Path("a/b")),
        (None, int | None, None),
        ("3", int | None, 3),
        ("3", str | int, "3"),
        (3, float | int, 3),
        ({"x": 1}, Point | None, Point(1.0)),
        ([object], Any, [object]),
    ],
)
def test_values_are_converted(value, hint, expected):
    made = coerce(value, hint, "a")
    assert made == expected
    assert type(made) is type(expected)


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("x", int),
        (3.5, int),
        (True, int),
        (float("inf"), int),
        ("9" * 5000, int),
        ("x", float),
        (10**400, float),
        (3, bool),
        ([], str),
        ("z", Unit),
        (2, Literal["a", 1]),
        ("x", list[int]),
        ([1], tuple[int, str]),
        ([[]], set[Any]),
        (1, dict[str, int]),
        ({"y": 1}, Point),
        ({"x": 1, "z": 1}, Point),
        ("yesterday", datetime.date),
        ([], int | str),
        (1, None),
    ],
)
def test_values_that_do_not_fit_are_named(value, hint):
    with pytest.raises(InvalidArgumentError, match=r"^the parameter a"):
        coerce(value, hint, "the parameter a")


def test_the_place_of_a_wrong_value_is_named():
    with pytest.raises(InvalidArgumentError, match=r"^a\[0\]\.x is 'q'"):
        coerce([{"x": "q"}], list[Point], "a")


def call(function, **arguments):
    return tool_from_function(function).execute(arguments)


def test_a_function_gets_what_its_hints_say():
    def f(a: int, /, p: Point, *, unit: Unit = Unit.CELSIUS, **more: int):
        return a, p, unit, more

    assert call(f, a="1", p={"x": 2}, unit="k", z=3) == (
        1,
        Point(2.0),
        Unit.KELVIN,
        {"z": 3},
    )


def test_null_is_the_default_where_no_null_fits():
    def f(a: int = 7, b: int | None = 8):
        return a, b

    assert call(f, a=None, b=None) == (7, None)
    assert call(f) == (7, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "f: the parameter 'a' is missing"),
        ({"a": 1, "q": 2}, "f has no parameter 'q'"),
        ({"a": "x"}, "f: the parameter 'a' is 'x'"),
    ],
)
def test_errors_name_the_parameter(arguments, message):
    def f(a: int):
        return a

    with pytest.raises(InvalidArgumentError, match=message):
        call(f, **arguments)


def test_a_coroutine_function_is_waited_for():
    async def f(a: int):
        return a + 1

    assert call(f, a=1) == 2
