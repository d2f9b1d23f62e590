"""What is chosen for a whole conversation, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from litert_lm.bundle.metadata import Channel
from litert_lm.chat.channels import channels_from
from litert_lm.chat.messages import message_json
from litert_lm.chat.tools import Tool, ToolEventHandler
from litert_lm.config import check_count, check_flag
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.reply_config import ConstrainedDecodingConfig, ThinkingConfig

__all__ = ["INFER", "ConversationSettings"]

INFER = "infer"
_OVERFLOWS = ("error", "drop_oldest")


@dataclass(frozen=True, kw_only=True)
class ConversationSettings:
    """The arguments of `Engine.create_conversation`, sampling apart; see there."""

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
        check_count("max_tool_rounds", self.max_tool_rounds, minimum=0)
        check_count("max_parallel_tools", self.max_parallel_tools, minimum=1)
        if self.filter_channel_content_from_kv_cache is not None:
            check_flag(
                "filter_channel_content_from_kv_cache",
                self.filter_channel_content_from_kv_cache,
            )
        self._check_kind("thinking_config", ThinkingConfig)
        self._check_kind("constrained_decoding_config", ConstrainedDecodingConfig)
        self._check_kind("chat_template", str)
        self._check_kind("extra_context", Mapping)
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
        if self.system_message is None:
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
