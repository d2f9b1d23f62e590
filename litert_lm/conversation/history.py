"""The messages of a conversation, and which of them a full context can do without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["num_old_turns", "without_oldest_turns"]

_LASTING = ("system", "developer")

Messages = Sequence[Mapping[str, Any]]


def num_old_turns(messages: Messages) -> int:
    """How many turns come before the last one."""
    return len(_turn_ends(messages))


def without_oldest_turns(messages: Messages, count: int) -> list[Mapping[str, Any]]:
    """The messages without the first `count` things a user said and their answers.

    System messages stay, and so does the last turn: a tool's result is never without
    the call before it.
    """
    ends = _turn_ends(messages)[:count]
    if not ends:
        return list(messages)
    kept = [m for m in messages[: ends[-1]] if m.get("role") in _LASTING]
    return [*kept, *messages[ends[-1] :]]


def _turn_ends(messages: Messages) -> list[int]:
    """Indexes of the messages with which a user began all turns but the first."""
    starts = [i for i, m in enumerate(messages) if m.get("role") == "user"]
    first = next(
        (i for i, m in enumerate(messages) if m.get("role") not in _LASTING), None
    )
    return [start for start in starts if first is not None and start > first]
