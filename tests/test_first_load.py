"""The first load of a bundle, in a child process that may come to harm."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from litert_lm import Backend, Engine, engine, first_load
from litert_lm.bundle import open_bundle
from litert_lm.errors import BackendError, ExecutionError, ModelFileError
from litert_lm.executor.facts import ModelFacts
from litert_lm.executor.opening import ExecutorOptions
from litert_lm.executor.probe import examine


@pytest.fixture
def open_alone(toy_llama_bundle, tmp_path):
    """Opens the toy with an empty cache, so that it is unknown."""

    def open_one(backend=Backend.CPU(thread_count=1)):  # noqa: B008
        return Engine(toy_llama_bundle, backend, cache_dir=str(tmp_path))

    with pytest.MonkeyPatch.context() as patch:
        # Other tests may have put something quicker in its place.
        patch.setattr(engine, "first_load", first_load.first_load)
        yield open_one


def run_instead(monkeypatch, code):
    command = [sys.executable, "-c", code]
    monkeypatch.setattr(first_load, "_command", lambda *_: command)


def test_second_load_needs_no_child(open_alone, monkeypatch):
    open_alone().close()
    run_instead(monkeypatch, "raise SystemExit(9)")
    with open_alone() as engine:
        assert engine.create_session().generate([1, 2], max_new_tokens=1).outputs


def test_a_crash_is_reported_and_remembered(open_alone, monkeypatch):
    run_instead(monkeypatch, "import os; os.kill(os.getpid(), 11)")
    with pytest.raises(ModelFileError, match=r"crashes LiteRT \(SIGSEGV\).*again"):
        open_alone()
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="crashes LiteRT"):
        open_alone()


def test_a_crash_at_what_is_not_needed_does_no_harm(
    open_alone, monkeypatch, toy_llama_bundle, cache_dir
):
    options = ExecutorOptions(num_threads=1, cache_dir=str(cache_dir))
    seen: list[ModelFacts] = []
    examine(open_bundle(toy_llama_bundle), options, report=seen.append)
    line = json.dumps(seen[0].to_json())
    end = "import os; os.kill(os.getpid(), 11)"
    run_instead(monkeypatch, f"print({line!r}, flush=True); {end}")
    with open_alone() as engine:
        assert engine.create_session().generate([1, 2], max_new_tokens=1).outputs


def test_a_hang_ends_and_is_forgotten(open_alone, monkeypatch):
    run_instead(monkeypatch, "import time; time.sleep(60)")
    monkeypatch.setattr(first_load, "_MIN_SECONDS", 0.5)
    with pytest.raises(ModelFileError, match="does not load within"):
        open_alone()
    monkeypatch.undo()
    open_alone().close()


def test_lack_of_memory_is_no_damage(open_alone, monkeypatch):
    run_instead(monkeypatch, "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(ExecutionError, match="memory"):
        open_alone()
    monkeypatch.undo()
    open_alone().close()


def test_own_faults_do_not_blame_the_file(open_alone, monkeypatch):
    run_instead(monkeypatch, "raise KeyError('oops')")
    with pytest.raises(ExecutionError, match=r"fault of this package.*oops"):
        open_alone()


def test_errors_of_the_child_keep_their_kind(open_alone, monkeypatch):
    answer = '{"error": ["BackendError", "no such thing"]}'
    run_instead(monkeypatch, f"print({answer!r})")
    with pytest.raises(BackendError, match="no such thing"):
        open_alone()


def test_a_missing_gpu_is_one_clear_error(open_alone, monkeypatch):
    for name in ("VK_ICD_FILENAMES", "VK_DRIVER_FILES"):
        monkeypatch.setenv(name, "/nonexistent.json")
    with pytest.raises(BackendError, match=r"gpu.*Use Backend\.CPU"):
        open_alone(Backend.GPU())


def test_the_child_ends_with_its_parent():
    code = "from litert_lm.first_load import _end_with_parent as end; end()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        child.stdin.close()
        assert child.wait(10) == 1
