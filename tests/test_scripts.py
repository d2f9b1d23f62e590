"""The scripts parse, and what is installed already is not installed again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = [ROOT / "scripts" / name for name in ("check", "demo", "install", "test")]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_is_plain_shell(script: Path) -> None:
    assert os.access(script, os.X_OK)
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with an environment that claims to have everything for the tests."""
    (tmp_path / "scripts").mkdir()
    install = tmp_path / "scripts" / "install"
    install.write_bytes((ROOT / "scripts" / "install").read_bytes())
    (tmp_path / "setup.cfg").write_text("[metadata]\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    state = subprocess.run(
        "cat setup.cfg pyproject.toml | cksum", shell=True, cwd=tmp_path, stdout=-1
    )
    (tmp_path / ".venv" / "installed-test").write_bytes(state.stdout)
    return tmp_path


def install(project: Path, extra: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", str(project / "scripts" / "install"), extra]
    offline = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull}
    environment = os.environ | offline
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("extra", ["test", "all"])
def test_nothing_is_installed_twice(project: Path, extra: str) -> None:
    done = install(project, extra)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_changed_setup_is_installed(project: Path) -> None:
    (project / "setup.cfg").write_text("[metadata]\nname = changed\n")
    done = install(project, "test")
    assert done.returncode != 0
    assert done.stderr.startswith("Installing the project into .venv ...")
