"""Reads the header of a GGUF file: key-values and where each tensor lies.

Format: ggml's GGUF specification, versions 2 and 3, little-endian.
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path

from litert_lm.errors import ModelFileError, ModelNotFoundError, read_errors

__all__ = ["GgufHeader", "GgufTensor", "read_gguf_header"]

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_MAX_AXES = 4
_MAX_ALIGNMENT = 1 << 20
_DEFAULT_ALIGNMENT = 32


@dataclass(frozen=True)
class GgufTensor:
    """One tensor: `shape` with the outermost axis first, as numpy has it.

    `type_number` is a GGMLQuantizationType; `offset` counts bytes from the start of
    the file. Whether the bytes lie inside the file is for the reader of the type.
    """

    name: str
    shape: tuple[int, ...]
    type_number: int
    offset: int


@dataclass(frozen=True)
class GgufHeader:
    """Key-values by name (scalars, str, lists of either) and tensors by name."""

    num_bytes: int
    values: dict[str, object]
    tensors: dict[str, GgufTensor]


def read_gguf_header(path: Path) -> GgufHeader:
    """Read and check the header; raises ModelFileError when it is damaged."""
    with read_errors(path):
        try:
            with path.open("rb") as file:
                if path.stat().st_size < 24:
                    raise ModelFileError(f"'{path}' is too short for a GGUF file.")
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    return _Cursor(path, data).header()
        except FileNotFoundError as error:
            raise ModelNotFoundError(f"There is no file '{path}'.") from error


class _Cursor:
    """A position in the file that never passes its end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.position = 0

    def fail(self, what: str) -> ModelFileError:
        return ModelFileError(
            f"'{self.path}' is damaged: {what} at byte {self.position}. Fetch it again."
        )

    def take(self, num_bytes: int) -> bytes:
        if num_bytes > self.size - self.position:
            raise self.fail(f"{num_bytes} bytes expected beyond the end")
        start, self.position = self.position, self.position + num_bytes
        return self.data[start : self.position]

    def number(self, code: str) -> int:
        value = struct.unpack(code, self.take(struct.calcsize(code)))[0]
        return int(value)

    def count(self, min_bytes_each: int) -> int:
        """A u64 number of things; more than the rest of the file holds is damage."""
        value = self.number("<Q")
        if value > (self.size - self.position) // min_bytes_each:
            raise self.fail(f"{value} entries do not fit into the file")
        return value

    def string(self) -> str:
        try:
            return self.take(self.number("<Q")).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail("a string is not UTF-8") from error

    def value(self) -> object:
        kind = self.number("<I")
        return self.array() if kind == _ARRAY else self.item(kind)

    def item(self, kind: int) -> object:
        if kind == _STRING:
            return self.string()
        if kind not in _SCALARS:
            raise self.fail(f"unknown value type {kind}")
        code = _SCALARS[kind]
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def array(self) -> list[object]:
        kind = self.number("<I")
        if kind == _STRING:
            return [self.string() for _ in range(self.count(8))]
        if kind not in _SCALARS:
            raise self.fail(f"array of value type {kind}")
        code = _SCALARS[kind]
        size = struct.calcsize(code)
        length = self.count(size)
        return list(struct.unpack(f"<{length}{code[1]}", self.take(length * size)))

    def header(self) -> GgufHeader:
        if self.take(4) != b"GGUF":
            raise ModelFileError(f"'{self.path}' is not a GGUF file.")
        version = self.number("<I")
        if version not in (2, 3):
            raise ModelFileError(
                f"'{self.path}' is GGUF version {version}; versions 2 and 3 in "
                "little-endian order can be read."
            )
        num_tensors = self.count(24)
        num_values = self.count(13)
        values = {}
        for _ in range(num_values):
            key = self.string()
            values[key] = self.value()
        return GgufHeader(self.size, values, self.tensors(num_tensors, values))

    def tensors(
        self, num_tensors: int, values: dict[str, object]
    ) -> dict[str, GgufTensor]:
        infos = [self.tensor() for _ in range(num_tensors)]
        alignment = values.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or not 1 <= alignment <= _MAX_ALIGNMENT:
            raise self.fail(f"alignment {alignment!r}")
        base = -(-self.position // alignment) * alignment
        found = {
            info.name: GgufTensor(
                info.name, info.shape, info.type_number, base + info.offset
            )
            for info in infos
        }
        if len(found) != len(infos):
            raise self.fail("two tensors have the same name")
        return found

    def tensor(self) -> GgufTensor:
        """One entry of the table, its offset still relative to the data."""
        name = self.string()
        num_axes = self.number("<I")
        if num_axes > _MAX_AXES:
            raise self.fail(f"tensor '{name}' with {num_axes} axes")
        shape = tuple(self.number("<Q") for _ in range(num_axes))[::-1]
        type_number = self.number("<I")
        offset = self.number("<Q")
        # Even at two bits a weight, more than this cannot be in the file.
        if math.prod(shape) > self.size * 8 or offset > self.size:
            raise self.fail(f"tensor '{name}' of shape {list(shape)} beyond the end")
        return GgufTensor(name, shape, type_number, offset)
