"""Which operator makes and takes which tensor, in arrays over a whole model.

Tensors are numbered through all graphs: tensor ``t`` of graph ``g`` is
``model.tensor_ends[g] + t``. So are operators.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from litert_lm.bundle.operators import operator_name
from litert_lm.bundle.tflite_types import ELEMENT_TYPES

if TYPE_CHECKING:
    from litert_lm.bundle.columns import Bools, Column, Floats, Ints, Rows
    from litert_lm.bundle.tflite import TfliteModel
    from litert_lm.errors import ModelFileError

MAX_RANK = 8
"""LiteRT's layouts have room for eight dimensions."""

NEVER = np.iinfo(np.int64).max


class Edges:
    """One side of the operators: which ``tensor`` is at ``slot`` of ``operator``.

    ``tensor`` is numbered through the model, or -1 where an input is left out.
    """

    def __init__(self, wiring: Wiring, rows: Rows) -> None:
        self.operator: Ints = np.repeat(np.arange(len(rows.counts)), rows.counts)
        self.slot: Ints = np.arange(len(self.operator)) - np.repeat(
            rows.starts, rows.counts
        )
        graph = wiring.operator_graph[self.operator]
        model = wiring.model
        missing = (rows.values < -1) | (rows.values >= wiring.num_tensors[graph])
        wiring.reject_operators(
            self.operator[missing], "names a tensor that its graph does not have"
        )
        self.tensor: Ints = np.where(
            rows.values < 0, -1, model.tensor_ends[graph] + rows.values
        )

    def of(self, operator: int) -> Ints:
        """The tensors of one operator by slot."""
        begin, end = np.searchsorted(self.operator, (operator, operator + 1))
        return self.tensor[begin:end]


class Wiring:
    """The arrays, each made when first asked for."""

    def __init__(self, model: TfliteModel) -> None:
        self.model = model
        self.num_tensors: Ints = np.diff(model.tensor_ends)
        counts = np.diff(model.operator_ends)
        self.operator_graph: Ints = np.repeat(np.arange(len(counts)), counts)
        codes = [code.builtin for code in model.operator_codes]
        opcode = model.operator_columns.opcode
        self.builtin: Ints = np.array(codes, np.int64)[opcode]

    @cached_property
    def inputs(self) -> Edges:
        """What the operators take."""
        return Edges(self, self.model.operator_columns.inputs)

    @cached_property
    def outputs(self) -> Edges:
        """What the operators make."""
        return Edges(self, self.model.operator_columns.outputs)

    @cached_property
    def ranks(self) -> Ints:
        """Number of dimensions of each tensor."""
        return self.model.tensor_columns.shape.counts

    @cached_property
    def shapes(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Shape of each tensor, int64 [tensors, MAX_RANK], filled up with ones."""
        rows = self.model.tensor_columns.shape
        table = np.ones((len(rows.counts), MAX_RANK), np.int64)
        row = np.repeat(np.arange(len(rows.counts)), rows.counts)
        axis = np.arange(len(row)) - np.repeat(rows.starts, rows.counts)
        kept = axis < MAX_RANK
        table[row[kept], axis[kept]] = rows.values[kept]
        return table

    @cached_property
    def num_elements(self) -> Floats:
        """Elements of each tensor as float64, which does not overflow."""
        product: Floats
        product = np.prod(self.shapes.astype(np.float64), axis=1)
        return product

    @cached_property
    def element_bits(self) -> Ints:
        """Bits of one element of each tensor; -1 for an unknown type."""
        known = np.full(256, -1, np.int64)
        for code, element in ELEMENT_TYPES.items():
            known[code] = element.bits
        bits: Ints = known[self.model.tensor_columns.type_code & 0xFF]
        return bits

    @cached_property
    def quantization(self) -> Column:
        """The quantisation of each tensor."""
        return self.model.tensor_columns.column.children(4)

    @cached_property
    def scales(self) -> Floats:
        """The first scale of each tensor, 0 where it has none."""
        return self.quantization.first_numbers(2, "<f4")

    @cached_property
    def is_constant(self) -> Bools:
        """Tensors that have bytes in the file; none for a buffer out of range."""
        sizes = np.append(self.model.buffers.size, 0)
        return sizes[np.minimum(self.model.tensor_columns.buffer, len(sizes) - 1)] > 0

    @cached_property
    def made_by(self) -> Ints:
        """Number of the operator that makes each tensor.

        -1 where it is there from the start (constant, graph input, variable, without
        any element), NEVER where nothing makes it.
        """
        given = self.is_constant | (self.model.tensor_columns.is_variable != 0)
        made = np.where(given | (self.num_elements == 0), -1, NEVER)
        for graph in self.model.subgraphs:
            first = int(self.model.tensor_ends[graph.index])
            made[[first + tensor for tensor in graph.inputs]] = -1
        made[self.outputs.tensor] = self.outputs.operator
        return made

    def input_at(self, operators: Ints, slot: int) -> Ints:
        """The tensor in one input slot of each operator, which must have that many."""
        starts = self.model.operator_columns.inputs.starts
        tensor: Ints = self.inputs.tensor[starts[operators] + slot]
        return tensor

    def output_at(self, operators: Ints, slot: int) -> Ints:
        """The tensor in one output slot of each operator, which must have that many."""
        starts = self.model.operator_columns.outputs.starts
        tensor: Ints = self.outputs.tensor[starts[operators] + slot]
        return tensor

    def small_constant(self, tensor: int) -> list[float] | None:
        """The numbers of a constant int32, int64 or float32 tensor, at most a few."""
        columns, buffers = self.model.tensor_columns, self.model.buffers
        code = ELEMENT_TYPES[int(columns.type_code[tensor])].numpy
        if code not in ("<i4", "<i8", "<f4") or not self.is_constant[tensor]:
            return None
        first, size = (
            int(values[columns.buffer[tensor]])
            for values in (buffers.first, buffers.size)
        )
        data = self.model.data[first : first + min(size, 64)]
        found: list[float] = np.frombuffer(data, code).tolist()
        return found

    def operator_text(self, operator: int) -> str:
        """An operator in words."""
        graph = int(self.operator_graph[operator])
        number = operator - int(self.model.operator_ends[graph])
        name = operator_name(int(self.builtin[operator]))
        return f"operator {number} ({name}) of {self.graph_text(graph)}"

    def tensor_text(self, tensor: int) -> str:
        """A tensor in words."""
        graph = int(np.searchsorted(self.model.tensor_ends, tensor, "right")) - 1
        number = tensor - int(self.model.tensor_ends[graph])
        name = self.model.tensor_name(tensor)
        return f"tensor {number} ({name[:80]!r}) of {self.graph_text(graph)}"

    def graph_text(self, graph: int) -> str:
        """A graph in words: the signature that runs it, or its number."""
        keys = [item.key for item in self.model.signatures if item.subgraph == graph]
        return f"signature {keys[0]!r}" if keys else f"graph {graph}"

    def reject_operators(self, operators: Ints, problem: str) -> None:
        """Raises for the first of the operators, if there is any."""
        if len(operators):
            text = self.operator_text(int(operators[0]))
            raise self.damaged(f"{text} {problem}")

    def reject_tensors(self, wrong: Bools, problem: str) -> None:
        """Raises for the first tensor that is marked, if there is any."""
        found = np.flatnonzero(wrong)
        if len(found):
            raise self.damaged(f"{self.tensor_text(int(found[0]))} {problem}")

    def damaged(self, problem: str) -> ModelFileError:
        """The error for a graph that does not hold together."""
        return self.model.damaged(problem)
