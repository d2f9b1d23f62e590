"""How a reply came about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litert_lm.generate.response import CandidateToken, FinishReason

__all__ = ["ReplyInfo"]


@dataclass(frozen=True, kw_only=True)
class ReplyInfo:
    """What there is to know about one reply.

    Attributes:
        finish_reason: STOP, LENGTH, or ABORTED by `cancel_process` or a closed stream.
        num_context_tokens: tokens of the whole prompt, earlier turns included.
        num_prefill_tokens: those of them that this message had to add.
        num_cached_tokens: those of them that the engine's prefix cache had.
        num_output_tokens: generated tokens, the stop's included.
        token_ids: their ids.
        logprobs, ranks, candidate_tokens: one entry per token, when asked for.
        parse_error: why something that looks like a tool call is none.
    """

    finish_reason: FinishReason
    num_context_tokens: int
    num_prefill_tokens: int
    num_cached_tokens: int = 0
    num_output_tokens: int
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()
    candidate_tokens: tuple[Sequence[CandidateToken], ...] = ()
    parse_error: str | None = None
