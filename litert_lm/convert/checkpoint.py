"""A checkpoint in one form, wherever it came from: config, weights, text side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from litert_lm.errors import ConversionError, ModelFileError, read_errors

__all__ = [
    "Checkpoint",
    "FileRows",
    "FloatArray",
    "JoinedRows",
    "Rows",
    "ScaledRows",
    "TokenizerParts",
    "UnpermutedRows",
]

FloatArray = NDArray[np.float32]


class Rows(Protocol):
    """A weight that is read a few rows at a time. A vector is a single row."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes as the checkpoint has them: (O, I) or (O,)."""

    def read(self, start: int, stop: int) -> FloatArray:
        """Rows `start` to `stop`: f32[stop - start, I]; a vector: f32[1, O]."""


@dataclass(frozen=True, eq=False)
class FileRows:
    """Rows that lie one after another in a file.

    Args:
        offset: first byte of the weight in the file.
        row_bytes: size of a row in the file.
        decode: u8[n, row_bytes] to f32[n, I].
    """

    path: Path
    shape: tuple[int, ...]
    offset: int
    row_bytes: int
    decode: Callable[[NDArray[np.uint8]], FloatArray]

    def read(self, start: int, stop: int) -> FloatArray:
        size = (stop - start) * self.row_bytes
        with read_errors(self.path), self.path.open("rb") as file:
            file.seek(self.offset + start * self.row_bytes)
            data = file.read(size)
        if len(data) != size:
            raise ModelFileError(
                f"'{self.path}' ends inside a weight; it changed or is cut off."
            )
        raw = np.frombuffer(data, np.uint8).reshape(stop - start, self.row_bytes)
        return self.decode(raw)


@dataclass(frozen=True, eq=False)
class ScaledRows:
    """Rows times a number."""

    rows: Rows
    factor: float

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape

    def read(self, start: int, stop: int) -> FloatArray:
        return self.rows.read(start, stop) * np.float32(self.factor)


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """Matrices of one width, one below the other."""

    parts: Sequence[Rows]

    @property
    def shape(self) -> tuple[int, ...]:
        return sum(part.shape[0] for part in self.parts), self.parts[0].shape[1]

    def read(self, start: int, stop: int) -> FloatArray:
        pieces = []
        first = 0
        for part in self.parts:
            size = part.shape[0]
            low, high = max(start - first, 0), min(stop - first, size)
            if low < high:
                pieces.append(part.read(low, high))
            first += size
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass(frozen=True, eq=False)
class UnpermutedRows:
    """Query or key rows of a GGUF file, put back into Hugging Face's order.

    GGUF interleaves the two halves of each head: row 2 i + j holds what is row
    j D / 2 + i of the head. A bias, a vector, is permuted in the same way.
    """

    rows: Rows
    head_dim: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.rows.shape

    def read(self, start: int, stop: int) -> FloatArray:
        dim = self.head_dim
        if len(self.shape) == 1:
            vector = self.rows.read(start, stop)
            return vector.reshape(-1, dim // 2, 2).swapaxes(1, 2).reshape(1, -1)
        first, last = start // dim, -(-stop // dim)
        heads = self.rows.read(first * dim, last * dim)
        pairs = heads.reshape(last - first, dim // 2, 2, -1)
        rows = pairs.swapaxes(1, 2).reshape(len(heads), -1)
        return rows[start - first * dim : stop - first * dim]


@dataclass(frozen=True, kw_only=True)
class TokenizerParts:
    """The tokenizer as the bundle stores it, and what its ids mean.

    Args:
        kind: "huggingface" for a tokenizer.json, "sentencepiece" for a ModelProto.
        data: the file's bytes.
        pieces: id of every entry of the vocabulary by its spelling.
        bos_id: id that the tokenizer puts before every text, None if it puts none.
        stop_ids: ids that end an answer, without repeats.
        pad_id: id for positions that hold nothing.
    """

    kind: Literal["huggingface", "sentencepiece"]
    data: bytes
    pieces: Mapping[str, int]
    bos_id: int | None
    stop_ids: tuple[int, ...]
    pad_id: int | None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What a source holds, with the names of a Hugging Face checkpoint.

    Args:
        path: where it was read from, for messages.
        config: contents of config.json.
        tensors: weights by name, such as "model.norm.weight".
        tokenizer: the text side.
        chat_template: Jinja source, if there is one.
        generation: contents of generation_config.json, {} if there is none.
        rope_factors: f32[D / 2], divisors of the RoPE frequencies.
    """

    path: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Rows]
    tokenizer: TokenizerParts
    chat_template: str | None = None
    generation: Mapping[str, Any] = field(default_factory=dict)
    rope_factors: FloatArray | None = None

    def rows(self, name: str, *shape: int) -> Rows:
        """The weight `name`; raises ConversionError if missing or of another shape."""
        rows = self.tensors.get(name)
        if rows is None:
            raise ConversionError(
                f"'{self.path}' has no weight '{name}'; the checkpoint is incomplete "
                "or of another architecture."
            )
        if rows.shape != shape:
            raise ConversionError(
                f"Weight '{name}' of '{self.path}' has shape {list(rows.shape)}, but "
                f"its config says {list(shape)}."
            )
        return rows
