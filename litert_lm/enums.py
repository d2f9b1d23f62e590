"""Numbered choices of the official package; names and numbers are the same."""

from __future__ import annotations

import enum

__all__ = [
    "ActivationDataType",
    "InputOverflowStrategy",
    "LiteRtLmBackendType",
    "LiteRtLmConstraintProviderType",
    "LiteRtLmModality",
    "LiteRtLmModelType",
    "LiteRtLmNpuBrand",
    "LogSeverity",
    "ModelType",
]


class ActivationDataType(enum.IntEnum):
    """Precision of what flows between a model's operations."""

    FLOAT32 = 0
    FLOAT16 = 1
    INT16 = 2
    INT8 = 3


class InputOverflowStrategy(enum.IntEnum):
    """What to do with a text that is too long to embed."""

    CHUNK_AND_AVERAGE = 0
    TRUNCATE = 1
    ERROR = 2


class LiteRtLmBackendType(enum.IntEnum):
    """Where a model runs."""

    UNSPECIFIED = 0
    CPU = 1
    GPU = 2
    NPU = 3


class LiteRtLmConstraintProviderType(enum.IntEnum):
    """What holds answers to a format."""

    NONE = 0
    LL_GUIDANCE = 1


class LiteRtLmModality(enum.IntEnum):
    """Kind of input."""

    TEXT = 0
    VISION = 1
    AUDIO = 2
    VIDEO = 3


class LiteRtLmModelType(enum.IntEnum):
    """What a bundle is for."""

    UNKNOWN = 0
    LLM = 1
    EMBEDDING = 2


class LiteRtLmNpuBrand(enum.IntEnum):
    """Maker of the accelerator that a bundle was compiled for."""

    UNKNOWN = 0
    QUALCOMM = 1
    GOOGLE_TENSOR = 2
    MEDIATEK = 3
    INTEL = 4
    SAMSUNG = 5


class LogSeverity(enum.IntEnum):
    """How grave a note must be to be written."""

    VERBOSE = 0
    DEBUG = 1
    INFO = 2
    WARNING = 3
    ERROR = 4
    FATAL = 5
    SILENT = 1000


ModelType = LiteRtLmModelType
