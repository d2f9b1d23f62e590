"""What must hold of a step's tensors, and what to say where it does not.

Every check raises UnsupportedModelError with one clause that names the tensor, what it
is and what it would have to be; the reader puts the signature's name before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from litert_lm.bundle.tflite import Signature, Tensor
from litert_lm.errors import UnsupportedModelError
from litert_lm.executor.layout.layout import Step
from litert_lm.executor.layout.signatures import Feed

__all__ = [
    "check_batch",
    "check_fixed",
    "check_mask",
    "described",
    "is_cache",
    "no_decode_step",
    "unknown_input",
]


def described(tensor: Tensor) -> str:
    """Such as "'mask' float32[1, 1, 8, 256]"."""
    return f"{tensor.name!r} {tensor.element_type.name}{list(tensor.shape)}"


def check_fixed(signature: Signature) -> None:
    """All inputs have the shape that they say."""
    for tensor in signature.inputs:
        if any(size < 0 for size in tensor.shape_signature or ()):
            raise UnsupportedModelError(
                f"input {tensor.name!r} {tensor.element_type.name}"
                f"{list(tensor.shape_signature or ())} has an open dimension; export "
                "it with a fixed one"
            )


def check_batch(
    batch: int, states: Iterable[Tensor], logits: Tensor | None = None
) -> None:
    """States and logits have the leading dimension of the tokens."""
    if batch == 1:
        return
    for tensor in (*states, *([] if logits is None else [logits])):
        if tensor.shape[:1] != (batch,):
            raise UnsupportedModelError(
                f"its tokens have a batch of {batch}, and {described(tensor)} has no "
                "such leading dimension; export it with a batch of 1"
            )


def check_mask(feed: Feed, length: int, context: int | None) -> None:
    """A mask has a row per token and a column per entry that they may attend.

    Args:
        context: tokens that caches other than rings hold; None where there are none.
    """
    rows, width = math.prod(feed.shape[:-1]), feed.shape[-1]
    text = f"input {feed.name!r} {feed.dtype}{list(feed.shape)}"
    if context == 0 and not feed.ring:
        raise UnsupportedModelError(
            f"{text} has a column for each entry of a cache, and no state has such a "
            "dimension; export it with executor metadata"
        )
    widths = [width if context is None else context]
    if feed.ring:
        widths = [feed.ring, feed.ring + length]
    if width not in widths or rows != length * feed.batch:
        kind = "ring" if feed.ring else "cache"
        raise UnsupportedModelError(
            f"{text} must end with [{length}, {' or '.join(map(str, widths))}], a row "
            f"for each token and a column for each entry of the {kind}"
        )


def no_decode_step(steps: Sequence[Step], skipped: Mapping[str, str]) -> str:
    """Why a model cannot be run that has no step of one token with logits."""
    reasons = dict(skipped)
    for step in steps:
        if step.length == 1:
            reasons[step.key] = "no output holds logits, float32[1, 1, V]"
    named = {key: why for key, why in reasons.items() if "decode" in key} or reasons
    if named:
        told = "; ".join(f"in signature {key!r}, {why}" for key, why in named.items())
        return f"The model cannot be run: {told}."
    keys = ", ".join(repr(step.key) for step in steps) or "none"
    return (
        f"The model has no signature that takes one token and gives logits, only {keys}"
        "; export it with a decode signature."
    )


def is_cache(tensor: Tensor) -> bool:
    """Whether a tensor is named like a cache, which may be shaped like a mask."""
    name = tensor.name.lower()
    return "mask" not in name and ("cache" in name or name.startswith("kv_"))


def unknown_input(tensor: Tensor, length: int, outputs: Iterable[Tensor]) -> str:
    """Why an input of a signature cannot be fed."""
    if is_cache(tensor):
        same = [described(t) for t in outputs if t.name == tensor.name]
        there = f"only {same[0]}" if same else "none of that name"
        return (
            f"input {described(tensor)} looks like a cache, and it would have to be an "
            f"output of the same shape as well, but there is {there}"
        )
    return (
        f"input {described(tensor)} has no known meaning; known are token ids and "
        f"positions int32[1, {length}], masks float32 or bool[1, 1, {length}, T] and "
        f"embeddings float32[1, {length}, D]"
    )
