"""Runs requests: from a checked request to the chunks of its answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.config import GenerateLimits
from litert_lm.errors import (
    CancelledError,
    ContextFullError,
    InvalidArgumentError,
    NoTokenLeftError,
    PromptTooLongError,
)
from litert_lm.executor.executor import Executor
from litert_lm.generate.answers import Answers
from litert_lm.generate.decoding import Constraint, Decoding, decode_all
from litert_lm.generate.kv_transfer import (
    KVTransfer,
    KVTransfers,
    read_kv_transfer,
)
from litert_lm.generate.prefix_cache import PrefixUse
from litert_lm.generate.prompt_scores import score_prompt
from litert_lm.generate.reply import ReplyOptions
from litert_lm.generate.request import GenerateRequest
from litert_lm.generate.request_checks import (
    check_against_model,
    check_candidates_fit,
)
from litert_lm.generate.response import (
    FinishInfo,
    FinishReason,
    GenerateResponse,
    PromptInfo,
    SequenceOutput,
)
from litert_lm.generate.scheduler import Scheduler
from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.times import Times
from litert_lm.generate.token_scores import TokenScore, TokenScorer
from litert_lm.sampling.selection import checked_peak
from litert_lm.tokenizer import Tokenizer

if TYPE_CHECKING:
    from litert_lm.sampling.constraint.compiler import ConstraintCompiler

__all__ = ["Place", "PreparedRequest", "RequestRunner"]


@dataclass(frozen=True)
class PreparedRequest:
    """A request that is sound for the model.

    Attributes:
        request: as given.
        answers: how its answers are generated.
        constraint: its structured output, compiled.
        transfer: what it imports and exports.
        reply: set where the answer is a conversation's reply.
    """

    request: GenerateRequest
    answers: Answers
    constraint: Constraint | None
    transfer: KVTransfer
    reply: ReplyOptions | None = None

    def decodings(self, sequence: TokenSequence) -> list[Decoding]:
        """How each answer behind a sequence is generated."""
        num_free = sequence.num_free
        decodings = self.answers.of_request(
            self.request, sequence.token_ids, num_free, self.constraint
        )
        if self.reply is None:
            return decodings
        plain = self.answers.plain(num_free)
        return [self.reply.decoding(each, plain) for each in decodings]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a request runs.

    Attributes:
        sequence: what the prompt is put behind.
        times: where its times are kept.
        is_cancelled: asked between all steps.
        progress: called with (tokens done, tokens in all) while the prompt is read.
    """

    sequence: TokenSequence
    is_cancelled: Callable[[], bool]
    times: Times = field(default_factory=Times)
    progress: Callable[[int, int], None] | None = None


