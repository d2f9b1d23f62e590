"""`litert-lm list`: the models on this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from litert_lm.cli import ui
from litert_lm.errors import LiteRtLmError, ModelFileError, StorageError

if TYPE_CHECKING:
    from litert_lm.hub.store import ModelStore, StoredModel

__all__ = ["add_parser", "run"]


def add_parser(verbs: Any) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "list", help="list the stored models", description="List the stored models."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--check",
        action="store_true",
        help="compare each file with its SHA-256; exit code 4 if one differs",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print one line per sound model; notes tell of the others."""
    from litert_lm.hub.store import ModelStore

    store = ModelStore()
    damage: list[LiteRtLmError] = list(store.damaged().values())
    models = _checked(store, damage) if args.check else store.models()
    _print(models, args.json, has_others=bool(damage))
    for error in damage:
        ui.note(str(error))
    if not args.check:
        return 0
    if models and not damage:
        number = len(models)
        ui.note("1 model is sound." if number == 1 else f"{number} models are sound.")
    return 4 if damage else 0


def _checked(store: ModelStore, damage: list[LiteRtLmError]) -> list[StoredModel]:
    """The models whose bytes are as they were; the others' errors go to `damage`."""
    sound = []
    for model in store.models():
        try:
            store.check(model)
            sound.append(model)
        except (ModelFileError, StorageError) as error:
            damage.append(error)
    return sound


def _print(models: list[StoredModel], as_json: bool, has_others: bool) -> None:
    if as_json:
        ui.out_json([_as_json(model) for model in models])
    elif models:
        rows = [(m.name, _size(m.size), m.created[:10], m.source) for m in models]
        ui.table(("NAME", "SIZE", "CREATED", "SOURCE"), rows)
    elif not has_others:
        ui.note("No models yet. Get one: litert-lm pull smollm2-135m-instruct")


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
