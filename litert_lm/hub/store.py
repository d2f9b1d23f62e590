"""The store: one folder per model, with its bundle and a manifest.

Layout below the home directory::

    models/NAME/model.json        the manifest
    models/NAME/NAME.litertlm     the bundle
    downloads/                    partial files, kept so that a pull can resume
    locks/                        one lock file per name
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from litert_lm.bundle.lock import file_lock
from litert_lm.errors import (
    InvalidArgumentError,
    ModelFileError,
    ModelNotFoundError,
    StorageError,
    os_errors,
)
from litert_lm.hub.checksum import file_sha256

__all__ = ["ModelStore", "StoredModel", "check_name", "data_home", "near_names"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MANIFEST = "model.json"
_MAX_MANIFEST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class StoredModel:
    """One model of the store, as its manifest says.

    Args:
        name: what the user calls it.
        path: the bundle file.
        source: where it was pulled from, as a source string.
        sha256: hex digest of the bundle file.
        size: bytes of the bundle file.
        created: when it was pulled, ISO 8601 in UTC.
        licence: SPDX name of the weights' licence, where the source names one.
        recipe: name of the recipe it was made by, if any.
    """

    name: str
    path: Path
    source: str
    sha256: str
    size: int
    created: str
    licence: str | None = None
    recipe: str | None = None


def data_home() -> Path:
    """`$LITERT_LM_HOME`, else `$XDG_DATA_HOME/litert_lm` (`~/.local/share/...`)."""
    if home := os.environ.get("LITERT_LM_HOME"):
        return _expanded(home)
    base = os.environ.get("XDG_DATA_HOME")
    return (Path(base) if base else _expanded("~/.local/share")) / "litert_lm"


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise StorageError(
            f"There is no home directory for {path!r}. Set LITERT_LM_HOME to a folder."
        ) from error


def check_name(name: str) -> str:
    """`name` if it can name a model folder, else InvalidArgumentError."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise InvalidArgumentError(
            f"{name!r} cannot name a model. Use up to 100 letters, digits, '.', '_'"
            " and '-', beginning with a letter or digit."
        )
    return name


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """At most three of `known` that look like `name`, the most similar first."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=3, cutoff=0.7)
    return [by_lower[match] for match in close]


class ModelStore:
    """The models below one home directory; `data_home()` when none is given."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or data_home()

    @property
    def downloads(self) -> Path:
        """Folder of partial downloads."""
        return self.home / "downloads"

    def models(self) -> list[StoredModel]:
        """All sound models, by name."""
        return [model for name in self._folders() if (model := self._sound(name))]

    def damaged(self) -> dict[str, ModelFileError]:
        """By name, what is wrong with the manifest or the size of each bad model."""
        found = {}
        for name in self._folders():
            try:
                self._read(name)
            except ModelFileError as error:
                found[name] = error
        return found

    def find(self, name: str) -> StoredModel | None:
        """The model called `name`, or None; ModelFileError if it is damaged."""
        if not _NAME.fullmatch(name):
            return None
        with os_errors(f"read the store's {name}"):
            is_there = (self._folder(name) / _MANIFEST).exists()
        return self._read(name) if is_there else None

    def remove(self, name: str) -> StoredModel | None:
        """Delete the model called `name`; what it was, or None if it was damaged.

        Raises:
            ModelNotFoundError: there is none; the message offers similar names.
        """
        check_name(name)
        if name not in self._folders():
            near = near_names(name, self._folders())
            hint = f" Did you mean {', '.join(near)}?" if near else ""
            raise ModelNotFoundError(f"No stored model is called {name!r}.{hint}")
        with self.lock(name), os_errors(f"remove {name}"):
            model = self._sound(name)
            shutil.rmtree(self._folder(name))
        return model

    @contextmanager
    def lock(
        self, name: str, on_wait: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Keep other processes from changing `name`; `on_wait` tells of a wait."""
        with file_lock(self.home / "locks" / f"{check_name(name)}.lock", on_wait):
            yield

    @contextmanager
    def staging(self, name: str) -> Iterator[Path]:
        """An empty folder on the store's disk, gone when the block ends.

        Hold `lock(name)` around it. What a killed process left there is cleared.
        """
        folder = self.home / "models" / f".incoming-{check_name(name)}"
        shutil.rmtree(folder, ignore_errors=True)
        with os_errors(f"write to {self.home}"):
            folder.mkdir(parents=True)
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def publish(self, bundle: Path, model: StoredModel) -> StoredModel:
        """Make `bundle`, a file in the staging folder, the model's; all or nothing.

        `model.path` is ignored; the model with its place in the store comes back.
        """
        folder = bundle.parent / "publish"
        with os_errors(f"store {model.name}"):
            folder.mkdir()
            placed = folder / f"{model.name}{bundle.suffix}"
            os.replace(bundle, placed)
            _sync(placed)
            manifest = asdict(model) | {"path": placed.name, "format": 1}
            _write_synced(folder / _MANIFEST, json.dumps(manifest, indent=2) + "\n")
            self._swap_in(folder, self._folder(model.name))
        return self._read(model.name)

    def check(self, model: StoredModel) -> None:
        """Raise ModelFileError unless the bundle still has the manifest's digest."""
        digest = file_sha256(model.path)
        if digest != model.sha256:
            raise ModelFileError(
                f"The model file {model.path} has changed: its SHA-256 is {digest}"
                f" instead of {model.sha256}. Pull it again with"
                f" `litert-lm pull --force {model.name}`."
            )

    def _swap_in(self, folder: Path, target: Path) -> None:
        old = folder.parent / "replaced"
        if target.exists():
            os.replace(target, old)
        os.replace(folder, target)
        _sync(target.parent)

    def _folder(self, name: str) -> Path:
        return self.home / "models" / name

    def _folders(self) -> list[str]:
        with os_errors(f"read {self.home}"):
            if not (self.home / "models").is_dir():
                return []
            names = os.listdir(self.home / "models")
        return sorted(
            n for n in names if _NAME.fullmatch(n) and self._folder(n).is_dir()
        )

    def _sound(self, name: str) -> StoredModel | None:
        try:
            return self._read(name)
        except ModelFileError:
            return None

    def _read(self, name: str) -> StoredModel:
        path = self._folder(name) / _MANIFEST
        try:
            if stat.S_ISFIFO(path.stat().st_mode):
                raise ValueError("it is a pipe")
            with path.open("rb") as file:
                fields = json.loads(file.read(_MAX_MANIFEST_BYTES))
            return _from_manifest(name, path.parent, fields)
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise ModelFileError(
                f"The manifest {path} is damaged ({error}). Remove the model with"
                f" `litert-lm rm {name}` and pull it again."
            ) from error


def _from_manifest(name: str, folder: Path, fields: dict[str, object]) -> StoredModel:
    bundle = folder / check_name(str(fields["path"]))
    size = fields["size"]
    if fields["name"] != name or not isinstance(size, int):
        raise ValueError("it belongs to another model")
    _check_size(name, bundle, size)
    return StoredModel(
        name=name,
        path=bundle,
        source=str(fields["source"]),
        sha256=str(fields["sha256"]),
        size=size,
        created=str(fields["created"]),
        licence=_optional_text(fields.get("licence")),
        recipe=_optional_text(fields.get("recipe")),
    )


def _check_size(name: str, bundle: Path, size: int) -> None:
    """Raise ModelFileError unless the bundle is there in its full size."""
    try:
        found = bundle.stat().st_size
    except FileNotFoundError:
        fault = "is missing"
    else:
        if found == size:
            return
        fault = f"has {found} bytes instead of {size}"
    raise ModelFileError(
        f"The model file {bundle} {fault}. Remove the model with `litert-lm rm {name}`"
        " and pull it again."
    )


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(path: Path) -> None:
    """Flush a file or a directory entry to the disk."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
