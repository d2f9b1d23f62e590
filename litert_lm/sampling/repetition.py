"""What keeps a reply from repeating itself, within a window of its last tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from litert_lm.sampling.penalties import Penalties
from litert_lm.sampling.processors import LogitsProcessor
from litert_lm.sampling.selection import Logits

__all__ = ["NoRepeatNgrams", "WindowedPenalties", "penalties_in_window"]


_MOST = 1e6  # forbids or forces a token as well as larger numbers, which overflow


def penalties_in_window(
    *, repetition: float, frequency: float, presence: float, window: int
) -> LogitsProcessor | None:
    """Penalties for the last `window` tokens of the reply, 0 for all of them.

    None where all of them are off.
    """
    if repetition == 1.0 and not frequency and not presence:
        return None
    repetition = min(repetition, _MOST)
    frequency, presence = (max(-_MOST, min(x, _MOST)) for x in (frequency, presence))
    if not window:
        return Penalties(
            (), repetition=repetition, frequency=frequency, presence=presence
        )
    return WindowedPenalties(repetition, frequency, presence, window)


class WindowedPenalties:
    """Repetition, frequency and presence penalty of the last tokens.

    Args:
        repetition: divides positive and multiplies negative logits; 1 is off.
        frequency: taken once per occurrence.
        presence: taken once per token.
        window: number of tokens that count, >= 1.
    """

    def __init__(
        self, repetition: float, frequency: float, presence: float, window: int
    ) -> None:
        self._penalties = repetition, frequency, presence
        self._window = window

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        """Change the logits of the tokens in the window."""
        repetition, frequency, presence = self._penalties
        one_time = Penalties(
            (), repetition=repetition, frequency=frequency, presence=presence
        )
        for token_id in output_ids[-self._window :]:
            one_time.accept(token_id)
        return one_time(output_ids, logits)

    def accept(self, token_id: int) -> None:
        """Nothing to note: the window is cut from the output."""

    def rollback(self, num_tokens: int) -> None:
        """Nothing to forget."""


class NoRepeatNgrams:
    """Forbids tokens that would complete a run which the reply already has.

    Args:
        size: tokens of such a run, >= 1.
        window: look only at so many last tokens; 0 looks at all.
    """

    def __init__(self, size: int, window: int = 0) -> None:
        self._size = size
        self._window = window
        self._ids: list[int] = []
        self._starts: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        """Make the completing tokens impossible."""
        count = len(self._ids)
        if count < self._size:
            return logits
        oldest = max(0, count - self._window) if self._window else 0
        context = tuple(self._ids[count - self._size + 1 :])
        starts = self._starts.get(context, ())
        ends = [start + self._size - 1 for start in starts if start >= oldest]
        logits[[self._ids[end] for end in ends]] = -np.inf
        return logits

    def accept(self, token_id: int) -> None:
        """Note the run that ends with this token."""
        self._ids.append(token_id)
        start = len(self._ids) - self._size
        if start >= 0:
            self._starts[tuple(self._ids[start:-1])].append(start)

    def rollback(self, num_tokens: int) -> None:
        """Forget the last tokens."""
        for _ in range(num_tokens):
            start = len(self._ids) - self._size
            if start >= 0:
                self._starts[tuple(self._ids[start:-1])].pop()
            self._ids.pop()
