"""A TFLite model as read from its bytes: signatures, tensors, operators, buffers.

Everything is read on demand, so that the signatures of a large model cost a few
milliseconds. Reading checks that the bytes can be read; whether the graph makes sense
is for ``verify`` to say. Field numbers are those of the TFLite schema (schema.fbs).
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from litert_lm.bundle.columns import Column, Ints, Rows
from litert_lm.bundle.flatbuffer import Table
from litert_lm.bundle.tflite_types import (
    ELEMENT_TYPES,
    ElementType,
    Operator,
    OperatorCode,
    Signature,
    Tensor,
)
from litert_lm.errors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer

__all__ = [
    "ELEMENT_TYPES",
    "ElementType",
    "Operator",
    "OperatorCode",
    "Signature",
    "Subgraph",
    "Tensor",
    "TfliteModel",
    "read_tflite",
]

IDENTIFIER = b"TFL3"


class Buffers:
    """Where the constants lie: ``first`` and ``size`` in bytes of the model, per index.

    A buffer stored behind the FlatBuffer (``Buffer.offset`` above 1) is
    ``is_external``. Size 0 means that the tensor is computed.
    """

    def __init__(self, column: Column) -> None:
        first, size = column.ranges(0, 1)
        offset = column.scalars(1, "<u8", 0)
        length = column.scalars(2, "<u8", 0)
        self.is_external = (size == 0) & ((offset > 1) | (offset < 0))
        self.first: Ints = np.where(self.is_external, offset, first)
        self.size: Ints = np.where(self.is_external, length, size)

    def __len__(self) -> int:
        return len(self.first)


class TensorColumns:
    """Fields of tensors, one array each."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.shape: Rows = column.rows(0, "<i4")
        self.type_code: Ints = column.scalars(1, "i1", 0)
        self.buffer: Ints = column.scalars(2, "<u4", 0)
        self.is_variable: Ints = column.scalars(5, "u1", 0)
        self.shape_signature: Rows = column.rows(7, "<i4")

    def __len__(self) -> int:
        return len(self.column)

    @cached_property
    def _fields(self) -> list[list[Any]]:
        signatures = self.shape_signature.tuples()
        present = self.shape_signature.positions.tolist()
        return [
            self.shape.tuples(),
            [row if at else None for row, at in zip(signatures, present, strict=True)],
            self.type_code.tolist(),
            self.buffer.tolist(),
            [bool(flag) for flag in self.is_variable.tolist()],
            self.shape.positions.tolist(),
        ]

    def specs(
        self, rows: slice, names: Sequence[str | None], indices: Iterable[int]
    ) -> tuple[Tensor, ...]:
        """The tensors of ``rows`` under the given names and indices."""
        fields = [field[rows] for field in self._fields]
        return tuple(map(Tensor._make, zip(names, indices, *fields, strict=True)))


class OperatorColumns:
    """Fields of all operators of a model, one array each."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self.opcode: Ints = column.scalars(0, "<u4", 0)
        self.inputs: Rows = column.rows(1, "<i4")
        self.outputs: Rows = column.rows(2, "<i4")
        self.options_type: Ints = column.scalars(3, "u1", 0)
        self.options: Ints = column.children(4).positions
        self.options2_type: Ints = column.scalars(11, "u1", 0)
        self.options2: Ints = column.children(12).positions

    def __len__(self) -> int:
        return len(self.column)

    @cached_property
    def _fields(self) -> list[list[Any]]:
        pairs = (
            (self.options_type.tolist(), self.options.tolist()),
            (self.options2_type.tolist(), self.options2.tolist()),
        )
        unions = [list(zip(*pair, strict=True)) for pair in pairs]
        return [self.inputs.tuples(), self.outputs.tuples(), *unions]

    def operators(
        self, rows: slice, codes: Sequence[OperatorCode]
    ) -> tuple[Operator, ...]:
        """The operators of ``rows``; their code numbers must be among ``codes``."""
        chosen = [codes[number] for number in self.opcode[rows].tolist()]
        fields = [field[rows] for field in self._fields]
        return tuple(map(Operator._make, zip(chosen, *fields, strict=True)))


class Subgraph:
    """One graph: its tensors, operators, inputs and outputs."""

    def __init__(
        self, model: TfliteModel, index: int, ends: tuple[Sequence[int], Sequence[int]]
    ) -> None:
        self._model = model
        self.index = index
        self.inputs, self.outputs = map(tuple, ends)

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors by index."""
        first, last = self._model.tensor_ends[self.index : self.index + 2].tolist()
        rows = slice(first, last)
        names = [name or "" for name in self._model.tensor_names[rows]]
        return self._model.tensor_columns.specs(rows, names, range(last - first))

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """All operators in the order in which they run."""
        first, last = self._model.operator_ends[self.index : self.index + 2].tolist()
        return self._model.operator_columns.operators(
            slice(first, last), self._model.operator_codes
        )


