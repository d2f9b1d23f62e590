"""`litert-lm list`: the models on this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from litert_lm.cli import ui

if TYPE_CHECKING:
    from litert_lm.hub.store import StoredModel

__all__ = ["add_parser", "run"]


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "list", help="list the stored models", description="List the stored models."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--check", action="store_true", help="compare each file with its SHA-256"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line per model."""
    from litert_lm.hub.store import ModelStore

    store = ModelStore()
    models = store.models()
    if args.check:
        for model in models:
            store.check(model)
    if args.json:
        ui.out_json([_as_json(model) for model in models])
    elif models:
        rows = [(m.name, _size(m.size), m.created[:10], m.source) for m in models]
        ui.table(("NAME", "SIZE", "CREATED", "SOURCE"), rows)
    else:
        ui.note("No models yet. Get one: litert-lm pull smollm2-135m-instruct")
    for name in store.damaged_names():
        ui.note(f"{name} is damaged; remove it with `litert-lm rm {name}`.")
    return 0


def _as_json(model: StoredModel) -> dict[str, object]:
    return {
        "name": model.name,
        "path": str(model.path),
        "source": model.source,
        "sha256": model.sha256,
        "size": model.size,
        "created": model.created,
        "licence": model.licence,
        "recipe": model.recipe,
    }


def _size(num_bytes: int) -> str:
    return (
        f"{num_bytes / 1e6:.0f} MB" if num_bytes < 1e9 else f"{num_bytes / 1e9:.1f} GB"
    )
