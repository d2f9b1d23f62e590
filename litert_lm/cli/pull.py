"""`litert-lm pull`: fetch a model into the store, converting it where needed."""

from __future__ import annotations

import argparse
from typing import Any

from litert_lm.cli import ui
from litert_lm.cli.convert import add_conversion_options

__all__ = ["add_parser", "run"]


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "pull",
        help="fetch a model into the store",
        description="Fetch a model into the store and print the path of its bundle."
        " GGUF files and safetensors folders are converted on the way.",
    )
    parser.add_argument("model", metavar="MODEL", help="what to fetch")
    parser.add_argument("--name", help="store it under this name")
    parser.add_argument(
        "--force", action="store_true", help="fetch it again, replacing what is stored"
    )
    add_conversion_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Fetch, store, and print the path."""
    from litert_lm.hub.fetch import pull

    with ui.progress() as progress:
        model = pull(
            args.model,
            name=args.name,
            force=args.force,
            weights=args.weights,
            context_length=args.context_length,
            progress=progress,
        )
    ui.out(str(model.path))
    return 0
