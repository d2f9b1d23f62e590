"""The tokenizer protocol; sentencepiece.py and huggingface.py implement it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Tokenizer"]


class Tokenizer(Protocol):
    """Text to token ids and back. Never adds BOS, EOS or a leading space by itself."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids; every valid id is below it."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of control tokens such as BOS; their text is hidden on request."""

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; a special token's spelling becomes its id."""

    def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        """Text of `token_ids`; bytes that form no character become U+FFFD."""

    def token_to_id(self, piece: str) -> int | None:
        """Id of the vocabulary entry spelled exactly `piece`, or None."""

    def id_to_token(self, token_id: int) -> str | None:
        """Spelling of the vocabulary entry, or None when the id has none."""
