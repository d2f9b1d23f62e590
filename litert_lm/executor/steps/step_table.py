"""Which of a model's steps, and which lengths of caches, are in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litert_lm.executor.kv.cache_lengths import cache_lengths
from litert_lm.executor.layout.layout import ModelLayout, Step

__all__ = ["StepTable"]

_LONGEST_CHUNK = 256  # tokens; longer chunks compute more of what the mask hides


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTable:
    """The steps in use, over caches of the lengths in use.

    Attributes:
        layout: the model's states and steps.
        prefill: those of its prefill steps that are in use, by growing length.
        lengths: tokens that the arrays of caches have room for, growing.
        is_resizable: steps take caches of all these lengths.
    """

    layout: ModelLayout
    prefill: tuple[Step, ...]
    lengths: tuple[int, ...]
    is_resizable: bool

    @classmethod
    def of(
        cls, layout: ModelLayout, *, is_resizable: bool, is_compiled: bool
    ) -> StepTable:
        """The table of a model; see `cache_lengths` for the arguments."""
        lengths = cache_lengths(
            layout, is_resizable=is_resizable, is_compiled=is_compiled
        )
        return cls(
            layout=layout,
            prefill=_useful(layout.prefill),
            lengths=tuple(lengths),
            is_resizable=is_resizable,
        )

    def step(self, length: int, cache_length: int, is_scoring: bool = False) -> Step:
        """The step with `length` tokens for such a cache.

        Args:
            is_scoring: one that gives logits for each of several tokens.
        """
        several = self.layout.verify if is_scoring else self.prefill
        steps = self.layout.decode if length == 1 else several
        fitting = [s for s in self.over(cache_length, steps) if s.length == length]
        return max(fitting, key=lambda step: step.context)

    def over(self, cache_length: int, steps: Sequence[Step]) -> list[Step]:
        """Those of some steps that take caches of this length."""
        return [s for s in steps if self.is_resizable or s.context == cache_length]

    def bucket(self, needed: int) -> int:
        """Length of the arrays for `needed` entries, at most that of the model."""
        return next((n for n in self.lengths if n >= needed), self.lengths[-1])

    def longest(self, needed: int) -> int:
        """Length of the longest arrays that a plan for so many entries may use."""
        return self.lengths[-1] if self.is_resizable else self.bucket(needed)


def _useful(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Prefill steps without those whose attention is mostly spent on masked entries."""
    short = tuple(step for step in steps if step.length <= _LONGEST_CHUNK)
    return short or tuple(steps[:1])
