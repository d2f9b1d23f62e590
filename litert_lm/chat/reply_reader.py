"""From the text of a reply to messages: deltas as it arrives, the whole at its end."""

from __future__ import annotations

import secrets
import string
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from litert_lm.bundle.metadata import Channel
from litert_lm.chat.channels import ChannelSplitter, Piece, reasoning_of
from litert_lm.chat.messages import Message
from litert_lm.chat.parsers.dialects import Dialect
from litert_lm.chat.parsers.reply import ReplyParser
from litert_lm.chat.parsers.tool_call import ToolCall

__all__ = ["ReplyReader"]

_ID_LETTERS = string.ascii_letters + string.digits
_ID_LENGTH = 9  # what the templates of Mistral's models ask for


class ReplyReader:
    """Reads one reply.

    Args:
        channels: those that the model has.
        opened: the channel in which the reply begins.
        dialect: how the model writes tool calls; None leaves them as text.
        tools: descriptions of the tools.

    Attributes:
        text: all that was read, markers and fences included.
    """

    def __init__(
        self,
        channels: Sequence[Channel] = (),
        opened: Channel | None = None,
        dialect: Dialect | None = None,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.text = ""
        self._channels = channels
        self._splitter = ChannelSplitter(channels, opened)
        self._parser = None if dialect is None else ReplyParser(dialect, tools)
        self._parts: list[str | ToolCall] = []
        self._spoken: dict[str, str] = {}

    def feed(self, text: str) -> list[Message]:
        """Take more of the reply; what it adds to the message."""
        self.text += text
        return self._deltas(self._splitter.feed(text))

    def finish(self) -> list[Message]:
        """The reply has ended; what was held back."""
        deltas = self._deltas(self._splitter.finish())
        if self._parser is not None:
            deltas += self._of_parts(self._parser.finish())
        return deltas

    @property
    def calls(self) -> list[ToolCall]:
        """The calls so far, each with an id."""
        return [part for part in self._parts if isinstance(part, ToolCall)]

    @property
    def has_channels(self) -> bool:
        """Whether something was said in a channel, or is about to be."""
        return bool(self._spoken) or self._splitter.current is not None

    @property
    def parse_error(self) -> str | None:
        """Why something that looks like a call is none."""
        return None if self._parser is None else self._parser.reply.parse_error

    def message(self) -> Message:
        """The message so far; one without tool calls always has a text."""
        texts = [part for part in self._parts if isinstance(part, str)]
        calls = self.calls
        if not texts and not calls:
            texts = [""]
        return _message(texts, calls, self._spoken, self._channels)

    def _deltas(self, pieces: Sequence[Piece]) -> list[Message]:
        deltas = []
        for channel, text in pieces:
            if channel is not None:
                self._spoken[channel.name] = self._spoken.get(channel.name, "") + text
                deltas.append(_message([], [], {channel.name: text}, self._channels))
            elif self._parser is None:
                deltas += self._of_parts([text])
            else:
                deltas += self._of_parts(self._parser.feed(text))
        return deltas

    def _of_parts(self, parts: Sequence[str | ToolCall]) -> list[Message]:
        deltas: list[Message] = []
        for part in parts:
            if isinstance(part, ToolCall):
                part = part if part.id else replace(part, id=_new_id())
                self._parts.append(part)
                deltas.append(_message([], [part], {}, ()))
            else:
                self._add_text(part)
                deltas.append(_message([part], [], {}, ()))
        return deltas

    def _add_text(self, text: str) -> None:
        if self._parts and isinstance(self._parts[-1], str):
            self._parts[-1] += text
        else:
            self._parts.append(text)


def _message(
    texts: Sequence[str],
    calls: Sequence[ToolCall],
    spoken: Mapping[str, str],
    channels: Sequence[Channel],
) -> Message:
    made: dict[str, Any] = {"role": "assistant"}
    if texts:
        made["content"] = [{"type": "text", "text": text} for text in texts]
    if calls:
        made["tool_calls"] = [call.to_json() for call in calls]
    if spoken:
        made["channels"] = dict(spoken)
    reasoning = reasoning_of(spoken, channels)
    if reasoning is not None:
        made["reasoning_content"] = reasoning
    return Message.from_json(made)


def _new_id() -> str:
    return "".join(secrets.choice(_ID_LETTERS) for _ in range(_ID_LENGTH))
