"""How long work reports where it stands."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "silent"]

#: Called with the stage's name and the finished share of it, 0.0 to 1.0.
Progress = Callable[[str, float], None]


def silent(stage: str, fraction: float) -> None:
    """Report nothing."""
