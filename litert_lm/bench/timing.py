"""Times calls by wrapping them for a while; nothing stays in the measured code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["CallMarks", "CallTimer", "replaced"]


class CallTimer:
    """Sums up the seconds spent in what it wraps.

    Attributes:
        seconds: spent so far.
        arguments: positional arguments of the last call.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.arguments: tuple[Any, ...] = ()

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, timed."""
        clock = time.perf_counter

        def timed(*args: Any, **kwargs: Any) -> Any:
            self.arguments = args
            begin = clock()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += clock() - begin

        return timed

    @contextmanager
    def measure(self, owner: Any, name: str) -> Iterator[None]:
        """Time the calls of attribute `name` of a module, class or object meanwhile."""
        with replaced(owner, name, self.wrap(getattr(owner, name))):
            yield


class CallMarks:
    """Notes when calls begin and end, and no more, to disturb little.

    Attributes:
        times: begin and end of each call of whatever is wrapped, in turn, by
            `time.perf_counter`.
    """

    def __init__(self) -> None:
        self.times: list[float] = []

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function`, noted."""
        note, clock = self.times.append, time.perf_counter

        def noted(*args: Any) -> Any:
            note(clock())
            result = function(*args)
            note(clock())
            return result

        return noted


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Give attribute `name` another value meanwhile."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
