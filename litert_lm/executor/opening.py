"""From a bundle to an executor that is ready to run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from litert_lm.bundle.bundle import Bundle
from litert_lm.bundle.tflite import TfliteModel, read_tflite
from litert_lm.config import Progress, no_progress
from litert_lm.errors import (
    BackendError,
    InvalidArgumentError,
    ModelFileError,
    UnsupportedModelError,
)
from litert_lm.executor.executor import Executor
from litert_lm.executor.facts import ModelFacts
from litert_lm.executor.layout.layout import ModelLayout
from litert_lm.executor.layout.layout_reader import MAIN, read_layout
from litert_lm.executor.native.cache_dir import CacheDirectory, runtime_key
from litert_lm.executor.native.compiled_model import CompileOptions
from litert_lm.executor.native.compiler import ModelCompiler, Packing
from litert_lm.executor.native.packed_weights import PackedWeights

__all__ = [
    "ExecutorOptions",
    "known_facts",
    "layout_of",
    "model_sections",
    "open_executor",
]

MODEL_TYPES = (MAIN, "embedder", "per_layer_embedder", "aux")
_DEFAULT_CONTEXT = 4096  # tokens, for models whose states do not limit it
# Full precision: in half precision the residual stream of some models overflows.
_GPU_OPTIONS = "precision = 2\n"
_BACKENDS = frozenset({"cpu", "gpu", "npu"})  # whose graphs are TFLite's
_GROUPED_LENGTH = 128  # prefill signatures up to this length are compiled with decode


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """How a model is to be run.

    Args:
        accelerator: "cpu", "gpu" or "npu".
        num_threads: None takes the number that was fastest at the first load.
        cache_dir: as in CacheDirectory.
        max_num_tokens: the caller's limit on the context, or None.
        default_max_num_tokens: the bundle's limit; 0 for none.
        huge_pages: as in Backend.CPU.
    """

    accelerator: str = "cpu"
    num_threads: int | None = None
    cache_dir: str | None = None
    max_num_tokens: int | None = None
    default_max_num_tokens: int = 0
    huge_pages: bool = False


FirstLoad = Callable[[Bundle, ExecutorOptions, Progress], ModelFacts]


def known_facts(
    bundle: Bundle,
    options: ExecutorOptions,
    first_load: FirstLoad,
    progress: Progress = no_progress,
) -> ModelFacts:
    """What is known of the bundle's models; asks `first_load` when that is nothing.

    Raises:
        ModelFileError: a damaged model, or one that crashes LiteRT.
        BackendError: the accelerator does not work with the model.
        StorageError: the cache directory cannot be written.
    """
    cache = CacheDirectory(options.cache_dir, bundle.path)
    content = cache.content_hash(bundle.path, progress, identity=bundle.identity)
    name = f"model-{content[:32]}-{options.accelerator}-{runtime_key()}"
    facts = ModelFacts.from_json(cache.load(name))
    if facts is None:
        with cache.lock(name, lambda: progress("Waiting for another process", 0.0)):
            facts = ModelFacts.from_json(cache.load(name))
            if facts is None:
                facts = first_load(bundle, options, progress)
                # What was examined is still what is open here.
                cache.content_hash(bundle.path, identity=bundle.identity)
                cache.save(name, facts.to_json())
                cache.trim()
    if facts.failure is not None:
        is_cpu = options.accelerator == "cpu"
        raise (ModelFileError if is_cpu else BackendError)(facts.failure)
    return facts


def open_executor(
    bundle: Bundle, options: ExecutorOptions, facts: ModelFacts
) -> Executor:
    """An executor over the bundle's models; compiles them with their first use.

    Raises:
        UnsupportedModelError: a model that cannot be run, and why.
        InvalidArgumentError: max_num_tokens does not fit the model.
    """
    sections = model_sections(bundle)
    models = {kind: read_tflite(data, kind) for kind, data in sections.items()}
    layout = layout_of(bundle, models, facts)
    cache = CacheDirectory(options.cache_dir, bundle.path)
    content = cache.content_hash(bundle.path, identity=bundle.identity)
    cache.make_room(content, {kind: len(data) for kind, data in sections.items()})
    # Without a weight cache file each compilation would pack all weights again.
    patches = facts.patches if isinstance(cache.weights, Path) else {}
    if patches:
        layout = _longest_only(layout)
    num_threads = options.num_threads or facts.fastest_threads
    compiler = ModelCompiler(
        sections,
        _compile_options(options.accelerator, num_threads),
        {kind: cache.weight_cache(content, kind) for kind in sections},
        compile_groups(layout),
        uses_huge_pages=options.huge_pages,
        packing=_packing(bundle, cache),
        patched={
            kind: (patch, bundle.copies(bundle.models[kind]))
            for kind, patch in patches.items()
        },
    )
    return Executor(
        layout,
        compiler,
        costs=facts.costs.get(num_threads) or next(iter(facts.costs.values()), {}),
        is_resizable=facts.is_resizable or bool(patches),
        context_length=context_length(layout, options),
        batch_keys=() if patches else facts.batch_keys,
    )


def _compile_options(accelerator: str, num_threads: int) -> CompileOptions:
    return CompileOptions(
        accelerator=accelerator,
        num_threads=num_threads,
        accelerator_toml=_GPU_OPTIONS if accelerator == "gpu" else "",
    )


def _packing(bundle: Bundle, cache: CacheDirectory) -> Packing:
    """What is done around each compilation."""
    packed = PackedWeights(cache)

    @contextmanager
    def packing(weight_cache: str | None) -> Iterator[None]:
        with packed.in_use(weight_cache):
            yield
        bundle.drop_pages()

    return packing


def layout_of(
    bundle: Bundle, models: Mapping[str, TfliteModel], facts: ModelFacts
) -> ModelLayout:
    """The layout of a bundle's models; raises what `read_layout` raises."""
    metadata = bundle.executor_metadata
    return read_layout(
        models,
        facts.updates,
        None if metadata is None else metadata.llm_executor_metadata,
    )


