"""Abstract classes of the official package, for isinstance checks and for stand-ins."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from litert_lm.config import Backend, SamplerConfig
from litert_lm.enums import ActivationDataType
from litert_lm.reply_config import (
    ConstrainedDecodingConfig,
    LoraConfig,
    LoraRankConfig,
    NoRepeatNgramConfig,
    RepetitionPenaltyConfig,
    ResponseFormat,
    SuppressTokensConfig,
    ThinkingConfig,
)
from litert_lm.results import BenchmarkInfo, Responses

__all__ = [
    "AbstractBenchmark",
    "AbstractConversation",
    "AbstractEngine",
    "AbstractSession",
]


class _Closing:
    """A context manager that closes at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free what is held."""


@dataclass(kw_only=True, eq=False)
class AbstractEngine(_Closing, abc.ABC):
    """A model that is ready to run; see `Engine`."""

    model_path: str
    backend: Backend
    max_num_tokens: int | None = None
    max_num_images: int | None = None
    cache_dir: str | None = None
    vision_backend: Backend | None = None
    audio_backend: Backend | None = None
    enable_speculative_decoding: bool | None = None
    lora_rank_config: LoraRankConfig | None = None
    activation_data_type: ActivationDataType | None = None
    use_ringbuffers_local_attention: bool | None = None
    enable_ynnpack: bool | None = None

    @abc.abstractmethod
    def create_conversation(
        self,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Any] | None = None,
        tool_event_handler: Any = None,
        automatic_tool_calling: bool = True,
        extra_context: Mapping[str, Any] | None = None,
        filter_channel_content_from_kv_cache: bool | None = None,
        thinking_config: ThinkingConfig | None = None,
        sampler_config: SamplerConfig | None = None,
        constrained_decoding_config: ConstrainedDecodingConfig | None = None,
        lora_config: LoraConfig | None = None,
        max_output_tokens: int | None = None,
        chat_template: str | None = None,
        enable_speculative_decoding: bool | None = None,
    ) -> AbstractConversation:
        """A chat with the model."""

    @abc.abstractmethod
    def create_session(
        self,
        *,
        apply_prompt_template: bool = True,
        sampler_config: SamplerConfig | None = None,
        lora_config: LoraConfig | None = None,
        enable_speculative_decoding: bool | None = None,
    ) -> AbstractSession:
        """An empty session."""

    @abc.abstractmethod
    def tokenize(self, text: str) -> list[int]:
        """Token ids of a text."""

    @abc.abstractmethod
    def detokenize(self, token_ids: list[int]) -> str:
        """Text of token ids."""

    @property
    @abc.abstractmethod
    def bos_token_id(self) -> int | None:
        """The id that begins every context, or None."""

    @property
    @abc.abstractmethod
    def eos_token_ids(self) -> list[list[int]]:
        """The id sequences that end an answer."""


class AbstractSession(_Closing, abc.ABC):
    """One sequence of tokens; see `Session`."""

    @abc.abstractmethod
    def run_prefill(self, contents: list[str]) -> None:
        """Put text into the context."""

    @abc.abstractmethod
    def run_decode(self) -> Responses:
        """Answer what was prefilled."""

    @abc.abstractmethod
    def run_decode_async(self) -> Iterator[Responses]:
        """Answer what was prefilled, in pieces."""

    @abc.abstractmethod
    def run_text_scoring(
        self, target_text: list[str], store_token_lengths: bool = False
    ) -> Responses:
        """Log-probability of a text as the continuation."""

    @abc.abstractmethod
    def cancel_process(self) -> None:
        """Stop what the session is doing."""

    @abc.abstractmethod
    def get_benchmark_info(self) -> BenchmarkInfo:
        """Times of the last prefill and decode."""

    def get_debug_artifacts(self) -> None:
        """Nothing: of the official package, for its own developers."""


class AbstractConversation(_Closing, abc.ABC):
    """A chat with a model; see `Conversation`."""

    def __init__(
        self,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        tools: Sequence[Callable[..., Any] | Any] | None = None,
        tool_event_handler: Any = None,
        automatic_tool_calling: bool = True,
        extra_context: Mapping[str, Any] | None = None,
        thinking_config: ThinkingConfig | None = None,
        sampler_config: SamplerConfig | None = None,
        lora_config: LoraConfig | None = None,
        max_output_tokens: int | None = None,
        chat_template: str | None = None,
    ) -> None:
        self.messages = list(messages or ())
        self.tools = tools
        self.tool_event_handler = tool_event_handler
        self.automatic_tool_calling = automatic_tool_calling
        self.extra_context = extra_context
        self.thinking_config = thinking_config
        self.sampler_config = sampler_config
        self.lora_config = lora_config
        self.max_output_tokens = max_output_tokens
        self.chat_template = chat_template

    @abc.abstractmethod
    def send_message(
        self,
        message: Any,
        *,
        repetition_penalty_config: RepetitionPenaltyConfig | None = None,
        no_repeat_ngram_config: NoRepeatNgramConfig | None = None,
        suppress_tokens_config: SuppressTokensConfig | None = None,
        max_output_tokens: int | None = None,
        thinking_config: ThinkingConfig | None = None,
        response_format: ResponseFormat | None = None,
    ) -> Any:
        """Say something and get the reply."""

    @abc.abstractmethod
    def send_message_async(
        self,
        message: Any,
        *,
        repetition_penalty_config: RepetitionPenaltyConfig | None = None,
        no_repeat_ngram_config: NoRepeatNgramConfig | None = None,
        suppress_tokens_config: SuppressTokensConfig | None = None,
        max_output_tokens: int | None = None,
        thinking_config: ThinkingConfig | None = None,
        response_format: ResponseFormat | None = None,
    ) -> Iterator[Any]:
        """Say something and get the reply in deltas."""

    @abc.abstractmethod
    def render_message_to_string(self, message: Any) -> str:
        """The text that sending the message would add."""

    @property
    @abc.abstractmethod
    def token_count(self) -> int:
        """Tokens in the context."""

    @abc.abstractmethod
    def get_benchmark_info(self) -> BenchmarkInfo:
        """Times of the last prefill and decode."""

    def cancel_process(self) -> None:
        """Stop the reply."""

    def get_debug_artifacts(self) -> None:
        """Nothing: of the official package, for its own developers."""


@dataclass
class AbstractBenchmark(abc.ABC):
    """A measurement of one model; see `Benchmark`."""

    model_path: str
    backend: Backend
    prefill_tokens: int = 256
    decode_tokens: int = 256
    max_num_tokens: int | None = None
    cache_dir: str | None = None
    enable_speculative_decoding: bool | None = None
    prompt: str = "How are you"
    activation_data_type: ActivationDataType | None = None
    use_ringbuffers_local_attention: bool | None = None
    enable_ynnpack: bool | None = None

    @abc.abstractmethod
    def run(self) -> BenchmarkInfo:
        """The times."""
