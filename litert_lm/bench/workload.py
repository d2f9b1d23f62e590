"""What is measured: a prompt of so many tokens and an answer of so many."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from litert_lm.engine import Engine
    from litert_lm.session import Session

__all__ = ["AnswerTimes", "answer", "new_session", "prompt_ids"]


@dataclass(frozen=True, kw_only=True)
class AnswerTimes:
    """Seconds from the start of one answer.

    Attributes:
        prefill_s: until the prompt is stored, all but its last token.
        first_token_s: until the first token.
        end_s: until the last token.
    """

    prefill_s: float
    first_token_s: float
    end_s: float

    @property
    def decode_s(self) -> float:
        """All tokens, without the prefill."""
        return self.end_s - self.prefill_s


def prompt_ids(count: int, vocab_size: int) -> list[int]:
    """Token ids without meaning, the same each time."""
    return [(7 * i + 3) % vocab_size for i in range(count)]


def new_session(engine: Engine, depth: int = 0) -> Session:
    """A session with `depth` entries in its cache."""
    session = engine.create_session(apply_prompt_template=False)
    if depth:
        answer(session, prompt_ids(depth, engine.executor.vocab_size), 1)
    return session


def answer(
    session: Session, token_ids: Sequence[int], num_new_tokens: int
) -> AnswerTimes:
    """Answer greedily, past every stop token, and time it."""
    begin = time.perf_counter()
    stream = session.generate_stream(
        token_ids, max_new_tokens=num_new_tokens, ignore_eos=True, temperature=0.0
    )
    next(stream)
    prefilled = time.perf_counter()
    next(stream)
    first = time.perf_counter()
    for _ in stream:
        pass
    return AnswerTimes(
        prefill_s=prefilled - begin,
        first_token_s=first - begin,
        end_s=time.perf_counter() - begin,
    )
