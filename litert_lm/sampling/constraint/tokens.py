"""The bytes of a tokenizer's tokens, in the form that llguidance reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from litert_lm.errors import (
    LiteRtLmError,
    MissingExtraError,
    UnsupportedModelError,
)

if TYPE_CHECKING:
    from llguidance import LLTokenizer, TokenizerWrapper

__all__ = [
    "ConstraintTokenizer",
    "TokenBytes",
    "TokenTable",
    "TokenTables",
    "read_tables",
]

_ANCHOR = "\n"
"""Text before a text, so that no token of the text stands at the start."""

_SPECIAL_MARK = b"\xff"
"""First byte of what llguidance takes for a special token; no UTF-8 holds it."""

_UTF8_BYTES = set(range(0xF5)) - {0xC0, 0xC1}


class _Piece(Protocol):
    @property
    def data(self) -> bytes: ...

    @property
    def at_start(self) -> bytes: ...

    @property
    def ends_start(self) -> bool: ...


class ConstraintTokenizer(Protocol):
    """What a constraint needs of a tokenizer; `litert_lm.tokenizer` has the rest."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def special_ids(self) -> frozenset[int]: ...

    @property
    def pieces(self) -> Mapping[int, _Piece] | None: ...

    def encode(self, text: str) -> list[int]: ...

    def id_to_token(self, token_id: int) -> str | None: ...


class TokenBytes:
    """What each token of a model writes, at one place of a text.

    Args:
        tokens: bytes by token id; b"" for a token that no output may hold.
        special_ids: tokens that are no text, such as stops; only a grammar that names
            one has it in its output. Their bytes are their names.
        encode: token ids of a text as the model was trained to see it.
        silent_ids: tokens that write nothing but are still text, such as the space that
            a tokenizer puts before every text.
        is_start: whether only the first token of a text is as `encode` has it.
    """

    def __init__(
        self,
        tokens: Sequence[bytes],
        special_ids: Collection[int],
        encode: Callable[[str], list[int]],
        silent_ids: Sequence[int] = (),
        is_start: bool = False,
    ) -> None:
        self.tokens = tokens
        self.special_ids = frozenset(special_ids)
        self.silent_ids = tuple(silent_ids)
        self._encode = encode
        self._is_start = is_start
        self._ids = _by_bytes(tokens, self.special_ids)
        self._max_length = max(map(len, self._ids), default=0)
        self._bytes = {byte for byte in range(256) if bytes([byte]) in self._ids}

    def encode(self, text: str) -> list[int]:
        """Ids that write exactly `text`: the tokenizer's, else the longest that fit."""
        ids = self.own_ids(text)
        return (self.split(text.encode()) or []) if ids is None else ids

    def own_ids(self, text: str) -> list[int] | None:
        """The tokenizer's ids of `text`; None where they would write something else."""
        try:
            ids = self._encode(text)
        except LiteRtLmError:
            return None
        if self._is_start:
            ids = ids[:1] + self._rest(ids[:1], text.encode())
        is_text = self.special_ids.isdisjoint(ids)
        return ids if is_text and self.write(ids) == text.encode() else None

    def _rest(self, first: list[int], data: bytes) -> list[int]:
        """Ids of what the first token leaves of a text."""
        return self.split(data[len(self.write(first) or b"") :]) or []

    def write(self, ids: Sequence[int]) -> bytes | None:
        """What `ids` write; None when one of them is none of these tokens."""
        if ids and max(ids) >= len(self.tokens):
            return None
        return b"".join(map(self.tokens.__getitem__, ids))

    def split(self, data: bytes) -> list[int] | None:
        """Ids of the longest tokens that write `data` from left to right, or None."""
        ids: list[int] = []
        while data:
            found = self.prefixes(data)
            if not found:
                return None
            ids.append(found[-1])
            data = data[len(self.tokens[found[-1]]) :]
        return ids

    @property
    def writes_all(self) -> bool:
        """Whether each byte of UTF-8 has a token, so that any text can be written."""
        return self._bytes >= _UTF8_BYTES

    def can_write(self, data: bytes) -> bool:
        """Whether some tokens write exactly `data`."""
        if self._bytes.issuperset(data):
            return True
        ends = {0}
        for start in range(len(data)):
            if start in ends:
                found = self.prefixes(data[start : start + self._max_length])
                ends |= {start + len(self.tokens[token_id]) for token_id in found}
        return len(data) in ends

    def prefixes(self, data: bytes) -> list[int]:
        """Ids of all tokens that `data` starts with, the shortest first."""
        lengths = range(1, min(self._max_length, len(data)) + 1)
        found = (self._ids.get(data[:length], ()) for length in lengths)
        return [token_id for ids in found for token_id in ids]


def _by_bytes(
    tokens: Sequence[bytes], special_ids: Collection[int]
) -> dict[bytes, tuple[int, ...]]:
    """Ids by what they write, without those that write nothing or are no text."""
    ids: dict[bytes, tuple[int, ...]] = {}
    for token_id, data in enumerate(tokens):
        if data and token_id not in special_ids:
            ids[data] = (*ids.get(data, ()), token_id)
    return ids


class TokenTable(NamedTuple):
    """Tokens at one place of the text, for us and for llguidance."""

    tokens: TokenBytes
    native: LLTokenizer


