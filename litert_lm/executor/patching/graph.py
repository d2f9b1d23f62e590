"""Tensors and operators of a graph, as the rules about cache lengths see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np

from litert_lm.bundle.operators import operator_name
from litert_lm.bundle.tflite import Subgraph, TfliteModel
from litert_lm.bundle.tflite_types import Tensor
from litert_lm.executor.patching.extents import Extent, grows, size

__all__ = [
    "COMPOSITE",
    "Graph",
    "Node",
    "Operation",
    "Refusal",
    "Rule",
    "fixed",
    "none_grows",
    "same",
]

COMPOSITE = "STABLEHLO_COMPOSITE"
_INTEGERS = {2: "<i4", 4: "<i8"}
_MAX_BYTES = 256  # of a constant that counts axes: two 64-bit numbers for each


class Refusal(Exception):
    """Why a graph cannot be given another cache length."""


class Node:
    """A tensor; ``extents`` has the axes that are known to grow with the cache."""

    __slots__ = ("extents", "graph", "is_constant", "links", "shape", "tensor")

    def __init__(self, graph: Graph, tensor: Tensor) -> None:
        self.graph = graph
        self.tensor = tensor
        self.shape = tensor.shape
        self.is_constant = graph.model.constant(tensor) is not None
        self.extents: dict[int, Extent] = {}
        self.links: list[Node] = []

    def __getitem__(self, axis: int) -> Extent:
        return self.extents.get(axis % len(self.shape)) or (self.shape[axis],)

    def learn(self, axis: int, extent: Extent) -> None:
        """Take note of an axis' extent; Refusal where it contradicts what is known."""
        axis %= len(self.shape)
        known = self[axis]
        if extent == known:
            return
        if grows(known) or size(extent, self.graph.tokens) != self.shape[axis]:
            raise Refusal(
                f"axis {axis} of {self.tensor.name[:80]!r} is {known} here and "
                f"{extent} there"
            )
        self.extents[axis] = extent
        self.graph.changed(self)
        for twin in self.links:
            twin.learn(axis, extent)

    def link(self, other: Node) -> None:
        """Both are the same value: what is learned of one holds for the other."""
        if other in self.links:
            return
        if self.shape != other.shape:
            raise Refusal(
                f"{self.tensor.name[:80]!r} and {other.tensor.name[:80]!r} differ "
                "in shape"
            )
        self.links.append(other)
        other.links.append(self)
        for node, twin in ((self, other), (other, self)):
            for axis, extent in tuple(node.extents.items()):
                twin.learn(axis, extent)


def same(axes: Iterable[tuple[Node, int]]) -> None:
    """These axes of nodes have one extent."""
    pairs = list(axes)
    for node, axis in pairs:
        if grows(node[axis]):
            for other, place in pairs:
                other.learn(place, node[axis])
            return


def fixed(node: Node, axes: Iterable[int], why: str) -> None:
    """Refuses if one of the axes grows."""
    if any(grows(node[axis]) for axis in axes):
        raise Refusal(why)


def none_grows(operation: Operation, why: str) -> None:
    """Refuses if any axis of the operator's tensors grows."""
    if any(node.extents for node in operation.nodes()):
        raise Refusal(why)


class Operation:
    """One operator of a graph with its tensors.

    Attributes:
        inputs: by slot, None where left out.
        may_guess: all certain knowledge has been drawn; the rule may take axes that
            it knows nothing about for fixed ones.
        is_waiting: set by a rule that could go on by such a guess.
        edits: (input slot, element) -> what that number of a constant counts.
    """

    def __init__(self, graph: Graph, number: int) -> None:
        operator = graph.subgraph.operators[number]
        self.graph = graph
        self.number = number
        self.name = operator_name(operator.code.builtin)
        self.inputs = [graph.node(i) if i >= 0 else None for i in operator.inputs]
        self.outputs = [graph.node(i) for i in operator.outputs]
        self.may_guess = False
        self.is_waiting = False
        self.edits: dict[tuple[int, int], Extent] = {}
        union = operator.options2 if self.name == COMPOSITE else operator.options
        self._options = union[1]

    @property
    def tokens(self) -> int:
        """Tokens of the cache as exported."""
        return self.graph.tokens

    def nodes(self) -> Iterator[Node]:
        """All tensors, inputs first."""
        yield from (node for node in self.inputs if node is not None)
        yield from self.outputs

    def input(self, slot: int) -> Node:
        """An input that must be there."""
        node = self.inputs[slot] if slot < len(self.inputs) else None
        if node is None:
            raise Refusal(f"input {slot} is left out")
        return node

    def option(self, field: int, code: str = "i", default: int = 0) -> int:
        """A number among the builtin options."""
        if not self._options:
            return default
        return self.graph.model.table(self._options).scalar(field, code, default)

    def flag(self, field: int) -> bool:
        """A yes or no among the builtin options."""
        return bool(self.option(field, "?"))

    def values(self, slot: int) -> list[int] | None:
        """The numbers of a constant integer input; None where it is computed."""
        node = self.input(slot)
        data = self.graph.model.constant(node.tensor)
        dtype = _INTEGERS.get(node.tensor.type_code)
        if data is None or dtype is None or node.tensor.num_bytes > _MAX_BYTES:
            return None
        values: list[int] = np.frombuffer(data[: node.tensor.num_bytes], dtype).tolist()
        return values

    def edit(self, slot: int, element: int, extent: Extent) -> None:
        """Number `element` of constant `slot` counts what `extent` says, if it grows.

        -1, which operators take for "whatever is there", stays.
        """
        if not grows(extent):
            return
        values = self.values(slot)
        if values is None:
            raise Refusal(f"input {slot} is computed")
        if values[element] == -1:
            return
        if values[element] != size(extent, self.tokens):
            raise Refusal(f"input {slot} holds {values[element]} for {extent}")
        self.edits[slot, element] = extent

    def needs(self, tokens: int) -> None:
        """The graph cannot run with a cache of fewer than `tokens` tokens."""
        self.graph.least = max(self.graph.least, tokens)


Rule: TypeAlias = Callable[[Operation], None]


class Graph:
    """A subgraph of the model of type `kind`.

    Attributes:
        tokens: tokens of the cache as exported.
        least: tokens of the shortest cache that it can run with.
        changed: called with a node of which something was learned.
    """

    def __init__(
        self,
        kind: str,
        model: TfliteModel,
        index: int,
        tokens: int,
        changed: Callable[[Node], None],
    ) -> None:
        self.kind = kind
        self.model = model
        self.index = index
        self.tokens = tokens
        self.changed = changed
        self.subgraph: Subgraph = model.subgraphs[index]
        self.least = 1
        self.nodes: dict[int, Node] = {}
        self.operations: dict[int, Operation] = {}

    def node(self, index: int) -> Node:
        """The tensor `index`."""
        if index not in self.nodes:
            self.nodes[index] = Node(self, self.subgraph.tensors[index])
        return self.nodes[index]

    def operation(self, number: int) -> Operation:
        """The operator `number`."""
        if number not in self.operations:
            self.operations[number] = Operation(self, number)
        return self.operations[number]

    @cached_property
    def around(self) -> Mapping[int, list[int]]:
        """Tensor -> the operators that make or take it."""
        found: dict[int, list[int]] = {}
        for number, operator in enumerate(self.subgraph.operators):
            for index in {*operator.inputs, *operator.outputs}:
                found.setdefault(index, []).append(number)
        return found
