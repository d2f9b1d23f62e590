"""A server in a process of its own, whose memory can be read."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["ServerProcess"]

ROOT = Path(__file__).resolve().parents[2]
_STATUS = "/proc/{}/status"


class ServerProcess:
    """`litert-lm serve` of a model; a context manager that ends it.

    Attributes:
        address: of the gRPC port.
    """

    def __init__(self, model: str, *, max_running: int, max_queue: int = 1000) -> None:
        command = [sys.executable, "-m", "litert_lm", "serve", model]
        command += ["--grpc-port", "0", "--http-port", "0"]
        command += ["--max-running", str(max_running), "--max-queue", str(max_queue)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def __enter__(self) -> ServerProcess:
        assert self._process.stdout is not None
        lines = [self._process.stdout.readline().split() for _ in range(3)]
        self.address = lines[1][1]
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def rss_kib(self) -> int | None:
        """Resident memory, or None where the system does not tell."""
        try:
            text = Path(_STATUS.format(self._process.pid)).read_text()
        except OSError:
            return None
        return int(text.partition("VmRSS:")[2].split()[0])
