"""Which axes of a model's tensors are as long as the KV cache, found by dataflow.

A length alone tells nothing: 256 may be a cache, a head or a vocabulary. So knowledge
starts at the states and is carried from tensor to tensor by what each operator means,
forwards and backwards, into composites and along the links between models, until
nothing new is learned. What an operator's rule does not allow ends it with a Refusal.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from litert_lm.bundle.tflite import TfliteModel
from litert_lm.executor.patching.graph import (
    COMPOSITE,
    Graph,
    Node,
    Operation,
    Refusal,
    Rule,
    none_grows,
)

__all__ = ["Flow"]

_COMPOSITE_GRAPH = 1  # field of StableHLOCompositeOptions

_Place = tuple[str, int, int]  # model type, graph, operator


class Flow:
    """The graphs of all models, and the operators that are still to be looked at.

    Args:
        models: verified models by their type.
        tokens: the cache's length as exported.
        rules: by the operator's name.
    """

    def __init__(
        self, models: Mapping[str, TfliteModel], tokens: int, rules: Mapping[str, Rule]
    ) -> None:
        self._models = models
        self.tokens = tokens
        self._rules = rules
        self._graphs: dict[tuple[str, int], Graph] = {}
        self._certain = _Queue()
        self._guesses = _Queue()

    def graph(self, kind: str, index: int) -> Graph:
        """Subgraph `index` of the model of type `kind`."""
        if (kind, index) not in self._graphs:
            made = Graph(kind, self._models[kind], index, self.tokens, self._changed)
            self._graphs[kind, index] = made
        return self._graphs[kind, index]

    def graphs(self, kind: str) -> list[Graph]:
        """The graphs of a model that were looked at."""
        return [graph for graph in self._graphs.values() if graph.kind == kind]

    def solve(self) -> None:
        """Draw all conclusions; raises Refusal where one is not allowed."""
        while self._certain or self._guesses:
            may_guess = not self._certain
            place = (self._guesses if may_guess else self._certain).pop()
            operation = self.graph(*place[:2]).operation(place[2])
            self._apply(operation, may_guess)
            if operation.is_waiting:
                self._guesses.push(place)

    def _changed(self, node: Node) -> None:
        """Have all operators looked at again that touch a tensor."""
        graph = node.graph
        for number in graph.around.get(node.tensor.tensor, ()):
            self._certain.push((graph.kind, graph.index, number))

    def _apply(self, operation: Operation, may_guess: bool) -> None:
        operation.may_guess, operation.is_waiting = may_guess, False
        try:
            if operation.name == COMPOSITE:
                self._enter(operation)
            else:
                self._rules.get(operation.name, _unknown)(operation)
        except Refusal as refusal:
            raise _in_words(operation, str(refusal)) from None
        except (LookupError, ValueError, ArithmeticError):
            # LiteRT would refuse such shapes; verifying leaves that to it.
            raise _in_words(operation, "its tensors do not fit together") from None

    def _enter(self, operation: Operation) -> None:
        """Link a composite to the graph that stands for it."""
        graph = self.graph(operation.graph.kind, operation.option(_COMPOSITE_GRAPH))
        inner = (*graph.subgraph.inputs, *graph.subgraph.outputs)
        outer = (*operation.inputs, *operation.outputs)
        for node, index in zip(outer, inner, strict=True):
            if node is not None:
                node.link(graph.node(index))


def _in_words(operation: Operation, why: str) -> Refusal:
    return Refusal(
        f"operator {operation.number} ({operation.name}) of graph "
        f"{operation.graph.index} of {operation.graph.kind}: {why}"
    )


def _unknown(operation: Operation) -> None:
    none_grows(operation, "it is not known what a shorter cache means to it")


class _Queue:
    """Places of operators, each once, the first in running order first."""

    def __init__(self) -> None:
        self._heap: list[_Place] = []
        self._members: set[_Place] = set()

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, place: _Place) -> None:
        if place not in self._members:
            self._members.add(place)
            heapq.heappush(self._heap, place)

    def pop(self) -> _Place:
        place = heapq.heappop(self._heap)
        self._members.remove(place)
        return place
