"""What generation gives back: the response messages of the vLLM Generate schema."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "CandidateToken",
    "FinishInfo",
    "FinishReason",
    "GenerateResponse",
    "PromptInfo",
    "SequenceOutput",
    "join",
]


class FinishReason(enum.IntEnum):
    """Why a sequence ended; numbers as in the schema."""

    NOT_FINISHED = 0
    LENGTH = 1
    STOP = 2
    ABORTED = 3


@dataclass(frozen=True, slots=True)
class CandidateToken:
    """Another token that could have stood at a position.

    Attributes:
        id: token id.
        logprob: natural logarithm of its probability.
        rank: number of tokens at least as likely, itself included.
    """

    id: int
    logprob: float
    rank: int


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """The prompt as the model saw it; in the first response only.

    Attributes:
        num_prompt_tokens: tokens of this call's prompt, BOS and affixes included.
        token_ids: their ids.
        logprobs, ranks, candidate_tokens: one entry per token, when asked for. The
            first token of a context has 0.0, rank 0 and no candidates.
        num_cached_tokens: how many of them the prefix cache or an import held.
        is_imported: whether the state that ``kv_transfer_params`` name was used, or
            computed again; None where they name none.
    """

    num_prompt_tokens: int
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()
    candidate_tokens: tuple[Sequence[CandidateToken], ...] = ()
    num_cached_tokens: int = 0
    is_imported: bool | None = None


@dataclass(frozen=True, slots=True)
class FinishInfo:
    """How a sequence ended; in its last response only.

    Attributes:
        num_output_tokens: all generated tokens, those of the stop included.
        finish_reason: LENGTH, STOP or ABORTED.
        stop_token_id, eos_token_id, stop_string: exactly one is set after STOP.
        kv_transfer_params: what imports the exported KV state, where that was asked
            for.
    """

    num_output_tokens: int
    finish_reason: FinishReason
    stop_token_id: int | None = None
    eos_token_id: int | None = None
    stop_string: str | None = None
    kv_transfer_params: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SequenceOutput:
    """New text and tokens of one sequence.

    Attributes:
        index: number of the sequence, 0 for the first.
        text: new text; what may yet become a stop is held back.
        num_tokens: new tokens; text may lag behind them.
        token_ids: their ids.
        logprobs, ranks: one entry per token, when asked for.
        candidate_tokens: per token the other tokens asked for.
        finish_info: set when the sequence has ended.
    """

    index: int = 0
    text: str = ""
    num_tokens: int = 0
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    ranks: tuple[int, ...] = ()
    candidate_tokens: tuple[Sequence[CandidateToken], ...] = ()
    finish_info: FinishInfo | None = None


@dataclass(frozen=True, slots=True)
class GenerateResponse:
    """One chunk of a stream, or a whole answer.

    Attributes:
        prompt_info: in the first chunk only.
        outputs: news of each sequence; empty while only the prompt is known.
    """

    prompt_info: PromptInfo | None = None
    outputs: tuple[SequenceOutput, ...] = field(default=())

    @property
    def text(self) -> str:
        """Text of the first sequence, '' when there is none in this chunk."""
        return self.outputs[0].text if self.outputs else ""

    @property
    def finish_reason(self) -> FinishReason:
        """Finish reason of the first sequence, NOT_FINISHED before its end."""
        info = self.outputs[0].finish_info if self.outputs else None
        return FinishReason.NOT_FINISHED if info is None else info.finish_reason


def join(chunks: Iterable[GenerateResponse]) -> GenerateResponse:
    """The whole answer that a stream's chunks make up."""
    prompt_info: PromptInfo | None = None
    parts: dict[int, list[SequenceOutput]] = {}
    for chunk in chunks:
        prompt_info = prompt_info or chunk.prompt_info
        for output in chunk.outputs:
            parts.setdefault(output.index, []).append(output)
    outputs = tuple(_join_outputs(index, parts[index]) for index in sorted(parts))
    return GenerateResponse(prompt_info=prompt_info, outputs=outputs)


def _join_outputs(index: int, parts: list[SequenceOutput]) -> SequenceOutput:
    return SequenceOutput(
        index=index,
        text="".join(part.text for part in parts),
        num_tokens=sum(part.num_tokens for part in parts),
        token_ids=tuple(x for part in parts for x in part.token_ids),
        logprobs=tuple(x for part in parts for x in part.logprobs),
        ranks=tuple(x for part in parts for x in part.ranks),
        candidate_tokens=tuple(x for part in parts for x in part.candidate_tokens),
        finish_info=parts[-1].finish_info,
    )
