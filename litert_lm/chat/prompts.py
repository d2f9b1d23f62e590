"""Renders a conversation's prompts: messages, tools and variables for a template."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from litert_lm.chat.template import PROBE, fill
from litert_lm.errors import InvalidArgumentError, LiteRtLmError, shown

__all__ = ["PromptRenderer"]

#: What a part looks like where a template prints it without looking into it.
_RAW_PART = ("'tool_response'", '"tool_response"')
#: A template with this variable renders one message at a time.
_BY_MESSAGE = "is_appending_to_prefill"
_USER = {"role": "user", "content": "a"}

Messages = Sequence[Mapping[str, Any]]


class PromptRenderer:
    """Renders with one template and one set of tools and variables.

    What the template understands is found out by trying it: whether it prints replies
    under the role "assistant" or "model", and whether it takes a tool's result as text,
    as Hugging Face does, or as a part ``{"type": "tool_response", ...}``, as the
    official runtime does.

    Args:
        template: Jinja source.
        tools: what the template gets as ``tools``; none leaves the variable undefined.
        bos_token, eos_token: spelling of those tokens.
        variables: what the template gets besides; wins over everything else.
        as_text: writes calls and results for a family whose template takes text.
        num_first: messages that a template for one message at a time gets at once:
            those that the conversation begins with.
        now: what the template takes for the time, in seconds since 1970; None takes
            the time of making. It stays, so that earlier prompts stay the same.
    """

    def __init__(
        self,
        template: str,
        *,
        tools: Sequence[Any] = (),
        bos_token: str = "",
        eos_token: str = "",
        variables: Mapping[str, Any] | None = None,
        as_text: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
        num_first: int = 0,
        now: int | None = None,
    ) -> None:
        self.template = template
        self._tools = list(tools)
        self._tokens = {"bos_token": bos_token, "eos_token": eos_token}
        self._variables = dict(variables or {})
        self._as_text = as_text
        self.num_first = num_first
        self.now = int(time.time()) if now is None else now

    def render(
        self,
        messages: Messages,
        *,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt for `messages`, which are in the JSON shape.

        Args:
            messages: all of them.
            add_generation_prompt: end with the opening of the model's turn.
            variables: of this message only; win over those of the conversation.

        Raises:
            InvalidArgumentError: the template refuses the messages.
            ModelFileError: the template is broken, or does too much.
        """
        first = [*messages[: self.num_first]]
        parts = [self._all_shaped(first), self._all_shaped(messages[len(first) :])]
        return self._render(parts, add_generation_prompt, variables or {})

    @cached_property
    def turn_end(self) -> str:
        """What the template prints behind a reply; '' where that cannot be told."""
        shown = self._try([_USER, {"role": self._reply_role, "content": PROBE}])
        return shown.partition(PROBE)[2]

    def _render(
        self,
        shaped: Sequence[Messages],
        add_generation_prompt: bool,
        variables: Mapping[str, Any],
    ) -> str:
        context: dict[str, Any] = {"now": self.now, **self._tokens}
        if self._tools:
            context["tools"] = self._tools
        context |= {"add_generation_prompt": add_generation_prompt}
        return self._filled(shaped, context | self._variables | dict(variables))

    def _filled(self, shaped: Sequence[Messages], context: Mapping[str, Any]) -> str:
        """The text for the first messages and the others."""
        first, others = shaped
        if _BY_MESSAGE in self.template:
            return _message_by_message(self.template, first, others, context)
        return fill(self.template, {"messages": [*first, *others], **context})

    def _try(self, messages: Messages) -> str:
        """A rendering without the conversation's tools; '' where it fails."""
        context = self._tokens | {"now": self.now, **self._variables}
        context |= {"add_generation_prompt": False}
        try:
            return self._filled([[], messages], context)
        except LiteRtLmError:
            return ""

    @cached_property
    def _reply_role(self) -> str:
        for role in ("assistant", "model"):
            if PROBE in self._try([_USER, {"role": role, "content": PROBE}]):
                return role
        return "assistant"

    @cached_property
    def _takes_result_parts(self) -> bool:
        """Whether a tool's result is shown as a part, and not as text."""
        call = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
        asking = {"role": self._reply_role, "content": "", "tool_calls": [call]}
        part = {"type": "tool_response", "name": "f", "response": {"x": PROBE}}
        shown = self._try([_USER, asking, {"role": "tool", "content": [part]}])
        return PROBE in shown and not any(sign in shown for sign in _RAW_PART)

    def _all_shaped(self, messages: Messages) -> list[Mapping[str, Any]]:
        return [each for message in messages for each in self._shaped(message)]

    def _shaped(self, message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The message as the template takes it; results of tools may be several."""
        role = message.get("role")
        if role in ("assistant", "model"):
            message = {**message, "role": self._reply_role}
            message.setdefault("content", "")
        if self._as_text is not None:
            return [self._as_text(message)]
        results = _results(message)
        if not results:
            return [message]
        if self._takes_result_parts:
            return [{**message, "content": [result]} for result in results]
        return [_result_message(message, result) for result in results]


def _message_by_message(
    template: str, first: Messages, others: Messages, context: Mapping[str, Any]
) -> str:
    """What a template prints that takes a `message` at a time, as officially.

    The first messages are `messages` of a rendering of their own, in which
    ``is_appending_to_prefill`` is undefined.
    """
    printed = ""
    if first or context.get("tools"):
        has_more = {"add_generation_prompt": False} if others else {}
        printed = fill(template, {**context, **has_more, "messages": first})
    for number, message in enumerate(others, 1):
        own: dict[str, Any] = {"message": _in_parts(message), "messages": []}
        own |= {_BY_MESSAGE: True, "is_first_part": True, "is_last_part": True}
        if number < len(others):
            own["add_generation_prompt"] = False
        printed += fill(template, {**context, **own})
    return printed


def _in_parts(message: Mapping[str, Any]) -> Mapping[str, Any]:
    content = message.get("content")
    if not isinstance(content, str):
        return message
    return {**message, "content": [{"type": "text", "text": content}]}


def _results(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a tool message that are results, if they are all."""
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    results = [
        part
        for part in parts
        if isinstance(part, Mapping) and part.get("type") == "tool_response"
    ]
    return results if len(results) == len(parts) else []


def _result_message(
    message: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    """One result as a message of Hugging Face's shape."""
    response = result.get("response")
    text = response if isinstance(response, str) else _as_json(response)
    made = {**message, "content": text, "name": result.get("name", "")}
    if result.get("id") is not None:
        made["tool_call_id"] = result["id"]
    return made


def _as_json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"The result of a tool is no JSON value ({error}): {shown(value)}."
        ) from error
