"""`litert-lm rm`: delete stored models."""

from __future__ import annotations

import argparse
from typing import Any

from litert_lm.cli import ui

__all__ = ["add_parser", "run"]


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "rm", help="delete stored models", description="Delete stored models."
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a stored model")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Delete the models in the order given; the first unknown name ends the work."""
    from litert_lm.executor.native.cache_dir import forget_packed_weights
    from litert_lm.hub.store import ModelStore

    store = ModelStore()
    for name in args.names:
        model = store.remove(name)
        if model is not None:
            forget_packed_weights(model.sha256)
        ui.note(f"removed {name}")
    return 0
