"""ModelInfo: what a bundle is and can do, read from the file without running it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from litert_lm.bundle import open_bundle
from litert_lm.bundle.metadata import ModelConfig, resolve
from litert_lm.bundle.sections import MAIN_MODEL, Section, SectionType
from litert_lm.bundle.tflite import read_tflite
from litert_lm.config import SamplerConfig
from litert_lm.enums import LiteRtLmModality, LiteRtLmModelType, LiteRtLmNpuBrand
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.tokenizer import load_tokenizer

__all__ = [
    "EmbeddingCapability",
    "LlmCapability",
    "ModelInfo",
    "SupportedModalities",
]

_ENCODERS = {
    LiteRtLmModality.TEXT: (MAIN_MODEL, "artisan_text_decoder", "text_encoder"),
    LiteRtLmModality.VISION: ("vision_encoder",),
    LiteRtLmModality.AUDIO: ("audio_encoder_hw", "audio_encoder"),
    LiteRtLmModality.VIDEO: (),
}
_BRANDS = {
    "qualcomm": LiteRtLmNpuBrand.QUALCOMM,
    "google": LiteRtLmNpuBrand.GOOGLE_TENSOR,
    "tensor": LiteRtLmNpuBrand.GOOGLE_TENSOR,
    "mediatek": LiteRtLmNpuBrand.MEDIATEK,
    "intel": LiteRtLmNpuBrand.INTEL,
    "samsung": LiteRtLmNpuBrand.SAMSUNG,
}
_MASKS = ("mask", "attn_mask")


@dataclass(frozen=True)
class SupportedModalities:
    """Kinds of input that a model takes."""

    text: bool
    vision: bool
    audio: bool
    video: bool


class _Capability:
    def __init__(self, info: ModelInfo) -> None:
        self._info = info

    @property
    def max_vision_token_budget(self) -> int:
        """As `ModelInfo.max_vision_token_budget`."""
        return self._info.max_vision_token_budget

    @property
    def vision_signature_selection(self) -> list[int] | None:
        """As `ModelInfo.vision_signature_selection`."""
        return self._info.vision_signature_selection


class LlmCapability(_Capability):
    """What a language model can do."""

    def __init__(self, info: ModelInfo, config: ModelConfig) -> None:
        super().__init__(info)
        self._config = config

    @property
    def default_sampler_params(self) -> SamplerConfig:
        """Sampling that the bundle recommends; None where it is silent."""
        sampler = self._config.sampler
        if sampler is None:
            return SamplerConfig()
        return SamplerConfig(
            top_k=sampler.top_k,
            top_p=sampler.top_p,
            temperature=sampler.temperature,
            seed=sampler.seed,
        )

    @property
    def is_dynamic_context(self) -> bool:
        """Whether the model's KV cache has no fixed length."""
        return self._info.is_dynamic_context

    def has_speculative_decoding_support(self) -> bool:
        """Whether the bundle has a drafting model; it is not used yet."""
        return self._info.has_model("mtp_drafter")

    def supports_thinking(self) -> bool:
        """What the bundle says about itself; False where it is silent."""
        return bool(self._config.supports_thinking)

    def supports_function_calling(self) -> bool:
        """What the bundle says about itself; False where it is silent."""
        return bool(self._config.supports_function_calling)


class EmbeddingCapability(_Capability):
    """What an embedding model can do; not read from the file yet."""

    @property
    def dimension(self) -> int | None:
        """Length of an embedding."""
        return None

    @property
    def signature_selection(self) -> list[int] | None:
        """Input lengths in tokens."""
        return None


