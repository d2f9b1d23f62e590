"""Opens damaged bundles in child processes and says how each ended.

A child is forked from a process that has everything imported and no native thread
running, so a case costs milliseconds where a new interpreter would cost a second. The
library's own child, that of a first load, is forked as well.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import pkgutil
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import litert_lm
from litert_lm import errors, first_load
from litert_lm.executor.native import runtime
from tests.fuzz.damage import Case

SECONDS = 90.0
"""A case that takes longer hangs."""

MAX_MEMORY = 12 << 30

VERDICTS = ("ok", "refused", "caught", "foreign", "crash", "hang")
"""``refused`` is one clear error; ``caught`` too, after the first load's child died."""

NEEDED = ("bundle", "chat", "engine", "executor", "generate", "sampling", "session")
NEEDED += ("first_load", "tokenizer")
"""Modules and packages that an engine imports, some of them when first used."""

FOREIGN = "Traceback"
"""In what a child writes: an exception that is not of this library's tree."""

BAD = ("foreign", "crash", "hang")


@dataclass(frozen=True)
class Outcome:
    """One of VERDICTS, and the error or the signal in words."""

    verdict: str
    text: str = ""


def prepare() -> None:
    """Import and load all that a case needs; call it before the first case."""
    for module in pkgutil.walk_packages(litert_lm.__path__, "litert_lm."):
        if module.name.split(".")[1] in NEEDED:
            importlib.import_module(module.name)
    runtime.litert()


def run_case(working: Path, sound: Path, case: Case) -> Outcome:
    """Damages the copy at ``working``, opens it in a child, and repairs it."""
    with damaged(working, sound, case):
        return in_child(lambda: use_bundle(working))


@contextlib.contextmanager
def damaged(working: Path, sound: Path, case: Case) -> Iterator[None]:
    """The working copy with the damage of a case in it."""
    with working.open("r+b") as file:
        if case.size is not None:
            file.truncate(case.size)
        for at, data in case.patches:
            file.seek(at)
            file.write(data)
    try:
        yield
    finally:
        repair(working, sound, case)


def repair(working: Path, sound: Path, case: Case) -> None:
    """Makes the working copy equal to the sound file again."""
    if case.size is not None:
        shutil.copyfile(sound, working)
    with working.open("r+b") as file, sound.open("rb") as original:
        for at, data in case.patches:
            original.seek(at)
            file.seek(at)
            file.write(original.read(len(data)))


def use_bundle(path: Path) -> Outcome:
    """What a user would do: open, generate, close."""
    deaths: list[str] = []
    first_load._run = lambda command, limit, _: _forked_first_load(
        deaths, command, limit
    )
    backend = litert_lm.Backend.CPU(thread_count=1)
    try:
        with litert_lm.Engine(path, backend, cache_dir=":nocache") as engine:
            session = engine.create_session()
            session.generate([1, 2, 3], max_new_tokens=2)
        return Outcome("ok")
    except errors.LiteRtLmError as error:
        text = "; ".join([*deaths, f"{type(error).__name__}: {error}"])
        if any(FOREIGN in death for death in deaths):
            return Outcome("foreign", text)
        return Outcome("caught" if deaths else "refused", text)
    except BaseException:
        return Outcome("foreign", traceback.format_exc())


def in_child(work: Callable[[], Outcome]) -> Outcome:
    """Runs ``work`` in a forked child that may die."""
    with _Child(lambda answer: answer.write(pickle.dumps(work()))) as child:
        data, is_late = child.read(SECONDS)
        code = child.end()
    if is_late:
        return Outcome("hang", f"no answer within {SECONDS:.0f} s")
    if code or not data:
        return Outcome("crash", _death(code))
    outcome: Outcome = pickle.loads(data)
    return outcome


def _death(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


class _Child:
    """A forked process that writes to a pipe; its own output is dropped."""

    def __init__(self, work: Callable[[Any], object]) -> None:
        self._reader, writer = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._live(work, writer)
        with contextlib.suppress(OSError):  # whichever of the two comes first
            os.setpgid(self._pid, self._pid)
        os.close(writer)

    def _live(self, work: Callable[[Any], object], writer: int) -> None:
        """The child's life; never returns."""
        status = 1
        try:
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            nothing = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nothing, stream)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
            with os.fdopen(writer, "wb") as answer:
                work(answer)
            status = 0
        finally:
            os._exit(status)

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._reader)

    def read(self, seconds: float) -> tuple[bytes, bool]:
        """What the child wrote, and whether time ran out; then the child is ended."""
        data, deadline = b"", time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self._reader], [], [], left)[0]:
                part = os.read(self._reader, 1 << 16)
                if not part:
                    return data, False
                data += part
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        return data, True

    def end(self) -> int:
        """Waits; the exit status, or the signal's number below 0."""
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _forked_first_load(
    deaths: list[str], command: list[str], limit: float
) -> first_load._Child:
    """What the library's own child would leave, from a fork; notes how it died."""

    def work(answer: Any) -> None:
        sys.stdout = io.TextIOWrapper(answer, write_through=True)
        try:
            first_load.main(command[-1])
        except BaseException:
            sys.stdout.write(traceback.format_exc())
            raise

    with _Child(work) as child:
        output, is_late = child.read(limit)
        code = child.end()
    text = output.decode("utf-8", "replace")
    if is_late:
        deaths.append("first load hangs")
    elif code:
        trace = text[text.find(FOREIGN) :] if FOREIGN in text else ""
        deaths.append(f"first load: {_death(code)} {trace}".strip())
    return first_load._Child(text.splitlines(), "", code, is_late)
