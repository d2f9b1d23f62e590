"""Prefill and decode: token ids in, KV entries and logits out."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
import numpy.typing as npt

from litert_lm.errors import CancelledError, ContextFullError, SessionStateError
from litert_lm.executor.cache_lengths import cache_lengths
from litert_lm.executor.compiler import ModelCompiler
from litert_lm.executor.kv_cache import KVCache
from litert_lm.executor.layout import ModelLayout, Step
from litert_lm.executor.plan import Chunk, PrefillPlan, plan_prefill
from litert_lm.executor.step_runner import StepRunner

__all__ = ["Executor"]

_LONGEST_CHUNK = 256  # tokens; longer chunks compute more of what the mask hides
_HEADROOM = 128  # entries reserved behind a prompt for the answer
_COMPILED_HEADROOM = 64  # the same where more room slows every step down

# Relative cost of calls that were never measured.
_DECODE_COST = 1.0
_TOKEN_COST = 0.03


class Executor:
    """Runs one model's steps for any number of sequences, one call at a time.

    Args:
        layout: the model's states and steps.
        compiled: compiles signatures when they are needed.
        costs: signature key -> seconds of one call, where measured.
        is_resizable: the graphs take caches shorter than exported, as they are or as
            `compiled` changes them.
        context_length: limit on the entries of a cache, at most the layout's.

    Attributes:
        layout, is_resizable, context_length: as above.
        vocab_size: number of logits.
        pad_id: token id in padding rows.
    """

    def __init__(
        self,
        layout: ModelLayout,
        compiled: ModelCompiler,
        *,
        costs: Mapping[str, float] | None = None,
        is_resizable: bool = False,
        context_length: int | None = None,
    ) -> None:
        self.layout = layout
        self.is_resizable = is_resizable
        self.context_length = context_length or layout.context_length
        self.vocab_size = layout.vocab_size
        self._compiled = compiled
        self._costs = dict(costs or {})
        self.pad_id = 0
        self._is_closed = False
        self._lock = threading.Lock()
        self._decoder: StepRunner | None = None  # the runner of the last decode step
        self._runners: dict[tuple[int, int, bool], StepRunner] = {}
        self._caches: list[weakref.ref[KVCache]] = []
        self._in_use: list[int] = []  # lengths compiled for, the last used one last
        self._prefill = _useful(layout.prefill)
        self._lengths = cache_lengths(
            layout, is_resizable=is_resizable, is_compiled=compiled.is_patching
        )
        self._doubled = _doubled_states(layout)
        compiled.before_replacing = self._let_go

    @property
    def can_rewind(self) -> bool:
        """Whether a cache can go back to an earlier token."""
        return not (self.layout.is_recurrent or self.layout.has_local_states)

    def new_cache(self) -> KVCache:
        """An empty cache for one sequence; memory comes with its first tokens."""
        cache = KVCache(self.layout.states, self._doubled)
        self._caches.append(weakref.ref(cache, self._caches.remove))
        return cache

    @property
    def lengths(self) -> list[int]:
        """Tokens per call that are in use, 1 for a decode step."""
        return [1, *sorted({step.length for step in self._prefill})]

    def step_key(self, length: int) -> str:
        """Signature key of the calls with `length` tokens and the longest cache."""
        return self._step(length, self._lengths[-1]).key

    def run_chunk(self, cache: KVCache, length: int, token_ids: Sequence[int]) -> None:
        """Store `token_ids` by one call with `length` tokens, padded if need be."""
        with self._lock:
            self._run(cache, length, token_ids, 0, None)

    def load(self) -> None:
        """Read the models now, instead of at the first token."""
        with self._lock:
            self._compiled.load()

    def check_open(self) -> None:
        """Raise SessionStateError when the models were freed."""
        if self._is_closed:
            raise SessionStateError("The engine is closed; open a new one.")

    def close(self) -> None:
        """Free the compiled models; caches stay valid values.

        Waits for a call that is running; closing twice is harmless.
        """
        with self._lock:
            self._is_closed = True
            self._decoder = None
            self._runners.clear()
            self._compiled.close()

    def prefill(
        self,
        cache: KVCache,
        token_ids: Sequence[int],
        *,
        plan: PrefillPlan | None = None,
        is_cancelled: Callable[[], bool] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Store the entries of `token_ids` behind those in `cache`.

        Args:
            plan: how, or what is left of that; None makes one.
            is_cancelled: asked often; True ends with CancelledError. What was stored
                until then stays counted in ``cache.num_tokens``.
            progress: called with (tokens done, tokens in all) after every chunk.

        Raises:
            ContextFullError: more tokens than the cache can hold.
        """
        plan = plan or self.plan(cache, len(token_ids))
        done = 0
        for chunk in plan.chunks:
            ids = token_ids[done : done + chunk.num_tokens]
            with self._lock:
                self._run(cache, chunk.length, ids, plan.reserve, is_cancelled)
            done += chunk.num_tokens
            if progress is not None:
                progress(done, len(token_ids))

    def plan(self, cache: KVCache, count: int) -> PrefillPlan:
        """How `count` tokens would be stored behind those in `cache`.

        Raises:
            ContextFullError: more tokens than the cache can hold.
        """
        self._check_room(cache, count)
        end, position = cache.num_tokens + count, cache.num_tokens
        is_patching, length = self._compiled.is_patching, cache.length
        headroom = _COMPILED_HEADROOM if is_patching else _HEADROOM
        reserve = self._bucket(end + headroom)
        chunks, lengths = self._plan(position, count), []
        for chunk in chunks:
            needed = position + chunk.length
            if needed > length:
                length = self._bucket(max(needed, reserve) if is_patching else needed)
            lengths.append(length)
            position += chunk.num_tokens
        return PrefillPlan(tuple(chunks), tuple(lengths), reserve)

    def turn(self) -> AbstractContextManager[object]:
        """Entered while no model call runs and no other sequence's arrays move."""
        return self._lock

    def decode(self, cache: KVCache, token_id: int) -> npt.NDArray[np.float32]:
        """Store one token's entry and return the logits [vocab_size] after it.

        The array belongs to the cache and holds until its next step.
        """
        if cache.num_tokens >= self.context_length:
            self._check_room(cache, 1)
        with self._lock:
            runner = self._decoder
            if runner is None or not cache.num_tokens < cache.length == runner.length:
                runner = self._decoder = self._runner(cache, 1, 0)
            try:
                return runner.decode(cache, token_id)
            except BaseException:
                self._forget_runners()
                raise

    def score(
        self,
        cache: KVCache,
        token_ids: Sequence[int],
        *,
        is_cancelled: Callable[[], bool] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Iterator[npt.NDArray[np.float32]]:
        """Store the entries of `token_ids`, giving the logits after each of them.

        Where the model has signatures with logits for several tokens it takes a call
        for as many, else a decode step for each.

        Args:
            is_cancelled: asked before each call; True ends with CancelledError.
            progress: called with (tokens done, tokens in all) after every call.

        Yields:
            Logits [num_tokens, vocab_size] of the next tokens, in all as many rows as
            ids. The array belongs to the cache and holds until its next step.

        Raises:
            ContextFullError: more tokens than the cache can hold.
        """
        self._check_room(cache, len(token_ids))
        reserve = self._bucket(cache.num_tokens + len(token_ids) + _COMPILED_HEADROOM)
        done = 0
        for chunk in self._score_plan(cache.num_tokens, len(token_ids)):
            if is_cancelled is not None and is_cancelled():
                raise CancelledError("The scoring was cancelled.")
            ids = token_ids[done : done + chunk.num_tokens]
            with self._lock:
                runner = self._runner(cache, chunk.length, reserve, is_scoring=True)
                self._call(runner, cache, ids)
            yield runner.logits(cache, len(ids))
            done += chunk.num_tokens
            if progress is not None:
                progress(done, len(token_ids))

    def _run(
        self,
        cache: KVCache,
        length: int,
        token_ids: Sequence[int],
        reserve: int,
        is_cancelled: Callable[[], bool] | None,
    ) -> None:
        runner = self._runner(cache, length, reserve)
        if is_cancelled is None:
            self._call(runner, cache, token_ids)
            return
        runner.set_cancellation(is_cancelled)
        try:
            self._call(runner, cache, token_ids)
        finally:
            runner.set_cancellation(None)

    def _call(
        self, runner: StepRunner, cache: KVCache, token_ids: Sequence[int]
    ) -> None:
        try:
            runner.run(cache, token_ids)
        except BaseException:
            self._forget_runners()
            raise

    def _forget_runners(self) -> None:
        """Ctrl-C may have come between a mask's change and the note of it."""
        self._decoder = None
        self._runners.clear()

    def _runner(
        self, cache: KVCache, length: int, reserve: int, is_scoring: bool = False
    ) -> StepRunner:
        """The runner of the step with `length` tokens, with room made in `cache`."""
        self.check_open()
        needed = cache.num_tokens + length
        if self._compiled.is_patching:
            self._make_compiled_room(cache, needed, reserve)
        elif needed > cache.length:
            cache.grow(self._bucket(needed), reserve)
        is_scoring = is_scoring and length > 1
        runner = self._runners.get((length, cache.length, is_scoring))
        if runner is None:
            runner = self._new_runner(length, cache.length, is_scoring)
        return runner

    def _new_runner(
        self, length: int, cache_length: int, is_scoring: bool
    ) -> StepRunner:
        self._decoder = None
        if not self._compiled.is_patching:
            # Runners of other lengths resized the same compiled model.
            for place in tuple(self._runners):
                if (place[0], place[2]) == (length, is_scoring):
                    del self._runners[place]
        runner = StepRunner(
            self._step(length, cache_length, is_scoring),
            cache_length,
            partial(self._compiled, tokens=cache_length),
            self.layout.states,
            self.pad_id,
        )
        self._runners[length, cache_length, is_scoring] = runner
        return runner

    def _let_go(self) -> None:
        """Forget all that is bound to compiled models."""
        self._forget_runners()
        for cache in self._live_caches():
            cache.bindings.clear()

    def _make_compiled_room(self, cache: KVCache, needed: int, reserve: int) -> None:
        """Room for `needed` entries, at a length for which models are compiled.

        Compiling takes as long as several tokens, so it is done for a whole prompt at
        once, and sequences of more different lengths than are kept share the longest.
        """
        if needed > cache.length:
            cache.grow(self._bucket(max(needed, reserve)), reserve)
        if self._in_use and self._in_use[-1] == cache.length:
            return
        if cache.length not in self._in_use:
            used = {each.length for each in self._live_caches()}
            kept = [length for length in self._in_use if length in used]
            excess = len(kept) + 1 - self._compiled.max_lengths
            if excess > 0 and max(kept) > cache.length:
                cache.grow(max(kept), reserve)
            else:
                self._retire(kept[max(0, excess) :])
        self._in_use = [n for n in self._in_use if n != cache.length] + [cache.length]

    def _retire(self, kept: Sequence[int]) -> None:
        """Let go of what is compiled for cache lengths that are not kept."""
        self._in_use = [length for length in self._in_use if length in kept]
        self._decoder = None
        self._runners = {
            place: runner for place, runner in self._runners.items() if place[1] in kept
        }
        for cache in self._live_caches():
            if cache.length not in kept:
                cache.bindings.clear()
        self._compiled.keep(kept)

    def _live_caches(self) -> list[KVCache]:
        return [cache for each in tuple(self._caches) if (cache := each()) is not None]

    def _step(self, length: int, cache_length: int, is_scoring: bool = False) -> Step:
        several = self.layout.verify if is_scoring else self._prefill
        steps = self.layout.decode if length == 1 else several
        fitting = [
            step
            for step in steps
            if step.length == length
            and (self.is_resizable or step.context == cache_length)
        ]
        return max(fitting, key=lambda step: step.context)

    def _bucket(self, needed: int) -> int:
        """Length of the arrays for `needed` entries, at most that of the model."""
        return next((n for n in self._lengths if n >= needed), self._lengths[-1])

    def _plan(self, start: int, count: int) -> list[Chunk]:
        limit = self._lengths[-1] if self.is_resizable else self._bucket(start + count)
        costs = {1: self._cost(self._step(1, limit))}
        for step in self._prefill:
            if self.is_resizable or step.context == limit:
                costs[step.length] = self._cost(step)
        most = limit or self.context_length  # without a cache nothing else limits
        return plan_prefill(count, start, most, costs, can_pad=self.can_rewind)

    def _score_plan(self, start: int, count: int) -> list[Chunk]:
        limit = self._lengths[-1] if self.is_resizable else self._bucket(start + count)
        costs = {1: _DECODE_COST}
        for step in self.layout.verify:
            if self.is_resizable or step.context == limit:
                costs[step.length] = _DECODE_COST + _TOKEN_COST * step.length
        most = limit or self.context_length
        return plan_prefill(count, start, most, costs, can_pad=self.can_rewind)

    def _cost(self, step: Step) -> float:
        """Seconds of one call, or a usual ratio to a decode step where not measured."""
        return self._costs.get(step.key, _DECODE_COST + _TOKEN_COST * step.length)

    def _check_room(self, cache: KVCache, count: int) -> None:
        free = self.context_length - cache.num_tokens
        if count > free:
            raise ContextFullError(
                f"The context holds {self.context_length} tokens, "
                f"{cache.num_tokens} are in use and {count} more do not fit: "
                f"{count - free} too many. Start a new session, shorten the prompt or "
                "use a bundle with a longer context."
            )


def _useful(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Prefill steps without those whose attention is mostly spent on masked entries."""
    short = tuple(step for step in steps if step.length <= _LONGEST_CHUNK)
    return short or tuple(steps[:1])


def _doubled_states(layout: ModelLayout) -> frozenset[str]:
    """States that some call cannot update in place."""
    return frozenset(
        state
        for step in (*layout.decode, *layout.prefill, *layout.verify)
        for call in step.calls
        for state in call.states_out.values()
        if state not in call.in_place
    )
