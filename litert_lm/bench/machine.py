"""What a measurement was made on, and the memory of a process."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

__all__ = ["Machine", "peak_rss_bytes"]


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine and the versions that a measurement depends on."""

    cpu: str
    num_cores: int
    system: str
    python: str
    litert: str

    @classmethod
    def this(cls) -> Machine:
        """The machine this process runs on."""
        return cls(
            cpu=_cpu_name(),
            num_cores=_num_cores(),
            system=platform.platform(),
            python=platform.python_version(),
            litert=metadata.version("ai-edge-litert"),
        )

    def line(self) -> str:
        """On one line."""
        return (
            f"{self.cpu}, {self.num_cores} cores; {self.system}; Python {self.python}; "
            f"ai-edge-litert {self.litert}"
        )


def peak_rss_bytes() -> int | None:
    """Most memory that this process had resident, or None where unknown.

    Not from getrusage on Linux, which starts with the peak of the parent process.
    """
    status = _read("/proc/self/status")
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _cpu_name() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
