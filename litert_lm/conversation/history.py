"""The messages of a conversation, and which of them a full context can do without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["without_oldest_turn"]

_LASTING = ("system", "developer")


def without_oldest_turn(
    messages: Sequence[Mapping[str, Any]],
) -> list[Mapping[str, Any]] | None:
    """The messages without the first thing a user said and all that answers it.

    System messages stay, and so does the last turn. None where nothing can go.
    """
    starts = [i for i, message in enumerate(messages) if message.get("role") == "user"]
    first = next(
        (i for i, m in enumerate(messages) if m.get("role") not in _LASTING), None
    )
    if first is None:
        return None
    end = next((start for start in starts if start > first), None)
    if end is None:
        return None
    kept = [m for m in messages[first:end] if m.get("role") in _LASTING]
    return [*messages[:first], *kept, *messages[end:]]
