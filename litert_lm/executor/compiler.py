"""Compiles a bundle's models when their signatures are first needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from litert_lm.bundle.tflite import read_tflite
from litert_lm.executor.cache_dir import MEMORY
from litert_lm.executor.compiled_model import CompiledModel, CompileOptions
from litert_lm.executor.custom_ops import KERNELS
from litert_lm.executor.huge_pages import move_to_huge_pages

__all__ = ["ModelCompiler"]


class ModelCompiler:
    """Gives the compiled model that holds a signature.

    Args:
        sections: model type -> verified TFLite bytes.
        options: accelerator and threads of all compilations.
        weight_caches: model type -> path of its packed weights, or None.
        groups: model type -> keys that are compiled together, since one compilation of
            several signatures maps the packed weights once; others come alone.
        uses_huge_pages: move packed weights there after each compilation.
    """

    def __init__(
        self,
        sections: Mapping[str, memoryview],
        options: CompileOptions,
        weight_caches: Mapping[str, str | None],
        groups: Mapping[str, Sequence[str]],
        *,
        uses_huge_pages: bool = False,
    ) -> None:
        self._uses_huge_pages = uses_huge_pages
        self._sections = sections
        self._options = options
        self._weight_caches = weight_caches
        self._groups = groups
        self._compiled: dict[tuple[str, str], CompiledModel] = {}

    def __call__(self, kind: str, key: str) -> CompiledModel:
        """The compiled model of type `kind` in which signature `key` can be run."""
        if (kind, key) not in self._compiled:
            group = tuple(self._groups.get(kind, ()))
            keys = group if key in group else (key,)
            options = replace(
                self._options,
                weight_cache=self._weight_caches.get(kind),
                signatures=keys,
                custom_ops=custom_ops_of(self._sections[kind]),
            )
            model = CompiledModel(self._sections[kind], options)
            if self._uses_huge_pages and options.weight_cache not in (None, MEMORY):
                move_to_huge_pages(str(options.weight_cache))
            self._compiled |= {(kind, each): model for each in keys}
        return self._compiled[kind, key]

    def close(self) -> None:
        """Free all compiled models."""
        for model in self._compiled.values():
            model.close()
        self._compiled.clear()


def custom_ops_of(data: memoryview) -> tuple[str, ...]:
    """The model's custom operators that have a kernel here."""
    names = {code.custom for code in read_tflite(data, "model").operator_codes}
    return tuple(sorted(names & KERNELS.keys()))
