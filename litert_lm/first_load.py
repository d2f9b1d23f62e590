"""The first load of an unknown bundle, in a child process.

LiteRT crashes on some damaged graphs, and native tokenizers on some damaged
vocabularies, even after all checks. So an unknown bundle is loaded and run once where a
crash hurts nobody, and the verdict is remembered.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from litert_lm import errors
from litert_lm.bundle import open_bundle
from litert_lm.bundle.bundle import Bundle
from litert_lm.config import Progress, no_progress
from litert_lm.executor.facts import ModelFacts
from litert_lm.executor.opening import ExecutorOptions
from litert_lm.tokenizer import load_tokenizer

__all__ = ["first_load"]

_MIN_SECONDS = 30.0
_SHADER_SECONDS = 120.0  # an accelerator compiles its kernels first
_BYTES_PER_SECOND = 2e6  # a slow board packs and runs weights at least this fast
_SAMPLE_TEXT = "Hello, world! 1 2 3 äöü 世界 🙂"


def first_load(
    bundle: Bundle, options: ExecutorOptions, progress: Progress = no_progress
) -> ModelFacts:
    """Facts of a model that was never loaded here; `failure` set when it crashes.

    Raises:
        LiteRtLmError: what the child found wrong with the file.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        # There is no interpreter to start a child with.
        return _examine_all(bundle, options, progress)
    limit = _MIN_SECONDS + bundle.path.stat().st_size / _BYTES_PER_SECOND
    if options.accelerator != "cpu":
        limit += _SHADER_SECONDS
    try:
        child = _run(_command(bundle, options), limit, progress)
    except OSError:
        # Processes cannot be started here.
        return _examine_all(bundle, options, progress)
    return _result(bundle, options, child, limit)


@dataclass(frozen=True)
class _Child:
    """What a child process left; `was_stopped` when it took too long."""

    lines: list[str]
    errors: str
    status: int
    was_stopped: bool


def _run(command: list[str], limit: float, progress: Progress) -> _Child:
    """Run a child, passing on what it says of its progress."""
    lines: list[str] = []
    was_stopped = threading.Event()
    with (
        tempfile.TemporaryFile() as noted,
        subprocess.Popen(
            command,
            env=_environment(),
            stdin=subprocess.PIPE,  # its end tells the child that this one is gone
            stdout=subprocess.PIPE,
            stderr=noted,
        ) as child,
    ):

        def stop() -> None:
            was_stopped.set()
            child.kill()

        timer = threading.Timer(limit, stop)
        timer.start()
        try:
            for line in child.stdout or ():
                lines.append(line.decode("utf-8", "replace"))
                _pass_on(lines[-1], progress)
            child.wait()
        except BaseException:
            child.kill()
            raise
        finally:
            timer.cancel()
        noted.seek(0)
        told = noted.read().decode("utf-8", "replace")
    return _Child(lines, told, child.returncode, was_stopped.is_set())


def _pass_on(line: str, progress: Progress) -> None:
    with contextlib.suppress(ValueError):
        answer = json.loads(line)
        if isinstance(answer, dict) and "progress" in answer:
            stage, fraction = answer["progress"]
            progress(stage, fraction)


def _command(bundle: Bundle, options: ExecutorOptions) -> list[str]:
    threads = options.num_threads or 0
    values = [str(bundle.path), options.cache_dir, options.accelerator, threads]
    return [sys.executable, "-P", "-m", __name__, json.dumps(values)]


def _environment() -> dict[str, str]:
    root = str(Path(__file__).resolve().parents[1])
    paths = [root, *(path for path in sys.path if path)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}


def _result(
    bundle: Bundle, options: ExecutorOptions, child: _Child, limit: float
) -> ModelFacts:
    answer: Any = None
    with contextlib.suppress(ValueError, IndexError):
        answer = json.loads(child.lines[-1])
    if isinstance(answer, dict) and "error" in answer:
        kind, message = answer["error"]
        raise getattr(errors, kind, errors.ModelFileError)(message)
    facts = _facts_in(child.lines)
    if facts is not None:
        return facts
    if child.was_stopped:
        raise errors.ModelFileError(
            f"{bundle.path} does not load within {limit:.0f} s: it is damaged, or "
            "this machine is busy or too small. Try again, or get it again."
        )
    if child.status >= 0:
        reason = child.errors.strip().rpartition("\n")[2]
        raise errors.ExecutionError(
            f"{bundle.path} could not be examined, by a fault of this package or of "
            f"its installation: {reason or f'exit status {child.status}'}."
        )
    name = signal.Signals(-child.status).name
    if name == "SIGKILL":
        raise errors.ExecutionError(
            f"The process that examined {bundle.path} was killed, probably for want "
            "of memory; free some and try again."
        )
    return _failed(bundle, options, f"crashes LiteRT ({name})")


def _facts_in(lines: list[str]) -> ModelFacts | None:
    """The last facts that the child wrote before it ended, whatever ended it."""
    for line in reversed(lines):
        with contextlib.suppress(ValueError):
            facts = ModelFacts.from_json(json.loads(line))
            if facts is not None:
                return facts
    return None


def _failed(bundle: Bundle, options: ExecutorOptions, what: str) -> ModelFacts:
    if options.accelerator == "cpu":
        hint = "the file is probably damaged, get it again."
    else:
        what += f" on the {options.accelerator}"
        hint = "use Backend.CPU()."
    return ModelFacts(failure=f"{bundle.path} {what}; {hint}")


def _examine_all(
    bundle: Bundle,
    options: ExecutorOptions,
    progress: Progress = no_progress,
    report: Callable[[ModelFacts], None] | None = None,
) -> ModelFacts:
    """Load the tokenizer and the model, and use both."""
    from litert_lm.executor.probe import examine  # most loads are not the first

    tokenizer = load_tokenizer(*bundle.tokenizer_section())
    tokenizer.decode(tokenizer.encode(_SAMPLE_TEXT))
    return examine(bundle, options, progress, report)


def main(argument: str) -> None:
    """Examine a bundle and write the facts, or the error, to standard output."""
    path, cache_dir, accelerator, threads = json.loads(argument)
    options = ExecutorOptions(
        accelerator=accelerator, num_threads=threads or None, cache_dir=cache_dir
    )
    try:
        with open_bundle(path) as bundle:
            facts = _examine_all(
                bundle,
                options,
                lambda stage, part: _write({"progress": [stage, part]}),
                lambda known: _write(known.to_json()),
            )
            _write(facts.to_json())
    except errors.LiteRtLmError as error:
        _write({"error": [type(error).__name__, str(error)]})


def _end_with_parent() -> None:
    """End this process when the one that started it does, however that ends."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    os._exit(1)


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    main(sys.argv[1])
