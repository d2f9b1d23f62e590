"""Author a TFLite subgraph: one method per operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from litert_lm.convert.subgraph import (
    BOOL,
    FLOAT32,
    SubgraphAuthor,
    Tensor,
    dtype_number,
)

__all__ = ["GraphAuthor", "Tensor"]


class GraphAuthor(SubgraphAuthor):
    """One subgraph of a model. Every operator method returns its output tensor."""

    def unary(self, operator: str, x: Tensor) -> Tensor:
        """An element-wise operator without options, such as "SQRT" or "NEG"."""
        return self.one(operator, [x], x.shape, x.dtype)

    def binary(
        self, operator: str, a: Tensor, b: Tensor, options: str | None = None
    ) -> Tensor:
        """An element-wise operator of two broadcast tensors, same dtype out."""
        return self.one(operator, [a, b], _broadcast(a, b), a.dtype, options)

    def compare(self, operator: str, a: Tensor, b: Tensor) -> Tensor:
        """A comparison such as "LESS" or "GREATER_EQUAL" of broadcast tensors: bool."""
        return self.one(operator, [a, b], _broadcast(a, b), BOOL)

    def add(self, a: Tensor, b: Tensor) -> Tensor:
        return self.binary("ADD", a, b, "AddOptions")

    def sub(self, a: Tensor, b: Tensor) -> Tensor:
        return self.binary("SUB", a, b, "SubOptions")

    def mul(self, a: Tensor, b: Tensor) -> Tensor:
        return self.binary("MUL", a, b, "MulOptions")

    def maximum(self, a: Tensor, b: Tensor) -> Tensor:
        return self.binary("MAXIMUM", a, b, "MaximumMinimumOptions")

    def minimum(self, a: Tensor, b: Tensor) -> Tensor:
        return self.binary("MINIMUM", a, b, "MaximumMinimumOptions")

    def logistic(self, x: Tensor) -> Tensor:
        return self.unary("LOGISTIC", x)

    def rsqrt(self, x: Tensor) -> Tensor:
        return self.unary("RSQRT", x)

    def square(self, x: Tensor) -> Tensor:
        return self.unary("SQUARE", x)

    def cos(self, x: Tensor) -> Tensor:
        return self.unary("COS", x)

    def sin(self, x: Tensor) -> Tensor:
        return self.unary("SIN", x)

    def softmax(self, x: Tensor) -> Tensor:
        """Softmax over the last axis."""
        return self.one("SOFTMAX", [x], x.shape, x.dtype, "SoftmaxOptions", beta=1.0)

    def reduce(
        self, operator: str, x: Tensor, axes: Sequence[int], *, keep_dims: bool = True
    ) -> Tensor:
        """ "MEAN", "SUM", "REDUCE_MIN", "REDUCE_MAX" ... over `axes`."""
        positive = sorted({axis % len(x.shape) for axis in axes})
        shape = [
            1 if axis in positive else size
            for axis, size in enumerate(x.shape)
            if keep_dims or axis not in positive
        ]
        return self.one(
            operator,
            [x, self.const(positive, "int32")],
            shape,
            x.dtype,
            "ReducerOptions",
            keepDims=keep_dims,
        )

    def mean(self, x: Tensor) -> Tensor:
        """Mean over the last axis, which stays with size 1."""
        return self.reduce("MEAN", x, [-1])

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Another shape of the same number of elements; no -1."""
        target = self.const(list(shape), "int32")
        return self.one(
            "RESHAPE",
            [x, target],
            shape,
            x.dtype,
            "ReshapeOptions",
            newShape=list(shape),
        )

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Axes in another order, as numpy.transpose."""
        shape = [x.shape[axis] for axis in axes]
        order = self.const(list(axes), "int32")
        return self.one("TRANSPOSE", [x, order], shape, x.dtype, "TransposeOptions")

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Parts joined along `axis` (counted from the front or, negative, the end)."""
        shape = list(parts[0].shape)
        axis %= len(shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.one(
            "CONCATENATION",
            parts,
            shape,
            parts[0].dtype,
            "ConcatenationOptions",
            axis=axis,
        )

    def slice(self, x: Tensor, begin: Sequence[int], size: Sequence[int]) -> Tensor:
        """The block of `size` that starts at `begin`; no -1."""
        ends = [self.const(list(begin), "int32"), self.const(list(size), "int32")]
        return self.one("SLICE", [x, *ends], size, x.dtype, "SliceOptions")

    def dynamic_update_slice(self, x: Tensor, update: Tensor, start: Tensor) -> Tensor:
        """`x` with `update` written at `start` (i32, one index per axis).

        LiteRT moves a start that would run over the end back, without an error.
        """
        return self.one(
            "DYNAMIC_UPDATE_SLICE",
            [x, update, start],
            x.shape,
            x.dtype,
            "DynamicUpdateSliceOptions",
        )

    def cast(self, x: Tensor, dtype: str | int) -> Tensor:
        return self.one(
            "CAST",
            [x],
            x.shape,
            dtype,
            "CastOptions",
            inDataType=x.dtype,
            outDataType=dtype_number(dtype),
        )

    def select(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """`a` where `condition` (bool) holds, else `b`; all three broadcast."""
        shape = np.broadcast_shapes(condition.shape, a.shape, b.shape)
        return self.one(
            "SELECT_V2", [condition, a, b], shape, a.dtype, "SelectV2Options"
        )

    def embedding_lookup(self, ids: Tensor, table: Tensor) -> Tensor:
        """Rows of `table` [V, D] for `ids` i32[N]: f32[N, D], also if quantised."""
        shape = ids.shape + table.shape[1:]
        return self.one("EMBEDDING_LOOKUP", [ids, table], shape, FLOAT32)

    def gather(self, table: Tensor, indices: Tensor) -> Tensor:
        """Entries of `table` along its first axis."""
        shape = indices.shape + table.shape[1:]
        return self.one(
            "GATHER", [table, indices], shape, table.dtype, "GatherOptions", axis=0
        )

    def fully_connected(
        self, x: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        """x [..., I] times weight [O, I] transposed, plus bias [O]: f32[..., O]."""
        return self.one(
            "FULLY_CONNECTED",
            [x, weight, bias],
            (*x.shape[:-1], weight.shape[0]),
            FLOAT32,
            "FullyConnectedOptions",
            keepNumDims=True,
        )

    def batch_matmul(
        self, a: Tensor, b: Tensor, *, transpose_b: bool = False
    ) -> Tensor:
        """a [..., M, K] times b [..., K, N], or b [..., N, K] when `transpose_b`."""
        columns = b.shape[-2] if transpose_b else b.shape[-1]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return self.one(
            "BATCH_MATMUL",
            [a, b],
            (*batch, a.shape[-2], columns),
            a.dtype,
            "BatchMatMulOptions",
            adjY=transpose_b,
        )

    def custom(
        self,
        code: str,
        inputs: Sequence[Tensor],
        outputs: Sequence[tuple[Iterable[int], str | int]],
        options: bytes = b"",
    ) -> list[Tensor]:
        """An operator that the runtime knows by the name `code`."""
        return self.op("CUSTOM", inputs, outputs, custom=(code, options))

    def composite(
        self,
        name: str,
        inputs: Sequence[Tensor],
        decomposition: GraphAuthor,
        attributes: Mapping[str, Any] | None = None,
    ) -> list[Tensor]:
        """A STABLEHLO_COMPOSITE that runs `decomposition` where `name` is unknown."""
        packed = bytes(flexbuffers.Dumps(dict(attributes or {})))
        return self.op(
            "STABLEHLO_COMPOSITE",
            inputs,
            decomposition.output_specs(),
            "StableHLOCompositeOptions",
            name=name,
            decompositionSubgraphIndex=decomposition.index,
            compositeAttributes=np.frombuffer(packed, np.uint8),
            version=1,
        )


def _broadcast(a: Tensor, b: Tensor) -> tuple[int, ...]:
    return tuple(np.broadcast_shapes(a.shape, b.shape))
