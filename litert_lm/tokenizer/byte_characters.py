"""A byte-level vocabulary that is stored as a SentencePiece model."""

from __future__ import annotations

from functools import cache

from litert_lm.tokenizer.base import check_text
from litert_lm.tokenizer.decoders import byte_alphabet, byte_piece
from litert_lm.tokenizer.pieces import Piece
from litert_lm.tokenizer.sentencepiece import SentencePieceTokenizer

__all__ = ["ByteCharacterTokenizer"]


class ByteCharacterTokenizer(SentencePieceTokenizer):
    """Text goes in as GPT-2's printable characters for bytes, and comes back from them.

    MediaPipe's bundler marks such models with BYTES_TO_UNICODE.
    """

    def encode(self, text: str) -> list[int]:
        check_text(text)
        characters = _characters()
        return super().encode("".join(characters[byte] for byte in text.encode()))

    def _piece(self, token_id: int) -> Piece | None:
        spelling = self.id_to_token(token_id)
        if spelling is None or self._model.is_control(token_id):
            return super()._piece(token_id)
        return byte_piece(spelling)


@cache
def _characters() -> list[str]:
    """The character of each byte."""
    by_byte = {byte: character for character, byte in byte_alphabet().items()}
    return [by_byte[byte] for byte in range(256)]
