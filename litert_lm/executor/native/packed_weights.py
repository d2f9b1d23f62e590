"""Sees to it that packed weights on disk are whole and of this model.

XNNPACK trusts most of what its cache file holds: a damaged one crashes it or gives
wrong logits without any sign. Two processes that pack into one file fail. So the file
is noted when it was made, one that is not as noted is made anew, and one process at a
time does so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from litert_lm.bundle.identity import file_identity
from litert_lm.executor.native.cache_dir import CacheDirectory

__all__ = ["PackedWeights"]


class PackedWeights:
    """The weight caches in one cache directory."""

    def __init__(self, cache: CacheDirectory) -> None:
        self._cache = cache

    @contextmanager
    def in_use(self, weight_cache: str | None) -> Iterator[None]:
        """Put this around a compilation with a weight cache of the directory.

        The file is deleted first where it is not what was noted of it.
        """
        if weight_cache is None or not isinstance(self._cache.weights, Path):
            yield
            return
        path = Path(weight_cache)
        if self._is_as_noted(path):
            yield
        else:
            with self._cache.lock(_note(path)):
                if not self._is_as_noted(path):
                    with contextlib.suppress(OSError):
                        path.unlink()
                yield
                self._cache.save(_note(path), file_identity(path))
        if not self._is_as_noted(path):  # weights of one more signature were added
            self._cache.save(_note(path), file_identity(path))

    def _is_as_noted(self, path: Path) -> bool:
        identity = file_identity(path)
        return identity is not None and self._cache.load(_note(path)) == list(identity)


def _note(path: Path) -> str:
    return f"packed-{path.name.partition('.')[0]}"
