"""Runs one step of a model: its calls, with all buffers bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from litert_lm.errors import ExecutionError
from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.executor.layout.layout import State, Step, state_shape
from litert_lm.executor.layout.signatures import MASKS, Call, Feed
from litert_lm.executor.native.compiled_model import CompiledModel, RunCall
from litert_lm.executor.native.tensors import TensorBuffer, TensorSpec, allocate
from litert_lm.executor.steps.feeds import Writer, make_step_writer, make_writer

__all__ = ["StepParts", "StepRunner"]


class StepParts(NamedTuple):
    """A decode step over arrays that stay where they are.

    Attributes:
        write: feeds a token and its position.
        run: calls the model and returns LiteRT's status, 0 for success.
        fail: raises what another one stands for.
        logits: [vocab_size], where the run leaves them.
    """

    write: Callable[[int, int], None]
    run: Callable[[], int]
    fail: Callable[[int], NoReturn]
    logits: npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Stage:
    """A call with the buffers that do not depend on the cache."""

    call: Call
    model: CompiledModel
    writers: tuple[Writer, ...]
    inputs: Mapping[str, TensorBuffer]
    outputs: Mapping[str, TensorBuffer]


@dataclass(frozen=True, slots=True)
class _Binding:
    """The calls of a step over one cache, and where they leave logits.

    Attributes:
        logits: [vocab_size] after the last token; empty where the step gives none.
    """

    owner: StepRunner
    runs: Sequence[RunCall]
    logits: npt.NDArray[np.float32]


class StepRunner:
    """One step over caches of one length; it owns all buffers but states and logits.

    States and logits belong to a cache, so that no sequence overwrites another's.
    """

    def __init__(
        self,
        step: Step,
        length: int,
        compiled: Callable[[str, str], CompiledModel],
        states: Mapping[str, State],
        pad_id: int,
    ) -> None:
        self.step = step
        self.length = length
        self._states = states
        self._pad_id = pad_id
        # Texts, which know their hashes: unbound steps look one up for every token.
        self._keys = tuple(f"{step.key} {turn}" for turn in range(2))
        self._made: dict[tuple[int, str], TensorBuffer] = {}
        self._rows: dict[int, list[tuple[npt.NDArray[Any], npt.NDArray[Any]]]] = {}
        models = [compiled(call.model, call.key) for call in step.calls]
        self._stages = [
            self._stage(position, call, models[position])
            for position, call in enumerate(step.calls)
        ]
        self._writers = [
            writer
            for stage in self._stages
            if not stage.call.per_token
            for writer in stage.writers
        ]
        self._write_one = make_step_writer(self._writers)
        self._has_repeats = any(call.per_token for call in step.calls)
        self._logits = self._find_logits(models[step.main])
        self._last = max(1, step.num_logits) - 1

    def _make_outputs(self, position: int, call: Call, model: CompiledModel) -> None:
        """Buffers for what a call makes; its inputs have their final shapes."""
        shapes = model.output_shapes(call.key)
        for spec in model.signatures[call.key].outputs:
            is_logits = position == self.step.main and spec.name == self.step.logits
            if spec.name not in call.states_out and not is_logits:
                array = allocate(shapes[spec.name], spec.dtype)
                self._made[position, spec.name] = TensorBuffer(array)

    def _stage(self, position: int, call: Call, model: CompiledModel) -> _Stage:
        specs = {spec.name: spec for spec in model.signatures[call.key].inputs}
        for name, state in call.states_in.items():
            shape = state_shape(self._states[state], self.length, self.step.batch)
            model.resize_input(call.key, name, shape)
        inputs, writers = {}, []
        for feed in call.feeds:
            shape = self._feed_shape(feed)
            model.resize_input(call.key, feed.name, shape)
            writers.append(make_writer(feed, allocate(shape, feed.dtype), self._pad_id))
            inputs[feed.name] = TensorBuffer(writers[-1].array)
        for name, source in call.links.items():
            if self.step.calls[source[0]].per_token:
                inputs[name] = TensorBuffer(
                    allocate(specs[name].shape, specs[name].dtype)
                )
                rows = inputs[name].array[0], self._made[source].array[0, 0]
                self._rows.setdefault(source[0], []).append(rows)
            else:
                inputs[name] = self._made[source]
        self._make_outputs(position, call, model)
        return _Stage(
            call=call,
            model=model,
            writers=tuple(writers),
            inputs=inputs,
            outputs={n: b for (p, n), b in self._made.items() if p == position},
        )

    def _feed_shape(self, feed: Feed) -> tuple[int, ...]:
        """A mask over the cache is as wide as the cache in use."""
        if feed.role not in MASKS or feed.ring:
            return feed.shape
        width = feed.shape[-1] - self.step.context + self.length
        return (*feed.shape[:-1], width)

    def _find_logits(self, model: CompiledModel) -> TensorSpec | None:
        shapes = model.output_shapes(self.step.key)
        outputs = model.signatures[self.step.key].outputs
        found = [
            replace(spec, shape=shapes[spec.name])
            for spec in outputs
            if spec.name == self.step.logits
        ]
        return found[0] if found else None

    @property
    def has_logits(self) -> bool:
        """Whether a run leaves logits."""
        return self._logits is not None

    def run(self, cache: KVCache, token_ids: Sequence[int]) -> None:
        """Store the entries of `token_ids`, at most `step.length`, behind the cache's.

        The caller has made `cache` as long as this runner.
        """
        if self.step.length == 1:
            self.decode(cache, token_ids[0])
            return
        start = cache.num_tokens
        for writer in self._writers:
            writer.write(token_ids, start)
        runs = self._bound(cache).runs
        if self._has_repeats:
            self._run_repeats(runs, token_ids)
        else:
            for run in runs:
                run()
        if cache.doubled:
            cache.flip()
        cache.num_tokens = start + len(token_ids)

    def decode(self, cache: KVCache, token_id: int) -> npt.NDArray[np.float32]:
        """Store one token's entry, in a step of length 1.

        Returns:
            The logits [vocab_size] after it; empty where the step gives none.
        """
        position = cache.num_tokens
        self._write_one(token_id, position)
        binding = self._bound(cache)
        if self._has_repeats:
            self._run_repeats(binding.runs, (token_id,))
        else:
            for run in binding.runs:
                run()
        if cache.doubled:
            cache.flip()
        cache.num_tokens = position + 1
        return binding.logits

    def is_bindable(self, cache: KVCache) -> bool:
        """Whether each decode step does the same over the same arrays."""
        return not (self._has_repeats or cache.doubled)

    def step_parts(self, cache: KVCache) -> StepParts:
        """What `decode` does over the present arrays of a cache, in parts.

        Only where that is bindable.
        """
        binding = self._bound(cache)
        *first, last = binding.runs

        def run() -> int:
            for each in first:
                each()
            return last.native()

        native = run if first else last.native
        return StepParts(self._write_one, native, last.fail, binding.logits)

    def logits(self, cache: KVCache, num_tokens: int) -> npt.NDArray[np.float32]:
        """Logits [num_tokens, vocab_size] after each token of the last run.

        Only of steps that give logits for all their tokens.
        """
        if self._logits is None:
            raise ExecutionError(f"Signature {self.step.key!r} gives no logits.")
        array = cache.logits_buffer(self._logits.shape, self._logits.dtype).array
        rows: npt.NDArray[np.float32] = array.reshape(-1, array.shape[-1])
        return rows[:num_tokens]

    def set_cancellation(self, is_cancelled: Callable[[], bool] | None) -> None:
        """Ask `is_cancelled` during later runs of the main model; None stops that."""
        self._stages[self.step.main].model.set_cancellation(is_cancelled)

    def _run_repeats(self, runs: Sequence[RunCall], token_ids: Sequence[int]) -> None:
        for position, (stage, run) in enumerate(zip(self._stages, runs, strict=True)):
            if not stage.call.per_token:
                run()
                continue
            for row, token_id in enumerate(token_ids):
                for writer in stage.writers:
                    writer.write_one(token_id, 0)
                run()
                for target, made in self._rows[position]:
                    target[row] = made

    def _bound(self, cache: KVCache) -> _Binding:
        """The calls over this cache's memory, bound once per growth and turn."""
        binding: _Binding | None = cache.bindings.get(self._keys[cache.turn])
        if binding is None or binding.owner is not self:
            runs = [self._bind(stage, cache) for stage in self._stages]
            binding = _Binding(self, runs, self._logits_row(cache))
            cache.bindings[self._keys[cache.turn]] = binding
            cache.step = None
        return binding

    def _logits_row(self, cache: KVCache) -> npt.NDArray[np.float32]:
        """Where runs leave the logits [vocab_size] of their last token, if any."""
        if self._logits is None:
            return np.empty(0, np.float32)
        array = cache.logits_buffer(self._logits.shape, self._logits.dtype).array
        last: npt.NDArray[np.float32] = array.reshape(-1, array.shape[-1])[self._last]
        return last

    def _bind(self, stage: _Stage, cache: KVCache) -> RunCall:
        inputs, outputs = dict(stage.inputs), dict(stage.outputs)
        for name, state in stage.call.states_in.items():
            inputs[name] = cache.buffer(state, batch=self.step.batch)
        for name, state in stage.call.states_out.items():
            outputs[name] = cache.buffer(state, written=True, batch=self.step.batch)
        if stage.call is self.step.calls[self.step.main] and self._logits:
            spec = self._logits
            outputs[spec.name] = cache.logits_buffer(spec.shape, spec.dtype)
        return RunCall(stage.model, stage.call.key, inputs, outputs)
