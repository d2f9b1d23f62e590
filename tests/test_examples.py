"""Each example runs with the default model and prints something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# It asks a server; tests/cli/test_serve.py starts one for it.
ALONE = [path for path in EXAMPLES if path.stem != "grpc_client"]


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, default_model: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 60
