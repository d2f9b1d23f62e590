"""A hundred damaged bundles: each opens or gives one clear error, none ends Python."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if not hasattr(os, "fork"):
    pytest.skip("child processes are forked here", allow_module_level=True)

from tests.fixtures.llama import llama_bundle
from tests.fuzz import runner
from tests.fuzz.damage import BundleDamage, Case
from tests.fuzz.runner import Outcome

ROOT = Path(__file__).parents[1]


def fuzz(count: int, seed: int, *bundles: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts" / "fuzz", "--count", str(count)]
    command += ["--seed", str(seed)]
    for path in bundles:
        command += ["--bundle", path]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_damaged_toys_give_one_clear_error():
    done = fuzz(64, 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "refused" in done.stdout


def test_damaged_official_bundles_give_one_clear_error(shared_dir):
    tiny = sorted(shared_dir.glob("bundles/*_tiny*"))
    done = fuzz(72, 2, *tiny)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_same_seed_draws_the_same_damage(tmp_path):
    toy = llama_bundle().save(tmp_path / "toy.litertlm")
    draws = [BundleDamage(toy, random.Random(7)) for _ in range(2)]
    for kind in draws[0].kinds:
        assert draws[0].draw(kind) == draws[1].draw(kind)


@pytest.mark.parametrize("size", [None, 3])
def test_the_copy_is_whole_again_after_a_case(tmp_path, size):
    sound, working = tmp_path / "sound", tmp_path / "working"
    sound.write_bytes(b"0123456789")
    shutil.copyfile(sound, working)
    with runner.damaged(working, sound, Case("any", "", ((1, b"xy"),), size)):
        assert working.read_bytes() != sound.read_bytes()
    assert working.read_bytes() == sound.read_bytes()


def stop() -> Outcome:
    os.kill(os.getpid(), signal.SIGKILL)


def wait() -> Outcome:
    while True:
        pass


@pytest.mark.parametrize(
    ("work", "verdict"),
    [(lambda: Outcome("ok"), "ok"), (stop, "crash"), (wait, "hang")],
)
def test_the_end_of_a_child_is_seen(
    work: Callable[[], Outcome], verdict: str, monkeypatch
):
    monkeypatch.setattr(runner, "SECONDS", 5 if verdict != "hang" else 0.2)
    assert runner.in_child(work).verdict == verdict
