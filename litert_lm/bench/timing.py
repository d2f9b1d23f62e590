"""Times calls by wrapping them for a while; nothing stays in the measured code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["CallTimer", "replaced"]


class CallTimer:
    """Sums up the seconds spent in what it wraps.

    Attributes:
        seconds: spent so far; may be set back to 0.
        end: when the last call ended, by `time.perf_counter`.
        arguments: positional arguments of the last call.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.end = 0.0
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
                self.end = clock()
                self.seconds += self.end - begin

        return timed

    @contextmanager
    def measure(self, owner: Any, name: str) -> Iterator[None]:
        """Time the calls of attribute `name` of a module, class or object meanwhile."""
        with replaced(owner, name, self.wrap(getattr(owner, name))):
            yield

    def take(self) -> float:
        """The seconds so far; counting starts again."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Give attribute `name` another value meanwhile."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)
