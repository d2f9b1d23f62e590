"""The decode loop: the one place where tokens are generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from litert_lm.generate.response import FinishInfo, FinishReason, SequenceOutput
from litert_lm.generate.sequence import TokenSequence, prepare_steps
from litert_lm.generate.stream import OutputText
from litert_lm.generate.token_scores import TokenScore, TokenScorer
from litert_lm.sampling.processors import LogitsPipeline
from litert_lm.sampling.sampler import Sampler
from litert_lm.sampling.selection import Logits

__all__ = ["Constraint", "Decoding", "decode", "decode_all"]


class Constraint(Protocol):
    """A language that the output is of, at some place in it."""

    def apply(self, logits: Logits) -> None:
        """Make the tokens that cannot follow impossible, in place."""

    def accept(self, token_id: int) -> None:
        """Go on behind a token."""

    def forced_ids(self) -> list[int]:
        """The only tokens that can follow, as far as that is known."""

    def fork(self) -> Constraint:
        """The same place, from which another answer goes on."""


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How one answer is generated.

    Attributes:
        sampler: logits to token id.
        processors: changes to the logits before that.
        output: text and stops.
        max_new_tokens: tokens after which the answer is cut, >= 1.
        index: number of the answer among those of its request.
        scorer: set when log-probabilities and ranks are wanted; they are those of the
            model's own logits, masked by the constraint.
        constraint: masks the logits before anything else.
        is_text_wanted: False leaves the text out of the outputs.
    """

    sampler: Sampler
    processors: LogitsPipeline
    output: OutputText
    max_new_tokens: int
    index: int = 0
    scorer: TokenScorer | None = None
    constraint: Constraint | None = None
    is_text_wanted: bool = True


def decode(
    sequence: TokenSequence, decoding: Decoding, is_cancelled: Callable[[], bool]
) -> Iterator[SequenceOutput]:
    """Generate tokens behind `sequence`, one chunk each; the last says why it ended.

    The sequence is consistent after every chunk, so the iterator may be dropped.
    """
    output, scorer, processors = decoding.output, decoding.scorer, decoding.processors
    # None where there are no processors: to ask them costs a call per token.
    accept = processors.accept if processors else None
    step, sampler = sequence.step, decoding.sampler
    constrained = _constrained_steps(sequence, decoding)
    logits: Logits | None
    ids: list[int] = []
    while True:
        if is_cancelled():
            yield _aborted(decoding, len(ids))
            return
        if constrained is not None:
            token_id, logits = constrained(ids)
        else:
            logits = step()
            token_id = sampler(logits if accept is None else processors(ids, logits))
        sequence.append(token_id)
        ids.append(token_id)
        if accept is not None:
            accept(token_id)
        text, finish = output.push(token_id)
        if finish is None and len(ids) >= decoding.max_new_tokens:
            text += output.finish()
            finish = FinishInfo(len(ids), FinishReason.LENGTH)
        score = None
        if scorer is not None and logits is not None:
            score = scorer(logits, token_id)
        yield _output(decoding, token_id, text, score, finish)
        if finish is not None:
            return


def decode_all(
    sequence: TokenSequence,
    decodings: Sequence[Decoding],
    is_cancelled: Callable[[], bool],
) -> Iterator[SequenceOutput]:
    """Chunks of all answers, a token of each in turn.

    One answer goes on in `sequence`; several go on in forks of it.
    """
    if len(decodings) == 1:
        return decode(sequence, decodings[0], is_cancelled)
    return _decode_by_turns(sequence, decodings, is_cancelled)


def _decode_by_turns(
    sequence: TokenSequence,
    decodings: Sequence[Decoding],
    is_cancelled: Callable[[], bool],
) -> Iterator[SequenceOutput]:
    forks = [sequence.fork() for _ in decodings]
    running = [
        (fork, decode(fork, decoding, is_cancelled))
        for fork, decoding in zip(forks, decodings, strict=True)
    ]
    # Forced tokens are stored by the call behind them, in a single answer too.
    may_share = not any(map(_takes_forced, decodings))
    while running:
        if may_share and not is_cancelled():
            prepare_steps([fork for fork, _ in running])
        for answer in tuple(running):
            output = next(answer[1])
            if output.finish_info is not None:
                running.remove(answer)
            yield output


def _takes_forced(decoding: Decoding) -> bool:
    """Whether tokens that a grammar forces are taken without a step of the model.

    Processors may prefer other tokens for the same text, and scores need logits.
    """
    is_plain = not decoding.processors and decoding.scorer is None
    return decoding.constraint is not None and is_plain


def _constrained_steps(
    sequence: TokenSequence, decoding: Decoding
) -> _ConstrainedSteps | None:
    if decoding.constraint is None:
        return None
    return _ConstrainedSteps(sequence, decoding, decoding.constraint)


class _ConstrainedSteps:
    """Tokens of a language.

    Those that it forces are taken without a step of the model, so that the next one
    stores several entries at once. Processors may prefer other tokens for the same
    text; with them every token is drawn.
    """

    def __init__(
        self, sequence: TokenSequence, decoding: Decoding, constraint: Constraint
    ) -> None:
        self._sequence = sequence
        self._constraint = constraint
        self._sampler = decoding.sampler
        self._processors = decoding.processors or None
        self._takes_forced = _takes_forced(decoding)
        self._forced: list[int] = []

    def __call__(self, ids: list[int]) -> tuple[int, Logits | None]:
        """The token after `ids`, and the logits it was drawn from."""
        if not self._forced and self._processors is None:
            self._forced = self._constraint.forced_ids()
        forced = self._forced.pop(0) if self._forced else None
        if forced is not None and self._takes_forced:
            self._constraint.accept(forced)
            return forced, None
        logits = self._sequence.step()
        self._constraint.apply(logits)
        token_id = self._drawn(ids, logits) if forced is None else forced
        self._constraint.accept(token_id)
        return token_id, logits

    def _drawn(self, ids: list[int], logits: Logits) -> int:
        processors = self._processors
        return self._sampler(logits if processors is None else processors(ids, logits))


def _output(
    decoding: Decoding,
    token_id: int,
    text: str,
    score: TokenScore | None,
    finish: FinishInfo | None,
) -> SequenceOutput:
    return SequenceOutput(
        index=decoding.index,
        text=text if decoding.is_text_wanted else "",
        num_tokens=1,
        token_ids=(token_id,),
        logprobs=() if score is None else (score.logprob,),
        ranks=() if score is None else (score.rank,),
        candidate_tokens=() if score is None else (score.candidates,),
        finish_info=finish,
    )


def _aborted(decoding: Decoding, count: int) -> SequenceOutput:
    text = decoding.output.finish()
    return SequenceOutput(
        index=decoding.index,
        text=text if decoding.is_text_wanted else "",
        finish_info=FinishInfo(count, FinishReason.ABORTED),
    )
