"""What a TFLite model is made of: plain values with the schema's meanings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from litert_lm.errors import UnsupportedModelError

__all__ = [
    "ELEMENT_TYPES",
    "ElementType",
    "Operator",
    "OperatorCode",
    "Signature",
    "Tensor",
]


@dataclass(frozen=True, slots=True)
class ElementType:
    """A tensor element: name, bits in memory, spelling in NumPy if it has the type."""

    name: str
    bits: int
    numpy: str | None


ELEMENT_TYPES: dict[int, ElementType] = {
    0: ElementType("float32", 32, "<f4"),
    1: ElementType("float16", 16, "<f2"),
    2: ElementType("int32", 32, "<i4"),
    3: ElementType("uint8", 8, "u1"),
    4: ElementType("int64", 64, "<i8"),
    5: ElementType("string", 0, None),
    6: ElementType("bool", 8, "?"),
    7: ElementType("int16", 16, "<i2"),
    8: ElementType("complex64", 64, "<c8"),
    9: ElementType("int8", 8, "i1"),
    10: ElementType("float64", 64, "<f8"),
    11: ElementType("complex128", 128, "<c16"),
    12: ElementType("uint64", 64, "<u8"),
    13: ElementType("resource", 0, None),
    14: ElementType("variant", 0, None),
    15: ElementType("uint32", 32, "<u4"),
    16: ElementType("uint16", 16, "<u2"),
    17: ElementType("int4", 4, None),
    18: ElementType("bfloat16", 16, None),
    19: ElementType("int2", 2, None),
    20: ElementType("uint4", 4, None),
    21: ElementType("float8_e4m3fn", 8, None),
    22: ElementType("float8_e5m2", 8, None),
}
"""TFLite's TensorType."""


class Tensor(NamedTuple):
    """One tensor of a subgraph.

    ``name`` is the signature's name for it where it comes from a signature, else the
    graph's own; ``tensor`` is its index in the subgraph. ``type_code`` is a key of
    ``ELEMENT_TYPES``. ``shape_signature`` has -1 for a dimension that may be resized;
    None where the file has none. ``shape_at`` is the byte position of the shape's int32
    values in the model, 0 for a scalar: writing there, in a private mapping, changes
    the shape.
    """

    name: str
    tensor: int
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...] | None
    type_code: int
    buffer: int
    is_variable: bool
    shape_at: int

    @property
    def element_type(self) -> ElementType:
        """Raises UnsupportedModelError for a type that the schema does not know."""
        known = ELEMENT_TYPES.get(self.type_code)
        if known is None:
            raise UnsupportedModelError(
                f"tensor {self.name!r} has the unknown element type {self.type_code}; "
                "convert the model for this runtime."
            )
        return known

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type; UnsupportedModelError where NumPy has none."""
        element = self.element_type
        if element.numpy is None:
            raise UnsupportedModelError(
                f"tensor {self.name!r} holds {element.name} values, which cannot be "
                "passed in or out; convert the model with float32 or int32 there."
            )
        return np.dtype(element.numpy)

    @property
    def num_bytes(self) -> int:
        """Memory of the tensor, with several elements packed into a byte if small."""
        count = 1
        for size in self.shape:
            count *= size
        return (count * self.element_type.bits + 7) // 8


@dataclass(frozen=True, slots=True)
class Signature:
    """A named entry point: the subgraph it runs and its tensors in file order."""

    key: str
    subgraph: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class OperatorCode:
    """What an operator does: a BuiltinOperator, and a name if that is CUSTOM."""

    builtin: int
    custom: str
    version: int


class Operator(NamedTuple):
    """One step of a subgraph; -1 among ``inputs`` is an optional input left out.

    ``options`` and ``options2`` are the unions of builtin options, each as type and
    byte position of its table (0, 0 where absent).
    """

    code: OperatorCode
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: tuple[int, int]
    options2: tuple[int, int]
