"""Compiles a bundle's models when their signatures are first needed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from litert_lm.bundle.copies import Copies
from litert_lm.bundle.tflite import read_tflite
from litert_lm.executor.native.cache_dir import MEMORY
from litert_lm.executor.native.compiled_model import CompiledModel, CompileOptions
from litert_lm.executor.native.custom_ops import KERNELS
from litert_lm.executor.native.huge_pages import map_pages, move_to_huge_pages
from litert_lm.executor.native.loaded_model import LoadedModel
from litert_lm.executor.patching.patch import Patch

__all__ = ["ModelCompiler", "Packing"]

Packing = Callable[[str | None], AbstractContextManager[None]]


class ModelCompiler:
    """Gives the compiled model that holds a signature.

    Args:
        sections: model type -> verified TFLite bytes.
        options: accelerator and threads of all compilations.
        weight_caches: model type -> path of its packed weights, or None.
        groups: model type -> keys that are compiled together, since one compilation of
            several signatures maps the packed weights once; others come alone,
            and so does the first as long as no other is asked for.
        uses_huge_pages: move packed weights there after each compilation.
        packing: entered around each compilation with its weight cache.
        patched: model type -> how its bytes are changed for a shorter cache, and what
            makes copies of them to be changed. Such models are compiled once for each
            length of the cache.

    Attributes:
        is_patching: some models are changed.
        max_lengths: lengths for which they may be compiled at once.
        max_copies: copies of a signature that may be compiled.
        before_replacing: called before a compilation takes the place of an earlier
            one, which is to be let go of, or its weights are mapped twice.
    """

    def __init__(
        self,
        sections: Mapping[str, memoryview],
        options: CompileOptions,
        weight_caches: Mapping[str, str | None],
        groups: Mapping[str, Sequence[str]],
        *,
        uses_huge_pages: bool = False,
        packing: Packing = lambda weight_cache: nullcontext(),
        patched: Mapping[str, tuple[Patch, Copies]] | None = None,
    ) -> None:
        self._uses_huge_pages = uses_huge_pages
        self._packing = packing
        self._sections = sections
        self._options = options
        self._weight_caches = weight_caches
        self._groups = groups
        self._patched = patched or {}
        self.is_patching = bool(self._patched)
        # In huge pages the packed weights are not shared between compilations.
        self.max_lengths = 1 if uses_huge_pages else 2
        self.max_copies = 1 if uses_huge_pages else 3
        self._compiled: dict[tuple[str, str, int, int], CompiledModel] = {}
        self._loaded: dict[str, LoadedModel] = {}
        self.before_replacing: Callable[[], None] = lambda: None

    def load(self) -> None:
        """Let LiteRT read the models now."""
        for kind in self._sections.keys() - self._patched.keys():
            self._load(kind)

    def __call__(
        self, kind: str, key: str, tokens: int, copy: int = 0
    ) -> CompiledModel:
        """The compiled model of type `kind` in which signature `key` can be run.

        Args:
            tokens: length of the cache that it will be run with.
            copy: which of several with this signature; all but the first are compiled
                for it alone.
        """
        patch = self._patched[kind][0] if kind in self._patched else None
        if patch is None or key not in patch.least:
            tokens = 0  # the same for all lengths
        if (kind, key, tokens, copy) not in self._compiled:
            keys = (key,) if copy else self._together(kind, key, tokens)
            wanted = {(kind, each, tokens, copy) for each in keys}
            places = wanted & self._compiled.keys()
            if places:
                self.before_replacing()
            for place in places:
                del self._compiled[place]
            model = self._compile(kind, keys, tokens)
            self._compiled |= dict.fromkeys(wanted, model)
        return self._compiled[kind, key, tokens, copy]

    def _together(self, kind: str, key: str, tokens: int) -> tuple[str, ...]:
        """The signatures that are compiled with `key`."""
        keys = self._groups.get(kind, ())
        if tokens:
            least = self._patched[kind][0].least
            keys = [each for each in keys if least.get(each, tokens + 1) <= tokens]
        # Decoding alone compiles in half the time, and is all that a prompt of one
        # token needs; with a longer one the others are asked for first.
        is_alone = key not in keys or key == keys[0]
        return (key,) if is_alone else tuple(keys)

    def _compile(self, kind: str, keys: tuple[str, ...], tokens: int) -> CompiledModel:
        options = replace(
            self._options,
            weight_cache=self._weight_caches.get(kind),
            signatures=keys,
            custom_ops=custom_ops_of(self._sections[kind]),
        )
        loaded = self._patched_model(kind, tokens) or self._load(kind)
        with self._packing(options.weight_cache):
            model = CompiledModel(loaded, options)
        if options.weight_cache not in (None, MEMORY):
            move = move_to_huge_pages if self._uses_huge_pages else map_pages
            move(str(options.weight_cache))
        return model

    def _load(self, kind: str) -> LoadedModel:
        if kind not in self._loaded:
            accelerator = self._options.accelerator
            self._loaded[kind] = LoadedModel(self._sections[kind], accelerator)
        return self._loaded[kind]

    def _patched_model(self, kind: str, tokens: int) -> LoadedModel | None:
        """The model for a shorter cache; None where the bytes serve as they are."""
        if not tokens or tokens == self._patched[kind][0].tokens:
            return None
        patch, copies = self._patched[kind]
        data = copies()
        patch.write(data, tokens)
        return LoadedModel(data, self._options.accelerator)

    def keep(self, lengths: Collection[int]) -> None:
        """Let go of what was compiled for other lengths only.

        It is freed when nothing bound to it is in use any more.
        """
        self._compiled = {
            place: model
            for place, model in self._compiled.items()
            if not place[2] or place[2] in lengths
        }

    def close(self) -> None:
        """Free all compiled models."""
        for model in self._compiled.values():
            model.close()
        for loaded in self._loaded.values():
            loaded.close()
        self._compiled.clear()
        self._loaded.clear()


def custom_ops_of(data: memoryview) -> tuple[str, ...]:
    """The model's custom operators that have a kernel here."""
    names = {code.custom for code in read_tflite(data, "model").operator_codes}
    return tuple(sorted(names & KERNELS.keys()))
