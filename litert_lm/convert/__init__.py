"""Weights in: GGUF files and Hugging Face folders become .litertlm bundles."""

from __future__ import annotations

from pathlib import Path

from litert_lm.config import Progress, SamplerConfig, no_progress
from litert_lm.errors import os_errors, shown

__all__ = ["convert"]


def convert(
    source: Path,
    output: Path,
    *,
    weights: str = "int8",
    context_length: int | None = None,
    sampler: SamplerConfig | None = None,
    progress: Progress = no_progress,
) -> None:
    """Write a bundle with the weights, tokenizer and chat template of `source`.

    The file appears when it is complete; after a failure nothing is left of it.

    Args:
        source: a GGUF file, a .safetensors file, or a folder with one GGUF file or
            with config.json, safetensors and a tokenizer.
        output: path of the bundle; an existing file is replaced.
        weights: "int8" per channel, "int4" in blocks of 32 with embedding and head
            in int8, or "f32".
        context_length: tokens that the caches hold; None is what the model was
            trained for, at most 4096.
        sampler: default sampling, temperature 0 being greedy; None takes what the
            checkpoint recommends.
        progress: told of each stage.

    Raises:
        ModelNotFoundError: there is no such source.
        ModelFileError: a file of the source is damaged.
        ConversionError: the checkpoint is incomplete or cannot be expressed.
        InvalidArgumentError: an argument is wrong.
        MissingExtraError: the package that reads the format is not installed.
        StorageError: a file cannot be read or the bundle not be written.
    """
    from litert_lm.convert.conversion import (
        check_output,
        convert_checkpoint,
        open_source,
    )

    with os_errors(f"convert {shown(str(source))}"):
        check_output(Path(output), Path(source))
        convert_checkpoint(
            open_source(source),
            output,
            weights=weights,
            context_length=context_length,
            sampler=sampler,
            progress=progress,
        )
