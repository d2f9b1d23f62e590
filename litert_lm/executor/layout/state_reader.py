"""Which tensors of a model are state, and how they hold the sequence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from litert_lm.bundle.tflite import Signature, Tensor, TfliteModel
from litert_lm.executor.layout.batch_reader import is_batch
from litert_lm.executor.layout.layout import State
from litert_lm.executor.layout.state_updates import StateUpdate, state_updates

__all__ = ["StateReader", "Updates", "read_updates"]

# The exporter's names of convolution and linear-attention states, which have no
# token axis even where a dimension happens to equal the context.
_RECURRENT_NAME = re.compile(r"_[cr]_\d+$")
_LINEAR_ATTENTION = 5  # StateBuffer.Type
_LOCAL_TYPES = (3, 4)

Updates = Mapping[tuple[str, str], Mapping[str, StateUpdate]]


def read_updates(models: Mapping[str, TfliteModel]) -> Updates:
    """State updates of every signature, by model type and key.

    Reads all operators: the slow part of reading a layout, worth remembering.
    """
    return {
        (kind, signature.key): state_updates(model, signature)
        for kind, model in models.items()
        for signature in model.signatures
        if not is_batch(signature)
    }


class StateReader:
    """Finds the states of a bundle's models.

    Attributes:
        all_signatures: (model type, signature) of all models.
        names: names of the states, which are those of the inputs that hold them.
        axes: state name -> token axis, None for a recurrent state.
        window: tokens that sliding-window attention reaches back; 0 when not stated.
    """

    def __init__(
        self, models: Mapping[str, TfliteModel], updates: Updates, metadata: Any
    ) -> None:
        self.updates = updates
        buffers = () if metadata is None else metadata.state_buffers
        self.declared = dict(_declared(buffers))
        self.window = 0
        if metadata is not None:
            self.window = metadata.attention_mask_settings.sliding_window_size
        self.renamed = dict(_renamed(buffers))
        self.all_signatures = [
            (kind, signature)
            for kind, model in models.items()
            for signature in model.signatures
            if not is_batch(signature)
        ]
        self.names = frozenset(
            name
            for kind, signature in self.all_signatures
            for name in self.state_outputs(kind, signature).values()
        )
        self.axes = {name: self._axis(name) for name in self.names}

    def state_outputs(self, kind: str, signature: Signature) -> dict[str, str]:
        """Output name -> the state it updates, by declaration, graph or equal name."""
        inputs = {tensor.name: tensor for tensor in signature.inputs}
        updates = self.updates[kind, signature.key]
        states = {}
        for output in signature.outputs:
            update = updates.get(output.name)
            names = (
                self.renamed.get(output.name),
                output.name,
                update.source if update else None,
            )
            source = next((name for name in names if name in inputs), None)
            if source is not None and _same_kind(inputs[source], output):
                states[output.name] = source
        return states

    def inputs(self, signature: Signature) -> dict[str, Tensor]:
        """The states that a signature reads, by name."""
        return {t.name: t for t in signature.inputs if t.name in self.names}

    def context(self, shapes: Mapping[str, tuple[int, ...]]) -> int:
        sizes = [
            shape[axis]
            for name, shape in shapes.items()
            if (axis := self.axes[name]) is not None
            and not self._is_declared_local(name)
        ]
        return max(sizes, default=0)

    def mask_width(self, signature: Signature) -> int | None:
        """Entries of the caches that hold the whole context.

        0 where such caches are missing, None where a signature can do without.
        """
        shapes = {name: t.shape for name, t in self.inputs(signature).items()}
        context = self.context(shapes)
        if not context and (not shapes or any(map(self._is_declared_local, shapes))):
            return None
        return context

    def ring(self, signature: Signature) -> int:
        """Length of the rings that a signature reads; 0 when there are none."""
        shapes = {name: t.shape for name, t in self.inputs(signature).items()}
        context = self.context(shapes)
        lengths = [
            shape[axis]
            for name, shape in shapes.items()
            if (axis := self.axes[name]) is not None
            and self.is_local(name, shape, context)
        ]
        return max(lengths, default=0)

    def states(
        self, tensors: Mapping[str, Tensor], context: int, batch: int
    ) -> dict[str, State]:
        """The states that have these inputs, with room for `batch` sequences."""
        return {
            name: State(
                name=name,
                shape=(batch, *tensor.shape[1:]) if batch > 1 else tensor.shape,
                dtype=tensor.dtype,
                axis=self.axes[name],
                is_local=self.is_local(name, tensor.shape, context),
                batch=batch,
            )
            for name, tensor in tensors.items()
        }

    def is_local(self, name: str, shape: tuple[int, ...], context: int) -> bool:
        axis = self.axes[name]
        if axis is None:
            return False
        return self._is_declared_local(name) or shape[axis] < context

    def _is_declared_local(self, name: str) -> bool:
        buffer = self.declared.get(name)
        return buffer is not None and buffer.type in _LOCAL_TYPES

    def _axis(self, name: str) -> int | None:
        """The token axis: declared, else by the graph, else by comparing shapes."""
        buffer = self.declared.get(name)
        if buffer is not None and buffer.type == _LINEAR_ATTENTION:
            return None
        if buffer is not None and buffer.sequence_axis > 0:
            return int(buffer.sequence_axis)
        for updates in self.updates.values():
            for update in updates.values():
                if update.source == name and update.axis is not None:
                    return update.axis
        return self._compared_axis(name)

    def _compared_axis(self, name: str) -> int | None:
        if _RECURRENT_NAME.search(name):
            return None
        shapes, widths = set(), set()
        for _, signature in self.all_signatures:
            tensors = {tensor.name: tensor for tensor in signature.inputs}
            if name in tensors:
                shapes.add(tensors[name].shape)
                widths |= {t.shape[-1] for t in tensors.values() if "mask" in t.name}
        dims = list(zip(*shapes, strict=False))
        differing = [i for i, sizes in enumerate(dims) if i and len(set(sizes)) > 1]
        if not differing:
            differing = [i for i, sizes in enumerate(dims) if sizes[0] in widths]
        return differing[0] if len(differing) == 1 else None


def _declared(buffers: Any) -> Iterator[tuple[str, Any]]:
    for buffer in buffers:
        yield buffer.prefill_input_name, buffer
        yield buffer.decode_input_name, buffer


def _renamed(buffers: Any) -> Iterator[tuple[str, str]]:
    for buffer in buffers:
        yield buffer.prefill_output_name, buffer.prefill_input_name
        yield buffer.decode_output_name, buffer.decode_input_name


def _same_kind(source: Tensor, output: Tensor) -> bool:
    return source.type_code == output.type_code and source.shape == output.shape
