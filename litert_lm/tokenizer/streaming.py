"""Text of tokens as they are generated, in whole characters."""

from __future__ import annotations

from collections.abc import Set
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from litert_lm.tokenizer.pieces import PieceStream

if TYPE_CHECKING:
    from litert_lm.tokenizer.base import Tokenizer

__all__ = ["StreamingDetokenizer"]

_CONTEXT = 6
"""Tokens kept before a new one, so that decoders see its neighbours."""

_MAX_WAIT = 8
"""Tokens that may wait for a character to become whole (UTF-8 has up to 4 bytes)."""


class StreamingDetokenizer:
    """Turns generated ids into text, never half a character.

    The pieces joined are `tokenizer.decode` of all ids. An id without a token (a
    padding row of the model's output) adds nothing.

    Args:
        tokenizer: what the ids mean.
        skip_special_tokens: leave out control tokens.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = False) -> None:
        hidden = tokenizer.special_ids if skip_special_tokens else frozenset()
        self._stream = _make_stream(tokenizer, hidden)

    def add(self, token_id: int) -> str:
        """The text that `token_id` completes; '' while a character is unfinished."""
        return self._stream.add(token_id)

    def finish(self) -> str:
        """What was held back: U+FFFD for bytes that never became a character."""
        return self._stream.finish()


class _Stream(Protocol):
    def add(self, token_id: int) -> str: ...

    def finish(self) -> str: ...


def _make_stream(tokenizer: Tokenizer, hidden: Set[int]) -> _Stream:
    if tokenizer.pieces is not None:
        return PieceStream(tokenizer.pieces, hidden)
    return _WindowStream(tokenizer, hidden)


class _WindowStream:
    """Streams any decoder by decoding the last few ids with and without the new one."""

    def __init__(self, tokenizer: Tokenizer, hidden: Set[int]) -> None:
        self._decode = tokenizer.decode
        self._hidden = hidden
        self._vocab_size = tokenizer.vocab_size
        self._ids: list[int] = []
        self._sent = ""
        self._num_waiting = 0

    def add(self, token_id: int) -> str:
        if token_id in self._hidden or not 0 <= token_id < self._vocab_size:
            return ""
        self._ids.append(token_id)
        text = self._decode(self._ids)
        self._num_waiting += 1
        if text.endswith("\ufffd") and self._num_waiting < _MAX_WAIT:
            return ""
        return self._send(text)

    def finish(self) -> str:
        return self._send(self._decode(self._ids)) if self._num_waiting else ""

    def _send(self, text: str) -> str:
        # A decoder may take back what it wrote, such as a space before "."; what is
        # out stays out.
        is_longer = text.startswith(self._sent)
        num_known = len(self._sent) if is_longer else _num_equal(text, self._sent)
        self._sent = text
        self._num_waiting = 0
        if len(self._ids) > 2 * _CONTEXT:
            self._shorten()
        return text[num_known:]

    def _shorten(self) -> None:
        ids = self._ids[-_CONTEXT:]
        # Without text the decoder would take the next token for the first one.
        self._ids = ids if self._decode(ids) else self._ids[:1] + ids
        self._sent = self._decode(self._ids)


def _num_equal(first: str, second: str) -> int:
    """Length of the longest common prefix."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
