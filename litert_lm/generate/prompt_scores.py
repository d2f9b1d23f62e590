"""Log-probabilities of tokens that are given, not generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litert_lm.errors import CancelledError
from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.token_scores import NOTHING_BEFORE, TokenScore, TokenScorer
from litert_lm.sampling.logprobs import Logprobs

__all__ = ["score_continuation", "score_prompt"]


def score_prompt(
    sequence: TokenSequence,
    token_ids: Sequence[int],
    scorer: TokenScorer,
    *,
    is_cancelled: Callable[[], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[TokenScore]:
    """Append ids, and tell of each how likely it was behind those before it.

    The first of an empty sequence has nothing before it. Where the model gives logits
    of several tokens at once it costs about a prefill, else a decode step per token.

    Raises:
        CancelledError: asked for by `is_cancelled`; the sequence is as before.
    """
    is_first = not sequence.token_ids
    scores = [NOTHING_BEFORE] if is_first else []
    following = iter(token_ids[1:] if is_first else token_ids)
    for rows in sequence.extend_scored(
        token_ids, is_cancelled=is_cancelled, progress=progress
    ):
        for logits, token_id in zip(rows, following, strict=False):
            scores.append(scorer(logits, token_id))
    return scores


def score_continuation(
    sequence: TokenSequence, token_ids: Sequence[int], is_cancelled: Callable[[], bool]
) -> list[float]:
    """Log-probability of each id behind a sequence, which is as before afterwards.

    Raises:
        CancelledError: asked for by `is_cancelled`.
    """
    before = len(sequence.token_ids)
    logprobs, scores = Logprobs(), []
    try:
        for token_id in token_ids:
            if is_cancelled():
                raise CancelledError("The scoring was cancelled.")
            scores.append(logprobs.token_logprob(sequence.step(), token_id))
            sequence.append(token_id)
    finally:
        sequence.rewind(before)
    return scores
