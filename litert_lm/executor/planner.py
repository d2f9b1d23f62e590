"""Plans the calls that store a prompt in a cache, from what calls cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from litert_lm.executor.layout.layout import Step
from litert_lm.executor.plan import Chunk, PrefillPlan, plan_prefill
from litert_lm.executor.steps.step_table import StepTable

__all__ = ["COMPILED_HEADROOM", "DECODE_COST", "PrefillPlanner"]

_HEADROOM = 128  # entries reserved behind a prompt for the answer
COMPILED_HEADROOM = 64
"""The same where more room slows every step down."""

DECODE_COST = 1.0
"""Relative cost of a decode step that was never measured."""

_TOKEN_COST = 0.03  # of a token more in the same call


class PrefillPlanner:
    """Makes plans for one model.

    Args:
        table: the steps in use.
        costs: signature key -> seconds of one call, where measured.
        context_length: most entries where there is no cache to limit them.
        is_patching: models are compiled for the length of the caches.
    """

    def __init__(
        self,
        table: StepTable,
        costs: Mapping[str, float],
        *,
        context_length: int,
        is_patching: bool,
    ) -> None:
        self._table = table
        self._costs = costs
        self._context_length = context_length
        self._is_patching = is_patching
        layout = table.layout
        self._can_pad = not (layout.is_recurrent or layout.has_local_states)

    def plan(self, start: int, length: int, count: int) -> PrefillPlan:
        """How `count` tokens are stored.

        Args:
            start: entries that the cache holds.
            length: of its arrays; -1 for a new one.
        """
        headroom = COMPILED_HEADROOM if self._is_patching else _HEADROOM
        reserve = self._table.bucket(start + count + headroom)
        chunks, lengths, position = self._prefill_chunks(start, count), [], start
        for chunk in chunks:
            needed = position + chunk.length
            if needed > length:
                wanted = max(needed, reserve) if self._is_patching else needed
                length = self._table.bucket(wanted)
            lengths.append(length)
            position += chunk.num_tokens
        return PrefillPlan(tuple(chunks), tuple(lengths), reserve)

    def scoring_chunks(self, start: int, count: int) -> list[Chunk]:
        """The calls that store `count` tokens behind `start` with logits for each."""
        limit = self._table.longest(start + count)
        costs = {1: DECODE_COST}
        for step in self._table.over(limit, self._table.layout.verify):
            costs[step.length] = DECODE_COST + _TOKEN_COST * step.length
        return self._chunks(start, count, limit, costs)

    def _prefill_chunks(self, start: int, count: int) -> Sequence[Chunk]:
        limit = self._table.longest(start + count)
        costs = {1: self._cost(self._table.step(1, limit))}
        for step in self._table.over(limit, self._table.prefill):
            costs[step.length] = self._cost(step)
        return self._chunks(start, count, limit, costs)

    def _chunks(
        self, start: int, count: int, limit: int, costs: Mapping[int, float]
    ) -> list[Chunk]:
        most = limit or self._context_length  # without a cache nothing else limits
        return plan_prefill(count, start, most, costs, can_pad=self._can_pad)

    def _cost(self, step: Step) -> float:
        """Seconds of one call, or a usual ratio to a decode step where not measured."""
        return self._costs.get(step.key, DECODE_COST + _TOKEN_COST * step.length)
