"""What is chosen for a whole conversation, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert_lm.bundle.metadata import Channel
from litert_lm.chat.channels import channels_from
from litert_lm.chat.messages import message_json
from litert_lm.chat.tools.tool import Tool, ToolEventHandler
from litert_lm.config import check_count, check_flag
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.reply_config import ConstrainedDecodingConfig, ThinkingConfig

__all__ = ["INFER", "ConversationSettings"]

INFER = "infer"
_OVERFLOWS = ("error", "drop_oldest")


@dataclass(frozen=True, kw_only=True)
class ConversationSettings:
    """The arguments of `Engine.create_conversation`, sampling apart.

    Args:
        messages: what was said before, in the JSON shape or as Messages.
        tools: functions and Tools that the model may call.
        tool_event_handler: approves calls and sees results.
        automatic_tool_calling: run the tools that the model calls, and let it go
            on; else the reply holds the calls.
        extra_context: variables for the chat template.
        filter_channel_content_from_kv_cache: forget thoughts and other channels
            before the next message; None does.
        thinking_config: of all replies that have none of their own.
        system_message: what the model is told first.
        constrained_decoding_config: whether replies may be held to formats.
        max_output_tokens: limit on each reply.
        chat_template: Jinja source, instead of the bundle's.
        channels: markers of channels, instead of the bundle's: mappings with
            ``name``, ``start`` and ``end``; "infer" takes those that the template
            shows where the bundle has none.
        context_overflow: "error" refuses a message that does not fit;
            "drop_oldest" forgets the oldest turns for it.
        max_tool_rounds: replies that may call tools before one is given back with
            its calls.
        max_parallel_tools: tools of one reply that run at the same time, each in a
            thread; results keep the order of the calls.
    """

    messages: Sequence[Mapping[str, Any]] | None = None
    tools: Sequence[Callable[..., Any] | Tool] | None = None
    tool_event_handler: ToolEventHandler | None = None
    automatic_tool_calling: bool = True
    extra_context: Mapping[str, Any] | None = None
    filter_channel_content_from_kv_cache: bool | None = None
    thinking_config: ThinkingConfig | None = None
    system_message: str | None = None
    constrained_decoding_config: ConstrainedDecodingConfig | None = None
    max_output_tokens: int | None = None
    chat_template: str | None = None
    channels: Sequence[Channel | Mapping[str, object]] | str | None = None
    context_overflow: str = "error"
    max_tool_rounds: int = 10
    max_parallel_tools: int = 1

    def __post_init__(self) -> None:
        check_flag("automatic_tool_calling", self.automatic_tool_calling)
        check_count("max_output_tokens", self.max_output_tokens, minimum=1)
        for name, minimum in (("max_tool_rounds", 0), ("max_parallel_tools", 1)):
            if getattr(self, name) is None:
                raise InvalidArgumentError(f"{name} must be a whole number, got None.")
            check_count(name, getattr(self, name), minimum=minimum)
        if self.filter_channel_content_from_kv_cache is not None:
            check_flag(
                "filter_channel_content_from_kv_cache",
                self.filter_channel_content_from_kv_cache,
            )
        self._check_kind("thinking_config", ThinkingConfig)
        self._check_kind("constrained_decoding_config", ConstrainedDecodingConfig)
        self._check_kind("chat_template", str)
        self._check_kind("extra_context", Mapping)
        names = self.extra_context or ()
        if not all(isinstance(name, str) for name in names):
            raise InvalidArgumentError(
                f"extra_context must map names to values, got {shown(names)}."
            )
        if self.context_overflow not in _OVERFLOWS:
            raise InvalidArgumentError(
                "context_overflow must be 'error' or 'drop_oldest', "
                f"got {shown(self.context_overflow)}."
            )

    def _check_kind(self, name: str, kind: type) -> None:
        value = getattr(self, name)
        if value is not None and not isinstance(value, kind):
            raise InvalidArgumentError(
                f"{name} must be a {kind.__name__}, got {shown(value)}."
            )

    @property
    def is_filtering(self) -> bool:
        """Whether thoughts are taken out of the context, as they are by default."""
        return self.filter_channel_content_from_kv_cache is not False

    def first_messages(self) -> list[dict[str, Any]]:
        """The messages that the conversation begins with, in the JSON shape."""
        given = self.messages or ()
        if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
            raise InvalidArgumentError(
                f"messages must be a list of messages, got {shown(given)}."
            )
        made = [message_json(message) for message in given]
        if self.system_message in (None, ""):
            return made
        system = message_json(self.system_message) | {"role": "system"}
        return [system, *made]

    def own_channels(self) -> tuple[Channel, ...] | None:
        """The caller's channels; None where the bundle's or the template's count."""
        if self.channels is None or self.channels == INFER:
            return None
        if isinstance(self.channels, str):
            raise InvalidArgumentError(
                f"channels must be a list or 'infer', got {shown(self.channels)}."
            )
        return channels_from(self.channels)
