"""The tools of a conversation: how the model sees them, calls them and is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.chat.messages import Message
from litert_lm.chat.parsers.dialects import Dialect, dialect_of, infer_dialect
from litert_lm.chat.parsers.tool_call import ToolCall
from litert_lm.chat.template import PROBE, fill
from litert_lm.chat.tools.grammar import tool_choice_grammar
from litert_lm.chat.tools.runs import run_tool_calls
from litert_lm.chat.tools.text import argument_texts, declaration, result_text
from litert_lm.chat.tools.tool import Tool, ToolEventHandler, as_tools, description_of
from litert_lm.errors import InvalidArgumentError, LiteRtLmError, shown
from litert_lm.tokenizer import Tokenizer

__all__ = ["ToolSet"]


class ToolSet:
    """Tools and the dialect in which one model calls them.

    Args:
        tools: functions and tools.
        handler: approves calls and sees results.
        config: facts of the bundle.
        template: of the conversation.
        is_own_template: the template is one of this package's, made for objects.
        max_parallel: tools of one reply that run at the same time.

    Attributes:
        dialect: None without tools, or for a model that is not known to call any.
        descriptions: of the tools, as the caller gave them.
    """

    def __init__(
        self,
        tools: Sequence[Callable[..., Any] | Tool] | None,
        handler: ToolEventHandler | None,
        config: ModelConfig,
        template: str,
        *,
        is_own_template: bool,
        max_parallel: int = 1,
    ) -> None:
        if handler is not None and not isinstance(handler, ToolEventHandler):
            raise InvalidArgumentError(
                f"tool_event_handler must be a ToolEventHandler, got {shown(handler)}."
            )
        self._tools = as_tools(tools)
        self._handler = handler
        self._max_parallel = max_parallel
        self.descriptions = [description_of(tool) for tool in self._tools.values()]
        self.dialect: Dialect | None = None
        if self._tools:
            known = dialect_of(config.model_type, config.tool_syntax)
            self.dialect = known or infer_dialect(template)
        self._takes_text = self._is_text(template)
        self._is_own_template = is_own_template

    def for_template(self) -> list[Any]:
        """What the template gets as ``tools``."""
        if self.dialect is None or not self._takes_text:
            return list(self.descriptions)
        return [declaration(tool, self.dialect) for tool in self.descriptions]

    @property
    def as_text(self) -> Callable[[Mapping[str, Any]], Mapping[str, Any]] | None:
        """Rewrites messages for a template that takes calls and results as text."""
        return (
            None if self._is_own_template or not self._takes_text else self._rewritten
        )

    def run(self, calls: Sequence[ToolCall]) -> Message | None:
        """The message of the results, in the calls' order; None if all were refused."""
        results = run_tool_calls(
            calls, self._tools, self._handler, max_parallel=self._max_parallel
        )
        if all(result.is_denied for result in results):
            return None
        parts = [result.part for result in results]
        return Message.from_json({"role": "tool", "content": parts})

    def grammar(
        self,
        choice: str | Mapping[str, Any] | None,
        tokenizer: Tokenizer,
        stop_ids: Sequence[int],
        channels: Sequence[tuple[str, str]],
    ) -> str | None:
        """What the reply is held to; None where the model is free to choose."""
        if choice is None or choice == "auto":
            return None
        if self.dialect is None:
            if choice == "none":
                return None
            what = "there are no tools; give tools, or leave tool_choice out."
            if self.descriptions:
                what = (
                    "neither the bundle's model type nor its template says how this "
                    "model calls tools; pass a chat_template with a known call syntax."
                )
            raise InvalidArgumentError(f"tool_choice is {shown(choice)}, but {what}")
        return tool_choice_grammar(
            choice,
            self.descriptions,
            self.dialect,
            special_id=tokenizer.token_to_id,
            stop_ids=stop_ids,
            channels=channels,
        )

    def _is_text(self, template: str) -> bool:
        """Whether the template prints tools that are given as text."""
        if self.dialect is None or not self.dialect.is_text_for_template:
            return False
        message = {"role": "user", "content": "a"}
        variables = {"messages": [message], "tools": [PROBE], "bos_token": ""}
        try:
            return PROBE in fill(template, variables)
        except LiteRtLmError:
            return False

    def _rewritten(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        dialect = self.dialect
        made = dict(message)
        if dialect is None:
            return made
        calls = message.get("tool_calls")
        if isinstance(calls, list):
            made["tool_calls"] = [_call_text(call, dialect) for call in calls]
        content = message.get("content")
        if isinstance(content, list):
            made["content"] = [_part_text(part, dialect) for part in content]
        return made


def _call_text(call: Any, dialect: Dialect) -> Any:
    function = call.get("function") if isinstance(call, Mapping) else None
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if not isinstance(arguments, Mapping) or not isinstance(function, Mapping):
        return call
    texts = argument_texts(arguments, dialect)
    return {**call, "function": {**function, "arguments": texts}}


def _part_text(part: Any, dialect: Dialect) -> Any:
    if not isinstance(part, Mapping) or part.get("type") != "tool_response":
        return part
    text = result_text(str(part.get("name", "")), part.get("response"), dialect)
    return {"type": "text", "text": text}
