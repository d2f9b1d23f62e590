"""Bytes of single tokens, and the text that a sequence of them spells."""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Callable, Iterable, Set
from typing import NamedTuple

__all__ = ["Piece", "PieceStream", "PieceTable", "spelled_byte"]

_utf8_decoder = codecs.getincrementaldecoder("utf-8")
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Piece(NamedTuple):
    """What one token writes.

    Attributes:
        data: bytes of the token after other text.
        at_start: bytes of the token while no text precedes it; a tokenizer that
            puts a space before every text takes it away again here.
        ends_start: whether text precedes the tokens after this one.
    """

    data: bytes
    at_start: bytes
    ends_start: bool

    @classmethod
    def plain(cls, data: bytes) -> Piece:
        """A piece that reads the same everywhere."""
        return cls(data, data, bool(data))


_NO_PIECE = Piece(b"", b"", False)


def spelled_byte(spelling: str) -> Piece | None:
    """The byte that a vocabulary with byte fallback spells `<0x41>`, else None."""
    byte = _BYTE.fullmatch(spelling)
    return Piece.plain(bytes.fromhex(byte[1])) if byte else None


class PieceTable(dict[int, Piece]):
    """Pieces by token id, looked up on first use.

    Args:
        lookup: gives the piece of an id, or None when the id has no token.

    Attributes:
        texts: what the pieces looked up so far write after other text, where that is
            whole characters.
    """

    def __init__(self, lookup: Callable[[int], Piece | None]) -> None:
        super().__init__()
        self._lookup = lookup
        self.texts: dict[int, str] = {}

    def __missing__(self, token_id: int) -> Piece:
        piece = self._lookup(token_id)
        if piece is None:
            return _NO_PIECE
        self[token_id] = piece
        with contextlib.suppress(UnicodeDecodeError):
            self.texts[token_id] = piece.data.decode()
        return piece

    def decode(self, token_ids: Iterable[int], hidden: Set[int] = frozenset()) -> str:
        """Text of `token_ids` without the ids in `hidden`."""
        read = PieceStream(self, hidden).read
        return b"".join(map(read, token_ids)).decode("utf-8", "replace")


class PieceStream:
    """Text of a growing sequence of tokens, in whole characters.

    Bytes wait until they form a character or until a later byte shows that they
    never will; then they become one U+FFFD, as `bytes.decode` has it.
    """

    def __init__(self, table: PieceTable, hidden: Set[int] = frozenset()) -> None:
        self._table = table
        self._hidden = hidden
        self._started = False
        self._utf8 = _utf8_decoder("replace")
        self._is_waiting = False

    def read(self, token_id: int) -> bytes:
        """Bytes that `token_id` adds."""
        if token_id in self._hidden:
            return b""
        piece = self._table[token_id]
        if self._started:
            return piece.data
        self._started = piece.ends_start
        return piece.at_start

    def add(self, token_id: int) -> str:
        """Characters that `token_id` completes."""
        if self._started and not self._is_waiting and token_id not in self._hidden:
            text = self._table.texts.get(token_id)
            if text is not None:
                return text
        text = self._utf8.decode(self.read(token_id))
        self._is_waiting = bool(self._utf8.getstate()[0])
        return text

    def finish(self) -> str:
        """What is left: U+FFFD for a character that never came, or ''."""
        return self._utf8.decode(b"", True)
