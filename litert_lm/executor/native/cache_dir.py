"""The cache directory: packed weights and what is known of each model.

Everything in it can be made again. Names hold the content hash of the model file, the
LiteRT version and the CPU's features, because XNNPACK does not tie its weight cache to
them: one that belongs to another model gives wrong logits without any sign.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

from litert_lm.bundle.atomic import is_unfinished, replacing
from litert_lm.bundle.identity import Identity, file_identity
from litert_lm.bundle.lock import file_lock
from litert_lm.config import Progress, no_progress
from litert_lm.errors import (
    InvalidArgumentError,
    ModelFileError,
    StorageError,
    shown,
)

__all__ = ["MEMORY", "NO_CACHE", "CacheDirectory", "forget_packed_weights"]

NO_CACHE = ":nocache"
MEMORY = ":memory"
MAX_BYTES = 16 << 30  # of packed weights; the least recently used go first
_MAX_SMALL_FILES = 1000
_PACKED_GROWTH = 1.25  # packed weights against those in the file, at most
_ROOM_FOR_NOTES = 1 << 20
_MAX_SMALL_BYTES = 16 << 20
_MAX_BLOB_BYTES = 64 << 20
_DIGEST_BYTES = 32
_PACKED = ".litert_lm.xnnpack"  # how names of packed weights end
_PART_SECONDS = 86_400  # a file that is still being written after that is left over
_CHUNK = 4 << 20


class CacheDirectory:
    """Where a model's weight cache and facts lie.

    Args:
        cache_dir: None for ``$XDG_CACHE_HOME/litert_lm`` (in memory where that cannot
            be written), ``""`` for the folder of the model, ``":memory"`` or
            ``":nocache"`` for no weight cache file, or a folder.
        model_path: the bundle.

    Raises:
        StorageError: the folder asked for cannot be written.
    """

    def __init__(self, cache_dir: str | None, model_path: Path) -> None:
        if not isinstance(cache_dir, str | None):
            raise InvalidArgumentError(
                f"cache_dir must be a str or None, got {shown(cache_dir)}."
            )
        self.weights: Path | str | None
        self._is_default = cache_dir is None
        default = _writable(_default_folder())
        if cache_dir in (NO_CACHE, MEMORY):
            self.weights = MEMORY if cache_dir == MEMORY else None
            self._small = default
            return
        folder = default
        if cache_dir is not None:
            wanted = Path(cache_dir) if cache_dir else model_path.resolve().parent
            folder = _writable(wanted)
            if folder is None:
                raise StorageError(
                    f"The cache folder {str(wanted)!r} cannot be written; pass another "
                    f"cache_dir, or {MEMORY!r} to keep packed weights in memory."
                )
        self.weights = MEMORY if folder is None else folder
        self._small = folder

    def weight_cache(self, content_hash: str, section: str) -> str | None:
        """Path of a section's packed weights, ":memory", or None for no cache."""
        if not isinstance(self.weights, Path):
            return self.weights
        name = f"{_start(content_hash)}{section}-{runtime_key()}{_PACKED}"
        path = self.weights / name
        try:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                path.unlink()  # XNNPACK would wait for a pipe, or write elsewhere
            else:
                times = time.time_ns(), os.stat(path).st_mtime_ns  # changed: not now
                os.utime(path, ns=times)
        except FileNotFoundError:
            pass
        except OSError:
            return MEMORY
        return str(path)

    def make_room(self, content_hash: str, sizes: Mapping[str, int]) -> None:
        """See to it that weights which are not packed yet will fit; LiteRT aborts else.

        Args:
            sizes: bytes of each section.

        Raises:
            StorageError: they do not fit into the folder asked for. In the default
                folder's stead memory is used.
        """
        packed = {name: self.weight_cache(content_hash, name) for name in sizes}
        missing = [name for name, path in packed.items() if not _is_there(path)]
        needed = sum(sizes[name] for name in missing) * _PACKED_GROWTH
        if not isinstance(self.weights, Path) or not missing:
            return
        free = shutil.disk_usage(self.weights).free
        if needed + _ROOM_FOR_NOTES <= free:
            return
        if not self._is_default:
            raise StorageError(
                f"The cache folder {self.weights} needs {needed / 1e6:.0f} MB, and its "
                f"disk has {free / 1e6:.0f} MB free. Free some, or pass another "
                f"cache_dir, or {MEMORY!r} to keep packed weights in memory."
            )
        self.weights = MEMORY

    def content_hash(
        self,
        path: Path,
        progress: Progress = no_progress,
        *,
        identity: Identity | None = None,
    ) -> str:
        """SHA-256 of a file, remembered by device, inode, size and time of change.

        Args:
            identity: of the file that was opened by this path. With the hash of
                another one, packed weights would give wrong logits without any sign.

        Raises:
            ModelFileError: the path leads to another file by now.
        """
        identity = identity or file_identity(path)
        _check_unchanged(path, identity)
        name = "-".join(map(str, ("hash", *(identity or ()))))
        known = self.load(name)
        if isinstance(known, str):
            return known
        try:
            digest = _digest(path, progress)
        except OSError as error:
            raise StorageError(f"{path} cannot be read: {error.strerror}.") from error
        _check_unchanged(path, identity)
        self.save(name, digest)
        return digest

    def load(self, name: str) -> Any:
        """A value that `save` stored, or None where it is missing or damaged."""
        if self._small is None:
            return None
        path = self._small / f"{name}.litert_lm.json"
        try:
            if not path.is_file():  # reading a pipe would wait
                return None
            with path.open("rb") as file:
                checksum, value = json.loads(file.read(_MAX_SMALL_BYTES))
            return value if checksum == _checksum(value) else None
        except (OSError, ValueError, TypeError, RecursionError):
            return None

    def save(self, name: str, value: object) -> None:
        """Store a JSON value; a failure only means that it is made again next time."""
        if self._small is None:
            return
        text = json.dumps([_checksum(value), value])
        path = self._small / f"{name}.litert_lm.json"
        if path.exists() and not path.is_file():
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(StorageError), replacing(path) as file:
            file.write(memoryview(text.encode()), 0)

    def load_blob(self, name: str) -> memoryview | None:
        """Bytes that `save_blob` stored, or None where they are missing or damaged."""
        if self._small is None:
            return None
        path = self._small / f"{name}.litert_lm.bin"
        try:
            if not path.is_file():
                return None
            with path.open("rb") as file:
                data = memoryview(file.read(_MAX_BLOB_BYTES))
        except OSError:
            return None
        blob = data[_DIGEST_BYTES:]
        return blob if hashlib.sha256(blob).digest() == data[:_DIGEST_BYTES] else None

    def save_blob(self, name: str, blob: bytes) -> None:
        """Store bytes; a failure only means that they are made again next time."""
        if self._small is None or len(blob) + _DIGEST_BYTES > _MAX_BLOB_BYTES:
            return
        path = self._small / f"{name}.litert_lm.bin"
        with contextlib.suppress(OSError):
            if path.exists() and not path.is_file():
                path.unlink()
        with contextlib.suppress(StorageError), replacing(path) as file:
            file.write(memoryview(hashlib.sha256(blob).digest() + blob), 0)

    @contextmanager
    def lock(
        self, name: str, on_wait: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Keep other processes out of what `name` stands for, where files can lock."""
        with contextlib.ExitStack() as held:
            if self._small is not None:
                path = self._small / f"{name}.litert_lm.lock"
                with contextlib.suppress(StorageError):
                    held.enter_context(file_lock(path, on_wait))
            yield

    def trim(self) -> None:
        """Delete what was not used for longest until the limits hold."""
        folder = self.weights if isinstance(self.weights, Path) else self._small
        if folder is None:
            return
        with contextlib.suppress(OSError):
            _trim(folder.glob(f"*{_PACKED}"), MAX_BYTES, _MAX_SMALL_FILES)
            for kind in ("json", "lock", "bin"):
                _trim(folder.glob(f"*.litert_lm.{kind}"), MAX_BYTES, _MAX_SMALL_FILES)
            _drop_left_over(folder)


def _drop_left_over(folder: Path) -> None:
    """Delete what killed processes were writing; the folder may be the user's own."""
    oldest = time.time() - _PART_SECONDS
    for path in filter(is_unfinished, folder.glob(".*.part")):
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)


