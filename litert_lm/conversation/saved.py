"""What of a conversation goes into a saved session's file: JSON in its metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from litert_lm.chat.messages import message_json
from litert_lm.chat.prompts import PromptRenderer
from litert_lm.chat.tools.tool import Tool, ToolEventHandler
from litert_lm.conversation.context import ContextText, Standing
from litert_lm.conversation.settings import INFER, ConversationSettings
from litert_lm.errors import InvalidArgumentError, SavedStateError
from litert_lm.reply_config import ConstrainedDecodingConfig, ThinkingConfig

__all__ = ["SavedConversation", "read_conversation"]

_KEY, _VERSION = "conversation", 1
_MAX_NOW = 253_402_214_400  # the last day of the year 9999
_NOT_SAVED = ("messages", "system_message", "tools", "tool_event_handler")
_CONFIGS = {
    "thinking_config": ThinkingConfig,
    "constrained_decoding_config": ConstrainedDecodingConfig,
}


@dataclass(frozen=True)
class SavedConversation:
    """A conversation between two messages, its context apart.

    Attributes:
        settings: without messages.
        messages: all that was said, in the JSON shape.
        said: what the context says; None where that is not known.
        num_first: messages that the conversation began with.
        now: what its template takes for the time, in seconds since 1970.
    """

    settings: ConversationSettings
    messages: Sequence[Mapping[str, Any]]
    said: ContextText | None
    num_first: int
    now: int

    @classmethod
    def of(
        cls,
        settings: ConversationSettings,
        standing: Standing,
        renderer: PromptRenderer,
    ) -> SavedConversation:
        """What is saved of a conversation that stands there."""
        said, messages = standing.said, standing.messages
        return cls(settings, messages, said, renderer.num_first, renderer.now)

    def texts(self) -> dict[str, str]:
        """Metadata for the file.

        Raises:
            InvalidArgumentError: a message or setting holds what is no JSON value.
        """
        whole = {
            "version": _VERSION,
            "settings": _settings_json(self.settings),
            "messages": list(self.messages),
            "said": None if self.said is None else asdict(self.said),
            "num_first": self.num_first,
            "now": self.now,
        }
        try:
            return {_KEY: json.dumps(whole, ensure_ascii=False)}
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                "The conversation cannot be saved: a message or its extra_context "
                f"holds what is no JSON value ({error})."
            ) from error


def read_conversation(
    path: str | os.PathLike[str],
    texts: Mapping[str, str],
    token_ids: Sequence[int],
    tools: Sequence[Callable[..., Any] | Tool] | None,
    tool_event_handler: ToolEventHandler | None,
) -> SavedConversation:
    """The conversation in a file's metadata.

    Args:
        path: the file, for messages.
        texts: its metadata.
        token_ids: of its context.
        tools, tool_event_handler: what the conversation gets.

    Raises:
        SavedStateError: there is none, or it is damaged.
    """
    if _KEY not in texts:
        raise SavedStateError(
            f"'{path}' holds a session that is no conversation; use load_session."
        )
    try:
        whole = json.loads(texts[_KEY])
        settings = _settings_from(whole["settings"])
        said = _said_from(whole["said"], token_ids)
        num_first = _count(whole["num_first"], len(texts[_KEY]))
        now = _count(whole["now"], _MAX_NOW)
        messages = [message_json(_mapping(message)) for message in whole["messages"]]
        is_known = whole["version"] == _VERSION
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise SavedStateError(
            f"'{path}' is damaged: its conversation cannot be read "
            f"({type(error).__name__}: {error}). Save it again."
        ) from error
    if not is_known:
        raise SavedStateError(
            f"'{path}' holds a conversation that this version cannot load; version "
            f"{_VERSION} is needed."
        )
    checked = ConversationSettings(
        **settings, tools=tools, tool_event_handler=tool_event_handler
    )
    return SavedConversation(checked, messages, said, num_first, now)


def _settings_json(settings: ConversationSettings) -> dict[str, Any]:
    names = ConversationSettings.__dataclass_fields__
    made = {name: getattr(settings, name) for name in names if name not in _NOT_SAVED}
    for name in _CONFIGS:
        made[name] = None if made[name] is None else asdict(made[name])
    made["extra_context"] = dict(settings.extra_context or {})
    own = settings.own_channels()
    if own is not None:
        made["channels"] = [asdict(channel) for channel in own]
    return made


def _settings_from(given: Any) -> dict[str, Any]:
    """Arguments of the settings, each checked by what takes it."""
    made = dict(_mapping(given))
    if not set(made).isdisjoint(_NOT_SAVED):
        raise ValueError("its settings have what no file has")
    for name, config in _CONFIGS.items():
        if made.get(name) is not None:
            made[name] = config(**_mapping(made[name]))
    settings = ConversationSettings(**made)
    if settings.channels != INFER:
        settings.own_channels()
    return made


def _said_from(given: Any, token_ids: Sequence[int]) -> ContextText | None:
    if given is None:
        return None
    said = ContextText(**_mapping(given))
    stop = said.stop_ids
    if not isinstance(stop, list) or list(token_ids[len(token_ids) - len(stop) :]) != (
        stop
    ):
        raise ValueError("the context does not end with the stop that it names")
    if not isinstance(said.prompt, str) or not isinstance(said.reply, str):
        raise TypeError("what its context says is no text")
    return ContextText(said.prompt, said.reply, tuple(stop), bool(said.is_filtered))


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("something in it is no object")
    return value


def _count(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("something in it is no count")
    return value
