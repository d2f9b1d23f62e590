"""Calls of a reply are run, and the model is told what came of them."""

from __future__ import annotations

import dataclasses
import enum
import json
import threading

import numpy as np
import pytest

from litert_lm.chat.parsers.tool_call import ToolCall
from litert_lm.chat.tools.json_values import json_value
from litert_lm.chat.tools.runs import run_tool_calls
from litert_lm.chat.tools.tool import Tool, ToolEventHandler, as_tools, tool_name
from litert_lm.errors import InvalidArgumentError


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def fail() -> None:
    """Fail."""
    raise KeyError("lost")


TOOLS = as_tools([add, fail])


def responses(results):
    return [result.part["response"] for result in results]


def test_results_come_in_the_order_of_the_calls():
    calls = [ToolCall("add", {"a": 1}), ToolCall("fail", {}), ToolCall("sub", {}, "id")]
    results = run_tool_calls(calls, TOOLS)
    assert responses(results) == [
        3,
        "Error: 'lost'",
        "Error: There is no tool 'sub'. The tools are: add, fail.",
    ]
    assert isinstance(results[1].error, KeyError)
    assert results[2].part["id"] == "id"
    assert results[0].part == {"type": "tool_response", "name": "add", "response": 3}


def test_a_wrong_argument_is_told():
    (result,) = run_tool_calls([ToolCall("add", {"a": "x"})], TOOLS)
    assert result.part["response"].startswith("Error: add: the parameter 'a' is 'x'")


def meeting(count):
    """A tool that returns when `count` calls of it run at the same time."""
    barrier = threading.Barrier(count, timeout=10)

    def meet(n: int) -> int:
        """Meet."""
        barrier.wait()
        return n

    return as_tools([meet]), [ToolCall("meet", {"n": n}) for n in range(count)]


def test_calls_may_run_at_the_same_time():
    tools, calls = meeting(3)
    assert responses(run_tool_calls(calls, tools, max_parallel=3)) == [0, 1, 2]


@pytest.mark.parametrize("count", [0, -1, "2"])
def test_the_number_at_a_time_is_checked(count):
    with pytest.raises(InvalidArgumentError, match="max_parallel"):
        run_tool_calls([], TOOLS, max_parallel=count)


class Handler(ToolEventHandler):
    def __init__(self):
        self.seen = []

    def approve_tool_call(self, tool_call):
        self.seen.append(tool_call)
        return tool_call["function"]["arguments"].get("a") != 13

    def process_tool_response(self, tool_response):
        self.seen.append(tool_response)
        return {"is": tool_response}


@pytest.mark.parametrize("max_parallel", [1, 4])
def test_a_handler_approves_calls_and_changes_results(max_parallel):
    handler = Handler()
    calls = [ToolCall("add", {"a": a}) for a in (1, 13, 3)]
    results = run_tool_calls(calls, TOOLS, handler, max_parallel=max_parallel)
    denied = "Error: the call was not approved."
    assert responses(results) == [{"is": 3}, denied, {"is": 5}]
    assert [result.is_denied for result in results] == [False, True, False]
    asked = [calls[0].to_json(), 3, calls[1].to_json(), calls[2].to_json(), 5]
    order = [0, 1, 2, 3, 4] if max_parallel == 1 else [0, 2, 3, 1, 4]
    assert handler.seen == [asked[i] for i in order]


class Plain(Tool):
    def get_tool_description(self):
        return {"type": "function", "function": {"name": "plain"}}

    def execute(self, param):
        return dict(param)


def test_a_tool_of_ones_own():
    tools = as_tools([Plain(), add])
    assert list(tools) == ["plain", "add"]
    (result,) = run_tool_calls([ToolCall("plain", {"x": 1})], tools)
    assert result.part["response"] == {"x": 1}


def test_tools_have_names_of_their_own():
    with pytest.raises(InvalidArgumentError, match="Two tools are called 'add'"):
        as_tools([add, add])
    with pytest.raises(InvalidArgumentError, match="has no name"):
        tool_name({"type": "function", "function": {}})


@dataclasses.dataclass
class Point:
    x: int


class Color(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ((1, "x"), [1, "x"]),
        ({1: {2}}, {"1": [2]}),
        ({None: 1, True: 2}, {"null": 1, "true": 2}),
        (Point(3), {"x": 3}),
        ({Color.RED: Color.RED}, {"red": "red"}),
        (b"ab", "YWI="),
        (float("nan"), "nan"),
        (np.float32(1.5), 1.5),
        (np.array([[1, 2]]), [[1, 2]]),
        ((n for n in (1, 2)), [1, 2]),
        (ValueError("x"), "x"),
        ("\ud800", "\ufffd"),
    ],
)
def test_results_of_any_type_are_told(value, expected):
    made = json_value(value)
    assert made == expected
    json.dumps(made, allow_nan=False).encode()


def test_results_that_cannot_be_told_are_errors():
    circle: list = []
    circle.append(circle)

    def loop() -> list:
        """Loop."""
        return circle

    def endless():
        """Count."""
        return iter(int, 1)

    tools = as_tools([loop, endless])
    results = run_tool_calls([ToolCall("loop", {}), ToolCall("endless", {})], tools)
    assert "nested" in results[0].part["response"]
    assert responses(results)[1].startswith(("Error: ", "<callable_iterator"))
