"""Log-probability, rank and candidates of tokens, as responses hold them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np
import numpy.typing as npt

from litert_lm.generate.request_values import Candidates
from litert_lm.generate.response import CandidateToken
from litert_lm.sampling.logprobs import Logprobs, TokenLogprobs
from litert_lm.sampling.selection import Logits

__all__ = ["CandidateTokens", "TokenScore", "TokenScorer"]


class CandidateTokens(Sequence[CandidateToken]):
    """Candidates of one position; 12 bytes each until they are looked at.

    Attributes:
        ids: int32 [n].
        logprobs: float32 [n].
        ranks: int32 [n].
    """

    __slots__ = ("ids", "logprobs", "ranks")

    def __init__(
        self,
        ids: npt.NDArray[np.int32],
        logprobs: npt.NDArray[np.float32],
        ranks: npt.NDArray[np.int32],
    ) -> None:
        self.ids, self.logprobs, self.ranks = ids, logprobs, ranks

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> CandidateToken: ...

    @overload
    def __getitem__(self, index: slice) -> CandidateTokens: ...

    def __getitem__(self, index: int | slice) -> CandidateToken | CandidateTokens:
        if isinstance(index, slice):
            return CandidateTokens(
                self.ids[index], self.logprobs[index], self.ranks[index]
            )
        return CandidateToken(
            int(self.ids[index]), float(self.logprobs[index]), int(self.ranks[index])
        )

    def __iter__(self) -> Iterator[CandidateToken]:
        columns = self.ids.tolist(), self.logprobs.tolist(), self.ranks.tolist()
        return map(CandidateToken, *columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"CandidateTokens({list(self[:3])}, {len(self)} in all)"


NO_CANDIDATES = CandidateTokens(
    np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.int32)
)


class TokenScore(NamedTuple):
    """What is told of one token.

    Attributes:
        logprob: natural logarithm of its probability.
        rank: number of tokens at least as likely, itself included.
        candidates: other tokens that were asked for.
    """

    logprob: float
    rank: int
    candidates: CandidateTokens


NOTHING_BEFORE = TokenScore(0.0, 0, NO_CANDIDATES)
"""Of the first token of a context: no logits speak of it."""


class TokenScorer:
    """Scores tokens by the model's own logits.

    Candidates never include the scored token; ranks are those in the whole vocabulary.

    Args:
        candidates: the number of likeliest others, ids in the order wanted, or "all";
            None and 0 are none.
    """

    def __init__(self, candidates: Candidates | None) -> None:
        self._candidates = candidates
        self._logprobs = Logprobs()

    def __call__(self, logits: Logits, token_id: int) -> TokenScore:
        """The score of `token_id` among logits [vocab_size]."""
        total = self._logprobs.logsumexp(logits)
        logprob = self._logprobs.token_logprob(logits, token_id, total=total)
        return TokenScore(
            float(np.float32(logprob)),  # equal to that of the same candidate
            self._logprobs.token_rank(logits, token_id),
            self._others(logits, token_id, total),
        )

    def _others(self, logits: Logits, token_id: int, total: float) -> CandidateTokens:
        wanted = self._candidates
        if not wanted:
            return NO_CANDIDATES
        if isinstance(wanted, tuple):
            return _columns(self._logprobs.of(logits, wanted, total=total), token_id)
        count = logits.size if wanted == "all" else min(wanted + 1, logits.size)
        found = _columns(self._logprobs.top(logits, count, total=total), token_id)
        return found if wanted == "all" else found[:wanted]


def _columns(found: TokenLogprobs, left_out: int) -> CandidateTokens:
    kept = found.ids != left_out
    return CandidateTokens(
        found.ids[kept].astype(np.int32),
        found.logprobs[kept].astype(np.float32),
        found.ranks[kept].astype(np.int32),
    )
