"""The README does what it says: its Python runs, its help texts are today's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLAIN = {"COLUMNS": "80", "NO_COLOR": "1", "PYTHON_COLORS": "0"}


def blocks(kind: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | PLAIN | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: len(block))
def test_python_runs(block: str, default_model: Path) -> None:
    done = python("-c", block)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("block", blocks("console"), ids=lambda b: b.splitlines()[0])
def test_help_is_up_to_date(block: str) -> None:
    command, _, shown = block.partition("\n")
    done = python("-m", "litert_lm", *command.removeprefix("$ litert-lm ").split())
    assert shown == done.stdout


def test_commands_are_named_as_they_are() -> None:
    for script in ("demo", "test"):
        assert f"./scripts/{script}" in README
        assert os.access(ROOT / "scripts" / script, os.X_OK)


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
