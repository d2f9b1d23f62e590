"""Finds out what to overwrite in a bundle's models for a shorter KV cache."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from litert_lm.bundle.calls import CALLS
from litert_lm.bundle.columns import Column
from litert_lm.bundle.tflite import Signature, TfliteModel
from litert_lm.errors import UnsupportedModelError
from litert_lm.executor.layout.layout import ModelLayout, Step
from litert_lm.executor.layout.signatures import MASKS
from litert_lm.executor.patching.extents import CACHE, Extent, size
from litert_lm.executor.patching.flow import Flow
from litert_lm.executor.patching.graph import Graph, Node, Refusal
from litert_lm.executor.patching.patch import Cut, Patch
from litert_lm.executor.patching.rules import BROADCAST, RULES

__all__ = ["read_patches"]

_WHOLE = {0: CACHE}  # a modulus that leaves positions in the cache as they are
_BUFFERS, _BUFFER_SIZE = 4, 2  # fields of Model and of Buffer
_MAX_CUT_BYTES = 64 << 20  # of constants that are rewritten, so no longer shared


def read_patches(
    models: Mapping[str, TfliteModel], layout: ModelLayout
) -> dict[str, Patch]:
    """Patches by model type, for the steps that use the longest cache.

    Args:
        models: verified models by their type.
        layout: what `read_layout` gave for them.

    Raises:
        UnsupportedModelError: a shorter cache might change results; says where.
    """
    steps = [
        step
        for step in (*layout.decode, *layout.prefill, *layout.verify)
        if step.context == layout.context_length
    ]
    flow = Flow(models, layout.context_length, RULES)
    try:
        for step in steps:
            _start(flow, models, layout, step)
        flow.solve()
        for step in steps:
            _check_ends(flow, models, step)
        made = {
            kind: _Reader(flow, kind, models[kind], steps).patch()
            for kind in {call.model for step in steps for call in step.calls}
        }
    except Refusal as refusal:
        raise UnsupportedModelError(
            f"The model's KV cache cannot be shortened: {refusal}."
        ) from None
    return {kind: patch for kind, patch in made.items() if patch.numbers}


def _signature(models: Mapping[str, TfliteModel], kind: str, key: str) -> Signature:
    return next(s for s in models[kind].signatures if s.key == key)


def _ends(
    flow: Flow, models: Mapping[str, TfliteModel], kind: str, key: str
) -> tuple[dict[str, Node], dict[str, Node]]:
    """Inputs and outputs of a signature by name."""
    signature = _signature(models, kind, key)
    graph = flow.graph(kind, signature.subgraph)
    return (
        {tensor.name: graph.node(tensor.tensor) for tensor in signature.inputs},
        {tensor.name: graph.node(tensor.tensor) for tensor in signature.outputs},
    )


def _start(
    flow: Flow, models: Mapping[str, TfliteModel], layout: ModelLayout, step: Step
) -> None:
    """What is known from the beginning: states, and what is handed on as it is."""
    made = [_ends(flow, models, call.model, call.key) for call in step.calls]
    for (inputs, outputs), call in zip(made, step.calls, strict=True):
        for nodes, names in ((inputs, call.states_in), (outputs, call.states_out)):
            for name, state_name in names.items():
                state = layout.states.get(state_name)
                if state is None:
                    raise Refusal(f"only {call.key!r} has the state {state_name!r}")
                if state.axis is None or state.is_local:
                    continue
                if len(nodes[name].shape) != len(state.shape):
                    raise Refusal(f"{name!r} is of another rank in {call.key!r}")
                nodes[name].learn(state.axis, CACHE)
        for name, (source, output) in call.links.items():
            if not step.calls[source].per_token:
                inputs[name].link(made[source][1][output])


def _check_ends(flow: Flow, models: Mapping[str, TfliteModel], step: Step) -> None:
    """Only states, masks and what is handed on may grow."""
    for position, call in enumerate(step.calls):
        inputs, outputs = _ends(flow, models, call.model, call.key)
        for feed in call.feeds:
            axes = set(inputs[feed.name].extents)
            if axes - ({len(feed.shape) - 1} if feed.role in MASKS else set()):
                raise Refusal(f"input {feed.name!r} of {call.key!r} would change")
        if position == step.main and step.logits and outputs[step.logits].extents:
            raise Refusal(f"the logits of {call.key!r} would change")


class _Reader:
    """Collects a model's patch once the flow has come to its end."""

    def __init__(
        self, flow: Flow, kind: str, model: TfliteModel, steps: list[Step]
    ) -> None:
        self.flow = flow
        self.kind = kind
        self.model = model
        keys = {c.key for s in steps for c in s.calls if c.model == kind}
        self.graphs_of = {
            signature.key: _reachable(model, signature.subgraph)
            for signature in model.signatures
            if signature.key in keys
        }
        self.live = set[int]().union(*self.graphs_of.values())
        self.graphs = [g for g in flow.graphs(kind) if g.index in self.live]
        self.grown = [n for g in self.graphs for n in g.nodes.values() if n.extents]
        self.counted: dict[int, Extent] = {}
        self.cuts: dict[int, Cut] = {}

    def patch(self) -> Patch:
        """The patch; Refusal where something is shared that would have to differ."""
        self._check_storage()
        for node in self.grown:
            self._count_shape(node)
            if node.is_constant:
                self._shorten(node)
        self._check_shapes()
        self._count_constants()
        numbers: dict[Extent, list[int]] = {}
        for position, extent in sorted(self.counted.items()):
            numbers.setdefault(extent, []).append(position)
        least = {graph.index: graph.least for graph in self.graphs}
        return Patch(
            tokens=self.flow.tokens,
            numbers={extent: tuple(at) for extent, at in numbers.items()},
            cuts=tuple(self.cuts.values()),
            least={
                key: max(least.get(graph, 1) for graph in graphs)
                for key, graphs in self.graphs_of.items()
            },
        )

    def _check_storage(self) -> None:
        """Tensors that grow are dense, and not scaled differently along an axis."""
        column = self.model.tensor_columns.column
        num_scales = column.children(4).ranges(2, 4)[1]
        is_sparse = column.field_positions(6) != 0
        for node in self.grown:
            row = self._row(node)
            is_packed = node.is_constant and node.tensor.element_type.bits % 8 != 0
            if num_scales[row] > 1 or is_sparse[row] or is_packed:
                raise Refusal(f"{_name(node)} is stored in a way that cannot be cut")

    def _row(self, node: Node) -> int:
        return int(self.model.tensor_ends[node.graph.index]) + node.tensor.tensor

    def _count(self, position: int, extent: Extent) -> None:
        if self.counted.setdefault(position, extent) != extent:
            raise Refusal(f"one number counts {self.counted[position]} and {extent}")

    def _count_shape(self, node: Node) -> None:
        signature = node.tensor.shape_signature
        rows = self.model.tensor_columns.shape_signature
        for axis, extent in node.extents.items():
            self._count(node.tensor.shape_at + 4 * axis, extent)
            if signature and signature[axis] == node.shape[axis]:
                position = int(rows.positions[self._row(node)])
                self._count(position + 4 * axis, extent)

    def _check_shapes(self) -> None:
        """No tensor that stays shares its shape's bytes with one that grows."""
        positions = self.model.tensor_columns.shape.positions
        shared = {node.tensor.shape_at: node.extents for node in self.grown}
        for graph, tensor in self._live(np.isin(positions, list(shared))):
            node = graph.node(tensor)
            if node.extents != shared[node.tensor.shape_at]:
                raise Refusal(f"{_name(node)} shares its shape with another")

    def _live(self, rows: np.ndarray[Any, Any]) -> Iterator[tuple[Graph, int]]:
        """Graph and index of the marked tensors of graphs in use."""
        for row in np.flatnonzero(rows).tolist():
            index = int(np.searchsorted(self.model.tensor_ends, row, "right")) - 1
            if index in self.live:
                graph = self.flow.graph(self.kind, index)
                yield graph, row - int(self.model.tensor_ends[index])

    def _sharing(self, buffer: int) -> Iterator[tuple[Graph, int]]:
        return self._live(self.model.tensor_columns.buffer == buffer)

    def _shorten(self, node: Node) -> None:
        """Count a constant's bytes, and have it cut unless it keeps its first ones."""
        buffer = node.tensor.buffer
        nbytes, kept = _stored(node)
        others = [graph.node(tensor) for graph, tensor in self._sharing(buffer)]
        different = next((it for it in others if _stored(it) != (nbytes, kept)), None)
        if different is not None:
            if kept is None and self._is_read_by_shape(node):
                return
            raise Refusal(f"{_name(node)} is shared with {_name(different)}")
        if size(nbytes, self.flow.tokens) != self.model.buffers.size[buffer]:
            raise Refusal(f"{_name(node)} has more bytes than it needs")
        self._count(self._length_at(buffer), nbytes)
        if kept is None:
            return
        if node.tensor.num_bytes > _MAX_CUT_BYTES:
            raise Refusal(f"{_name(node)} is too large to be cut")
        itemsize = node.tensor.element_type.bits // 8
        self.cuts[buffer] = Cut(int(self.model.buffers.first[buffer]), itemsize, kept)

    def _is_read_by_shape(self, node: Node) -> bool:
        """Whether no kernel copies all bytes of a constant, more than its shape needs.

        RESHAPE does, among others: that would run over the end of its output.
        """
        graph = node.graph
        takers = graph.around.get(node.tensor.tensor, ())
        return all(graph.operation(taker).name in BROADCAST for taker in takers)

    def _length_at(self, buffer: int) -> int:
        """Where the number of bytes of a buffer is stored."""
        if self.model.buffers.is_external[buffer]:
            sizes = Column.of(self.model.root, _BUFFERS).field_positions(_BUFFER_SIZE)
            return int(sizes[buffer])
        return int(self.model.buffers.first[buffer]) - 4

    def _count_constants(self) -> None:
        """Constants that operators take for lengths; all that use one must agree."""
        edited: dict[int, dict[int, Extent]] = {}
        itemsizes: dict[int, int] = {}
        for graph in self.graphs:
            for operation in graph.operations.values():
                for (slot, element), extent in operation.edits.items():
                    tensor = operation.input(slot).tensor
                    edited.setdefault(tensor.buffer, {})[element] = extent
                    itemsizes[tensor.buffer] = tensor.element_type.bits // 8
        for buffer, elements in edited.items():
            self._check_users(buffer, elements)
            first = int(self.model.buffers.first[buffer])
            for element, extent in elements.items():
                self._count(first + itemsizes[buffer] * element, extent)

    def _check_users(self, buffer: int, elements: Mapping[int, Extent]) -> None:
        for graph, tensor in self._sharing(buffer):
            for number in graph.around.get(tensor, ()):
                operation = graph.operation(number)
                for slot, node in enumerate(operation.inputs):
                    if node is None or node.tensor.tensor != tensor:
                        continue
                    edits = operation.edits.items()
                    found = {e: x for (s, e), x in edits if s == slot}
                    is_modulus = operation.name == "FLOOR_MOD" and slot == 1
                    if elements != found and not (is_modulus and elements == _WHOLE):
                        raise Refusal(
                            f"{_name(node)} counts other things in operator {number} "
                            f"({operation.name}) of graph {graph.index}"
                        )


