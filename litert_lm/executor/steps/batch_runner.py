"""Runs a decode step of several sequences over their own caches."""

from __future__ import annotations

import ctypes as c
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from litert_lm.executor.kv.kv_cache import KVCache
from litert_lm.executor.layout.layout import BatchStep, State, state_shape
from litert_lm.executor.layout.signatures import Feed, Role
from litert_lm.executor.native.compiled_model import CompiledModel, check_buffers
from litert_lm.executor.native.tensors import TensorBuffer, TensorSpec, allocate
from litert_lm.executor.steps.feeds import Writer, make_writer

__all__ = ["BatchRunner"]

_FLOAT, _INT = np.dtype(np.float32), np.dtype(np.int32)


class BatchRunner:
    """One batch step over caches of one length.

    Attributes:
        step: as given.
        length: of the caches.
    """

    def __init__(
        self,
        step: BatchStep,
        length: int,
        model: CompiledModel,
        states: Mapping[str, State],
        vocab_size: int,
    ) -> None:
        self.step = step
        self.length = length
        self._model = model
        self._specs = [
            TensorSpec(name, state_shape(state, length), state.dtype)
            for name, state in states.items()
        ]
        self._tokens = allocate((1, step.size), _INT)
        self._positions = allocate((step.size,), _INT)
        self._logits = allocate((1, step.size, vocab_size), _FLOAT)
        self._buffers = {
            step.tokens: TensorBuffer(self._tokens),
            step.positions: TensorBuffer(self._positions),
            step.logits: TensorBuffer(self._logits),
        }
        self._masks = [self._mask(name) for name in step.masks]
        for row in step.states:
            for spec in self._specs:
                model.resize_input(step.key, row[spec.name], spec.shape)
        signature = model.signatures[step.key]
        self._inputs = self._side(signature.inputs, model.input_shapes(step.key))
        self._outputs = self._side(signature.outputs, model.output_shapes(step.key))
        self._index = signature.index

    def decode(
        self, caches: Sequence[KVCache], token_ids: Sequence[int]
    ) -> list[npt.NDArray[np.float32]]:
        """Store a token's entry in each cache; the logits [vocab_size] after each.

        Args:
            caches: at most `step.size`, each of this length and with room.
            token_ids: one for each.

        The arrays belong to the caches and hold until their next step.
        """
        # A row without a sequence repeats the first one: it computes the same entries
        # and writes them to the same place.
        missing = self.step.size - len(caches)
        rows = [*caches, *[caches[0]] * missing]
        ids = [*token_ids, *[token_ids[0]] * missing]
        self._tokens[0] = ids
        self._positions[:] = [cache.num_tokens for cache in rows]
        for row, cache in enumerate(rows):
            self._masks[row].write_one(ids[row], cache.num_tokens)
            handles = self._handles(cache)
            self._inputs.put(row, handles)
            self._outputs.put(row, handles)
        self._run()
        found = [self._logits_of(row, cache) for row, cache in enumerate(caches)]
        for cache in caches:
            cache.num_tokens += 1
        return found

    def _logits_of(self, row: int, cache: KVCache) -> npt.NDArray[np.float32]:
        shape = (1, 1, self._logits.shape[-1])
        own: npt.NDArray[np.float32] = cache.logits_buffer(shape, _FLOAT).array[0, 0]
        np.copyto(own, self._logits[0, row])
        return own

    def _run(self) -> None:
        ins, outs = self._inputs.handles, self._outputs.handles
        status = self._model.litert.run(
            self._model.handle, self._index, len(ins), ins, len(outs), outs
        )
        if status:
            self._model.raise_status(status)

    def _mask(self, name: str) -> Writer:
        shape = (1, 1, 1, self.length)
        self._model.resize_input(self.step.key, name, shape)
        feed = Feed(name, Role.MASK, shape, _FLOAT)
        writer = make_writer(feed, allocate(shape, _FLOAT), 0)
        self._buffers[name] = TensorBuffer(writer.array)
        return writer

    def _side(
        self, specs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]]
    ) -> _Side:
        """The inputs or the outputs, with all but the states bound."""
        own = [spec for spec in specs if spec.name in self._buffers]
        check_buffers(self.step.key, own, self._buffers, shapes)
        side = _Side(specs, [list(row.values()) for row in self.step.states])
        for spec in own:
            side.bind(spec.name, self._buffers[spec.name])
        return side

    def _handles(self, cache: KVCache) -> npt.NDArray[np.uintp]:
        """Addresses of the buffers of a cache's states; checked once per growth."""
        found: npt.NDArray[np.uintp] | None = cache.bindings.get(BatchRunner)
        if found is None:
            buffers = {spec.name: cache.buffer(spec.name) for spec in self._specs}
            check_buffers(self.step.key, self._specs, buffers, {})
            found = np.array([b.handle.value for b in buffers.values()], np.uintp)
            cache.bindings[BatchRunner] = found
        return found


class _Side:
    """The addresses that a call is given for its inputs, or for its outputs.

    Attributes:
        handles: as LiteRT takes them.
    """

    def __init__(
        self, specs: Sequence[TensorSpec], rows: Sequence[Sequence[str]]
    ) -> None:
        self._numbers = np.zeros(len(specs), np.uintp)
        kind = c.c_void_p * len(specs)
        self.handles = kind.from_address(self._numbers.ctypes.data)
        self._places = {spec.name: place for place, spec in enumerate(specs)}
        self._rows = [np.array([self._places[name] for name in row]) for row in rows]

    def bind(self, name: str, buffer: TensorBuffer) -> None:
        self._numbers[self._places[name]] = buffer.handle.value or 0

    def put(self, row: int, handles: npt.NDArray[np.uintp]) -> None:
        """Bind the states of a row, in the order of the model's states."""
        self._numbers[self._rows[row]] = handles
