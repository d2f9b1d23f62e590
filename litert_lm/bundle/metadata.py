"""LlmMetadata and a tokenizer, resolved once into one frozen ModelConfig."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from litert_lm.bundle.tool_syntax import ToolSyntax, tool_syntax
from litert_lm.config import TextCodec
from litert_lm.errors import ModelFileError

if TYPE_CHECKING:
    from litert_lm._proto.llm_metadata_pb2 import LlmMetadata
    from litert_lm._proto.sampler_parameters_pb2 import SamplerParameters
    from litert_lm._proto.token_pb2 import TokenUnion

__all__ = [
    "Affixes",
    "Channel",
    "ModelConfig",
    "SamplerDefaults",
    "resolve",
    "resolve_token",
]

GENERIC = "generic"
_REASONING_NAME = "thought"
_GEMMA_TURN = (105,)


@dataclass(frozen=True, slots=True)
class Affixes:
    """Text before and after what one role says."""

    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Channel:
    """A part of the answer between two markers.

    ``is_reasoning`` is the metadata's flag; a channel called ``thought`` has it always,
    as in the official runtime.
    """

    name: str
    start: str
    end: str
    is_reasoning: bool


@dataclass(frozen=True, slots=True)
class SamplerDefaults:
    """How the model's authors want tokens to be drawn; None where the file is silent.

    Google's writer does not store a 0, and its runtime takes what is missing for 0: for
    it a file without ``temperature`` or ``top_p`` is greedy.

    Attributes:
        type: ``TOP_K``, ``TOP_P``, ``GREEDY``, or None for the unspecified type.
        top_k: keep so many of the likeliest tokens, >= 1.
        top_p: keep the smallest set with this probability, 0..1.
        temperature: divides the logits, >= 0; 0 is greedy.
        seed: start of the random sequence.
    """

    type: str | None = None
    top_k: int | None = None
    top_p: float | None = None
    temperature: float | None = None
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The facts a bundle states about its language model, tokens as ids.

    Attributes:
        bos_id: id put before a prompt of text; None: nothing is put there.
        bos_text: the spelling of that token; None without one.
        stop_sequences: generation ends when the generated ids end with one of them.
        eos_id: the first stop sequence of one id; None where there is none.
        user, model, system: text around what each role says.
        jinja_template: chat template; wins over the affixes. None where unset or empty.
        channels: in the order of the file.
        sampler: None where the file has no sampler parameters.
        max_num_tokens: longest context in tokens; None where the file has 0.
        model_type: ``generic``, ``gemma3``, ``qwen3`` and so on.
        suppressed_ids: never generated.
        pad_id: fills unused slots of a prefill chunk; 0 where unset.
        kv_cache_init_value: what empty cache slots hold.
        supports_thinking, supports_function_calling: None where the file is silent.
        min_runtime_version: oldest official runtime that can run the model.
        tool_syntax: how the model writes tool calls, where the file says so.
    """

    bos_id: int | None = None
    bos_text: str | None = None
    stop_sequences: tuple[tuple[int, ...], ...] = ()
    eos_id: int | None = None
    user: Affixes = Affixes()
    model: Affixes = Affixes()
    system: Affixes = Affixes()
    jinja_template: str | None = None
    channels: tuple[Channel, ...] = ()
    sampler: SamplerDefaults | None = None
    max_num_tokens: int | None = None
    model_type: str = GENERIC
    suppressed_ids: tuple[int, ...] = ()
    pad_id: int = 0
    kv_cache_init_value: int = 0
    supports_thinking: bool | None = None
    supports_function_calling: bool | None = None
    min_runtime_version: str | None = None
    tool_syntax: ToolSyntax = field(default_factory=ToolSyntax)

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end generation by themselves."""
        return tuple(ids[0] for ids in self.stop_sequences if len(ids) == 1)


def resolve(
    metadata: LlmMetadata, codec: TextCodec, what: str = "LlmMetadata"
) -> ModelConfig:
    """`metadata` with its tokens looked up in `codec`, by the official runtime's rules.

    A token given as text is a vocabulary entry of exactly that spelling, or else the
    ids the text is tokenized to. A start token of several ids is cut to the first.

    Raises ModelFileError that begins with `what` and names the field: an id outside the
    vocabulary, an empty stop token, a pad token of several ids, a sampler value out of
    range, a channel without name or start marker.
    """
    return _Resolver(metadata, codec, what).config()


def resolve_token(token: TokenUnion, codec: TextCodec) -> tuple[int, ...]:
    """The ids that `token` stands for, empty where it is empty; not range-checked."""
    if token.WhichOneof("token_union") == "token_ids":
        return tuple(token.token_ids.ids)
    if not token.token_str:
        return ()
    piece = codec.token_to_id(token.token_str)
    return tuple(codec.encode(token.token_str)) if piece is None else (piece,)


class _Resolver:
    def __init__(self, metadata: LlmMetadata, codec: TextCodec, what: str) -> None:
        self.metadata = metadata
        self.codec = codec
        self.what = what

    def config(self) -> ModelConfig:
        data = self.metadata
        bos = self.tokens(data.start_token, "start_token")[:1]
        stops = tuple(dict.fromkeys(self.stops()))
        return ModelConfig(
            bos_id=bos[0] if bos else None,
            bos_text=self.codec.decode(bos) if bos else None,
            stop_sequences=stops,
            eos_id=next((stop[0] for stop in stops if len(stop) == 1), None),
            user=self.affixes("user"),
            model=self.affixes("model"),
            system=self.affixes("system"),
            jinja_template=data.jinja_prompt_template or None,
            channels=tuple(self.channels()),
            sampler=self.sampler(),
            max_num_tokens=self.at_least_0(data.max_num_tokens, "max_num_tokens"),
            model_type=self.model_type(),
            suppressed_ids=self.suppressed(),
            pad_id=self.pad_id(),
            kv_cache_init_value=data.kv_cache_init_value,
            supports_thinking=self.optional("supports_thinking"),
            supports_function_calling=self.optional("supports_function_calling"),
            min_runtime_version=data.min_runtime_version or None,
            tool_syntax=tool_syntax(data.llm_model_type),
        )

    def error(self, field: str, problem: str) -> ModelFileError:
        return ModelFileError(
            f"{self.what}: {field} {problem}; correct the metadata and pack it again."
        )

    def check(self, ids: Iterable[int], field: str) -> tuple[int, ...]:
        checked = tuple(ids)
        size = self.codec.vocab_size
        for token_id in checked:
            if not 0 <= token_id < size:
                raise self.error(
                    field, f"has the id {token_id}, the vocabulary has 0..{size - 1}"
                )
        return checked

    def tokens(self, token: TokenUnion, field: str) -> tuple[int, ...]:
        return self.check(resolve_token(token, self.codec), field)

    def stops(self) -> Iterable[tuple[int, ...]]:
        for index, token in enumerate(self.metadata.stop_tokens):
            field = f"stop_tokens[{index}]"
            ids = self.tokens(token, field)
            if not ids:
                raise self.error(field, "is empty")
            yield ids

    def suppressed(self) -> tuple[int, ...]:
        ids = self.check(self.metadata.suppress_tokens.ids, "suppress_tokens")
        return tuple(dict.fromkeys(ids))

    def pad_id(self) -> int:
        ids = self.tokens(self.metadata.pad_token, "pad_token")
        if len(ids) > 1:
            raise self.error("pad_token", f"stands for {len(ids)} ids, it must be one")
        return ids[0] if ids else 0

    def affixes(self, role: str) -> Affixes:
        stored = getattr(self.metadata.prompt_templates, role)
        return Affixes(stored.prefix, stored.suffix)

    def channels(self) -> Iterable[Channel]:
        for index, stored in enumerate(self.metadata.channels):
            if not stored.channel_name or not stored.start:
                raise self.error(f"channels[{index}]", "has no name or no start marker")
            yield Channel(
                stored.channel_name,
                stored.start,
                stored.end,
                stored.is_reasoning_channel or stored.channel_name == _REASONING_NAME,
            )

    def sampler(self) -> SamplerDefaults | None:
        if not self.metadata.HasField("sampler_params"):
            return None
        stored = self.metadata.sampler_params
        names = dict(enumerate((None, "TOP_K", "TOP_P", "GREEDY")))
        if stored.type not in names:
            raise self.error("sampler_params.type", f"is {stored.type}, which is none")
        self.in_range(stored.p, "sampler_params.p", 1.0)
        self.in_range(stored.temperature, "sampler_params.temperature", math.inf)
        return SamplerDefaults(
            type=names[stored.type],
            top_k=self.at_least_0(stored.k, "sampler_params.k"),
            top_p=self.as_written(stored, "p"),
            temperature=self.as_written(stored, "temperature"),
            seed=stored.seed if stored.HasField("seed") else None,
        )

    def at_least_0(self, value: int, field: str) -> int | None:
        """`value`, None for the 0 that stands for unset."""
        if value < 0:
            raise self.error(field, f"is {value}, it must not be negative")
        return value or None

    def in_range(self, value: float, field: str, high: float) -> None:
        if not 0 <= value <= high or math.isinf(value):
            raise self.error(field, f"is {value}, it must be finite and in 0..{high:g}")

    def as_written(self, stored: SamplerParameters, field: str) -> float | None:
        """The shortest decimal stored as this 32-bit number, 0.9 and not 0.89999998."""
        if not stored.HasField(field):
            return None
        value: float = getattr(stored, field)
        for digits in range(6, 9):
            shorter = float(f"{value:.{digits}g}")
            if struct.pack("<f", shorter) == struct.pack("<f", value):
                return shorter
        return value

    def optional(self, field: str) -> bool | None:
        value: bool = getattr(self.metadata, field)
        return value if self.metadata.HasField(field) else None

    def model_type(self) -> str:
        named: str | None = self.metadata.llm_model_type.WhichOneof("model_type")
        if named is not None:
            return GENERIC if named == "generic_model" else named
        # A type of a later schema is known to be none that could be inferred.
        is_unknown = self.metadata.llm_model_type.ByteSize() > 0
        return GENERIC if is_unknown else infer_model_type(self.codec)


def infer_model_type(codec: TextCodec) -> str:
    """The family of a bundle that names none, told by its vocabulary.

    The official runtime's rule: token 105 opens a turn in Gemma's vocabularies, and
    among them Gemma 3n knows sound as token 256000.
    """
    turn = codec.decode(_GEMMA_TURN) if codec.vocab_size > _GEMMA_TURN[0] else ""
    if turn == "<start_of_turn>":
        hears = codec.encode("<start_of_audio>") == [256000]
        return "gemma3n" if hears else "gemma3"
    return "fast_vlm" if "<|im_start|>" in turn else GENERIC
