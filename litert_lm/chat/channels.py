"""Splits a reply into its answer and its channels, such as thoughts, as it arrives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from litert_lm.bundle.metadata import Channel
from litert_lm.errors import InvalidArgumentError, shown

__all__ = [
    "ChannelSplitter",
    "Piece",
    "channels_from",
    "infer_channels",
    "may_open",
    "open_channel",
    "reasoning_of",
]

#: Markers of thoughts that known chat templates write.
_KNOWN = (
    Channel("thought", "<think>", "</think>", is_reasoning=True),
    Channel("thought", "<|channel>thought\n", "<channel|>", is_reasoning=True),
    Channel("thought", "[THINK]", "[/THINK]", is_reasoning=True),
    Channel("thought", "<|inner_prefix|>", "<|inner_suffix|>", is_reasoning=True),
)


class Piece(NamedTuple):
    """Text of a channel, or of the answer where `channel` is None."""

    channel: Channel | None
    text: str


class ChannelSplitter:
    """Takes a reply in chunks; how it is cut makes no difference.

    The earliest start marker opens its channel, in which other start markers are plain
    text; its end marker, or the reply's end, closes it. Markers are dropped, and text
    that may become one is held back. Rules of the official runtime.

    Args:
        channels: those that the model has.
        opened: the channel in which the reply begins.
    """

    def __init__(
        self, channels: Sequence[Channel], opened: Channel | None = None
    ) -> None:
        self._channels = tuple(channels)
        self._open = opened
        self._held = ""

    @property
    def current(self) -> Channel | None:
        """The channel that is open; None in the answer."""
        return self._open

    def feed(self, text: str) -> list[Piece]:
        """Take more of the reply; the pieces that became sure by it."""
        text, self._held = self._held + text, ""
        pieces: list[Piece] = []
        while text:
            found = self._next_marker(text)
            if found is None:
                keep = self._num_undecided(text)
                self._held = text[len(text) - keep :]
                self._add(pieces, text[: len(text) - keep])
                break
            at, length, channel = found
            self._add(pieces, text[:at])
            self._open = channel
            text = text[at + length :]
        return pieces

    def finish(self) -> list[Piece]:
        """The reply has ended; what was held back."""
        pieces: list[Piece] = []
        self._add(pieces, self._held)
        self._held = ""
        return pieces

    def _add(self, pieces: list[Piece], text: str) -> None:
        if text:
            pieces.append(Piece(self._open, text))

    def _markers(self) -> list[tuple[str, Channel | None]]:
        """Markers that count now, each with the channel that comes after it."""
        if self._open is not None:
            return [(self._open.end, None)] if self._open.end else []
        return [(channel.start, channel) for channel in self._channels]

    def _next_marker(self, text: str) -> tuple[int, int, Channel | None] | None:
        """Place, length and channel of the earliest marker, the longest there."""
        found = [
            (at, -len(marker), channel)
            for marker, channel in self._markers()
            if (at := text.find(marker)) >= 0
        ]
        if not found:
            return None
        at, negative_length, channel = min(found, key=lambda entry: entry[:2])
        return at, -negative_length, channel

    def _num_undecided(self, text: str) -> int:
        """Characters at the end of `text` that may begin a marker."""
        longest = 0
        for marker, _ in self._markers():
            for count in range(min(len(marker) - 1, len(text)), longest, -1):
                if text.endswith(marker[:count]):
                    longest = count
                    break
        return longest


def open_channel(opening: str, channels: Sequence[Channel]) -> Channel | None:
    """The channel in which a reply begins, or None.

    Args:
        opening: what the prompt says to open the model's turn.
        channels: those that the model has.
    """
    found = [(opening.rfind(_sign(channel)), channel) for channel in channels]
    at, last = max(found, key=lambda entry: entry[0], default=(-1, None))
    if at < 0 or last is None:
        return None
    inside = opening[at + len(_sign(last)) :]
    return None if last.end and last.end in inside else last


def may_open(prompt: str, channels: Sequence[Channel]) -> bool:
    """Whether a prompt may end in a channel: it has the start of one."""
    return any(_sign(channel) in prompt for channel in channels)


def _sign(channel: Channel) -> str:
    """The start of a channel as prompts show it, where they change line breaks."""
    return channel.start.rstrip() or channel.start


def infer_channels(template: str) -> tuple[Channel, ...]:
    """Channels that a chat template shows the model to have."""
    return tuple(c for c in _KNOWN if c.start in template and c.end in template)[:1]


def channels_from(
    given: Sequence[Channel | Mapping[str, object]],
) -> tuple[Channel, ...]:
    """The channels that a caller gives, as such or as mappings of the same fields.

    Raises:
        InvalidArgumentError: no channel, or one without name or start marker.
    """
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise InvalidArgumentError(
            f"channels must be a list of channels, got {shown(given)}."
        )
    return tuple(map(_channel, given))


def _channel(given: object) -> Channel:
    if isinstance(given, Mapping):
        name = given.get("name", given.get("channel_name"))
        start, end = given.get("start"), given.get("end", "")
        is_reasoning = bool(given.get("is_reasoning")) or name == "thought"
        if all(isinstance(text, str) for text in (name, start, end)):
            given = Channel(str(name), str(start), str(end), is_reasoning)
    if not isinstance(given, Channel) or not given.name or not given.start:
        raise InvalidArgumentError(
            "A channel needs a name, a start and an end, such as {'name': 'thought', "
            f"'start': '<think>', 'end': '</think>'}}; got {shown(given)}."
        )
    return given


def reasoning_of(texts: Mapping[str, str], channels: Sequence[Channel]) -> str | None:
    """What counts as the reply's reasoning, or None; several channels by lines."""
    names = dict.fromkeys(channel.name for channel in channels if channel.is_reasoning)
    spoken = [texts[name] for name in names if name in texts]
    return "\n".join(spoken) if spoken else None
