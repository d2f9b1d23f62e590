"""The tokenizer inside a GGUF file, as a tokenizer.json or a SentencePiece model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from litert_lm.convert.checkpoint import TokenizerParts
from litert_lm.errors import ConversionError

__all__ = ["tokenizer_parts"]

_PREFIX = "tokenizer.ggml."
# Kinds of tokens, the same numbers in GGUF and in SentencePiece.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_LLAMA3 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + _REST
_QWEN2 = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _byte_level(*, has_own_regex: bool) -> dict[str, object]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": has_own_regex,
    }


def _split_by(pattern: str) -> list[dict[str, object]]:
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    return [split, _byte_level(has_own_regex=False)]


_DIGITS: dict[str, object] = {"type": "Digits", "individual_digits": True}

# tokenizer.ggml.pre: how text is cut before merging, whether a whole word found in the
# vocabulary skips the merges, and whether BOS comes first when the file does not say.
_PRE_TOKENIZERS: dict[str, tuple[list[dict[str, object]], bool, bool]] = {
    "gpt-2": ([_byte_level(has_own_regex=True)], False, False),
    "smollm": ([_DIGITS, _byte_level(has_own_regex=True)], False, False),
    "llama-bpe": (_split_by(_LLAMA3), True, True),
    "llama3": (_split_by(_LLAMA3), True, True),
    "llama-v3": (_split_by(_LLAMA3), True, True),
    "qwen2": (_split_by(_QWEN2), False, False),
    "tekken": (_split_by(_TEKKEN), True, True),
}
# Qwen's tokenizer normalises text first; the others take it as it is.
_NORMALIZERS = {"qwen2": {"type": "NFC"}}


def tokenizer_parts(path: Path, values: Mapping[str, object]) -> TokenizerParts:
    """The tokenizer of a GGUF header's key-values.

    Raises:
        ConversionError: the tokenizer is incomplete or of a kind whose cutting of text
            is not known for sure.
    """
    kind = values.get(f"{_PREFIX}model")
    vocabulary = _Vocabulary(path, values)
    if kind == "gpt2":
        data, adds_bos = _byte_level_bpe(vocabulary, values)
    elif kind == "llama":
        data, adds_bos = _sentencepiece_model(vocabulary, values), True
    else:
        raise ConversionError(
            f"'{path}' has a tokenizer of kind {kind!r}; 'gpt2' (byte-level BPE) and "
            "'llama' (SentencePiece) can be converted."
        )
    if isinstance(values.get(f"{_PREFIX}add_bos_token"), bool):
        adds_bos = bool(values[f"{_PREFIX}add_bos_token"])
    stops = [vocabulary.special_id(name) for name in ("eos", "eot", "eom")]
    return TokenizerParts(
        kind="huggingface" if kind == "gpt2" else "sentencepiece",
        data=data,
        pieces=dict(zip(vocabulary.pieces, range(len(vocabulary.pieces)), strict=True)),
        bos_id=vocabulary.special_id("bos") if adds_bos else None,
        stop_ids=tuple(dict.fromkeys(stop for stop in stops if stop is not None)),
        pad_id=vocabulary.special_id("padding"),
    )


class _Vocabulary:
    """Pieces, their kinds and scores, and the ids with a meaning, all checked."""

    def __init__(self, path: Path, values: Mapping[str, object]) -> None:
        self.path = path
        self._values = values
        self.pieces: list[str] = self._array("tokens", str)
        if not self.pieces:
            raise ConversionError(f"'{path}' has no tokenizer ('{_PREFIX}tokens').")
        if len(set(self.pieces)) != len(self.pieces):
            raise ConversionError(f"'{path}' has a vocabulary with a repeated token.")
        self.kinds: list[int] = self._array("token_type", int)
        if not self.kinds:
            self.kinds = [_NORMAL] * len(self.pieces)
        if len(self.kinds) != len(self.pieces):
            raise ConversionError(
                f"'{path}' has {len(self.pieces)} tokens but {len(self.kinds)} types."
            )

    def _array(self, name: str, item_type: type) -> list[Any]:
        value = self._values.get(f"{_PREFIX}{name}", [])
        if not isinstance(value, list) or not all(
            isinstance(item, item_type) for item in value
        ):
            raise ConversionError(
                f"'{self.path}' needs a list of {item_type.__name__} in "
                f"'{_PREFIX}{name}'."
            )
        return value

    def merges(self) -> list[str]:
        return self._array("merges", str)

    def scores(self) -> list[float]:
        scores: list[float] = self._array("scores", float)
        if len(scores) != len(self.pieces):
            raise ConversionError(
                f"'{self.path}' has {len(self.pieces)} tokens but {len(scores)} scores."
            )
        return scores

    def special_id(self, name: str) -> int | None:
        """The id stored for `name`; None if there is none or it is out of range."""
        value = self._values.get(f"{_PREFIX}{name}_token_id")
        if isinstance(value, int) and 0 <= value < len(self.pieces):
            return value
        return None


def _byte_level_bpe(
    vocabulary: _Vocabulary, values: Mapping[str, object]
) -> tuple[bytes, bool]:
    """A tokenizer.json, and whether BOS comes first by default."""
    pre = values.get(f"{_PREFIX}pre")
    if pre not in _PRE_TOKENIZERS or not isinstance(pre, str):
        raise ConversionError(
            f"'{vocabulary.path}' cuts text by the rule {pre!r}, which is not known; "
            f"known are {', '.join(_PRE_TOKENIZERS)}. Convert from the safetensors "
            "checkpoint, which brings its own tokenizer.json."
        )
    cutting, ignores_merges, adds_bos = _PRE_TOKENIZERS[pre]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": _added_tokens(vocabulary),
        "normalizer": _NORMALIZERS.get(pre),
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": cutting},
        "post_processor": None,
        "decoder": _byte_level(has_own_regex=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": ignores_merges,
            "vocab": {piece: i for i, piece in enumerate(vocabulary.pieces)},
            "merges": _merges(vocabulary),
        },
    }
    return json.dumps(tokenizer, ensure_ascii=False).encode(), adds_bos


def _added_tokens(vocabulary: _Vocabulary) -> list[dict[str, object]]:
    """Tokens that are found in text before it is cut."""
    return [
        {
            "id": index,
            "content": piece,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind != _USER_DEFINED,
        }
        for index, (piece, kind) in enumerate(
            zip(vocabulary.pieces, vocabulary.kinds, strict=True)
        )
        if kind in (_CONTROL, _USER_DEFINED, _UNKNOWN)
    ]


def _merges(vocabulary: _Vocabulary) -> list[list[str]]:
    known = set(vocabulary.pieces)
    merges = [merge.split(" ") for merge in vocabulary.merges()]
    for merge in merges:
        if len(merge) != 2 or not known.issuperset((*merge, "".join(merge))):
            raise ConversionError(
                f"'{vocabulary.path}' has a merge {' '.join(merge)!r} of tokens that "
                "its vocabulary does not have."
            )
    return merges


def _sentencepiece_model(
    vocabulary: _Vocabulary, values: Mapping[str, object]
) -> bytes:
    """A SentencePiece ModelProto with the same pieces and scores.

    SentencePiece never finds a control token in a text. Those that the chat template
    writes out become user-defined, or its prompts would lose them.
    """
    from litert_lm._proto import sentencepiece_model_pb2

    proto: Any = sentencepiece_model_pb2

    _check_kinds(vocabulary.path, vocabulary.kinds)
    written = _written_by_template(vocabulary, values)
    model = proto.ModelProto()
    entries = zip(vocabulary.pieces, vocabulary.scores(), vocabulary.kinds, strict=True)
    for piece, score, kind in entries:
        is_written = kind == _CONTROL and piece in written
        model.pieces.add(
            piece=piece, score=score, type=_USER_DEFINED if is_written else kind
        )
    trainer = model.trainer_spec
    trainer.model_type = proto.TrainerSpec.BPE
    trainer.byte_fallback = _BYTE in vocabulary.kinds
    trainer.vocab_size = len(vocabulary.pieces)
    for name, field in (("unknown", "unk"), ("bos", "bos"), ("eos", "eos")):
        _set_special(trainer, field, vocabulary, name)
    _set_special(trainer, "pad", vocabulary, "padding")
    normalizer = model.normalizer_spec
    normalizer.name = "identity"
    normalizer.add_dummy_prefix = bool(values.get(f"{_PREFIX}add_space_prefix", True))
    normalizer.remove_extra_whitespaces = bool(
        values.get(f"{_PREFIX}remove_extra_whitespaces", False)
    )
    return bytes(model.SerializeToString(deterministic=True))


def _written_by_template(
    vocabulary: _Vocabulary, values: Mapping[str, object]
) -> set[str]:
    """Control tokens that the chat template spells or names by its variables."""
    template = values.get("tokenizer.chat_template")
    if not isinstance(template, str):
        return set()
    controls = [
        piece
        for piece, kind in zip(vocabulary.pieces, vocabulary.kinds, strict=True)
        if kind == _CONTROL
    ]
    written = {piece for piece in controls if piece in template}
    for name in ("bos", "eos"):
        index = vocabulary.special_id(name)
        if index is not None and f"{name}_token" in template:
            written.add(vocabulary.pieces[index])
    return written


def _check_kinds(path: Path, kinds: Sequence[int]) -> None:
    strange = set(kinds) - set(range(_NORMAL, _BYTE + 1))
    if strange:
        raise ConversionError(f"'{path}' has tokens of an unknown kind {min(strange)}.")
    if kinds.count(_UNKNOWN) != 1:
        raise ConversionError(
            f"'{path}' marks {kinds.count(_UNKNOWN)} tokens as the unknown one; "
            "SentencePiece needs exactly one."
        )


def _set_special(trainer: Any, field: str, vocabulary: _Vocabulary, name: str) -> None:
    """Point a special id of the trainer spec at its piece, or switch it off."""
    index = vocabulary.special_id(name)
    if field == "unk":
        index = vocabulary.kinds.index(_UNKNOWN)
    setattr(trainer, f"{field}_id", -1 if index is None else index)
    if index is not None:
        setattr(trainer, f"{field}_piece", vocabulary.pieces[index])
