"""Executors over toy models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from litert_lm.bundle import open_bundle
from litert_lm.executor.executor import Executor
from litert_lm.executor.opening import ExecutorOptions, known_facts, open_executor
from litert_lm.executor.probe import examine


@pytest.fixture
def open_model(cache_dir: Path) -> Iterator[Callable[..., Any]]:
    """open_model(path, **options): an Executor that is closed after the test.

    `is_resizable=False` keeps the cache as long as the file was exported with. `costs`
    stands for the measured seconds of each signature.
    """
    opened: list[Executor] = []

    def open_one(
        path: Path,
        *,
        is_resizable: bool = True,
        costs: Mapping[str, float] | None = None,
        **options: Any,
    ) -> Executor:
        options = {"num_threads": 1, "cache_dir": str(cache_dir), **options}
        chosen, bundle = ExecutorOptions(**options), open_bundle(path)
        facts = known_facts(bundle, chosen, examine)
        if not is_resizable:
            facts = replace(facts, is_resizable=False, patches={})
        if costs is not None:
            facts = replace(facts, costs={chosen.num_threads or 1: costs})
        opened.append(open_executor(bundle, chosen, facts))
        return opened[-1]

    yield open_one
    for executor in opened:
        executor.close()
