"""What a model's signatures mean: the steps that can be run, and what each is fed.

A step is one pass over L tokens. It is one call of the main model, with calls of
embedder and auxiliary models before and after it where a bundle has them. Meanings are
read from shapes, dtypes, the graph's state updates and the executor metadata; names
decide only between inputs that look alike.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from litert_lm.bundle.tflite import Signature, Tensor

__all__ = ["MASKS", "Call", "Feed", "Role", "batch_size", "classify", "input_length"]


class Role(enum.Enum):
    """What an input of a signature receives."""

    TOKENS = "token ids"
    POSITIONS = "positions"
    MASK = "attention mask"
    LOCAL_MASK = "attention mask of sliding-window layers"
    VALID = "which rows are real tokens"
    TIME_STEP = "position of the first token"
    PARAMS = "start, end and aligned end of the attended range"
    EMBEDDINGS = "token embeddings"
    LAYER_EMBEDDINGS = "per-layer token embeddings"
    LORA = "adapter weights, zero without an adapter"
    UNKNOWN = "unknown"


MASKS = (Role.MASK, Role.LOCAL_MASK)


@dataclass(frozen=True, slots=True)
class Feed:
    """An input that the host fills before a call.

    For a mask of sliding-window layers, `window` is the number of tokens that attention
    reaches back, itself included, and `ring` the length of the ring that holds them; 0
    where the layers' caches hold the whole context. `batch` is the leading dimension
    where that counts sequences, which are all fed the same.
    """

    name: str
    role: Role
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    window: int = 0
    ring: int = 0
    batch: int = 1


@dataclass(frozen=True, slots=True)
class Call:
    """One signature of one model within a step.

    Attributes:
        model: model type of the bundle section ("prefill_decode", "embedder", ...).
        key: signature key.
        feeds: inputs filled by the host.
        links: input name -> (position of an earlier call, its output name).
        states_in: input name -> state name.
        states_out: output name -> state name.
        in_place: states whose input and output may share one buffer.
        per_token: the call takes one token and is repeated for each; every output
            fills one row of the input that it is linked to.
    """

    model: str
    key: str
    feeds: tuple[Feed, ...]
    links: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    states_in: Mapping[str, str] = field(default_factory=dict)
    states_out: Mapping[str, str] = field(default_factory=dict)
    in_place: frozenset[str] = frozenset()
    per_token: bool = False


_MAX_PARAMS = 16  # the exporter's have 7
_LORA_MARKS = ("lora", "_prime_left", "_prime_right")


def input_length(signature: Signature, skip: Iterable[str]) -> int | None:
    """Number of tokens that one call takes; None when no input tells.

    `skip` names the state inputs.
    """
    skipped = set(skip)
    inputs = [tensor for tensor in signature.inputs if tensor.name not in skipped]
    integers = [t for t in inputs if _is_integer(t) and 1 <= len(t.shape) <= 2]
    floats = [t for t in inputs if t.type_code in (0, 1) and len(t.shape) == 3]
    single = [t.shape[-1] for t in integers if not _is_batch(t)]
    shortest = sorted(t.shape[1] for t in floats)[:1]
    batched = [t.shape[-1] for t in integers if _is_batch(t)]
    return next(iter((*single, *shortest, *batched)), None)


def batch_size(signature: Signature, length: int, skip: Iterable[str]) -> int:
    """Number of sequences that one call takes: the leading dimension of its tokens.

    `skip` names the state inputs.
    """
    skipped = set(skip)
    sizes = [
        tensor.shape[0]
        for tensor in signature.inputs
        if tensor.name not in skipped
        and tensor.shape[1:2] == (length,)
        and (len(tensor.shape) == 2 if _is_integer(tensor) else _is_embedding(tensor))
    ]
    return max(sizes, default=1)


def classify(tensor: Tensor, length: int) -> Role:
    """The role of an input that is neither state nor given by another call."""
    name, shape = tensor.name.lower(), tensor.shape
    if any(mark in name for mark in _LORA_MARKS):
        return Role.LORA
    if _is_integer(tensor):
        return _classify_integer(name, shape, length)
    kind = tensor.element_type.name
    if kind == "bool" and shape in ((length,), (1, length)):
        return Role.VALID
    if len(shape) >= 3 and shape[-2] == length and ("mask" in name or kind == "bool"):
        return Role.LOCAL_MASK if "local" in name else Role.MASK
    if len(shape) == 3 and shape[:2] == (1, length):
        return Role.EMBEDDINGS
    if len(shape) == 4 and shape[:2] == (1, length) and "embed" in name:
        return Role.LAYER_EMBEDDINGS
    if len(shape) == 4 and shape[-2] == length and shape[0] == 1:
        return Role.MASK
    return Role.UNKNOWN


def _classify_integer(name: str, shape: tuple[int, ...], length: int) -> Role:
    size = int(np.prod(shape, dtype=np.int64))
    if shape in ((length,), (1, length)):
        is_position = "pos" in name or (len(shape) == 1 and "token" not in name)
        return Role.POSITIONS if is_position else Role.TOKENS
    if size == 1:
        return Role.TIME_STEP
    if len(shape) == 4 and 3 <= size <= _MAX_PARAMS and "mask" not in name:
        return Role.PARAMS
    return Role.UNKNOWN


def _is_integer(tensor: Tensor) -> bool:
    return tensor.element_type.name in ("int32", "int64")


def _is_embedding(tensor: Tensor) -> bool:
    return len(tensor.shape) == 3 and "embed" in tensor.name.lower()


def _is_batch(tensor: Tensor) -> bool:
    return len(tensor.shape) == 2 and tensor.shape[0] != 1
