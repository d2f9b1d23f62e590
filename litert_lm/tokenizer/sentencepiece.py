"""A SentencePiece model behind the tokenizer protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import compress

from litert_lm.tokenizer.base import (
    check_not_empty,
    check_text,
    check_token_ids,
    native_errors,
)
from litert_lm.tokenizer.pieces import Piece, PieceTable, spelled_byte

__all__ = ["SentencePieceTokenizer"]

_SPACE = "▁"


class SentencePieceTokenizer:
    """Wraps `sentencepiece`; see `Tokenizer` for the methods.

    Args:
        data: a serialized SentencePiece ModelProto.

    Raises:
        ModelFileError: `data` is not a SentencePiece model.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        from sentencepiece import SentencePieceProcessor

        self._model = SentencePieceProcessor()
        with native_errors("be read as SentencePiece"):
            self._model.LoadFromSerializedProto(bytes(data))
            self._vocab_size = int(self._model.vocab_size())
        check_not_empty(self._vocab_size)

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @cached_property
    def special_ids(self) -> frozenset[int]:
        ids = list(range(self._vocab_size))
        return frozenset(compress(ids, self._model.is_control(ids)))

    @cached_property
    def pieces(self) -> PieceTable:
        return PieceTable(self._piece)

    def encode(self, text: str) -> list[int]:
        check_text(text)
        with native_errors("encode this text"):
            return list(self._model.encode(text))

    def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        ids = check_token_ids(token_ids, self._vocab_size)
        hidden = self.special_ids if skip_special_tokens else frozenset()
        return self.pieces.decode(ids, hidden)

    def token_to_id(self, piece: str) -> int | None:
        check_text(piece)
        token_id = int(self._model.piece_to_id(piece))
        # The library answers a spelling it does not know with the unknown token.
        return token_id if self.id_to_token(token_id) == piece else None

    def id_to_token(self, token_id: int) -> str | None:
        if not 0 <= token_id < self._vocab_size:
            return None
        # The library does not check at load that spellings are UTF-8.
        try:
            return str(self._model.id_to_piece(int(token_id)))
        except Exception:
            with native_errors(f"spell token {token_id}"):
                raise

    def _piece(self, token_id: int) -> Piece | None:
        spelling = self.id_to_token(token_id)
        if spelling is None:
            return None
        if self._model.is_control(token_id):
            # It is no text: a space that follows it is still the dummy one.
            return Piece(spelling.encode(), spelling.encode(), ends_start=False)
        if self._model.is_unknown(token_id):
            with native_errors(f"spell token {token_id}"):
                return Piece.plain(str(self._model.decode([token_id])).encode())
        byte = spelled_byte(spelling) if self._model.is_byte(token_id) else None
        return self._text_piece(spelling) if byte is None else byte

    def _text_piece(self, spelling: str) -> Piece:
        data = spelling.replace(_SPACE, " ").encode()
        if self._leading_spaces == "kept" or not spelling.startswith(_SPACE):
            return Piece.plain(data)
        rest = data[1:]
        return Piece(data, rest, bool(rest) or self._leading_spaces == "one dropped")

    @cached_property
    def _leading_spaces(self) -> str:
        """What the model does to spaces at the start of a text, found by trying.

        The flags behind it (`add_dummy_prefix`, `remove_extra_whitespaces`) are in
        the file, but the library does not show them.
        """
        space = self.token_to_id(_SPACE)
        probe = [space] if space is not None else self._spaced_ids()[:1]
        with native_errors("decode a space"):
            if not probe or self._model.decode(probe).startswith(" "):
                return "kept"
            return "one dropped" if self._model.decode(probe * 2) else "all dropped"

    def _spaced_ids(self) -> list[int]:
        ids = self.encode("a b the of 1 in e")
        return [i for i in ids if (self.id_to_token(i) or "").startswith(_SPACE)]
