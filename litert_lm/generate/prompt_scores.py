"""Log-probabilities of a prompt's own tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.token_scores import NOTHING_BEFORE, TokenScore, TokenScorer

__all__ = ["score_prompt"]


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
