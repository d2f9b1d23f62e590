"""Fixtures shared by all tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from litert_lm.config import Backend

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of real bundles beside the checkout; absent outside development."""
    if not (SHARED / "bundles").is_dir():
        pytest.skip("no shared/ folder with real bundles beside the checkout")
    return SHARED


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The default model, which scripts/test pulls before the tests."""
    from litert_lm.hub import ModelStore

    model = ModelStore().find("smollm2-135m-instruct")
    if model is None:
        pytest.skip("no default model; litert-lm pull smollm2-135m-instruct")
    return model.path


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache directory for all engines of a test session."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def save_bundle(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """save_bundle(key, make): the file of the ToyBundle `make()`, once per key."""
    folder = tmp_path_factory.mktemp("bundles")
    saved: dict[str, Path] = {}

    def save(key: Any, make: Callable[[], Any]) -> Path:
        text = json.dumps(key, sort_keys=True, default=list)
        if text not in saved:
            saved[text] = make().save(folder / f"{len(saved)}.litertlm")
        return saved[text]

    return save


@pytest.fixture(scope="session")
def make_echo_bundle(save_bundle: Callable[..., Path]) -> Callable[..., Path]:
    """make_echo_bundle(metadata=None, **options): see ECHO_METADATA, EchoOptions."""
    from tests.fixtures.bundles import echo_bundle
    from tests.fixtures.echo import EchoOptions

    def make(metadata: dict[str, Any] | None = None, **options: Any) -> Path:
        wanted = EchoOptions(**options)
        return save_bundle(
            ["echo", metadata, options], lambda: echo_bundle(wanted, metadata)
        )

    return make


@pytest.fixture(scope="session")
def make_llama_bundle(save_bundle: Callable[..., Path]) -> Callable[..., Path]:
    """make_llama_bundle(**metadata): the toy llama; see LLAMA_METADATA."""
    from tests.fixtures.llama import llama_bundle

    def make(**metadata: Any) -> Path:
        return save_bundle(["llama", metadata], lambda: llama_bundle(metadata))

    return make


@pytest.fixture(scope="session")
def toy_llama_bundle(make_llama_bundle: Callable[..., Path]) -> Path:
    """A llama with random weights, 64 tokens, a context of 128, no sampler."""
    return make_llama_bundle()


@pytest.fixture(scope="session")
def make_conformance_bundle(save_bundle: Callable[..., Path]) -> Callable[..., Path]:
    """make_conformance_bundle(metadata=None, **signatures): see conformance.py."""
    from tests.fixtures.conformance import SIGNATURES, conformance_bundle

    def make(metadata: dict[str, Any] | None = None, **signatures: int) -> Path:
        chosen = signatures or SIGNATURES
        return save_bundle(
            ["conformance", metadata, chosen],
            lambda: conformance_bundle(metadata, chosen),
        )

    return make


@pytest.fixture(scope="session")
def make_hybrid_bundle(save_bundle: Callable[..., Path]) -> Callable[..., Path]:
    """make_hybrid_bundle(**options): see HybridOptions."""
    from tests.fixtures.hybrid import HybridOptions
    from tests.fixtures.hybrid_bundle import hybrid_bundle

    def make(**options: Any) -> Path:
        wanted = HybridOptions(**options)
        return save_bundle(["hybrid", options], lambda: hybrid_bundle(wanted))

    return make


@pytest.fixture
def open_engine(
    cache_dir: Path, quick_first_load: None
) -> Iterator[Callable[..., Any]]:
    """open_engine(path, **options): an Engine that is closed after the test."""
    from litert_lm import Engine

    engines = []

    def open_one(path: Path, **options: Any) -> Any:
        options.setdefault("cache_dir", str(cache_dir))
        engines.append(Engine(str(path), Backend.CPU(thread_count=1), **options))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close()


@pytest.fixture(scope="session")
def quick_first_load() -> Iterator[None]:
    """Engines examine toys in this process: children would take most of a run."""
    from litert_lm import engine
    from litert_lm.executor.probe import examine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "first_load", examine)
        yield
