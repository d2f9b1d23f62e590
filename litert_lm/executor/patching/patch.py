"""Numbers to overwrite in a model's bytes to give it a shorter KV cache.

A graph that holds its cache's length in constants cannot be resized when it runs. It
can be compiled from changed bytes: a private copy-on-write view of the file in which
shapes, and the constants that count cache entries, say the new length. Weights stay
where they are, shared with the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from litert_lm.errors import ModelFileError
from litert_lm.executor.patching.extents import Extent, grows, size

__all__ = ["Cut", "Patch"]

_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Cut:
    """A constant of which other entries are kept than the first ones.

    Attributes:
        first: position of its bytes in the model.
        itemsize: bytes of an element.
        axes: extent of every axis.
    """

    first: int
    itemsize: int
    axes: tuple[Extent, ...]

    def write(self, data: _Bytes, old: int, new: int) -> None:
        """Move what is kept beside a cache of `new` tokens to the front."""
        shape = [size(axis, old) for axis in self.axes]
        nbytes = math.prod(shape) * self.itemsize
        kept = data[self.first : self.first + nbytes].reshape(*shape, self.itemsize)
        for axis, extent in enumerate(self.axes):
            if grows(extent):
                kept = kept.take(_kept_entries(extent, old, new), axis)
        data[self.first : self.first + kept.size] = kept.reshape(-1)


def _kept_entries(extent: Extent, old: int, new: int) -> list[int]:
    entries: list[int] = []
    start = 0
    for piece in extent:
        entries += range(start, start + size((piece,), new))
        start += size((piece,), old)
    return entries


@dataclass(frozen=True, slots=True)
class Patch:
    """What one model needs for another length of its cache.

    Attributes:
        tokens: length of the cache as exported.
        numbers: extent -> positions of the int32 numbers in the model that count it.
        cuts: constants to be rewritten.
        least: signature key -> tokens of the shortest cache that it can run with. Only
            these signatures are right after patching.
    """

    tokens: int
    numbers: Mapping[Extent, tuple[int, ...]]
    cuts: tuple[Cut, ...] = ()
    least: Mapping[str, int] = field(default_factory=dict)

    def write(self, memory: memoryview, tokens: int) -> None:
        """Give the model in `memory`, as it is in the file, a cache of `tokens` tokens.

        Args:
            memory: writable bytes of the whole model.
            tokens: at least what ``least`` says, at most ``self.tokens``.

        Raises:
            ModelFileError: these are not the bytes that the patch was made for.
        """
        data = np.frombuffer(memory, np.uint8)
        for extent, positions in self.numbers.items():
            at = np.array(positions, np.int64)[:, None] + np.arange(4)
            old, new = (_int32(size(extent, n)) for n in (self.tokens, tokens))
            if at.max(initial=0) >= data.size or (data[at] != old).any():
                raise ModelFileError(
                    "The model file was changed while it was in use; open it again."
                )
            data[at] = new
        for cut in self.cuts:
            cut.write(data, self.tokens, tokens)

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "tokens": self.tokens,
            "numbers": [[e, list(at)] for e, at in self.numbers.items()],
            "cuts": [[cut.first, cut.itemsize, cut.axes] for cut in self.cuts],
            "least": dict(self.least),
        }

    @classmethod
    def from_json(cls, value: Any) -> Patch:
        """From what `to_json` gave."""
        return cls(
            tokens=value["tokens"],
            numbers={tuple(extent): tuple(at) for extent, at in value["numbers"]},
            cuts=tuple(
                Cut(first, itemsize, tuple(map(tuple, axes)))
                for first, itemsize, axes in value["cuts"]
            ),
            least=value["least"],
        )


def _int32(value: int) -> _Bytes:
    return np.array([value], "<i4").view(np.uint8)
