"""The tokenizer protocol; sentencepiece.py and huggingface.py implement it."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Protocol

from litert_lm.errors import (
    InvalidArgumentError,
    LiteRtLmError,
    ModelFileError,
    shown,
)
from litert_lm.tokenizer.pieces import PieceTable

__all__ = [
    "Tokenizer",
    "check_not_empty",
    "check_text",
    "check_token_ids",
    "native_errors",
]

_MAX_IDS = 1 << 24  # far more than any context holds


class Tokenizer(Protocol):
    """Text to token ids and back. Never adds BOS, EOS, padding or a template.

    What the file itself defines as normalisation is applied, as in the official
    runtime: an older SentencePiece model puts its dummy space before each text.
    """

    @property
    def vocab_size(self) -> int:
        """Highest token id + 1. Ids between may be unused and have no text."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids of control tokens such as BOS; their text is hidden on request."""

    @property
    def pieces(self) -> PieceTable | None:
        """Bytes of each single token, or None when its text depends on neighbours."""

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`.

        The spelling of a special token becomes its id, except for SentencePiece
        control tokens, which no text can spell (as in the official runtime).

        Raises:
            InvalidArgumentError: not a str, or one with lone surrogates.
            ModelFileError: the tokenizer cannot represent the text.
        """

    def decode(
        self, token_ids: Sequence[int], *, skip_special_tokens: bool = False
    ) -> str:
        """Text of `token_ids`; bytes that form no character become U+FFFD.

        Raises:
            InvalidArgumentError: an id is not in 0..vocab_size-1.
        """

    def token_to_id(self, piece: str) -> int | None:
        """Id of the vocabulary entry spelled exactly `piece`, or None."""

    def id_to_token(self, token_id: int) -> str | None:
        """Spelling of the vocabulary entry, or None when the id has none."""


def check_text(text: object) -> str:
    """Return `text` when it can be written as UTF-8, else InvalidArgumentError."""
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"Text to tokenize must be a str, got {type(text).__name__}."
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"Text to tokenize holds the lone surrogate {text[error.start]!r} at "
            f"position {error.start}; replace it or decode the source as UTF-8."
        ) from error
    return text


def check_token_ids(token_ids: Sequence[int], vocab_size: int) -> list[int]:
    """Return `token_ids` as ints in 0..vocab_size-1, else InvalidArgumentError."""
    try:
        ids = list(map(operator.index, islice(token_ids, _MAX_IDS + 1)))
    except TypeError as error:
        raise InvalidArgumentError(
            f"Token ids must be a sequence of whole numbers, got {shown(token_ids)}."
        ) from error
    if len(ids) > _MAX_IDS:
        raise InvalidArgumentError(f"More than {_MAX_IDS} token ids are given.")
    if ids and (min(ids) < 0 or max(ids) >= vocab_size):
        bad = next(i for i in ids if not 0 <= i < vocab_size)
        raise InvalidArgumentError(
            f"Token id {shown(bad)} is out of range: this tokenizer has ids 0 to "
            f"{vocab_size - 1}."
        )
    return ids


def check_not_empty(num_tokens: int) -> None:
    """Raise ModelFileError for a vocabulary without tokens."""
    if not num_tokens:
        raise ModelFileError(
            "The model's tokenizer has an empty vocabulary; fetch or convert the file "
            "again."
        )


@contextmanager
def native_errors(action: str) -> Iterator[None]:
    """Turn whatever a native tokenizer raises into ModelFileError."""
    try:
        yield
    except LiteRtLmError:
        raise
    except Exception as error:
        raise _file_error(action, error) from error
    except BaseException as error:
        # A panic in Rust arrives as a BaseException that no module exports.
        if type(error).__name__ != "PanicException":
            raise
        raise _file_error(action, error) from error


def _file_error(action: str, error: BaseException) -> ModelFileError:
    reason = str(error).strip() or type(error).__name__
    return ModelFileError(
        f"The model's tokenizer could not {action}: {reason:.300}. The file may be "
        "damaged; fetch or convert it again."
    )
