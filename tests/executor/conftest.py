"""Executors over toy models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from litert_lm.bundle import open_bundle
from litert_lm.executor.executor import Executor
from litert_lm.executor.opening import ExecutorOptions, open_executor


@pytest.fixture
def open_model(cache_dir: Path, quick_first_load: None) -> Iterator[Callable[..., Any]]:
    """open_model(path, **options): an Executor that is closed after the test."""
    opened: list[Executor] = []

    def open_one(path: Path, **options: Any) -> Executor:
        options = {"num_threads": 1, "cache_dir": str(cache_dir), **options}
        opened.append(open_executor(open_bundle(path), ExecutorOptions(**options)))
        return opened[-1]

    yield open_one
    for executor in opened:
        executor.close()