class TfliteModel:
    """A model's parts, read when asked for. ``what`` names it in messages.

    ``tensor_columns`` and ``operator_columns`` hold those of all graphs in a row; graph
    ``i`` has rows ``tensor_ends[i]`` up to ``tensor_ends[i + 1]``.
    """

    def __init__(self, root: Table) -> None:
        self.root = root
        self.what = root.source.what
        self.data = root.source.data
        self.version = root.scalar(0, "I", 0)

    def table(self, position: int) -> Table:
        """The table at a position, such as that of an operator's options."""
        return Table(self.root.source, position)

    def damaged(self, problem: str) -> ModelFileError:
        """The error that says so."""
        return ModelFileError(f"{self.what} is damaged: {problem}; get the file again.")

    @cached_property
    def operator_codes(self) -> tuple[OperatorCode, ...]:
        """The kinds of operators in use."""
        codes = []
        for table in self.root.tables(1):
            builtin = max(table.scalar(0, "b", 0), table.scalar(3, "i", 0))
            custom = table.string(1) or ""
            codes.append(OperatorCode(builtin, custom, table.scalar(2, "i", 1)))
        return tuple(codes)

    @cached_property
    def graphs(self) -> Column:
        """The tables of the subgraphs."""
        return Column.of(self.root, 2)

    @cached_property
    def _tensors(self) -> tuple[Column, Ints]:
        return self.graphs.flat(0)

    @cached_property
    def tensor_columns(self) -> TensorColumns:
        """The tensors of all subgraphs."""
        return TensorColumns(self._tensors[0])

    @cached_property
    def tensor_ends(self) -> Ints:
        """Where each subgraph's tensors begin, and at last where they end."""
        return np.concatenate(([0], np.cumsum(self._tensors[1])))

    @cached_property
    def tensor_names(self) -> list[str | None]:
        """The graphs' own names of all tensors."""
        return self._tensors[0].strings(3)

    def tensor_name(self, row: int) -> str:
        """The graph's own name of one tensor; empty where it is absent or damaged."""
        try:
            return self.table(int(self._tensors[0].positions[row])).string(3) or ""
        except ModelFileError:
            return ""

    @cached_property
    def _operators(self) -> tuple[OperatorColumns, Ints]:
        column, counts = self.graphs.flat(3)
        columns = OperatorColumns(column)
        if columns.opcode.max(initial=-1) >= len(self.operator_codes):
            raise self.damaged(
                f"operator code {columns.opcode.max()} of {len(self.operator_codes)}"
            )
        return columns, np.concatenate(([0], np.cumsum(counts)))

    @cached_property
    def operator_columns(self) -> OperatorColumns:
        """The operators of all subgraphs."""
        return self._operators[0]

    @cached_property
    def operator_ends(self) -> Ints:
        """Where each subgraph's operators begin, and at last where they end."""
        return self._operators[1]

    @cached_property
    def subgraphs(self) -> tuple[Subgraph, ...]:
        """The graphs; those of composites and control flow are among them."""
        ends = [self.graphs.rows(field, "<i4").tuples() for field in (1, 2)]
        numbered = enumerate(zip(*ends, strict=True))
        return tuple(Subgraph(self, index, pair) for index, pair in numbered)

    @cached_property
    def buffers(self) -> Buffers:
        """Where the constants lie."""
        return Buffers(Column.of(self.root, 4))

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        """The entry points, with the shape and type of every input and output.

        Raises ModelFileError where one lacks its key, a graph, a tensor or a name.
        """
        column = Column.of(self.root, 7)
        keys = column.strings(2)
        graphs = column.scalars(4, "<u4", 0)
        if graphs.max(initial=-1) >= len(self.graphs) or None in keys:
            raise self.damaged(f"signatures {keys} run graphs {graphs.tolist()}")
        inputs, outputs = (self._signature_tensors(column, graphs, f) for f in (0, 1))
        names = [key or "" for key in keys]
        return tuple(map(Signature, names, graphs.tolist(), inputs, outputs))

    def _signature_tensors(
        self, column: Column, graphs: Ints, field: int
    ) -> list[tuple[Tensor, ...]]:
        maps, counts = column.flat(field)
        names = maps.strings(0)
        if not all(names):
            raise self.damaged("a signature has a tensor without a name")
        indices = maps.scalars(1, "<u4", 0)
        first, available = self.graphs.ranges(0, 4)
        owner = np.repeat(graphs, counts)
        if (indices >= available[owner]).any():
            raise self.damaged("a signature names a tensor that its graph lacks")
        slots = first[owner] + 4 * indices
        columns = TensorColumns(Column.at(self.root.source, slots))
        ends = np.concatenate(([0], np.cumsum(counts))).tolist()
        rows = [slice(*pair) for pair in itertools.pairwise(ends)]
        numbers = indices.tolist()
        return [columns.specs(row, names[row], numbers[row]) for row in rows]

    def constant(self, tensor: Tensor) -> memoryview | None:
        """The bytes stored for a tensor, None where it is computed."""
        if not 0 <= tensor.buffer < len(self.buffers):
            return None
        first = int(self.buffers.first[tensor.buffer])
        size = int(self.buffers.size[tensor.buffer])
        if not size or not 0 <= first <= len(self.data) - size:
            return None
        return self.data[first : first + size]


def read_tflite(data: Buffer, what: str) -> TfliteModel:
    """Opens the TFLite model in ``data``, which is neither copied nor read through.

    ``what`` names the bytes in error messages. Raises ModelFileError where the bytes
    are no TFLite model or cannot be read; parts are read, and checked, on first use.
    """
    return TfliteModel(Table.root(data, IDENTIFIER, what))
