"""What every bundle holds, whatever its container: sections and their meaning."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

__all__ = [
    "MAIN_MODEL",
    "MODEL_TYPE_PREFIX",
    "Deflated",
    "Section",
    "SectionType",
    "Value",
]

Value: TypeAlias = str | int | float | bool | None

MODEL_TYPE_PREFIX = "tf_lite_"
MAIN_MODEL = "prefill_decode"


class SectionType(enum.IntEnum):
    """Kinds of sections; the numbers are those of the .litertlm header, version 1.7."""

    NONE = 0
    GENERIC_BINARY = 1
    DEPRECATED = 2
    TFLITE_MODEL = 3
    SENTENCEPIECE_TOKENIZER = 4
    LLM_METADATA = 5
    HUGGINGFACE_TOKENIZER = 6
    TFLITE_WEIGHTS = 7
    EMBEDDING_METADATA = 8
    EXECUTOR_METADATA = 9
    TTS_METADATA = 10
    ASR_METADATA = 11


@dataclass(frozen=True)
class Deflated:
    """How a compressed section is checked: content size in bytes and its CRC-32."""

    size: int
    crc: int


@dataclass(frozen=True)
class Section:
    """A byte range of the file and what is said about it.

    Args:
        index: position among the bundle's sections, from 0.
        data_type: a SectionType, or the number of a kind newer than this reader.
        begin: first byte in the file.
        end: the byte after the last one.
        items: properties as stored, such as ``model_type``.
        deflated: set where the bytes in the file are compressed.
    """

    index: int
    data_type: int
    begin: int
    end: int
    items: Mapping[str, Value] = field(hash=False)
    deflated: Deflated | None = None

    @property
    def size(self) -> int:
        """Bytes of the content, after decompression."""
        return self.deflated.size if self.deflated else self.end - self.begin

    @property
    def type_name(self) -> str:
        """The kind in lower case; ``type 14`` for one unknown to this reader."""
        try:
            return SectionType(self.data_type).name.lower()
        except ValueError:
            return f"type {self.data_type}"

    @property
    def model_type(self) -> str | None:
        """The role of the model it is or belongs to, without the prefix ``tf_lite_``.

        ``prefill_decode`` for models and weights that name none, else None.
        """
        stored = self._text("model_type")
        if stored:
            return stored.removeprefix(MODEL_TYPE_PREFIX)
        has_role = self.data_type in (
            SectionType.TFLITE_MODEL,
            SectionType.TFLITE_WEIGHTS,
        )
        return MAIN_MODEL if has_role else None

    @property
    def backend_constraint(self) -> tuple[str, ...]:
        """Backends that the model may run on; empty where any is allowed."""
        names = (self._text("backend_constraint") or "").split(",")
        return tuple(name.strip() for name in names if name.strip())

    @property
    def prefer_activation_type(self) -> str | None:
        """``fp32``, ``fp16`` or ``fp32_fp16`` where the bundle asks for one."""
        return self._text("prefer_activation_type")

    def __str__(self) -> str:
        role = f", {self.model_type}" if self.model_type else ""
        return f"section {self.index} ({self.type_name}{role})"

    def _text(self, key: str) -> str | None:
        """A property in lower case; its name is matched without regard to case."""
        for name, value in self.items.items():
            if name.lower() == key and isinstance(value, str):
                return value.strip().lower()
        return None
