"""Rules for operators that run other graphs of the model: composites, IF, WHILE."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from litert_lm.bundle.flexbuffer import is_sound
from litert_lm.bundle.operators import Builtin

if TYPE_CHECKING:
    from litert_lm.bundle.columns import Ints
    from litert_lm.bundle.wiring import Wiring

__all__ = ["CALLS", "check_calls"]

IF, WHILE = Builtin["IF"], Builtin["WHILE"]
COMPOSITE = Builtin["STABLEHLO_COMPOSITE"]

CALLS: dict[int, tuple[int, ...]] = {
    IF: (0, 1),
    WHILE: (0, 1),
    COMPOSITE: (1,),
    Builtin["CALL_ONCE"]: (0,),
}
"""Option fields that hold the number of a graph to run."""


def check_calls(wiring: Wiring) -> None:
    """Graphs that operators run exist, fit to them, and never run themselves."""
    callers = np.flatnonzero(np.isin(wiring.builtin, list(CALLS)))
    called: dict[int, set[int]] = {}
    sound: set[bytes] = set()
    for operator in callers.tolist():
        graphs = _graphs_called(wiring, operator)
        _check_tensors(wiring, operator, graphs)
        if int(wiring.builtin[operator]) == COMPOSITE:
            _check_attributes(wiring, operator, sound)
        graph = int(wiring.operator_graph[operator])
        called.setdefault(graph, set()).update(graphs)
    _check_no_recursion(wiring, called)


def _graphs_called(wiring: Wiring, operator: int) -> list[int]:
    builtin = int(wiring.builtin[operator])
    columns = wiring.model.operator_columns
    at = columns.options2 if builtin == COMPOSITE else columns.options
    if not at[operator]:
        raise wiring.damaged(f"{wiring.operator_text(operator)} has no options")
    options = wiring.model.table(int(at[operator]))
    graphs = [options.scalar(field, "i", 0) for field in CALLS[builtin]]
    for number in graphs:
        if not 0 <= number < len(wiring.model.subgraphs):
            text = wiring.operator_text(operator)
            raise wiring.damaged(f"{text} runs graph {number}, which does not exist")
    return graphs


def _check_attributes(wiring: Wiring, operator: int, sound: set[bytes]) -> None:
    """A composite's attributes can be read; ``sound`` holds those that were checked."""
    options = wiring.model.table(int(wiring.model.operator_columns.options2[operator]))
    attributes = bytes(options.bytes(2))
    if attributes not in sound and not is_sound(attributes):
        text = wiring.operator_text(operator)
        raise wiring.damaged(f"{text} has attributes that cannot be read")
    sound.add(attributes)


def _check_tensors(wiring: Wiring, operator: int, graphs: list[int]) -> None:
    """The graphs take and give tensors of the operator's types."""
    codes = wiring.model.tensor_columns.type_code
    for number, outer, inner in _pairs(wiring, operator, graphs):
        if len(outer) != len(inner) or (codes[outer] != codes[inner]).any():
            text = wiring.operator_text(operator)
            raise wiring.damaged(f"{text} and graph {number} differ in their tensors")


def _pairs(
    wiring: Wiring, operator: int, graphs: list[int]
) -> Iterator[tuple[int, Ints, Ints]]:
    """Graph number, tensors of the operator, and those of the graph they stand for."""
    builtin = int(wiring.builtin[operator])
    inputs, outputs = wiring.inputs.of(operator), wiring.outputs.of(operator)
    if builtin == IF:
        inputs = inputs[1:]  # the first is the condition
    for position, number in enumerate(graphs):
        graph = wiring.model.subgraphs[number]
        first = int(wiring.model.tensor_ends[number])
        yield number, inputs, first + np.array(graph.inputs, np.int64)
        if builtin != WHILE or position == 1:  # the condition gives a boolean instead
            yield number, outputs, first + np.array(graph.outputs, np.int64)


def _check_no_recursion(wiring: Wiring, called: dict[int, set[int]]) -> None:
    """Raises where a graph runs itself, directly or through others."""
    done: set[int] = set()
    while called:
        leaves = {graph for graph, inner in called.items() if not inner - done}
        leaves |= set().union(*called.values()) - called.keys() - done
        if not leaves:
            raise wiring.damaged(f"graph {min(called)} runs itself")
        done |= leaves
        called = {graph: inner for graph, inner in called.items() if graph not in done}
