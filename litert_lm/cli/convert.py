"""`litert-lm convert`: a bundle from GGUF or safetensors weights."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from litert_lm.cli import ui
from litert_lm.config import WEIGHT_KINDS
from litert_lm.convert import convert

__all__ = ["add_conversion_options", "add_parser", "run"]


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "convert",
        help="make a bundle of GGUF or safetensors weights",
        description="Make a .litertlm bundle of a GGUF file or a folder with"
        " config.json, tokenizer.json and .safetensors files.",
    )
    parser.add_argument("source", metavar="SOURCE", help="GGUF file or folder")
    parser.add_argument("output", metavar="OUT.litertlm", help="bundle to write")
    add_conversion_options(parser)
    parser.set_defaults(run=run)


def add_conversion_options(parser: argparse.ArgumentParser) -> None:
    """Options that say how weights are converted; unset ones are left to the recipe."""
    parser.add_argument(
        "--weights",
        choices=WEIGHT_KINDS,
        help=f"precision of the weights (default: {WEIGHT_KINDS[0]})",
    )
    parser.add_argument(
        "--context-length",
        type=int,
        metavar="N",
        help="longest context in tokens (default: the model's, at most 4096)",
    )


def run(args: argparse.Namespace) -> int:
    """Convert and print the path."""
    with ui.progress() as progress:
        convert(
            Path(args.source),
            Path(args.output),
            weights=args.weights or WEIGHT_KINDS[0],
            context_length=args.context_length,
            progress=progress,
        )
    ui.out(args.output)
    return 0
