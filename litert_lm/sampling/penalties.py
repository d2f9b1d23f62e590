"""Penalties for tokens that were there before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from litert_lm.sampling.selection import IdArray, Logits

__all__ = ["Penalties"]

_LARGEST = float(np.finfo(np.float32).max)


class Penalties:
    """Repetition, then frequency, then presence penalty (in this order in vLLM).

    Only the logits of tokens that were there are touched; noting one costs nothing that
    grows with the vocabulary or the answer.

    Args:
        prompt_ids: tokens that count for the repetition penalty beside the generated.
        repetition: divides positive and multiplies negative logits; 1 is off.
        frequency: taken as often as the token was generated; 0 is off.
        presence: taken once from a generated token; 0 is off.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        *,
        repetition: float = 1.0,
        frequency: float = 0.0,
        presence: float = 0.0,
    ) -> None:
        self._repetition = repetition
        self._frequency = frequency
        self._presence = presence
        known = np.unique(np.array(prompt_ids, np.intp)) if repetition != 1.0 else ()
        self._num_of_prompt = len(known)
        self._num_ids = len(known)
        self._ids: IdArray = np.zeros(max(64, 2 * len(known)), np.intp)
        self._ids[: len(known)] = known
        self._counts: npt.NDArray[np.float64] = np.zeros(self._ids.size)
        self._places = {int(token_id): i for i, token_id in enumerate(known)}
        self._generated: list[int] = []

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        ids = self._ids[: self._num_ids]
        before = logits[ids].astype(np.float64)
        values = before
        if self._repetition != 1.0:
            with np.errstate(over="ignore"):
                values = np.where(
                    values > 0, values / self._repetition, values * self._repetition
                )
        counts = self._counts[: self._num_ids]
        if self._frequency:
            values = values - self._frequency * counts
        if self._presence:
            values = values - self._presence * (counts > 0)
        # Beyond float32 a token would count as impossible, or as no number.
        values = np.clip(values, -_LARGEST, _LARGEST)
        logits[ids] = np.where(np.isneginf(before), -np.inf, values)
        return logits

    def accept(self, token_id: int) -> None:
        """Count a generated token."""
        place = self._places.get(token_id)
        if place is None:
            place = self._add(token_id)
        self._counts[place] += 1
        self._generated.append(token_id)

    def rollback(self, num_tokens: int) -> None:
        """Forget the last generated tokens."""
        for _ in range(num_tokens):
            token_id = self._generated.pop()
            place = self._places[token_id]
            self._counts[place] -= 1
            # Tokens were added in the order in which they came, so the last goes first.
            if not self._counts[place] and place >= self._num_of_prompt:
                del self._places[token_id]
                self._num_ids -= 1

    def _add(self, token_id: int) -> int:
        place = self._num_ids
        if place == self._ids.size:
            self._ids = np.resize(self._ids, 2 * place)
            self._counts = np.concatenate([self._counts, np.zeros(place)])
        self._ids[place] = token_id
        self._places[token_id] = place
        self._num_ids += 1
        return place
