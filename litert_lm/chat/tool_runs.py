"""Runs the calls of one reply and makes their results what a model can be told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from litert_lm.chat.json_values import json_value
from litert_lm.chat.tool_call import ToolCall
from litert_lm.chat.tools import Tool, ToolEventHandler
from litert_lm.errors import InvalidArgumentError

__all__ = ["ToolResult", "run_tool_calls", "run_tool_calls_async"]

_MAX_ERROR_CHARS = 2000


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
    told and may try again. Approval is asked for all calls first, in order; results are
    processed in order as well. What the handler raises is raised.

    Args:
        tools: by name.
        max_parallel: so many tools run at the same time, each in a thread.
    """
    _check(max_parallel)
    approved = _approved(calls, handler)
    if max_parallel == 1 or len(approved) < 2:
        ran = [_ran(call, tools) for call in approved]
    else:
        with ThreadPoolExecutor(max_workers=min(max_parallel, len(approved))) as pool:
            ran = list(pool.map(lambda call: _ran(call, tools), approved))
    return _in_order(calls, approved, ran, handler)


async def run_tool_calls_async(
    calls: Sequence[ToolCall],
    tools: Mapping[str, Tool],
    handler: ToolEventHandler | None = None,
    *,
    max_parallel: int = 1,
) -> list[ToolResult]:
    """As run_tool_calls, with the tools in threads, so that the event loop goes on."""
    _check(max_parallel)
    approved = _approved(calls, handler)
    gate = asyncio.Semaphore(max_parallel)

    async def run(call: ToolCall) -> ToolResult:
        async with gate:
            return await asyncio.to_thread(_ran, call, tools)

    ran = await asyncio.gather(*(run(call) for call in approved))
    return _in_order(calls, approved, ran, handler)


def _check(max_parallel: int) -> None:
    if not isinstance(max_parallel, int) or max_parallel < 1:
        raise InvalidArgumentError(
            f"max_parallel is {max_parallel!r}. Give a whole number from 1 on."
        )


def _approved(
    calls: Sequence[ToolCall], handler: ToolEventHandler | None
) -> list[ToolCall]:
    if handler is None:
        return list(calls)
    return [call for call in calls if handler.approve_tool_call(call.to_json())]


def _in_order(
    calls: Sequence[ToolCall],
    approved: Sequence[ToolCall],
    ran: Sequence[ToolResult],
    handler: ToolEventHandler | None,
) -> list[ToolResult]:
    left = list(zip(approved, ran, strict=True))[::-1]
    results = [
        left.pop()[1] if left and left[-1][0] is call else _denied(call)
        for call in calls
    ]
    if handler is None:
        return results
    return [r if r.is_denied else _processed(r, handler) for r in results]


def _denied(call: ToolCall) -> ToolResult:
    part = _part(call, "Error: the call was not approved.")
    return ToolResult(call, part, is_denied=True)


def _processed(result: ToolResult, handler: ToolEventHandler) -> ToolResult:
    part = handler.process_tool_response(result.part)
    return ToolResult(result.call, part, result.error)


def _ran(call: ToolCall, tools: Mapping[str, Tool]) -> ToolResult:
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
