"""Copies of a compiled signature for cache lengths that are used by turns."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic

__all__ = ["CompiledCopies"]

_BY_TURNS_SECONDS = 0.5


class CompiledCopies:
    """Assigns cache lengths to copies.

    Giving a compiled signature another length costs a good part of a decode step, and
    another copy costs the memory of its activations. So there is one, until a length is
    asked for again soon after it had to give way to another.

    Args:
        most: copies at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lengths: list[int] = []  # by copy
        self._used: list[float] = []  # by copy, when it was last assigned
        self._displaced: dict[int, float] = {}  # length -> when

    def take(self, length: int, live: Collection[int]) -> tuple[int, int]:
        """The copy for a length that has none, and the length that gives way.

        Args:
            live: lengths of the caches that there are; others are needed no more.
        """
        now = monotonic()
        copy = self._choose(length, live, now)
        if copy == len(self._lengths):
            self._lengths.append(length)
            self._used.append(now)
            return copy, -1
        old = self._lengths[copy]
        self._lengths[copy], self._used[copy] = length, now
        self._displaced = {n: t for n, t in self._displaced.items() if n in live}
        if old != length:
            self._displaced[old] = now
        return copy, old

    def _choose(self, length: int, live: Collection[int], now: float) -> int:
        if length in self._lengths:
            return self._lengths.index(length)
        unused = [i for i, its in enumerate(self._lengths) if its not in live]
        if unused:
            return unused[0]
        displaced = self._displaced.get(length)
        is_by_turns = displaced is not None and now - displaced < _BY_TURNS_SECONDS
        if not self._lengths or (is_by_turns and len(self._lengths) < self._most):
            return len(self._lengths)
        return self._used.index(min(self._used))
