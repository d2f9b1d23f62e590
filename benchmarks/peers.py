"""The runtimes that are compared, each in a virtual environment of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

CHECKOUT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).resolve().with_name("worker.py")

_TIMEOUT_S = 900  # the first run of a large model packs its weights


@dataclass(frozen=True)
class Peer:
    """A runtime and what pip installs for it.

    Attributes:
        package: a package that is copied when measuring begins and used from there, so
            that edits meanwhile do not count.
        speed_options: of `Engine`, where the same prompt is asked several times: what
            was computed before must not count.
    """

    name: str
    requirements: Sequence[str]
    package: Path | None = None
    speed_options: Mapping[str, Any] = field(default_factory=dict)


OURS = Peer(
    "ours",
    ["--editable", str(CHECKOUT)],
    CHECKOUT / "litert_lm",
    {"prefix_cache_bytes": 0},
)
OFFICIAL = Peer("official", ["litert-lm-api==0.18.1"])


class Environment:
    """A peer that can be run.

    Args:
        peer: the runtime.
        folder: where environments and weight caches are kept from run to run.
    """

    def __init__(self, peer: Peer, folder: Path) -> None:
        self.peer = peer
        self._folder = folder / peer.name
        scripts = "Scripts" if sys.platform == "win32" else "bin"
        self._python = self._folder / "env" / scripts / "python"
        self._install()
        self._variables = dict(os.environ)
        if peer.package is not None:
            self._variables["PYTHONPATH"] = str(self._copy(peer.package))

    def _install(self) -> None:
        mark = self._folder / "installed"
        wanted = json.dumps([sys.version, *self.peer.requirements])
        if mark.exists() and mark.read_text() == wanted:
            return
        print(f"Installing {self.peer.name} ...", file=sys.stderr, flush=True)
        venv.create(self._folder / "env", clear=True, with_pip=True)
        pip = [str(self._python), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, *self.peer.requirements], check=True)
        mark.write_text(wanted)

    def _copy(self, package: Path) -> Path:
        """The folder with a fresh copy of the package in it."""
        source = self._folder / "source"
        shutil.rmtree(source, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(package, source / package.name, ignore=ignored)
        return source

    @contextmanager
    def worker(self, job: dict[str, Any]) -> Iterator[Worker]:
        """A worker that does a job; it ends with the context."""
        cache = self._folder / "cache"
        cache.mkdir(exist_ok=True)
        text = json.dumps({**job, "cache_dir": str(cache)})
        with (
            tempfile.TemporaryFile("w+") as messages,
            subprocess.Popen(
                [str(self._python), "-P", str(WORKER), text],
                env=self._variables,
                cwd=self._folder,  # not the checkout, whose package has the same name
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=messages,
                text=True,
            ) as child,
        ):
            worker = Worker(self.peer.name, child, messages)
            timer = threading.Timer(_TIMEOUT_S, worker.give_up)
            timer.start()
            try:
                yield worker
                worker.end()
            finally:
                timer.cancel()
                child.kill()


class Worker:
    """A process that measures one thing after another."""

    def __init__(
        self, name: str, child: subprocess.Popen[str], messages: IO[str]
    ) -> None:
        self._name = name
        self._child = child
        self._messages = messages
        self._is_late = False

    def ask(self, question: str) -> dict[str, float]:
        """The answer to a question."""
        # A worker that has died tells why instead of answering.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._questions, f"{question}\n".encode())
        return self.answer()

    def answer(self) -> dict[str, float]:
        """The next answer; what else a peer writes is passed over."""
        for line in self._child.stdout or ():
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict):
                    return found
        raise self._failure()

    def end(self) -> None:
        """Let it close its engine, which a kill would cut short."""
        self._child.communicate()
        if self._child.returncode:
            raise self._failure()

    def give_up(self) -> None:
        """Stop it; whoever waits for an answer is told."""
        self._is_late = True
        self._child.kill()

    @property
    def _questions(self) -> int:
        if self._child.stdin is None:
            raise SystemExit(f"{self._name}: it takes no questions")
        return self._child.stdin.fileno()

    def _failure(self) -> SystemExit:
        if self._is_late:
            return SystemExit(f"{self._name}: not done within {_TIMEOUT_S} s")
        self._messages.seek(0)
        lines = self._messages.read().strip().splitlines() or ["no reason"]
        return SystemExit(f"{self._name}: {lines[-1]}")