def _stored(node: Node) -> tuple[Extent, tuple[Extent, ...] | None]:
    """What a constant's bytes count, and its axes if others than the first are kept."""
    if len(node.extents) != 1:
        if node.extents:
            raise Refusal(f"{_name(node)} grows along several axes")
        return (node.tensor.num_bytes,), None
    ((axis, extent),) = node.extents.items()
    others = math.prod(node.shape) // node.shape[axis]
    itemsize = node.tensor.element_type.bits // 8
    nbytes = tuple(piece * itemsize * others for piece in extent)
    if len(extent) == 1 and math.prod(node.shape[:axis]) == 1:
        return nbytes, None
    axes = (node[axis] for axis in range(len(node.shape)))
    return nbytes, tuple(extent for extent in axes if extent != (1,))


def _name(node: Node) -> str:
    return f"{node.tensor.name[:80]!r} of graph {node.graph.index}"


def _reachable(model: TfliteModel, index: int) -> set[int]:
    """A graph and all that it runs."""
    found, todo = {index}, [index]
    while todo:
        for operator in model.subgraphs[todo.pop()].operators:
            fields = CALLS.get(operator.code.builtin, ())
            options = operator.options2 if operator.options2[1] else operator.options
            for number in fields:
                inner = model.table(options[1]).scalar(number, "i", 0)
                if inner not in found:
                    found.add(inner)
                    todo.append(inner)
    return found