def forget_packed_weights(content_hash: str) -> None:
    """Delete what is packed in the default folder of a model that has gone."""
    folder = _default_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        for path in folder.glob(f"*{_PACKED}"):
            if path.name.startswith(_start(content_hash)):
                path.unlink(missing_ok=True)


def _start(content_hash: str) -> str:
    """How names of a model's packed weights begin."""
    return f"{content_hash[:32]}-"


def _is_there(path: str | None) -> bool:
    return path is not None and os.path.exists(path)


def _check_unchanged(path: Path, identity: Identity | None) -> None:
    if identity is None or file_identity(path) != identity:
        raise ModelFileError(
            f"{path} was replaced, changed or deleted while it was opened; open it "
            "again."
        )


def _digest(path: Path, progress: Progress) -> str:
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            progress("Reading the model", min(file.tell() / max(size, 1), 1.0))
    return digest.hexdigest()


def _checksum(value: object) -> str:
    """Tells a value that was stored here from one that was damaged or edited."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@functools.cache
def runtime_key() -> str:
    """Short hash of everything but the model that packed weights depend on."""
    parts = [_runtime_version(), platform.machine(), _cpu_features()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _runtime_version() -> str:
    """As importlib.metadata.version, without the 10 ms of importing `email`."""
    text = metadata.distribution("ai-edge-litert").read_text("METADATA") or ""
    lines = (line for line in text.splitlines() if line.startswith("Version:"))
    return next(lines, "")


def _cpu_features() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    marks = ("flags", "Features", "model name", "CPU part", "CPU variant")
    return "\n".join(sorted({line for line in lines if line.startswith(marks)}))


def _default_folder() -> Path | None:
    """None where the user has no home."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "litert_lm"


def _writable(folder: Path | None) -> Path | None:
    # LiteRT's options cannot hold a path with a line break.
    if folder is None or "\n" in str(folder):
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except (OSError, ValueError):
        return None


def _trim(paths: Iterator[Path], max_bytes: int, max_files: int) -> None:
    files = sorted(
        ((path.stat(), path) for path in paths),
        key=lambda pair: max(pair[0].st_atime, pair[0].st_mtime),
        reverse=True,
    )
    total = 0
    for count, (status, path) in enumerate(files, 1):
        total += status.st_size
        if total > max_bytes or count > max_files:
            path.unlink(missing_ok=True)
