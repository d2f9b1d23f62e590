"""The command line in this process: arguments in; exit code, output and notes out."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from litert_lm.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of its own for each test, and nothing on standard input."""
    monkeypatch.setenv("LITERT_LM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LITERT_LM_DIR", str(tmp_path / "official"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_dir))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stdin", None)
    return tmp_path


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """command(*arguments): run `litert-lm` with them."""

    def run(*arguments: object) -> Outcome:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capfd.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """pipe(data): put bytes on standard input."""

    def put(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return put


@pytest.fixture
def speaker(
    make_echo_bundle: Callable[..., Path], quick_first_load: None
) -> Callable[..., Path]:
    """speaker(reply, **metadata): the file of a model that answers ">" so."""

    def make(*reply: str, **metadata: Any) -> Path:
        changes = {"prompt_templates": None, **metadata}
        return make_echo_bundle(changes, replies={">": list(reply)})

    return make
