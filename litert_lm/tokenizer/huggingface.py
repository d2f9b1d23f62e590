"""A Hugging Face `tokenizer.json` behind the tokenizer protocol."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from litert_lm.tokenizer.base import (
    check_not_empty,
    check_text,
    check_token_ids,
    native_errors,
)
from litert_lm.tokenizer.decoders import byte_piece, piece_rule
from litert_lm.tokenizer.pieces import Piece, PieceTable

if TYPE_CHECKING:
    from tokenizers import Tokenizer as NativeTokenizer

__all__ = ["HuggingFaceTokenizer"]

_MAX_ID = 2**32 - 1
_LONG_TEXT = 20_000  # characters; takes some 5 ms


class HuggingFaceTokenizer:
    """Wraps `tokenizers`; see `Tokenizer` for the methods.

    Args:
        data: the text of a tokenizer.json in UTF-8.
        vocab_size: highest id + 1, where it is known.

    Raises:
        ModelFileError: `data` is not a tokenizer.json that `tokenizers` reads.
    """

    def __init__(
        self, data: bytes | memoryview, *, vocab_size: int | None = None
    ) -> None:
        with native_errors("be read as a tokenizer.json"):
            self._model = _parse(data)
            self._added = self._model.get_added_tokens_decoder()
            self._rule = piece_rule(self._model)
        check_not_empty(self._model.get_vocab_size(with_added_tokens=True))
        if vocab_size is not None:
            self.vocab_size = vocab_size

    def to_json(self) -> str:
        """The whole tokenizer as the library writes it."""
        return str(self._model.to_str())

    @cached_property
    def vocab_size(self) -> int:
        return _highest_id(self._model) + 1

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(i for i, token in self._added.items() if token.special)

    @cached_property
    def pieces(self) -> PieceTable | None:
        return PieceTable(self._piece) if self._rule else None

    def encode(self, text: str) -> list[int]:
        check_text(text)
        with native_errors("encode this text"):
            if len(text) < _LONG_TEXT:
                return list(self._model.encode(text, add_special_tokens=False).ids)
            # The only form that lets other threads run meanwhile.
            encoded = self._model.encode_batch_fast([text], add_special_tokens=False)
            return list(encoded[0].ids)

    def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        ids = check_token_ids(token_ids, self.vocab_size)
        hidden = self.special_ids if skip_special_tokens else frozenset()
        if self.pieces is not None:
            return self.pieces.decode(ids, hidden)
        with native_errors("decode these token ids"):
            return str(self._model.decode(ids, skip_special_tokens=skip_special_tokens))

    def token_to_id(self, piece: str) -> int | None:
        return self._model.token_to_id(check_text(piece))

    def id_to_token(self, token_id: int) -> str | None:
        if not 0 <= token_id <= _MAX_ID:
            return None
        return self._model.id_to_token(token_id)

    def _piece(self, token_id: int) -> Piece | None:
        spelling = self.id_to_token(token_id)
        if spelling is None or self._rule is None:
            return None
        if self._rule is byte_piece and token_id in self._added:
            # An added token is matched in plain text, before bytes are spelled out.
            return Piece.plain(spelling.encode())
        return self._rule(spelling)


def _parse(data: bytes | memoryview) -> NativeTokenizer:
    from tokenizers import Tokenizer as NativeTokenizer

    # Not from_buffer: that one aborts the process over bytes that are no UTF-8.
    model = NativeTokenizer.from_str(str(data, "utf-8"))
    model.no_padding()
    model.no_truncation()
    return model


def _highest_id(model: NativeTokenizer) -> int:
    """Highest token id; ids may have gaps."""
    count = model.get_vocab_size(with_added_tokens=True)
    # As many distinct tokens as ids below `count`: no id lies above (4x faster than
    # the dictionary).
    if None not in map(model.id_to_token, range(count)):
        return count - 1
    return max(model.get_vocab(with_added_tokens=True).values())
