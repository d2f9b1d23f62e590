"""What all verbs share: help, exit codes, broken pipes, cost of start-up."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from litert_lm import __version__
from litert_lm.cli import main as module
from litert_lm.errors import LiteRtLmError

Command = Callable[..., Any]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "verb", ["run", "serve", "pull", "list", "show", "rm", "convert"]
)
def test_every_verb_has_help(command: Command, verb: str) -> None:
    done = command(verb, "--help")
    assert done.code == 0
    assert done.out.startswith(f"usage: litert-lm {verb} ")


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["run", "m", "--fly"]])
def test_wrong_usage_is_2(command: Command, arguments: list[str]) -> None:
    done = command(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "usage: litert-lm" in done.err


def test_version(command: Command) -> None:
    assert command("--version").out.strip() == __version__


def test_every_error_has_an_exit_code() -> None:
    kinds = [kind for kind, _ in module._EXIT_CODES]
    assert kinds[-1] is LiteRtLmError
    for earlier, later in itertools.pairwise(kinds):
        assert not issubclass(later, earlier)


def test_a_reader_that_leaves_ends_the_command(homes: Path) -> None:
    script = "import sys; from litert_lm.cli.main import main; sys.exit(main(['list']))"
    lines = "import litert_lm.cli.list_models as m, litert_lm.cli.ui as ui\n"
    lines += "m.run = lambda args: [ui.out('x' * 1000) for _ in range(1000)] and 0\n"
    process = subprocess.Popen(
        [sys.executable, "-c", lines + script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(30) == 141
    process.stderr.close()


def test_python_m_is_the_console_script() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "litert_lm", "--version"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == __version__
