"""Which decoders of a tokenizer.json write each token on its own, and how."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from litert_lm.tokenizer.pieces import Piece, spelled_byte

if TYPE_CHECKING:
    from tokenizers import Tokenizer as NativeTokenizer

__all__ = ["PieceRule", "byte_alphabet", "byte_piece", "piece_rule"]

PieceRule = Callable[[str], Piece]
"""From the spelling of a token in the vocabulary to what it writes."""


def piece_rule(model: NativeTokenizer) -> PieceRule | None:
    """The rule of `model`'s decoder, or None when neighbours change a token's text.

    None stands for WordPiece, CTC, BPE with a word-end suffix and whatever is not
    known here: `tokenizers` decodes those. A byte-level vocabulary whose file names
    no decoder (a common slip of converters) gets the byte-level rule.
    """
    if model.decoder is None:
        return byte_piece if _is_byte_level(model) else None
    steps = _steps(model.decoder)
    kinds = [step.get("type") for step in steps]
    if "ByteLevel" in kinds:
        return byte_piece if set(kinds) <= {"ByteLevel", "Fuse"} else None
    return _text_rule(steps, kinds)


@cache
def byte_alphabet() -> dict[str, int]:
    """Character -> byte of byte-level BPE, as GPT-2 published it.

    Printable Latin-1 stands for itself; the other bytes, in order, for U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + n): byte for n, byte in enumerate(others)}


def byte_piece(spelling: str) -> Piece:
    """The piece of a byte-level token; one outside the alphabet is plain text."""
    alphabet = byte_alphabet()
    if alphabet.keys() >= set(spelling):
        return Piece.plain(bytes(alphabet[char] for char in spelling))
    return Piece.plain(spelling.encode())


def _steps(part: Any) -> list[dict[str, Any]]:
    """The JSON of a decoder or pre-tokenizer, a sequence flattened to its members."""
    return _flatten(json.loads(part.__getstate__()))


def _flatten(spec: dict[str, Any]) -> list[dict[str, Any]]:
    members = spec.get("decoders") or spec.get("pretokenizers")
    if spec.get("type") != "Sequence" or not members:
        return [spec]
    return [step for member in members for step in _flatten(member)]


def _is_byte_level(model: NativeTokenizer) -> bool:
    splits = _steps(model.pre_tokenizer) if model.pre_tokenizer else []
    if any(step.get("type") == "ByteLevel" for step in splits):
        return True
    return None not in map(model.token_to_id, byte_alphabet())


def _text_rule(steps: list[dict[str, Any]], kinds: list[Any]) -> PieceRule | None:
    """Rule of a SentencePiece-like chain: Replace, ByteFallback, Metaspace, ..."""
    end = kinds.index("Fuse") if "Fuse" in kinds else len(kinds)
    whole = steps[end + 1 :]
    if set(kinds[:end]) - {"Replace", "ByteFallback", "Metaspace"}:
        return None
    if whole and not (len(whole) == 1 and _strips_one_space(whole[0])):
        return None
    swaps = [_swap(step) for step in steps[:end] if step["type"] != "ByteFallback"]
    if None in swaps:
        return None
    return _TextRule(
        swaps=tuple(swap for swap in swaps if swap),
        dropped=next(filter(None, map(_dropped_at_start, steps)), ""),
        has_bytes="ByteFallback" in kinds,
        strips=bool(whole),
    )


def _strips_one_space(step: dict[str, Any]) -> bool:
    wanted = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    return step == wanted


def _swap(step: dict[str, Any]) -> tuple[str, str] | None:
    """What to look for and what to write; None when it is a regular expression."""
    if step["type"] == "Metaspace":
        return step["replacement"], " "
    text = step["pattern"].get("String")
    return (text, step["content"]) if text else None


def _dropped_at_start(step: dict[str, Any]) -> str:
    if step["type"] != "Metaspace" or step.get("prepend_scheme") == "never":
        return ""
    return str(step["replacement"])


@dataclass(frozen=True)
class _TextRule:
    """Piece of one token in a vocabulary of text, bytes spelled as `<0x41>`.

    Attributes:
        swaps: (found, written) pairs in order.
        dropped: what the first token of a text loses instead of swapping it.
        has_bytes: whether `<0x41>` is a byte.
        strips: whether a text loses one space at its start.
    """

    swaps: tuple[tuple[str, str], ...]
    dropped: str
    has_bytes: bool
    strips: bool

    def __call__(self, spelling: str) -> Piece:
        byte = spelled_byte(spelling) if self.has_bytes else None
        if byte is not None:
            return byte
        data = self._write(spelling)
        if self.dropped:
            first = self._write(spelling.replace(self.dropped, ""))
            return Piece(data, first, ends_start=True)
        first = data[1:] if self.strips and data.startswith(b" ") else data
        return Piece(data, first, ends_start=bool(data))

    def _write(self, spelling: str) -> bytes:
        for found, written in self.swaps:
            spelling = spelling.replace(found, written)
        return spelling.encode()
