"""Run `.litertlm` language models from Python.

Names load on first use, so that ``import litert_lm`` costs neither numpy nor LiteRT.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litert_lm.config import Backend, SamplerConfig
    from litert_lm.errors import LiteRtLmError

__all__ = [
    "Backend",
    "LiteRtLmError",
    "SamplerConfig",
    "__version__",
]

__version__ = "0.1.0"

_HOMES = {
    "Backend": "litert_lm.config",
    "LiteRtLmError": "litert_lm.errors",
    "SamplerConfig": "litert_lm.config",
}


def __getattr__(name: str) -> object:
    """Load the module that holds `name` (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module 'litert_lm' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
