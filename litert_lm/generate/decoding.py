"""The decode loop: the one place where tokens are generated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from litert_lm.generate.response import FinishInfo, FinishReason, SequenceOutput
from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.stream import OutputText
from litert_lm.sampling.logprobs import Logprobs
from litert_lm.sampling.processors import LogitsPipeline
from litert_lm.sampling.sampler import Sampler

__all__ = ["Decoding", "decode"]


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How one answer is generated.

    Attributes:
        sampler: logits to token id.
        processors: changes to the logits before that.
        output: text and stops.
        max_new_tokens: tokens after which the answer is cut, >= 1.
        logprobs: set when log-probabilities and ranks are wanted; they are those of the
            model's own logits.
    """

    sampler: Sampler
    processors: LogitsPipeline
    output: OutputText
    max_new_tokens: int
    logprobs: Logprobs | None = None


def decode(
    sequence: TokenSequence, decoding: Decoding, is_cancelled: Callable[[], bool]
) -> Iterator[SequenceOutput]:
    """Generate tokens behind `sequence`, one chunk each; the last says why it ended.

    The sequence is consistent after every chunk, so the iterator may be dropped.
    """
    output, sampler = decoding.output, decoding.sampler
    processors = decoding.processors or None  # no calls for nothing in every step
    ids: list[int] = []
    while True:
        if is_cancelled():
            yield _last(output, len(ids), FinishReason.ABORTED)
            return
        logits = sequence.step()
        token_id = sampler(logits if processors is None else processors(ids, logits))
        sequence.append(token_id)
        ids.append(token_id)
        if processors is not None:
            processors.accept(token_id)
        text, finish = output.push(token_id)
        if finish is None and len(ids) >= decoding.max_new_tokens:
            text += output.finish()
            finish = FinishInfo(len(ids), FinishReason.LENGTH)
        logprobs: tuple[float, ...] = ()
        ranks: tuple[int, ...] = ()
        if decoding.logprobs is not None:
            logprobs = (decoding.logprobs.token_logprob(logits, token_id),)
            ranks = (decoding.logprobs.token_rank(logits, token_id),)
        yield SequenceOutput(
            text=text,
            num_tokens=1,
            token_ids=(token_id,),
            logprobs=logprobs,
            ranks=ranks,
            finish_info=finish,
        )
        if finish is not None:
            return


def _last(output: OutputText, count: int, reason: FinishReason) -> SequenceOutput:
    return SequenceOutput(text=output.finish(), finish_info=FinishInfo(count, reason))
