"""Whether FlexBuffers, such as the attributes of a composite, can be read safely.

LiteRT reads them without checks of its own. Format:
https://flatbuffers.dev/internals/#flexbuffers
"""

from __future__ import annotations

__all__ = ["is_sound"]

MAX_DEPTH = 8
MAX_VALUES = 10_000
"""Values in all; vectors may share their elements."""

_INLINE = frozenset((0, 1, 2, 3, 26))  # null, int, uint, float, bool
_KEY, _STRING, _MAP, _VECTOR, _BLOB = 4, 5, 9, 10, 25
_INDIRECT = frozenset((6, 7, 8))
_FLOATS = frozenset((3, 8, 13, 18, 21, 24))  # of four or eight bytes
_TYPED = {11: 1, 12: 2, 13: 3, 14: _KEY, 15: _STRING, 36: 26}  # vector -> its elements
_FIXED = range(16, 25)  # 2, 3 or 4 numbers without a length


class _UnsoundError(Exception):
    pass


def is_sound(data: bytes) -> bool:
    """Whether every value in ``data`` lies inside it."""
    try:
        _Reader(data).root()
    except _UnsoundError:
        return False
    return True


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_VALUES

    def root(self) -> None:
        """The last two bytes are the root's type and its width."""
        if len(self._data) < 3 or self._data[-1] not in (1, 2, 4, 8):
            raise _UnsoundError
        width = self._data[-1]
        self._value(len(self._data) - 2 - width, width, self._data[-2], 0)

    def _value(self, at: int, width: int, packed: int, depth: int) -> None:
        """A value of ``width`` bytes; ``packed`` holds its type and child width."""
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise _UnsoundError
        self._need(at, width)
        kind, child = packed >> 2, 1 << (packed & 3)
        if kind in _FLOATS and (width if kind in _INLINE else child) < 4:
            raise _UnsoundError
        if kind not in _INLINE:
            self._target(self._follow(at, width), child, kind, depth)

    def _target(self, at: int, width: int, kind: int, depth: int) -> None:
        """What an offset leads to; ``width`` is that of its elements."""
        if kind == _KEY and width == 1:
            self._text(at)
        elif kind in _INDIRECT:
            self._need(at, width)
        elif kind in _FIXED:
            self._need(at, width * ((kind - 16) // 3 + 2))
        elif kind in (_STRING, _BLOB):
            self._need(at, self._length(at, width) + (kind == _STRING))
        elif kind in (_VECTOR, _MAP):
            self._vector(at, width, depth, is_map=kind == _MAP)
        elif kind in _TYPED:
            self._typed(at, width, _TYPED[kind], depth)
        else:
            raise _UnsoundError

    def _vector(self, at: int, width: int, depth: int, *, is_map: bool) -> None:
        """Elements, then the type of each; a map's keys are named before its length."""
        count = self._length(at, width)
        self._need(at, count * (width + 1))
        if is_map:
            keys = self._follow(at - 3 * width, width)
            key_width = self._number(at - 2 * width, width)
            if key_width not in (1, 2, 4, 8) or self._length(keys, key_width) != count:
                raise _UnsoundError
            self._typed(keys, key_width, _KEY, depth)
        for number in range(count):
            packed = self._data[at + count * width + number]
            self._value(at + number * width, width, packed, depth + 1)

    def _typed(self, at: int, width: int, kind: int, depth: int) -> None:
        count = self._length(at, width)
        self._need(at, count * width)
        if kind not in _INLINE:
            for number in range(count):
                self._value(at + number * width, width, kind << 2, depth + 1)

    def _length(self, at: int, width: int) -> int:
        return self._number(at - width, width)

    def _number(self, at: int, width: int) -> int:
        self._need(at, width)
        return int.from_bytes(self._data[at : at + width], "little")

    def _follow(self, at: int, width: int) -> int:
        return at - self._number(at, width)

    def _need(self, at: int, size: int) -> None:
        if not 0 <= at <= len(self._data) - size:
            raise _UnsoundError

    def _text(self, at: int) -> None:
        if at < 0 or self._data.find(b"\0", at) < 0:
            raise _UnsoundError
