"""Prefill and decode: token ids in, KV entries and logits out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np
import numpy.typing as npt

from litert_lm.errors import (
    CancelledError,
    ContextFullError,
    ExecutionError,
    SessionStateError,
)
from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.executor.layout.layout import BatchStep, ModelLayout
from litert_lm.executor.native.compiler import ModelCompiler
from litert_lm.executor.plan import PrefillPlan
from litert_lm.executor.planner import COMPILED_HEADROOM, DECODE_COST, PrefillPlanner
from litert_lm.executor.steps.bound_step import bind_step
from litert_lm.executor.steps.call_queue import CallQueue
from litert_lm.executor.steps.runners import Runners
from litert_lm.executor.steps.shared_steps import SharedSteps
from litert_lm.executor.steps.step_runner import StepRunner
from litert_lm.executor.steps.step_table import StepTable

__all__ = ["Executor"]

_PATIENCE = 0.25  # of a decode step, to wait for who will share the next one


class Executor:
    """Runs one model's steps for any number of sequences, one call at a time.

    Args:
        layout: the model's states and steps.
        compiled: compiles signatures when they are needed.
        costs: signature key -> seconds of one call, where measured.
        is_resizable: the graphs take caches shorter than exported, as they are or as
            `compiled` changes them.
        context_length: limit on the entries of a cache, at most the layout's.
        batch_keys: steps of several sequences that give the logits of single ones.

    Attributes:
        layout, is_resizable, context_length: as above.
        vocab_size: number of logits.
    """

    def __init__(
        self,
        layout: ModelLayout,
        compiled: ModelCompiler,
        *,
        costs: Mapping[str, float] | None = None,
        is_resizable: bool = False,
        context_length: int | None = None,
        batch_keys: Collection[str] = (),
    ) -> None:
        self.layout = layout
        self.is_resizable = is_resizable
        self.context_length = context_length or layout.context_length
        self.vocab_size = layout.vocab_size
        self._compiled = compiled
        self._costs = dict(costs or {})
        self._is_closed = False
        self._queue = CallQueue()
        self._table = StepTable.of(
            layout, is_resizable=is_resizable, is_compiled=compiled.is_patching
        )
        self._planner = PrefillPlanner(
            self._table,
            self._costs,
            context_length=self.context_length,
            is_patching=compiled.is_patching,
        )
        self._runners = Runners(self._table, compiled)
        self._batch = _largest(layout, batch_keys)
        self._shared = None if self._batch is None else self._share(self._batch)
        self._away = self._shared.away if self._shared is not None else ()

    @property
    def can_rewind(self) -> bool:
        """Whether a cache can go back to an earlier token."""
        return not (self.layout.is_recurrent or self.layout.has_local_states)

    def new_cache(self) -> KVCache:
        """An empty cache for one sequence; memory comes with its first tokens."""
        return self._runners.new_cache()

    @property
    def pad_id(self) -> int:
        """Token id in padding rows."""
        return self._runners.pad_id

    @pad_id.setter
    def pad_id(self, token_id: int) -> None:
        self._runners.pad_id = token_id

    @property
    def lengths(self) -> list[int]:
        """Tokens per call that are in use, 1 for a decode step."""
        return [1, *sorted({step.length for step in self._table.prefill})]

    @property
    def cache_lengths(self) -> list[int]:
        """Lengths that the arrays of caches have, growing."""
        return list(self._table.lengths)

    @property
    def max_batch(self) -> int:
        """Sequences that `decode_together` takes; 0 where there is no such step."""
        return self._batch.size if self._batch is not None else 0

    @property
    def batch_key(self) -> str | None:
        """Signature key of the step that `decode_together` runs."""
        return None if self._batch is None else self._batch.key

    def step_key(self, length: int) -> str:
        """Signature key of the calls with `length` tokens and the longest cache."""
        return self._table.step(length, self._table.lengths[-1]).key

    def run_chunk(self, cache: KVCache, length: int, token_ids: Sequence[int]) -> None:
        """Store `token_ids` by one call with `length` tokens, padded if need be."""
        with self._queue.turn():
            self._run(cache, length, token_ids, 0, None)

    def load(self) -> None:
        """Read the models now, instead of at the first token."""
        with self._queue.turn():
            self._compiled.load()

    def check_open(self) -> None:
        """Raise SessionStateError when the models were freed."""
        if self._is_closed:
            raise SessionStateError("The engine is closed; open a new one.")

    def close(self) -> None:
        """Free the compiled models; caches stay valid values.

        Waits for a call that is running; closing twice is harmless.
        """
        with self._queue.turn():
            self._is_closed = True
            self._runners.close()
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
            with self._queue.turn():
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
        return self._planner.plan(cache.num_tokens, cache.length, count)

    def turn(self) -> AbstractContextManager[object]:
        """Entered while no model call runs and no other sequence's arrays move."""
        return self._queue.turn()

    def decode(self, cache: KVCache, token_id: int) -> npt.NDArray[np.float32]:
        """Store one token's entry and return the logits [vocab_size] after it.

        The array belongs to the cache and holds until its next step.
        """
        return (cache.step or self._decode_unbound)(cache, token_id)

    def decode_together(
        self, caches: Sequence[KVCache], token_ids: Sequence[int]
    ) -> list[npt.NDArray[np.float32]]:
        """What `decode` gives for each of several sequences, by one call of the model.

        Args:
            caches: equally long ones with room for a token, at most as many as the
                model's batch step takes.
            token_ids: one for each.
        """
        with self._queue.turn():
            return self._decode_together(caches, token_ids)

    def decode_each(
        self, caches: Sequence[KVCache], token_ids: Sequence[int]
    ) -> list[npt.NDArray[np.float32]]:
        """What `decode` gives for each of any sequences, in as few calls as it can."""
        for cache in caches:
            self._check_room(cache, 1)
        if self._shared is not None:
            return self._shared.decode_each(caches, token_ids)
        return list(map(self.decode, caches, token_ids))

    def _decode_unbound(self, cache: KVCache, token_id: int) -> npt.NDArray[np.float32]:
        self._check_room(cache, 1)
        queue, shared = self._queue, self._shared
        if queue.is_free and not self._away:
            with queue.lock:
                return self._decode(cache, token_id)
        if shared is not None:
            return shared.decode(cache, token_id)
        with queue.turn():
            return self._decode(cache, token_id)

    def _decode(self, cache: KVCache, token_id: int) -> npt.NDArray[np.float32]:
        """A step in its turn, with those behind it bound to what it used."""
        self.check_open()
        runner = self._runners.decoder(cache)
        try:
            logits = runner.decode(cache, token_id)
        except BaseException:
            self._runners.forget()
            raise
        if cache.step is None and runner.is_bindable(cache):
            cache.step = bind_step(
                cache,
                runner,
                runners=self._runners,
                queue=self._queue,
                away=self._away,
                limit=self.context_length,
                unbound=self._decode_unbound,
            )
        return logits

    def _decode_together(
        self, caches: Sequence[KVCache], token_ids: Sequence[int]
    ) -> list[npt.NDArray[np.float32]]:
        self.check_open()
        if self._batch is None:
            raise ExecutionError("The model has no step for several sequences.")
        try:
            runner = self._runners.batch(self._batch, caches[0].length)
            return runner.decode(caches, token_ids)
        except BaseException:
            self._runners.forget()
            raise

    def _share(self, step: BatchStep) -> SharedSteps | None:
        """Shares decode steps where that is faster than one after another."""
        one = self._costs.get(self.step_key(1), DECODE_COST)
        together = self._costs.get(step.key, one)
        least = max(2, int(together / one) + 1)
        if least > step.size:
            return None
        return SharedSteps(
            self._queue,
            self._decode,
            self._decode_together,
            least=least,
            most=step.size,
            patience=_PATIENCE * one,
        )

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
        end = cache.num_tokens + len(token_ids)
        reserve = self._table.bucket(end + COMPILED_HEADROOM)
        done = 0
        for chunk in self._planner.scoring_chunks(cache.num_tokens, len(token_ids)):
            if is_cancelled is not None and is_cancelled():
                raise CancelledError("The scoring was cancelled.")
            ids = token_ids[done : done + chunk.num_tokens]
            with self._queue.turn():
                self.check_open()
                runner = self._runners.get(cache, chunk.length, reserve, True)
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
        self.check_open()
        runner = self._runners.get(cache, length, reserve)
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
            self._runners.forget()
            raise

    def _check_room(self, cache: KVCache, count: int) -> None:
        free = self.context_length - cache.num_tokens
        if count > free:
            raise ContextFullError(
                f"The context holds {self.context_length} tokens, "
                f"{cache.num_tokens} are in use and {count} more do not fit: "
                f"{count - free} too many. Start a new session, shorten the prompt or "
                "use a bundle with a longer context."
            )


def _largest(layout: ModelLayout, keys: Collection[str]) -> BatchStep | None:
    steps = [step for step in layout.batch if step.key in keys]
    return max(steps, key=lambda step: step.size, default=None)
