"""Importing the package and asking for help stay cheap."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("numpy", "ai_edge_litert", "tokenizers", "sentencepiece", "google", "jinja2")
HEAVY += ("tqdm", "huggingface_hub", "gguf", "safetensors", "urllib.request")


@pytest.mark.parametrize("module", ["litert_lm", "litert_lm.cli.main", "litert_lm.hub"])
def test_nothing_heavy_is_imported(module: str) -> None:
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{script}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(HEAVY) & set(done.stdout.split())


def cpu_seconds(*arguments: str) -> float:
    """CPU time of one run: unlike wall time, little disturbed by other processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_costs_a_tenth_of_a_second() -> None:
    """Above an empty program; medians of ten, taken in turns."""
    empty, shown = ("-c", "pass"), ("-m", "litert_lm", "--help")
    cpu_seconds(*shown)
    pairs = [(cpu_seconds(*empty), cpu_seconds(*shown)) for _ in range(10)]
    medians = [statistics.median(column) for column in zip(*pairs, strict=True)]
    assert medians[1] - medians[0] <= 0.1
