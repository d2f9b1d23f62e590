"""Loads a bundle's tokenizer and the facts of its metadata."""

from __future__ import annotations

import importlib

from litert_lm.bundle.bundle import Bundle
from litert_lm.bundle.metadata import ModelConfig, resolve
from litert_lm.executor.native.cache_dir import CacheDirectory, runtime_key
from litert_lm.tokenizer import Tokenizer, load_tokenizer
from litert_lm.tokenizer.prepared import load_prepared, prepare

__all__ = ["load_texts"]


def load_texts(
    bundle: Bundle, cache_dir: str | None
) -> tuple[Tokenizer, ModelConfig, str]:
    """Tokenizer and metadata, and the bundle's SHA-256."""
    importlib.import_module("numpy.random")  # 5 ms that the first answer would take
    cache = CacheDirectory(cache_dir, bundle.path)
    content = cache.content_hash(bundle.path, identity=bundle.identity)
    tokenizer = _load_tokenizer(bundle, cache, content)
    what = f"LlmMetadata of {bundle.path}"
    config = resolve(bundle.llm_metadata, tokenizer, what)
    return tokenizer, config, content


def _load_tokenizer(bundle: Bundle, cache: CacheDirectory, content: str) -> Tokenizer:
    """The bundle's tokenizer; from the second time on in a form that loads faster."""
    name = f"tokenizer-{content[:32]}-{runtime_key()}"
    blob = cache.load_blob(name)
    if blob is not None:
        return load_prepared(blob)
    tokenizer = load_tokenizer(*bundle.tokenizer_section())
    prepared = prepare(tokenizer)
    if prepared is not None:
        cache.save_blob(name, prepared)
    return tokenizer
