"""Which compiled step serves a sequence, and room in its cache for that step."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from time import monotonic

from litert_lm.errors import ExecutionError
from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.executor.kv.memory import SpareMemory
from litert_lm.executor.layout.layout import BatchStep, ModelLayout
from litert_lm.executor.layout.signatures import MASKS
from litert_lm.executor.layout.step_reader import MAIN
from litert_lm.executor.native.compiled_model import CompiledModel
from litert_lm.executor.native.compiler import ModelCompiler
from litert_lm.executor.steps.batch_runner import BatchRunner
from litert_lm.executor.steps.compiled_copies import CompiledCopies
from litert_lm.executor.steps.step_runner import StepRunner
from litert_lm.executor.steps.step_table import StepTable

__all__ = ["Runners"]

_RECENT_SECONDS = 0.5  # a cache length that was used since then is used by turns


class Runners:
    """Makes runners of steps, and keeps those that are used by turns.

    How long a sequence's cache is depends on that sequence alone: attention over caches
    of other lengths may round differently, so none is made longer for another's sake.

    Args:
        table: the steps in use.
        compiled: compiles signatures when they are needed.

    Attributes:
        pad_id: token id in padding rows.
        last_decoder: the runner of the last decode step, while it can be used.
    """

    def __init__(self, table: StepTable, compiled: ModelCompiler) -> None:
        self.pad_id = 0
        self.last_decoder: StepRunner | None = None
        self._table = table
        self._layout = table.layout
        self._compiled = compiled
        self._doubled = _doubled_states(table.layout)
        self._runners: dict[tuple[int, int, bool], StepRunner] = {}
        self._batches: dict[int, BatchRunner] = {}
        self._decoders = CompiledCopies(compiled.max_copies)
        self._groups = CompiledCopies(compiled.max_copies)
        self._caches: list[weakref.ref[KVCache]] = []
        self._in_use: dict[int, float] = {}  # length compiled for -> when last used
        self._spare = SpareMemory()
        compiled.before_replacing = self._let_go

    def new_cache(self) -> KVCache:
        """An empty cache for one sequence; memory comes with its first tokens."""
        cache = KVCache(self._layout.states, self._doubled, self._spare)
        self._caches.append(weakref.ref(cache, self._caches.remove))
        return cache

    def forget(self) -> None:
        """Ctrl-C may have come between a mask's change and the note of it."""
        self.last_decoder = None
        self._runners.clear()
        self._batches.clear()

    def decoder(self, cache: KVCache) -> StepRunner:
        """The runner of a decode step, with room made in `cache`."""
        runner = self.last_decoder
        if runner is None or not cache.num_tokens < cache.length == runner.length:
            runner = self.get(cache, 1, 0)
            if not runner.has_logits:
                raise ExecutionError(
                    f"Signature {runner.step.key!r} gives no logits; use another model."
                )
            self.last_decoder = runner
        return runner

    def get(
        self, cache: KVCache, length: int, reserve: int, is_scoring: bool = False
    ) -> StepRunner:
        """The runner of the step with `length` tokens, with room made in `cache`."""
        needed = cache.num_tokens + length
        if self._compiled.is_patching:
            self._make_compiled_room(cache, needed, reserve)
        elif needed > cache.length:
            cache.grow(self._table.bucket(needed), reserve)
        is_scoring = is_scoring and length > 1
        runner = self._runners.get((length, cache.length, is_scoring))
        if runner is None:
            runner = self._new_runner(length, cache.length, is_scoring)
        return runner

    def batch(self, step: BatchStep, length: int) -> BatchRunner:
        """The runner of a batch step over caches of `length` tokens."""
        runner = self._batches.get(length)
        if runner is None:
            copy, old = self._groups.take(length, self._used_lengths())
            self._batches.pop(old, None)
            model = self._compiled(MAIN, step.key, 0, copy)
            runner = self._batches[length] = BatchRunner(
                step, length, model, self._layout.states, self._layout.vocab_size
            )
        return runner

    def _new_runner(
        self, length: int, cache_length: int, is_scoring: bool
    ) -> StepRunner:
        self.last_decoder = None
        step, copy = self._table.step(length, cache_length, is_scoring), 0
        if not self._compiled.is_patching:
            copy = self._make_way(length, cache_length, is_scoring)
        by_length = {
            (call.model, call.key)
            for call in step.calls
            if call.states_in or any(feed.role in MASKS for feed in call.feeds)
        }

        def compiled(kind: str, key: str) -> CompiledModel:
            own = copy if (kind, key) in by_length else 0
            return self._compiled(kind, key, cache_length, own)

        runner = StepRunner(
            step, cache_length, compiled, self._layout.states, self.pad_id
        )
        self._runners[length, cache_length, is_scoring] = runner
        return runner

    def _make_way(self, length: int, cache_length: int, is_scoring: bool) -> int:
        """Drop runners whose compiled model will be resized; the copy to be used."""
        if length == 1:
            copy, old = self._decoders.take(cache_length, self._used_lengths())
            self._runners.pop((1, old, False), None)
            return copy
        for place in tuple(self._runners):
            if (place[0], place[2]) == (length, is_scoring):
                del self._runners[place]
        return 0

    def close(self) -> None:
        """Let go of compiled models, and of memory that waits for caches."""
        self._let_go()
        self._spare.close()

    def _let_go(self) -> None:
        """Forget all that is bound to compiled models."""
        self.forget()
        for cache in self._live_caches():
            cache.unbind()

    def _make_compiled_room(self, cache: KVCache, needed: int, reserve: int) -> None:
        """Room for `needed` entries, at a length for which models are compiled.

        Compiling takes as long as several tokens, so it is done for a whole prompt at
        once, and what was compiled for lengths that are used by turns is kept.
        """
        if needed > cache.length:
            cache.grow(self._table.bucket(max(needed, reserve)), reserve)
        now = monotonic()
        if cache.length not in self._in_use:
            self._retire(self._kept(now))
        self._in_use.pop(cache.length, None)
        self._in_use[cache.length] = now  # the last used one last

    def _kept(self, now: float) -> list[int]:
        """Lengths for which to keep what is compiled when another one is added."""
        live = self._used_lengths()
        kept = [length for length in self._in_use if length in live]
        excess = max(0, len(kept) + 1 - self._compiled.max_lengths)
        return [
            length
            for place, length in enumerate(kept)
            if place >= excess or now - self._in_use[length] < _RECENT_SECONDS
        ]

    def _retire(self, kept: Sequence[int]) -> None:
        """Let go of what is compiled for cache lengths that are not kept."""
        self._in_use = {n: used for n, used in self._in_use.items() if n in kept}
        self.last_decoder = None
        self._runners = {
            place: runner for place, runner in self._runners.items() if place[1] in kept
        }
        for cache in self._live_caches():
            if cache.length not in kept:
                cache.unbind()
        self._compiled.keep(kept)

    def _used_lengths(self) -> set[int]:
        return {cache.length for cache in self._live_caches()}

    def _live_caches(self) -> list[KVCache]:
        return [cache for each in tuple(self._caches) if (cache := each()) is not None]


def _doubled_states(layout: ModelLayout) -> frozenset[str]:
    """States that some call cannot update in place."""
    return frozenset(
        state
        for step in (*layout.decode, *layout.prefill, *layout.verify)
        for call in step.calls
        for state in call.states_out.values()
        if state not in call.in_place
    )
