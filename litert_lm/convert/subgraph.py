"""One TFLite subgraph: its tensors, constants, signature and generic operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import ArrayLike, NDArray

from litert_lm.convert.quantize import Weight
from litert_lm.convert.tflite import ModelAuthor
from litert_lm.errors import InvalidArgumentError

__all__ = ["BOOL", "FLOAT32", "INT32", "SubgraphAuthor", "Tensor"]

FLOAT32: int = schema.TensorType.FLOAT32
INT32: int = schema.TensorType.INT32
BOOL: int = schema.TensorType.BOOL

_DTYPES: dict[str, int] = {
    "float32": FLOAT32,
    "float16": schema.TensorType.FLOAT16,
    "int8": schema.TensorType.INT8,
    "int16": schema.TensorType.INT16,
    "int32": INT32,
    "int64": schema.TensorType.INT64,
    "uint8": schema.TensorType.UINT8,
    "bool": BOOL,
}
# Constants up to this size are compared by content, larger ones by identity.
_SMALL_BYTES = 4096

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """A tensor of one subgraph; `dtype` is a number of the schema's TensorType."""

    index: int
    shape: Shape
    dtype: int


class SubgraphAuthor:
    """A subgraph of `model`, open for tensors and operators."""

    def __init__(self, model: ModelAuthor, name: str) -> None:
        self.model = model
        self.name = name
        self._graph = schema.SubGraphT(
            tensors=[], inputs=[], outputs=[], operators=[], name=name
        )
        self.index = model.add_subgraph(self._graph)
        self._small_constants: dict[tuple[str, Shape, bytes], Tensor] = {}
        self._held: dict[int, tuple[object, Tensor]] = {}

    # Tensors.

    def tensor(
        self,
        shape: Iterable[int],
        dtype: str | int = "float32",
        name: str | None = None,
        *,
        buffer: int = 0,
        quantization: Any = None,
        shape_signature: Sequence[int] | None = None,
    ) -> Tensor:
        """A new tensor; `dtype` is a numpy name or a number of the TensorType."""
        index = len(self._graph.tensors)
        new = Tensor(index, tuple(int(size) for size in shape), dtype_number(dtype))
        self._graph.tensors.append(
            schema.TensorT(
                shape=list(new.shape),
                type=new.dtype,
                buffer=buffer,
                name=name or f"{self.name}/{index}",
                quantization=quantization,
                shapeSignature=None if shape_signature is None else [*shape_signature],
                hasRank=True,
            )
        )
        return new

    def const(self, values: ArrayLike, dtype: str | None = None) -> Tensor:
        """A constant with the shape of `values`; small equal constants are one."""
        array = np.asarray(values, dtype)
        if array.nbytes > _SMALL_BYTES:
            return self._large_constant(array)
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._small_constants:
            buffer = self.model.content_buffer(array)
            self._small_constants[key] = self.tensor(
                array.shape, array.dtype.name, buffer=buffer
            )
        return self._small_constants[key]

    def _large_constant(self, array: NDArray[Any]) -> Tensor:
        if id(array) not in self._held:
            buffer = self.model.array_buffer(array)
            made = self.tensor(array.shape, array.dtype.name, buffer=buffer)
            self._held[id(array)] = (array, made)
        return self._held[id(array)][1]

    def weight(self, weight: Weight) -> Tensor:
        """A weight; subgraphs that are given the same object share its buffer."""
        if id(weight) not in self._held:
            made = self.tensor(
                weight.shape,
                weight.dtype,
                buffer=self.model.payload_buffer(weight.payload),
                quantization=self._quantization(weight),
            )
            self._held[id(weight)] = (weight, made)
        return self._held[id(weight)][1]

    def _quantization(self, weight: Weight) -> Any:
        scales = weight.scales
        if scales is None:
            return None
        if scales.ndim == 1:
            return self.model.channel_quantization(scales)
        details = schema.BlockwiseQuantizationT(
            scales=self._large_constant(scales).index,
            zeroPoints=-1,
            blockSize=weight.shape[1] // scales.shape[1],
        )
        return schema.QuantizationParametersT(
            detailsType=schema.QuantizationDetails.BlockwiseQuantization,
            details=details,
            quantizedDimension=0,
        )

    # The two ends of a subgraph.

    def set_io(self, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> None:
        """Declare the subgraph's inputs and outputs, in order."""
        self._graph.inputs = [tensor.index for tensor in inputs]
        self._graph.outputs = [tensor.index for tensor in outputs]

    def signature(
        self,
        inputs: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor],
        key: str | None = None,
    ) -> None:
        """Declare inputs and outputs and name them; `key` defaults to the name."""
        self.set_io(inputs.values(), outputs.values())
        self.model.add_signature(
            key or self.name,
            self.index,
            [(name, tensor.index) for name, tensor in inputs.items()],
            [(name, tensor.index) for name, tensor in outputs.items()],
        )

    # Operators.

    def op(
        self,
        operator: str,
        inputs: Sequence[Tensor | None],
        outputs: Sequence[tuple[Iterable[int], str | int]],
        options: str | None = None,
        *,
        version: int = 1,
        custom: tuple[str, bytes] | None = None,
        **fields: Any,
    ) -> list[Tensor]:
        """Add any operator and return its outputs.

        Args:
            operator: name in the schema's BuiltinOperator, such as "ADD".
            inputs: tensors in order; None stands for an optional input left out.
            outputs: shape and dtype of every output.
            options: name of the options table, such as "AddOptions", with `fields`.
            version: operator version.
            custom: code and options of a CUSTOM operator.
        """
        made = [self.tensor(shape, dtype) for shape, dtype in outputs]
        entry = schema.OperatorT(
            opcodeIndex=self.model.opcode_index(
                operator, custom[0] if custom else None, version
            ),
            inputs=[-1 if tensor is None else tensor.index for tensor in inputs],
            outputs=[tensor.index for tensor in made],
        )
        if custom is not None:
            entry.customOptions = np.frombuffer(custom[1], np.uint8)
        if options is not None:
            _set_options(entry, options, fields)
        self._graph.operators.append(entry)
        return made

    def one(
        self,
        operator: str,
        inputs: Sequence[Tensor | None],
        shape: Iterable[int],
        dtype: str | int,
        options: str | None = None,
        **fields: Any,
    ) -> Tensor:
        """Add an operator with a single output."""
        return self.op(operator, inputs, [(shape, dtype)], options, **fields)[0]

    def output_specs(self) -> list[tuple[list[int], int]]:
        """Shape and dtype of every declared output."""
        made = [self._graph.tensors[index] for index in self._graph.outputs]
        return [(list(tensor.shape), tensor.type) for tensor in made]


def dtype_number(dtype: str | int) -> int:
    if isinstance(dtype, int):
        return dtype
    if dtype not in _DTYPES:
        raise InvalidArgumentError(
            f"No TFLite tensor holds {dtype!r}; use one of {', '.join(_DTYPES)}."
        )
    return _DTYPES[dtype]


def _set_options(entry: Any, options: str, fields: Mapping[str, Any]) -> None:
    """Attach an options table; newer operators keep theirs in a second union."""
    table = getattr(schema, f"{options}T", None)
    first = getattr(schema.BuiltinOptions, options, None)
    second = getattr(schema.BuiltinOptions2, options, None)
    if table is None or (first is None and second is None):
        raise InvalidArgumentError(f"The TFLite schema has no options {options!r}.")
    value = table(**fields)
    if first is not None:
        entry.builtinOptionsType, entry.builtinOptions = first, value
    else:
        entry.builtinOptions2Type, entry.builtinOptions2 = second, value
