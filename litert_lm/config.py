"""What a caller chooses: backends, sampling. Frozen values, checked when made."""

from __future__ import annotations

import abc
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from litert_lm.errors import InvalidArgumentError, shown

__all__ = [
    "CPU",
    "GPU",
    "NPU",
    "WEIGHT_KINDS",
    "Backend",
    "GenerateLimits",
    "Progress",
    "SamplerConfig",
    "TextCodec",
    "check_count",
    "check_flag",
    "check_number",
    "no_progress",
]

_MAX_THREADS = 1024  # with tens of thousands the C library fails in odd places
_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_MAX_FLOAT = sys.float_info.max

WEIGHT_KINDS = ("int8", "int4", "f32")
"""Precisions that weights can be converted to, the usual one first."""

Progress = Callable[[str, float], None]
"""Told what is being done and which fraction, 0..1, of it is."""


def no_progress(stage: str, fraction: float) -> None:
    """Tells nobody."""


class TextCodec(Protocol):
    """What metadata resolution needs of a tokenizer; every tokenizer satisfies it."""

    @property
    def vocab_size(self) -> int:
        """Number of token ids; every valid id is below it."""

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`, no BOS or EOS added; special spellings become ids."""

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of `token_ids`, special tokens included."""

    def token_to_id(self, piece: str) -> int | None:
        """Id of the vocabulary entry spelled exactly `piece`, or None."""


class Backend(abc.ABC):
    """Where a model runs: ``Backend.CPU()``, ``Backend.GPU()`` or ``Backend.NPU()``."""

    CPU: ClassVar[type[CPU]]
    GPU: ClassVar[type[GPU]]
    NPU: ClassVar[type[NPU]]

    @abc.abstractmethod
    def get_name(self) -> str:
        """The backend's name in lower case."""


@dataclass(frozen=True, kw_only=True)
class CPU(Backend):
    """XNNPACK on the CPU.

    Args:
        thread_count: threads of one model run; None measures 1 against all cores once
            per model and machine, and remembers the faster.
        huge_pages: where the system does not hold packed weights in huge pages by
            itself, move them to private memory of huge pages: faster decoding for as
            much RAM as the file is large. Linux only.
    """

    thread_count: int | None = None
    huge_pages: bool = False

    def __post_init__(self) -> None:
        check_count("thread_count", self.thread_count, 1, _MAX_THREADS)

    def get_name(self) -> str:
        return "cpu"


@dataclass(frozen=True, kw_only=True)
class GPU(Backend):
    """The GPU accelerator that comes with LiteRT (WebGPU on Linux, Metal on macOS).

    Args:
        gpu_decode_steps_per_sync: of the official package; `Engine` refuses it.
    """

    gpu_decode_steps_per_sync: int | None = None

    def __post_init__(self) -> None:
        check_count(
            "gpu_decode_steps_per_sync", self.gpu_decode_steps_per_sync, minimum=1
        )

    def get_name(self) -> str:
        return "gpu"


@dataclass(frozen=True, kw_only=True)
class NPU(Backend):
    """A vendor's accelerator.

    Args:
        litert_dispatch_lib_dir: of the official package; `Engine` refuses it.
    """

    litert_dispatch_lib_dir: str | None = None

    def get_name(self) -> str:
        return "npu"


Backend.CPU = CPU
Backend.GPU = GPU
Backend.NPU = NPU


@dataclass(frozen=True)
class SamplerConfig:
    """How the next token is drawn. Fields left None come from the bundle's metadata.

    Args:
        top_k: keep the k most likely tokens, k >= 1.
        top_p: keep the smallest set of tokens with at least this probability, 0..1.
        temperature: logits are divided by it; 0 means greedy.
        seed: start of the random sequence.
    """

    top_k: int | None = None
    top_p: float | None = None
    temperature: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        check_count("top_k", self.top_k, minimum=1)
        check_number("top_p", self.top_p, 0.0, 1.0)
        check_number("temperature", self.temperature, 0.0, math.inf)
        check_count("seed", self.seed)


@dataclass(frozen=True, kw_only=True)
class GenerateLimits:
    """What requests may ask of an engine, and what they get unasked.

    Args:
        max_logprobs: most candidate tokens at each position; None is no limit.
        default_max_new_tokens: length of answers that set none.
        max_num_sequences: most answers to one prompt; each has a KV cache of its own.
    """

    max_logprobs: int | None = None
    default_max_new_tokens: int = 20
    max_num_sequences: int = 128

    def __post_init__(self) -> None:
        check_count("max_logprobs", self.max_logprobs, minimum=0)
        check_count("default_max_new_tokens", self.default_max_new_tokens, minimum=1)
        check_count("max_num_sequences", self.max_num_sequences, minimum=1)

    @classmethod
    def checked(cls, limits: object) -> GenerateLimits:
        """What a caller gives as limits; None are the usual ones."""
        if limits is None:
            return cls()
        if not isinstance(limits, cls):
            raise InvalidArgumentError(
                f"generate_limits must be a GenerateLimits, got {shown(limits)}."
            )
        return limits


def check_count(
    name: str, value: object, minimum: int = _MIN_INT64, maximum: int = _MAX_INT64
) -> None:
    """Raise InvalidArgumentError unless `value` is None or an int in the range."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgumentError(
            f"{name} must be a whole number, got {shown(value)}."
        )
    if value < minimum:
        least = "fit into int64" if minimum == _MIN_INT64 else f"be at least {minimum}"
        raise InvalidArgumentError(f"{name} must {least}, got {shown(value)}.")
    if value > maximum:
        most = "fit into int64" if maximum == _MAX_INT64 else f"be at most {maximum}"
        raise InvalidArgumentError(f"{name} must {most}, got {shown(value)}.")


def check_flag(name: str, value: object) -> None:
    """Raise InvalidArgumentError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} must be True or False, got {shown(value)}.")


def check_number(name: str, value: object, low: float, high: float) -> None:
    """Raise InvalidArgumentError unless `value` is None or finite in low..high."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgumentError(f"{name} must be a number, got {shown(value)}.")
    if not low <= value <= min(high, _MAX_FLOAT):
        bounds = f"at least {low:g}" if math.isinf(high) else f"in {low:g}..{high:g}"
        raise InvalidArgumentError(
            f"{name} must be finite and {bounds}, got {shown(value)}."
        )
