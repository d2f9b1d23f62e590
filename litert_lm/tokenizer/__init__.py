"""Text to token ids and back: SentencePiece and Hugging Face tokenizers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litert_lm.errors import InvalidArgumentError
from litert_lm.tokenizer.base import Tokenizer
from litert_lm.tokenizer.streaming import StreamingDetokenizer

if TYPE_CHECKING:
    from litert_lm.bundle.bundle import TokenizerKind

__all__ = ["StreamingDetokenizer", "Tokenizer", "load_tokenizer"]


def load_tokenizer(kind: TokenizerKind, data: bytes | memoryview) -> Tokenizer:
    """Parse a tokenizer; safe to call on a thread of its own.

    Args:
        kind: the format of `data`.
        data: a serialized SentencePiece model, or a `tokenizer.json` in UTF-8
            (decompressed).

    Raises:
        ModelFileError: `data` is not a sound file of that kind.
    """
    if kind == "sentencepiece_bytes":
        from litert_lm.tokenizer.byte_characters import ByteCharacterTokenizer

        return ByteCharacterTokenizer(data)
    if kind == "sentencepiece":
        from litert_lm.tokenizer.sentencepiece import SentencePieceTokenizer

        return SentencePieceTokenizer(data)
    if kind == "huggingface":
        from litert_lm.tokenizer.huggingface import HuggingFaceTokenizer

        return HuggingFaceTokenizer(data)
    raise InvalidArgumentError(
        f"Unknown tokenizer kind {kind!r}; use 'sentencepiece', 'sentencepiece_bytes' "
        "or 'huggingface'."
    )
