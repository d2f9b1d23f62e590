"""What Ctrl-C does for a while."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["on_interrupt", "raise_interrupt"]


@contextmanager
def on_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` at each Ctrl-C until the block ends.

    Where the caller of this process had it ignored it stays so.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        act()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def raise_interrupt() -> None:
    """Raise what Python raises for Ctrl-C."""
    raise KeyboardInterrupt
