"""From a checkpoint to a TFLite file: picks the architecture and authors it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from litert_lm.convert.architectures import llama
from litert_lm.convert.architectures.batch import BATCH, add_batch_signature
from litert_lm.convert.architectures.decoder import SIGNATURES, add_signature
from litert_lm.convert.checkpoint import Checkpoint
from litert_lm.convert.tflite import ModelAuthor, TFLiteFile
from litert_lm.convert.weights import Spool, WeightMaker
from litert_lm.errors import ConversionError, InvalidArgumentError

__all__ = ["DEFAULT_CONTEXT_LENGTH", "MIN_CONTEXT_LENGTH", "BuiltModel", "build_model"]

DEFAULT_CONTEXT_LENGTH = 4096
# The shortest prefill signature must fit into the cache.
MIN_CONTEXT_LENGTH = 32

# Larger buffers lie behind the FlatBuffer.
_EXTERNAL_FROM_BYTES = 4096

_ARCHITECTURES = {"llama": llama}


@dataclass(frozen=True, eq=False)
class BuiltModel:
    """An authored model; float weights are still read while it is written."""

    file: TFLiteFile
    num_layers: int
    vocab_size: int
    context_length: int


def build_model(
    checkpoint: Checkpoint,
    *,
    weights: str,
    context_length: int | None,
    spool: Spool,
    progress: Callable[[float], None],
) -> BuiltModel:
    """Author the model of `checkpoint`.

    Args:
        weights: "int8", "int4" or "f32".
        context_length: steps that the caches hold; None is what the checkpoint was
            trained for, at most 4096.
        spool: must stay open until the model is written.
        progress: called with the part of the weights that is done, 0 to 1; floats
            count at once, they are read when the file is written.
    """
    name = checkpoint.config.get("model_type")
    architecture = _ARCHITECTURES.get(str(name))
    if architecture is None:
        raise ConversionError(
            f"'{checkpoint.path}' is a model of type {name!r}; "
            f"{', '.join(_ARCHITECTURES)} can be converted."
        )
    config = architecture.read_config(checkpoint)
    length = _context_length(context_length, config.max_positions)
    counter = _Counter(architecture.num_weights(config), progress)
    maker = WeightMaker(spool, counter.add)
    made = architecture.make_weights(checkpoint, config, maker, weights)
    author = ModelAuthor(external_from_bytes=_EXTERNAL_FROM_BYTES)
    for signature in SIGNATURES:
        if signature.length <= length:
            add_signature(author, signature, config.shape, made, config.rope, length)
    add_batch_signature(author, BATCH, config.shape, made, config.rope, length)
    shape = config.shape
    return BuiltModel(author.finish(), shape.num_layers, shape.vocab_size, length)


def _context_length(asked: int | None, max_positions: int) -> int:
    length = min(max_positions, DEFAULT_CONTEXT_LENGTH) if asked is None else asked
    if not MIN_CONTEXT_LENGTH <= length <= max_positions:
        raise InvalidArgumentError(
            f"context_length must be in {MIN_CONTEXT_LENGTH}..{max_positions} for this "
            f"model, got {length}."
        )
    return length


class _Counter:
    """Adds up weights and reports them as a part of all."""

    def __init__(self, total: int, progress: Callable[[float], None]) -> None:
        self._total = max(total, 1)
        self._done = 0
        self._progress = progress

    def add(self, num_weights: int) -> None:
        self._done += num_weights
        self._progress(min(self._done / self._total, 1.0))
