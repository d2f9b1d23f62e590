"""Text to token ids and back: SentencePiece and Hugging Face tokenizers."""

from __future__ import annotations

from typing import Literal

from litert_lm.errors import InvalidArgumentError
from litert_lm.tokenizer.base import Tokenizer
from litert_lm.tokenizer.streaming import StreamingDetokenizer

__all__ = ["StreamingDetokenizer", "Tokenizer", "TokenizerKind", "load_tokenizer"]

TokenizerKind = Literal["sentencepiece", "huggingface"]


def load_tokenizer(
    kind: TokenizerKind, data: bytes | memoryview, *, has_byte_characters: bool = False
) -> Tokenizer:
    """Parse a tokenizer; safe to call on a thread of its own.

    Args:
        kind: the format of `data`.
        data: a serialized SentencePiece model, or a `tokenizer.json` in UTF-8
            (decompressed).
        has_byte_characters: the SentencePiece model holds a byte-level vocabulary.

    Raises:
        ModelFileError: `data` is not a sound file of that kind.
    """
    if kind == "sentencepiece" and has_byte_characters:
        from litert_lm.tokenizer.byte_characters import ByteCharacterTokenizer

        return ByteCharacterTokenizer(data)
    if kind == "sentencepiece":
        from litert_lm.tokenizer.sentencepiece import SentencePieceTokenizer

        return SentencePieceTokenizer(data)
    if kind == "huggingface":
        from litert_lm.tokenizer.huggingface import HuggingFaceTokenizer

        return HuggingFaceTokenizer(data)
    raise InvalidArgumentError(
        f"Unknown tokenizer kind {kind!r}; use 'sentencepiece' or 'huggingface'."
    )
