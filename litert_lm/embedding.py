"""Text embeddings: the names of the official package. No model can be run yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from litert_lm.config import Backend, check_count
from litert_lm.enums import InputOverflowStrategy
from litert_lm.errors import UnsupportedModelError

__all__ = ["EmbeddingEngine", "EmbeddingOptions", "EmbeddingResponse"]

_CPU = Backend.CPU()


@dataclass(frozen=True, kw_only=True)
class EmbeddingOptions:
    """How a text is embedded; None leaves it to the model."""

    normalize: bool | None = None
    insert_special_tokens: bool | None = None
    input_overflow_strategy: InputOverflowStrategy | None = None
    output_size: int | None = None
    vision_tokens_per_image: int | None = None

    def __post_init__(self) -> None:
        check_count("output_size", self.output_size, minimum=1)


@dataclass(frozen=True)
class EmbeddingResponse:
    """One embedding, f32 numbers."""

    embedding: list[float]


_DEFAULT = EmbeddingOptions()


class EmbeddingEngine:
    """Not supported yet: making one raises UnsupportedModelError."""

    def __init__(
        self,
        model_path: str,
        backend: Backend = _CPU,
        vision_backend: Backend | None = None,
        audio_backend: Backend | None = None,
        cache_dir: str | None = None,
        min_input_length: int | None = None,
        max_input_length: int | None = None,
        vision_tokens_per_image: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._refuse()

    def __enter__(self) -> EmbeddingEngine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held."""

    def compute_embedding(
        self, contents: Any, options: EmbeddingOptions = _DEFAULT
    ) -> EmbeddingResponse:
        """Not supported yet."""
        self._refuse()

    def compute_embedding_batch(
        self, contents_batch: Sequence[Any], options: EmbeddingOptions = _DEFAULT
    ) -> list[EmbeddingResponse]:
        """Not supported yet."""
        self._refuse()

    @property
    def model_path(self) -> str:
        """Not supported yet; so are all properties."""
        self._refuse()

    backend = vision_backend = audio_backend = cache_dir = model_path
    min_input_length = max_input_length = vision_tokens_per_image = model_path

    def _refuse(self) -> NoReturn:
        raise UnsupportedModelError(
            "Embedding models are not supported yet; use litert-lm-api for them."
        )