class ModelInfo:
    """Facts of a bundle. A context manager.

    Args:
        model_path: a .litertlm or .task file.

    Attributes:
        config: what the metadata says, tokens as ids; None for no language model.

    Raises:
        ModelNotFoundError, ModelFileError: the file.
    """

    def __init__(self, model_path: str | os.PathLike[str]) -> None:
        with open_bundle(model_path) as bundle:
            self._sections = bundle.sections
            kinds = {section.data_type for section in bundle.sections}
            self._is_embedding = SectionType.EMBEDDING_METADATA in kinds
            self.config: ModelConfig | None = None
            if SectionType.LLM_METADATA in kinds:
                tokenizer = load_tokenizer(*bundle.tokenizer_section())
                what = f"LlmMetadata of {bundle.path}"
                self.config = resolve(bundle.llm_metadata, tokenizer, what)
            main = bundle.models.get(MAIN_MODEL)
            self._lengths = [] if main is None else _lengths(bundle.read(main))

    def __enter__(self) -> ModelInfo:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held: the file was closed when it had been read."""

    @property
    def model_type(self) -> LiteRtLmModelType:
        """What the bundle is for."""
        if self.is_llm_model:
            return LiteRtLmModelType.LLM
        if self.is_embedding_model:
            return LiteRtLmModelType.EMBEDDING
        return LiteRtLmModelType.UNKNOWN

    @property
    def is_llm_model(self) -> bool:
        """Whether it is a language model."""
        return self.config is not None

    @property
    def is_embedding_model(self) -> bool:
        """Whether it makes embeddings."""
        return self._is_embedding

    @cached_property
    def llm(self) -> LlmCapability | None:
        """Facts of a language model, else None."""
        return None if self.config is None else LlmCapability(self, self.config)

    @cached_property
    def embedding(self) -> EmbeddingCapability | None:
        """Facts of an embedding model, else None."""
        return EmbeddingCapability(self) if self._is_embedding else None

    @property
    def input_modalities(self) -> SupportedModalities:
        """What the model takes in."""
        names = ("text", "vision", "audio", "video")
        return SupportedModalities(
            **{
                name: any(self._models(LiteRtLmModality[name.upper()]))
                for name in names
            }
        )

    @property
    def max_context_tokens(self) -> int:
        """Tokens of prompt and answer together; 0 where the file does not say."""
        stated = None if self.config is None else self.config.max_num_tokens
        return stated or max(self._lengths, default=0)

    @property
    def is_dynamic_context(self) -> bool:
        """Whether the KV cache has no fixed length."""
        return any(length < 0 for length in self._lengths)

    @property
    def min_runtime_version(self) -> str | None:
        """Oldest official runtime that can run the model."""
        return None if self.config is None else self.config.min_runtime_version

    @property
    def max_vision_token_budget(self) -> int:
        """-1: images are not supported yet."""
        return -1

    @property
    def vision_signature_selection(self) -> list[int] | None:
        """None: images are not supported yet."""
        return None

    def supported_backends_for_modality(self, modality: LiteRtLmModality) -> list[str]:
        """Backends that the bundle allows; any of cpu and gpu where it names none."""
        models = list(self._models(modality))
        if not models:
            return []
        return list(models[0].backend_constraint) or ["cpu", "gpu"]

    def npu_brand_for_modality(self, modality: LiteRtLmModality) -> LiteRtLmNpuBrand:
        """Whose accelerator the model was compiled for."""
        name = " ".join(filter(None, map(_soc_name, self._models(modality)))).lower()
        found = (brand for word, brand in _BRANDS.items() if word in name)
        return next(found, LiteRtLmNpuBrand.UNKNOWN)

    def soc_name_for_modality(self, modality: LiteRtLmModality) -> str | None:
        """The chip that the model was compiled for, or None."""
        return next(filter(None, map(_soc_name, self._models(modality))), None)

    def has_model(self, role: str) -> bool:
        """Whether the bundle holds a model of a role, such as "embedder"."""
        return any(
            section.data_type == SectionType.TFLITE_MODEL and section.model_type == role
            for section in self._sections
        )

    def _models(self, modality: LiteRtLmModality) -> Iterator[Section]:
        try:
            roles = _ENCODERS[LiteRtLmModality(modality)]
        except ValueError as error:
            raise InvalidArgumentError(
                f"modality must be a LiteRtLmModality, got {shown(modality)}."
            ) from error
        for section in self._sections:
            is_model = section.data_type == SectionType.TFLITE_MODEL
            if is_model and section.model_type in roles:
                yield section


def _soc_name(section: Section) -> str | None:
    value = section.items.get("soc_name") or section.items.get("soc_model")
    return value if isinstance(value, str) else None


def _lengths(model: memoryview) -> list[int]:
    """Context lengths that the masks of the main model show."""
    return [
        tensor.shape[-1]
        for signature in read_tflite(model, "the main model").signatures
        for tensor in signature.inputs
        if tensor.name in _MASKS and tensor.shape
    ]
