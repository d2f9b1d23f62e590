"""The one place where a request's values are checked: ranges, then model and server."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from litert_lm.config import GenerateLimits, check_count, check_flag, check_number
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.generate.request_values import Candidates

if TYPE_CHECKING:
    from litert_lm.generate.request import GenerateRequest

__all__ = [
    "check_against_model",
    "check_candidates_fit",
    "check_values",
    "num_candidates",
]

_MAX_TEMPERATURE = 2.0
_MAX_PENALTY = 2.0
_MAX_SEQUENCES = 16384  # as in vLLM
_MAX_STOP_STRINGS = 1024  # each is looked for at every token
_MAX_CANDIDATE_IDS = 128  # under a cap on candidates, as in vLLM
_MAX_KEPT_CANDIDATES = 1 << 27  # of one prompt or its answers: 1.6 GB
_MAX_FLOAT32 = 3.4028234e38
_MIN_INT32, _MAX_INT32 = -(1 << 31), (1 << 31) - 1

_FLAGS = (
    "include_stop_strings",
    "ignore_eos",
    "prompt_token_ids",
    "prompt_logprobs",
    "output_text",
    "output_token_ids",
    "output_logprobs",
    "bypass_prefix_cache",
)
_TEXTS = ("request_id", "model", "cache_salt")


def check_values(request: GenerateRequest) -> None:
    """Raise InvalidArgumentError for a value that no model could take."""
    _check_sampling(request)
    _check_penalties(request)
    _check_stopping(request)
    _check_candidates("prompt_candidates", request.prompt_candidates)
    _check_candidates("output_candidates", request.output_candidates)
    check_count("truncate_prompt_tokens", request.truncate_prompt_tokens, minimum=0)
    check_count("priority", request.priority, _MIN_INT32, _MAX_INT32)
    for name in _FLAGS:
        check_flag(name, getattr(request, name))
    for name in _TEXTS:
        _check_text(name, getattr(request, name))


def _check_sampling(request: GenerateRequest) -> None:
    check_number("temperature", request.temperature, 0.0, _MAX_TEMPERATURE)
    check_count("num_sequences", request.num_sequences, 1, _MAX_SEQUENCES)
    check_count("top_k", request.top_k, minimum=0)
    _check_above_zero("top_p", request.top_p, 1.0)
    check_number("min_p", request.min_p, 0.0, 1.0)
    check_count("seed", request.seed)


def _check_penalties(request: GenerateRequest) -> None:
    for name in ("presence_penalty", "frequency_penalty"):
        check_number(name, getattr(request, name), -_MAX_PENALTY, _MAX_PENALTY)
    _check_above_zero("repetition_penalty", request.repetition_penalty, math.inf)
    for token_id, bias in request.logit_bias:
        if not abs(bias) <= _MAX_FLOAT32:
            raise InvalidArgumentError(
                f"logit_bias must hold finite float32 numbers, got {shown(bias)} for "
                f"the id {shown(token_id)}."
            )


def _check_stopping(request: GenerateRequest) -> None:
    limit, minimum = request.max_new_tokens, request.min_new_tokens
    check_count("max_new_tokens", limit, minimum=1)
    check_count("min_new_tokens", minimum, minimum=0)
    if limit is not None and minimum is not None and minimum > limit:
        raise InvalidArgumentError(
            f"min_new_tokens is {minimum}, more than max_new_tokens, {limit}."
        )
    if "" in request.stop_strings:
        raise InvalidArgumentError(
            "stop_strings holds an empty string, which would stop at once; leave it "
            "out."
        )
    if len(request.stop_strings) > _MAX_STOP_STRINGS:
        raise InvalidArgumentError(
            f"stop_strings holds {len(request.stop_strings)} texts; at most "
            f"{_MAX_STOP_STRINGS} are looked for."
        )


def _check_candidates(name: str, candidates: Candidates | None) -> None:
    if isinstance(candidates, int):
        check_count(name, candidates, minimum=0)


def _check_above_zero(name: str, value: object, high: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and not 0 < value <= min(high, sys.float_info.max):  # type: ignore[operator]
        bounds = "" if math.isinf(high) else f" and at most {high:g}"
        raise InvalidArgumentError(
            f"{name} must be finite, above 0{bounds}, got {shown(value)}."
        )
    check_number(name, value, 0.0, high)


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be text, got {shown(value)}.")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{name} holds a lone surrogate at position {error.start}; replace it."
        ) from error


def check_against_model(
    request: GenerateRequest,
    *,
    vocab_size: int,
    context_length: int,
    limits: GenerateLimits,
) -> None:
    """Raise InvalidArgumentError for what this model or server does not take."""
    prompt = () if isinstance(request.prompt, str) else request.prompt
    check_ids("prompt", prompt, vocab_size)
    check_ids("stop_token_ids", request.stop_token_ids, vocab_size)
    check_ids("allowed_token_ids", request.allowed_token_ids, vocab_size)
    check_ids("logit_bias", [i for i, _ in request.logit_bias], vocab_size)
    for name in ("prompt_candidates", "output_candidates"):
        candidates = getattr(request, name)
        if isinstance(candidates, tuple):
            check_ids(name, candidates, vocab_size)
        if candidates is not None:
            _check_cap(name, candidates, vocab_size, limits.max_logprobs)
    _check_sequences(request, limits)
    _check_truncation(request, context_length)


def check_ids(name: str, ids: Sequence[int], vocab_size: int) -> None:
    """Raise InvalidArgumentError for an id that is not in 0..vocab_size-1."""
    if not ids or (min(ids) >= 0 and max(ids) < vocab_size):
        return
    wrong = next(i for i in ids if not 0 <= i < vocab_size)
    raise InvalidArgumentError(
        f"{name} holds token id {shown(wrong)}; this model has ids 0 to "
        f"{vocab_size - 1}."
    )


def num_candidates(candidates: Candidates | None, vocab_size: int) -> int:
    """How many tokens are asked for at each position."""
    if candidates is None:
        return 0
    if isinstance(candidates, int):
        return min(candidates, vocab_size)
    return vocab_size if candidates == "all" else len(candidates)


def _check_cap(
    name: str, candidates: Candidates, vocab_size: int, cap: int | None
) -> None:
    if cap is None:
        return
    if isinstance(candidates, tuple):
        cap, count = max(cap, _MAX_CANDIDATE_IDS), len(candidates)
    elif isinstance(candidates, int):
        count = candidates
    else:
        count = vocab_size
    if count > cap:
        raise InvalidArgumentError(
            f"{name} asks for {count} tokens at each position; at most {cap} are "
            "allowed here (max_logprobs)."
        )


def check_candidates_fit(
    request: GenerateRequest, num_prompt_tokens: int, limit: int, vocab_size: int
) -> None:
    """Raise InvalidArgumentError when all candidates would take too much memory.

    Args:
        num_prompt_tokens: positions of the prompt.
        limit: most positions of an answer.
        vocab_size: how many "all" are.
    """
    for name, is_wanted, positions in (
        ("prompt", request.prompt_logprobs, num_prompt_tokens),
        ("output", request.output_logprobs, limit * request.num_sequences),
    ):
        candidates = getattr(request, f"{name}_candidates")
        count = num_candidates(candidates, vocab_size) if is_wanted else 0
        if count * positions > _MAX_KEPT_CANDIDATES:
            raise InvalidArgumentError(
                f"{name}_candidates asks for {count} tokens at each of up to "
                f"{positions} positions, more than {_MAX_KEPT_CANDIDATES} in all; ask "
                "for fewer, or set truncate_prompt_tokens or max_new_tokens."
            )


def _check_sequences(request: GenerateRequest, limits: GenerateLimits) -> None:
    if request.num_sequences > limits.max_num_sequences:
        raise InvalidArgumentError(
            f"num_sequences is {request.num_sequences}; at most "
            f"{limits.max_num_sequences} are generated at once (max_num_sequences)."
        )


def _check_truncation(request: GenerateRequest, context_length: int) -> None:
    """A prompt cut to this length must leave room for the answer."""
    kept = request.truncate_prompt_tokens or 0
    answer = request.max_new_tokens or 1
    if kept and kept > context_length - answer:
        raise InvalidArgumentError(
            f"truncate_prompt_tokens is {kept}, which leaves no room for an answer of "
            f"{answer} in a context of {context_length}; "
            f"at most {max(0, context_length - answer)} fit."
        )
