"""How much memory the prefix cache may take where the caller does not say."""

from __future__ import annotations

import os
from pathlib import Path

from litert_lm.executor.executor import Executor
from litert_lm.executor.kv.entries import tokens_nbytes

__all__ = ["default_prefix_bytes"]

_MEMORY_SHARE = 16  # one part in so many of the machine's memory
_MAX_CONTEXTS = 8  # full contexts of the model that are worth keeping
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container
_UNKNOWN_MEMORY = 4 << 30


def default_prefix_bytes(executor: Executor) -> int:
    """The bytes of eight full contexts, and at most a sixteenth of the memory."""
    states = tuple(executor.layout.states.values())
    context = tokens_nbytes(states, executor.context_length)
    return min(_memory_bytes() // _MEMORY_SHARE, _MAX_CONTEXTS * context)


def _memory_bytes() -> int:
    """Memory of the machine, or of the container where that is less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        total = _UNKNOWN_MEMORY
    try:
        return min(total, int(_GROUP_LIMIT.read_text(encoding="ascii")))
    except (OSError, ValueError):
        return total