class RequestRunner:
    """Prepares and runs the requests to one model, for all sessions of an engine.

    Args:
        executor: of the model.
        tokenizer, config: of the same bundle.
        limits: what requests may ask for.
        scheduler: says when a request may run.
        transfers: the states that requests export.
    """

    def __init__(
        self,
        executor: Executor,
        tokenizer: Tokenizer,
        config: ModelConfig,
        *,
        limits: GenerateLimits,
        scheduler: Scheduler,
        transfers: KVTransfers,
    ) -> None:
        self.limits = limits
        self.scheduler = scheduler
        self._transfers = transfers
        self._executor = executor
        self._tokenizer = tokenizer
        self._config = config

    def prepare(
        self,
        request: GenerateRequest,
        answers: Answers,
        reply: ReplyOptions | None = None,
    ) -> PreparedRequest:
        """Check what does not depend on the prompt's length, and compile.

        Raises:
            InvalidArgumentError: a value that this model or server does not take.
        """
        check_against_model(
            request,
            vocab_size=self._executor.vocab_size,
            context_length=self._executor.context_length,
            limits=self.limits,
        )
        answers.choice(request)
        constraint = None
        if request.constraint is not None:
            constraint = self._constraints.compile(request.constraint)
        transfer = read_kv_transfer(request.kv_transfer_params)
        return PreparedRequest(request, answers, constraint, transfer, reply)

    def check_prompt(
        self, prepared: PreparedRequest, ids: Sequence[int], num_used: int
    ) -> None:
        """Check a prompt that shall follow `num_used` tokens of a context.

        Raises:
            PromptTooLongError: no room for it and one token of an answer.
            ContextFullError: no room for anything.
            InvalidArgumentError: the answer cannot be as it was asked for.
            SavedStateError: it imports a KV state of another model.
        """
        self.check_room(len(ids), num_used)
        self._transfers.check(prepared.transfer, ids, num_used)
        request = prepared.request
        num_free = self._executor.context_length - num_used - len(ids)
        limit = prepared.answers.limit(request, num_free)
        check_candidates_fit(request, len(ids), limit, self._executor.vocab_size)
        self._check_first_step(prepared)

    def check_room(self, num_tokens: int, num_used: int) -> None:
        """Raise unless the tokens and one of an answer fit behind `num_used`."""
        length = self._executor.context_length
        if num_used >= length:
            raise ContextFullError(
                f"The context of {length} tokens is full; create a new session."
            )
        excess = num_used + num_tokens + 1 - length
        if excess > 0:
            raise PromptTooLongError(
                f"The prompt has {num_tokens} tokens, {excess} too many: the context "
                f"holds {length}, {num_used} are in use, and the answer needs at least "
                "one."
            )

    def run(
        self, prepared: PreparedRequest, ids: Sequence[int], place: Place
    ) -> Generator[GenerateResponse, None, None]:
        """Chunks: first the prompt's info, then one per token and answer.

        One answer goes on in the place's sequence; several have sequences of their own,
        and the place's ends with the prompt. A cancelled request ends with ABORTED.
        """
        request, sequence = prepared.request, place.sequence
        self.check_room(len(ids), len(sequence.token_ids))
        try:
            with self.scheduler.admit(
                request.priority, is_cancelled=place.is_cancelled
            ):
                yield GenerateResponse(prompt_info=self._prefill(prepared, ids, place))
                exported = sequence.state() if prepared.transfer.is_export else None
                decodings = prepared.decodings(sequence)
                outputs = decode_all(sequence, decodings, place.is_cancelled)
                if exported is not None:
                    outputs = self._transfers.exporting(outputs, exported)
                for output in place.times.decode(outputs):
                    yield GenerateResponse(outputs=(output,))
        except CancelledError:
            yield _aborted(request, ids)

    def _prefill(
        self, prepared: PreparedRequest, ids: Sequence[int], place: Place
    ) -> PromptInfo:
        transfer = prepared.transfer
        with place.times.prefill(len(ids)):
            if transfer.handle is None:
                return _computed_prompt(prepared.request, ids, place)
            num_known = None
            if not prepared.request.prompt_logprobs:
                num_known = self._transfers.restore(transfer, place.sequence, ids)
            if num_known is None:
                info = _computed_prompt(prepared.request, ids, place)
            else:
                info = _prompt_info(ids, num_cached=num_known)
            return replace(info, is_imported=num_known is not None)

    @cached_property
    def _constraints(self) -> ConstraintCompiler:
        from litert_lm.sampling.constraint.compiler import ConstraintCompiler

        return ConstraintCompiler(
            self._tokenizer, self._executor.vocab_size, self._config.stop_ids
        )

    def _check_first_step(self, prepared: PreparedRequest) -> None:
        """Raise when no token can be the first, whatever the model says."""
        request, constraint = prepared.request, prepared.constraint
        processors = prepared.answers.processors(request)
        if constraint is None and not processors:
            return
        logits = np.zeros(self._executor.vocab_size, np.float32)
        if constraint is not None:
            constraint.fork().apply(logits)
        try:
            checked_peak(processors([], logits))
        except NoTokenLeftError as error:
            raise InvalidArgumentError(
                f"{_maskers(request)} leave no token that the answer could begin with; "
                "loosen one of them."
            ) from error


def _computed_prompt(
    request: GenerateRequest, ids: Sequence[int], place: Place
) -> PromptInfo:
    if request.prompt_logprobs:
        return _scored_prompt(request, ids, place)
    num_cached = place.sequence.extend(
        ids,
        reuse=PrefixUse(
            salt=request.cache_salt, is_bypassed=request.bypass_prefix_cache
        ),
        is_cancelled=place.is_cancelled,
        progress=place.progress,
    )
    return _prompt_info(ids, num_cached=num_cached)


def _scored_prompt(
    request: GenerateRequest, ids: Sequence[int], place: Place
) -> PromptInfo:
    scores = score_prompt(
        place.sequence,
        ids,
        TokenScorer(request.prompt_candidates),
        is_cancelled=place.is_cancelled,
        progress=place.progress,
    )
    return _prompt_info(ids, scores)


def _maskers(request: GenerateRequest) -> str:
    """The fields of a request that forbid tokens, by name."""
    names = []
    if request.constraint is not None:
        names.append(request.constraint.kind)
    for name in ("allowed_token_ids", "min_new_tokens", "logit_bias"):
        if getattr(request, name):
            names.append(name)
    return ", ".join(names) or "The bundle's suppressed tokens"


def _prompt_info(
    ids: Sequence[int], scores: Sequence[TokenScore] = (), num_cached: int = 0
) -> PromptInfo:
    return PromptInfo(
        num_prompt_tokens=len(ids),
        token_ids=tuple(ids),
        logprobs=tuple(score.logprob for score in scores),
        ranks=tuple(score.rank for score in scores),
        candidate_tokens=tuple(score.candidates for score in scores),
        num_cached_tokens=num_cached,
    )


def _aborted(request: GenerateRequest, ids: Sequence[int]) -> GenerateResponse:
    info = FinishInfo(0, FinishReason.ABORTED)
    outputs = [
        SequenceOutput(index=index, finish_info=info)
        for index in range(request.num_sequences)
    ]
    return GenerateResponse(prompt_info=_prompt_info(ids), outputs=tuple(outputs))
