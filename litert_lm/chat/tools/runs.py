"""Runs the calls of one reply and makes their results what a model can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from litert_lm.chat.parsers.tool_call import ToolCall
from litert_lm.chat.tools.json_values import json_value
from litert_lm.chat.tools.tool import Tool, ToolEventHandler
from litert_lm.errors import InvalidArgumentError, shown

__all__ = ["ToolResult", "run_tool_calls"]

_MAX_ERROR_CHARS = 2000
_DENIED = "Error: the call was not approved."


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What came of one call.

    Attributes:
        call: the call.
        part: for a tool message: ``{"type": "tool_response", "name", "response"}``, and
            ``"id"`` where the call has one.
        error: what the tool raised; its text is the response, behind ``Error: ``.
        is_denied: the handler did not approve the call, and nothing ran.
    """

    call: ToolCall
    part: dict[str, Any]
    error: Exception | None = None
    is_denied: bool = False


def run_tool_calls(
    calls: Sequence[ToolCall],
    tools: Mapping[str, Tool],
    handler: ToolEventHandler | None = None,
    *,
    max_parallel: int = 1,
) -> list[ToolResult]:
    """The results of the calls, in their order.

    What a tool raises becomes its result, and so does an unknown name: the model is
    told and may try again. The handler sees each call before it runs and its result
    after it, call by call; with several tools at a time, all calls before the first
    runs and all results after the last. What the handler raises is raised.

    Args:
        tools: by name.
        max_parallel: so many tools run at the same time, each in a thread.
    """
    _check(max_parallel)
    if max_parallel == 1 or len(calls) < 2:
        return [
            _heard(_ran(call, tools, _is_approved(call, handler)), handler)
            for call in calls
        ]
    approvals = [_is_approved(call, handler) for call in calls]
    with ThreadPoolExecutor(max_workers=min(max_parallel, len(calls))) as pool:
        ran = list(pool.map(_ran, calls, [tools] * len(calls), approvals))
    return [_heard(result, handler) for result in ran]


def _check(max_parallel: int) -> None:
    if not isinstance(max_parallel, int) or max_parallel < 1:
        raise InvalidArgumentError(
            f"max_parallel is {max_parallel!r}. Give a whole number from 1 on."
        )


def _is_approved(call: ToolCall, handler: ToolEventHandler | None) -> bool:
    if handler is None:
        return True
    answer = handler.approve_tool_call(call.to_json())
    if answer is not None and not isinstance(answer, bool):
        raise InvalidArgumentError(
            f"approve_tool_call must return True or False, got {shown(answer)}."
        )
    return bool(answer)


def _heard(result: ToolResult, handler: ToolEventHandler | None) -> ToolResult:
    """The result as the handler lets the model hear it."""
    if handler is None or result.is_denied:
        return result
    response = handler.process_tool_response(result.part["response"])
    try:
        heard = json_value(response)
    except ValueError as error:
        raise InvalidArgumentError(
            f"process_tool_response must return a value of JSON's types: {error}."
        ) from error
    return replace(result, part=_part(result.call, heard))


def _ran(call: ToolCall, tools: Mapping[str, Tool], is_approved: bool) -> ToolResult:
    if not is_approved:
        return ToolResult(call, _part(call, _DENIED), is_denied=True)
    try:
        if call.name not in tools:
            known = ", ".join(tools) or "none"
            raise InvalidArgumentError(
                f"There is no tool {call.name!r}. The tools are: {known}."
            )
        response = json_value(tools[call.name].execute(call.arguments))
    except Exception as error:  # whatever a tool raises is the model's to hear
        return ToolResult(call, _part(call, _said(error)), error)
    return ToolResult(call, _part(call, response))


def _said(error: Exception) -> str:
    try:
        text = str(error) or type(error).__name__
    except Exception:  # of a class of the caller's
        text = type(error).__name__
    return f"Error: {text[:_MAX_ERROR_CHARS]}"


def _part(call: ToolCall, response: Any) -> dict[str, Any]:
    part = {"type": "tool_response", "name": call.name, "response": response}
    return part if call.id is None else part | {"id": call.id}