class TokenTables(NamedTuple):
    """The tokens of one model.

    Attributes:
        amid: tokens that follow other text.
        at_start: tokens that begin the output, where they write something else there.
        eos_ids: tokens that end the output.
    """

    amid: TokenTable
    at_start: TokenTable | None
    eos_ids: tuple[int, ...]

    def can_write(self, text: str) -> bool:
        """Whether the model has tokens for an output that is exactly `text`."""
        data, amid = text.encode(), self.amid.tokens
        if self.at_start is None or amid.can_write(data):
            return amid.can_write(data)
        start = self.at_start.tokens
        firsts = (start.tokens[token_id] for token_id in start.prefixes(data))
        return any(amid.can_write(data[len(first) :]) for first in firsts)


def read_tables(
    tokenizer: ConstraintTokenizer, vocab_size: int, eos_ids: Sequence[int]
) -> TokenTables:
    """The tokens of a model whose logits have `vocab_size` entries.

    Raises:
        MissingExtraError: llguidance is not installed.
        UnsupportedModelError: the text of a token depends on its neighbours, or no
            token ends an output.
    """
    amid, first = _read_tokens(tokenizer, vocab_size, eos_ids)
    at_start = TokenTable(first, _make_native(first, eos_ids)) if first else None
    return TokenTables(
        TokenTable(amid, _make_native(amid, eos_ids)), at_start, tuple(eos_ids)
    )


def _read_tokens(
    tokenizer: ConstraintTokenizer, vocab_size: int, eos_ids: Sequence[int]
) -> tuple[TokenBytes, TokenBytes | None]:
    """Tokens amid a text and, where they differ there, tokens that start a text."""
    pieces = _pieces(tokenizer)
    if not eos_ids or min(eos_ids) < 0 or max(eos_ids) >= vocab_size:
        raise UnsupportedModelError(
            "Structured output needs a token that ends it, but this model has "
            f"{vocab_size} tokens and the stop ids {list(eos_ids)}. Use a bundle with "
            "a stop token, or generate freely and check the text."
        )
    special = {*eos_ids, *(i for i in tokenizer.special_ids if i < vocab_size)}
    data, at_start = _columns(tokenizer, pieces, vocab_size, special)
    if data == at_start:
        return TokenBytes(data, special, tokenizer.encode), None
    amid = TokenBytes(data, special, _after_anchor(tokenizer))
    silent = [i for i, text in enumerate(at_start) if data[i] and not text]
    silent = [i for i in silent if pieces[i].ends_start]
    if not amid.writes_all:
        at_start = [text if amid.split(text) is not None else b"" for text in at_start]
    return amid, TokenBytes(at_start, special, tokenizer.encode, silent, is_start=True)


def _pieces(tokenizer: ConstraintTokenizer) -> Mapping[int, _Piece]:
    if tokenizer.pieces is None:
        raise UnsupportedModelError(
            "Structured output needs to know what each token writes, but in this "
            "model's tokenizer (WordPiece, CTC or word-end BPE) that depends on the "
            "tokens around it. Use a model with another tokenizer, or generate freely "
            "and check the text."
        )
    return tokenizer.pieces


def _columns(
    tokenizer: ConstraintTokenizer,
    pieces: Mapping[int, _Piece],
    vocab_size: int,
    special: Collection[int],
) -> tuple[list[bytes], list[bytes]]:
    """Bytes of the tokens after text, and of the tokens before any."""
    known = min(tokenizer.vocab_size, vocab_size)
    rows = [pieces[token_id] for token_id in range(known)]
    padding = [b""] * (vocab_size - known)
    data = [_text(row.data) for row in rows] + padding
    at_start = [_text(row.at_start) for row in rows] + padding
    for token_id in special:
        name = (tokenizer.id_to_token(token_id) or f"<{token_id}>").encode()
        data[token_id] = at_start[token_id] = name
    return data, at_start


def _text(data: bytes) -> bytes:
    return b"" if data.startswith(_SPECIAL_MARK) else data


def _after_anchor(tokenizer: ConstraintTokenizer) -> Callable[[str], list[int]]:
    """Ids of a text that follows another one."""
    anchor = tokenizer.encode(_ANCHOR)

    def encode(text: str) -> list[int]:
        ids = tokenizer.encode(_ANCHOR + text)
        return ids[len(anchor) :] if ids[: len(anchor)] == anchor else []

    return encode


class _Wrapper:
    """The attributes that llguidance reads from a tokenizer."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, table: TokenBytes, eos_id: int) -> None:
        self.tokens = table.tokens
        self.special_token_ids = sorted(table.special_ids)
        self.eos_token_id = eos_id
        self._encode = table.encode

    def __call__(self, text: str) -> list[int]:
        # An exception here would be a panic there.
        try:
            return self._encode(text)
        except Exception:
            return []


def _make_native(table: TokenBytes, eos_ids: Sequence[int]) -> LLTokenizer:
    """llguidance's tokenizer over `table`.

    Raises:
        MissingExtraError: llguidance is not installed.
    """
    try:
        from llguidance import LLTokenizer
    except ImportError as error:
        raise MissingExtraError.of(
            "Structured output", "llguidance", "structured"
        ) from error
    wrapper = _Wrapper(table, eos_ids[0])
    return LLTokenizer(cast("TokenizerWrapper", wrapper), eos_token=list(eos_ids))
