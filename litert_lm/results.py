"""What sessions report besides generated responses; names of the official package."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["BenchmarkInfo", "Responses"]


@dataclass
class Responses:
    """Texts of a decode, or scores of a text.

    Attributes:
        texts: one text.
        scores: one number; after scoring the sum of log-probabilities, else 0.0.
        token_lengths: number of scored tokens, when asked for.
        token_scores: log-probability of each scored token.
    """

    texts: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    token_lengths: list[int] = field(default_factory=list)
    token_scores: list[list[float]] = field(default_factory=list)


@dataclass
class BenchmarkInfo:
    """Times of loading and of a session's last prefill and decode.

    Attributes:
        init_time_in_second: seconds that opening the engine took.
        time_to_first_token_in_second: from the start of the last prefill to its first
            token.
        last_prefill_token_count, last_decode_token_count: tokens.
        last_prefill_tokens_per_second, last_decode_tokens_per_second: tokens/s.
    """

    init_time_in_second: float
    time_to_first_token_in_second: float
    last_prefill_token_count: int
    last_prefill_tokens_per_second: float
    last_decode_token_count: int
    last_decode_tokens_per_second: float
