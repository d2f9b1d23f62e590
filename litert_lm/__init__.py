"""Run `.litertlm` language models from Python.

Names load on first use, so that ``import litert_lm`` costs neither numpy nor LiteRT.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litert_lm.config import Backend, GenerateLimits, SamplerConfig
    from litert_lm.engine import Engine
    from litert_lm.errors import LiteRtLmError
    from litert_lm.generate.response import (
        CandidateToken,
        FinishInfo,
        FinishReason,
        GenerateResponse,
        PromptInfo,
        SequenceOutput,
    )
    from litert_lm.results import BenchmarkInfo, Responses
    from litert_lm.session import Session

__all__ = [
    "Backend",
    "BenchmarkInfo",
    "CandidateToken",
    "Engine",
    "FinishInfo",
    "FinishReason",
    "GenerateLimits",
    "GenerateResponse",
    "LiteRtLmError",
    "PromptInfo",
    "Responses",
    "SamplerConfig",
    "SequenceOutput",
    "Session",
    "__version__",
]

__version__ = "0.1.0"

_HOMES = {
    "Backend": "litert_lm.config",
    "BenchmarkInfo": "litert_lm.results",
    "CandidateToken": "litert_lm.generate.response",
    "Engine": "litert_lm.engine",
    "FinishInfo": "litert_lm.generate.response",
    "FinishReason": "litert_lm.generate.response",
    "GenerateLimits": "litert_lm.config",
    "GenerateResponse": "litert_lm.generate.response",
    "LiteRtLmError": "litert_lm.errors",
    "PromptInfo": "litert_lm.generate.response",
    "Responses": "litert_lm.results",
    "SamplerConfig": "litert_lm.config",
    "SequenceOutput": "litert_lm.generate.response",
    "Session": "litert_lm.session",
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
