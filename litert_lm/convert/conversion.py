"""The way of a conversion: open the source, author the model, write the bundle."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from litert_lm.bundle.writer import write_bundle
from litert_lm.config import WEIGHT_KINDS, Progress, SamplerConfig
from litert_lm.convert.checkpoint import Checkpoint
from litert_lm.convert.gguf import open_gguf
from litert_lm.convert.metadata import make_executor_metadata, make_llm_metadata
from litert_lm.convert.model import BuiltModel, build_model
from litert_lm.convert.safetensors import open_safetensors
from litert_lm.convert.weights import Spool
from litert_lm.errors import (
    ConversionError,
    InvalidArgumentError,
    ModelNotFoundError,
)

__all__ = ["check_output", "convert_checkpoint", "open_source"]


def open_source(source: Path) -> Checkpoint:
    """The checkpoint that `source` holds; see `litert_lm.convert.convert`."""
    source = Path(source)
    if source.is_dir():
        return _open_folder(source)
    if not source.is_file():
        raise ModelNotFoundError(f"There is no file or folder '{source}'.")
    if source.suffix == ".safetensors":
        return open_safetensors(source.parent, source)
    return open_gguf(source)


def _open_folder(folder: Path) -> Checkpoint:
    if (folder / "config.json").is_file():
        return open_safetensors(folder)
    files = sorted(folder.glob("*.gguf"))
    if len(files) == 1:
        return open_gguf(files[0])
    found = f"{len(files)} GGUF files" if files else "no GGUF file"
    raise ConversionError(
        f"'{folder}' has no config.json and {found}; name the file to convert."
    )


def check_output(output: Path, source: Path) -> None:
    """Raise InvalidArgumentError where writing `output` would destroy something else.

    That is a folder, a device or a pipe, and what is to be converted.
    """
    if not output.exists():
        return
    if output.is_dir():
        raise InvalidArgumentError(f"The output '{output}' is a folder; name a file.")
    if not output.is_file():
        raise InvalidArgumentError(
            f"The output '{output}' is a device or a pipe; name a file."
        )
    read = list(source.iterdir()) if source.is_dir() else [source]
    weights = [p for p in read if p.is_file() and p.suffix != ".litertlm"]
    if any(map(output.samefile, weights)):
        raise InvalidArgumentError(
            f"The output '{output}' is what is to be converted; name another file."
        )


def convert_checkpoint(
    checkpoint: Checkpoint,
    output: Path,
    *,
    weights: str,
    context_length: int | None,
    sampler: SamplerConfig | None,
    progress: Progress,
) -> None:
    """Write `checkpoint` as a bundle; see `litert_lm.convert.convert`."""
    output = Path(output)
    if weights not in WEIGHT_KINDS:
        raise InvalidArgumentError(
            f"weights must be one of {', '.join(WEIGHT_KINDS)}, got {weights!r}."
        )
    with Spool(output.parent) as spool:
        built = build_model(
            checkpoint,
            weights=weights,
            context_length=context_length,
            spool=spool,
            progress=lambda part: progress("Converting weights", part),
        )
        _check_vocabulary(checkpoint, built)
        _write(checkpoint, built, output, sampler, progress, weights)


def _check_vocabulary(checkpoint: Checkpoint, built: BuiltModel) -> None:
    highest = max(checkpoint.tokenizer.pieces.values(), default=-1)
    if highest >= built.vocab_size:
        raise ConversionError(
            f"The tokenizer of '{checkpoint.path}' has ids up to {highest}, but the "
            f"model embeds only {built.vocab_size}."
        )


def _write(
    checkpoint: Checkpoint,
    built: BuiltModel,
    output: Path,
    sampler: SamplerConfig | None,
    progress: Progress,
    weights: str,
) -> None:
    length = built.context_length
    write_bundle(
        output,
        metadata=make_llm_metadata(checkpoint, length, sampler),
        tokenizer=(checkpoint.tokenizer.kind, checkpoint.tokenizer.data),
        models={"prefill_decode": _reported(built, progress)},
        executor_metadata=make_executor_metadata(built.num_layers, length),
        system_metadata={"source": _readable(checkpoint.path), "weights": weights},
    )


def _readable(path: Path) -> str:
    """The file's name without bytes that are no text."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def _reported(built: BuiltModel, progress: Progress) -> Iterator[bytes | memoryview]:
    """The model's bytes, reporting how many are written."""
    total = built.file.num_bytes
    done = 0
    for chunk in built.file.chunks():
        yield chunk
        done += len(chunk)
        progress("Writing bundle", done / total)
