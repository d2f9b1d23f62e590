"""Standard streams that are closed, full or unread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FULL = Path("/dev/full")


def _run(redirections: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """What a shell's `litert-lm ARGUMENTS REDIRECTIONS` leaves behind."""
    words = [sys.executable, "-m", "litert_lm", *map(str, arguments)]
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirections}', "sh", *words],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )


@pytest.mark.parametrize("which", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams_lead_nowhere(toy_llama_bundle: Path, which: str) -> None:
    done = _run(which, "run", toy_llama_bundle, "a", "--max-new-tokens", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (which == "2>&-")


def test_errors_do_not_go_to_standard_output() -> None:
    done = _run("2>&-", "rm", "nothing")
    assert (done.returncode, done.stdout) == (3, "")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("flag", ["", "--json"])
def test_a_full_disk_is_one_clear_error(toy_llama_bundle: Path, flag: str) -> None:
    arguments = ["show", toy_llama_bundle, *filter(None, [flag])]
    done = _run(f">{FULL}", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: Standard output cannot be written: No space")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_notes_that_cannot_be_written_change_nothing() -> None:
    assert _run(f"2>{FULL}", "rm", "nothing").returncode == 3
