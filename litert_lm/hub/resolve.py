"""From what a user calls a model to the bundle file to open."""

from __future__ import annotations

import hashlib
import os
import re
from datetime import datetime
from pathlib import Path

from litert_lm.config import Progress, no_progress
from litert_lm.errors import InvalidArgumentError, ModelNotFoundError, os_errors, shown
from litert_lm.hub.fetch import is_checkpoint, missing_file, pull
from litert_lm.hub.sources import NameSource, PathSource, Source, parse_source
from litert_lm.hub.store import ModelStore, StoredModel

__all__ = ["resolve_model"]

_OFFICIAL_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?")


def resolve_model(
    model: str | os.PathLike[str],
    *,
    progress: Progress = no_progress,
    store: ModelStore | None = None,
) -> Path:
    """The bundle that `model` names; fetched and converted first if it has to be.

    An existing path wins, then a stored model, then a recipe's name, which is pulled.
    A source string is pulled unless a stored model came from it. Weights that a path
    names are converted into the store, anew when they have changed. Models that the
    official command line keeps (`$LITERT_LM_DIR`, `~/.litert-lm`) are found too.

    Raises:
        ModelNotFoundError: nothing is called that; the message offers similar names.
        InvalidArgumentError: a malformed source.
        DownloadError, ModelFileError, ConversionError, StorageError: from `pull`.
    """
    if not isinstance(model, str | os.PathLike):
        raise InvalidArgumentError(
            f"{shown(model)} names no model; give a str or path."
        )
    source = parse_source(os.fspath(model))
    with os_errors(f"open {shown(os.fspath(model))}"):
        if isinstance(source, PathSource) and _is_bundle(source.path):
            return source.path
        return _resolve(source, store or ModelStore(), progress)


def _is_bundle(path: Path) -> bool:
    """Whether it is to be opened as it is, be it a bundle or not."""
    return os.path.exists(path) and not is_checkpoint(path)


def _resolve(source: Source, store: ModelStore, progress: Progress) -> Path:
    if isinstance(source, PathSource):
        return _from_path(source, store, progress)
    if isinstance(source, NameSource):
        if stored := store.find(source.name):
            return stored.path
        if imported := _imported(source.name):
            return imported
        return pull(source.name, progress=progress, store=store).path
    if stored := _pulled_from(store, str(source)):
        return stored.path
    return pull(str(source), progress=progress, store=store).path


def _from_path(source: PathSource, store: ModelStore, progress: Progress) -> Path:
    path = source.path
    if not os.path.exists(path):
        if imported := _imported(path.as_posix()):
            return imported
        raise ModelNotFoundError(missing_file(source.given or str(path)))
    stored = _pulled_from(store, str(source))
    if stored and _changed_s(path) <= _created_s(stored):
        return stored.path
    # Checkpoints are often called "model": the name has to tell folders apart.
    tag = hashlib.sha256(str(source).encode()).hexdigest()[:8]
    name = f"{source.default_name[:80]}-{tag}"
    return pull(str(source), name=name, force=True, progress=progress, store=store).path


def _pulled_from(store: ModelStore, source: str) -> StoredModel | None:
    """The model that was pulled from just this source, by no recipe."""
    return next(
        (m for m in store.models() if m.source == source and m.recipe is None), None
    )


def _imported(name: str) -> Path | None:
    """A model of the official command line's store, if it has one of that name."""
    home = os.environ.get("LITERT_LM_DIR") or "~/.litert-lm"
    if not _OFFICIAL_NAME.fullmatch(name):
        return None
    try:
        folder = Path(home).expanduser() / "models" / name.replace("/", "--")
    except RuntimeError:  # the user has no home
        return None
    bundle = folder / "model.litertlm"
    return bundle if os.path.isfile(bundle) else None


def _changed_s(path: Path) -> float:
    """When the checkpoint was last written, in seconds since 1970."""
    files = [path, *path.iterdir()] if path.is_dir() else [path]
    return max(file.stat().st_mtime for file in files if os.path.exists(file))


def _created_s(model: StoredModel) -> float:
    try:
        return datetime.fromisoformat(model.created).timestamp()
    except ValueError:
        return 0.0