def _longest_only(layout: ModelLayout) -> ModelLayout:
    """Without steps for caches that were exported shorter than the longest."""
    decode, prefill, verify = (
        tuple(step for step in steps if step.context == layout.context_length)
        for steps in (layout.decode, layout.prefill, layout.verify)
    )
    return replace(layout, decode=decode, prefill=prefill, verify=verify)


def model_sections(bundle: Bundle) -> dict[str, memoryview]:
    """The bytes of the models that generation uses."""
    if MAIN in bundle.weights:
        raise UnsupportedModelError(
            f"{bundle.path} keeps its weights in a section of their own, which cannot "
            "be run yet; use a bundle whose model holds its weights."
        )
    if MAIN not in bundle.models:
        raise UnsupportedModelError(
            f"{bundle.path} has no {MAIN} model, only "
            f"{', '.join(bundle.models) or 'none'}; use a text generation bundle."
        )
    _check_constraint(bundle)
    return {
        kind: bundle.read(bundle.models[kind])
        for kind in MODEL_TYPES
        if kind in bundle.models
    }


def _check_constraint(bundle: Bundle) -> None:
    """Raise for models that are made for a runtime of other graphs alone.

    A constraint to ``gpu`` is none here: such graphs run on the CPU too. Those of
    ``gpu_artisan`` are no TFLite graphs of whole steps.
    """
    names = bundle.models[MAIN].backend_constraint
    if names and not set(names) & _BACKENDS:
        raise UnsupportedModelError(
            f"{bundle.path} is made for {', '.join(names)} alone, which is not "
            "supported here; use a bundle for cpu or gpu."
        )


def compile_groups(layout: ModelLayout) -> Mapping[str, list[str]]:
    """What is compiled together: decode and short prefills; all of small models."""
    longest = layout.decode[-1].context
    short = [step for step in layout.prefill if step.length <= _GROUPED_LENGTH]
    chosen = [
        step for step in (*layout.decode, *short) if step.context == longest
    ] or list(layout.decode)
    groups: dict[str, list[str]] = {}
    for step in chosen:
        for call in step.calls:
            keys = groups.setdefault(call.model, [])
            if call.key not in keys:
                keys.append(call.key)
    return groups


def context_length(layout: ModelLayout, options: ExecutorOptions) -> int:
    """Tokens of prompt and answer together: the caller's, bundle's or cache's limit."""
    longest, max_num_tokens = layout.context_length, options.max_num_tokens
    if max_num_tokens is None:
        stated = options.default_max_num_tokens or longest or _DEFAULT_CONTEXT
        return min(stated, longest or stated)
    if longest and max_num_tokens > longest:
        raise InvalidArgumentError(
            f"max_num_tokens is {max_num_tokens}, and the model's cache holds "
            f"{longest} tokens; pass at most {longest}."
        )
    return max_num_tokens
