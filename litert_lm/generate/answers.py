"""How answers are generated: a session's choices joined with a request's."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.config import GenerateLimits, SamplerConfig
from litert_lm.errors import InvalidArgumentError
from litert_lm.generate.decoding import Constraint, Decoding
from litert_lm.generate.request import GenerateRequest
from litert_lm.generate.sampling_choice import (
    UNSET_SEED,
    SamplingChoice,
    make_rng,
    session_choice,
)
from litert_lm.generate.stream import OutputText, Stops
from litert_lm.generate.token_scores import TokenScorer
from litert_lm.sampling.penalties import Penalties
from litert_lm.sampling.processors import LogitsPipeline, make_processors
from litert_lm.sampling.sampler import Sampler, make_sampler
from litert_lm.tokenizer import Tokenizer

__all__ = ["Answers"]


class Answers:
    """Makes the decoding of each answer of one session.

    Args:
        config: the bundle's facts.
        tokenizer: of the same bundle.
        vocab_size: number of logits.
        sampler_config: the session's sampling values, or None.
        max_output_tokens: the session's limit, or None.
        default_max_new_tokens: limit of requests that set none, without the session's.
    """

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: Tokenizer,
        vocab_size: int,
        *,
        sampler_config: SamplerConfig | None,
        max_output_tokens: int | None,
        default_max_new_tokens: int = GenerateLimits.default_max_new_tokens,
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._max_output_tokens = max_output_tokens
        self._default_max_new_tokens = default_max_new_tokens
        self._choice = session_choice(sampler_config, config.sampler)
        seed = None if sampler_config is None else sampler_config.seed
        bundle_seed = None if config.sampler is None else config.sampler.seed
        self._has_own_seed = seed is not None
        self._seeds = seed, bundle_seed

    @cached_property
    def _rng(self) -> np.random.Generator:
        """One generator for the session's life: answers differ, sessions repeat."""
        return make_rng(*(seed for seed in self._seeds if seed != UNSET_SEED))

    def clone(self) -> Answers:
        """Another session's, whose seeded random sequence goes on from the same place.

        Without a seed the clone draws tokens of its own.
        """
        made = copy.copy(self)
        rng = made.__dict__.pop("_rng", None)
        if rng is not None and any(seed is not None for seed in self._seeds):
            made.__dict__["_rng"] = copy.deepcopy(rng)
        return made

    def random_state(self) -> dict[str, Any] | None:
        """Seeds and place of the random sequence; None without a seed or a draw."""
        rng = self.__dict__.get("_rng")
        if rng is None or all(seed is None for seed in self._seeds):
            return None
        return {"seeds": list(self._seeds), "state": rng.bit_generator.state}

    def restore_random(self, state: Any) -> None:
        """Go on from a `random_state`, where the seeds are the same.

        Raises:
            TypeError, ValueError, KeyError, OverflowError: it is none.
        """
        if state["seeds"] == list(self._seeds):
            self._rng.bit_generator.state = state["state"]

    def choice(self, request: GenerateRequest) -> SamplingChoice:
        """The sampling values of a request.

        Raises:
            InvalidArgumentError: several answers that would all be the same.
        """
        choice = self._choice.with_request(request)
        if request.num_sequences > 1 and choice.is_cold:
            raise InvalidArgumentError(
                f"num_sequences is {request.num_sequences}, but answers at temperature "
                f"{choice.temperature:g} are all the same; set a temperature above 0, "
                "or num_sequences to 1."
            )
        return choice

    def of_request(
        self,
        request: GenerateRequest,
        context_ids: Sequence[int],
        num_free: int,
        constraint: Constraint | None = None,
    ) -> list[Decoding]:
        """The decodings of a request's answers, one for each of `num_sequences`.

        Args:
            request: sound for this model.
            context_ids: all tokens before the answer, for the repetition penalty.
            num_free: tokens that the context has left.
            constraint: at the beginning of the answer.

        Raises:
            InvalidArgumentError: less is left than `min_new_tokens`.
        """
        choice, limit = self.choice(request), self.limit(request, num_free)
        stops = self._stops(request)
        rngs = self._rngs(request, choice)
        return [
            Decoding(
                sampler=_sampler(choice, rng),
                processors=self.processors(request, context_ids),
                output=OutputText(self._tokenizer, stops, skip_special_tokens=True),
                max_new_tokens=limit,
                index=index,
                scorer=_scorer(request),
                constraint=None if constraint is None else constraint.fork(),
                is_text_wanted=request.output_text,
            )
            for index, rng in enumerate(rngs)
        ]

    def plain(self, num_free: int) -> Decoding:
        """The decoding of `run_decode`, which shows special tokens as text."""
        stops = Stops(sequences=self._config.stop_sequences, eos_id=self._config.eos_id)
        return Decoding(
            sampler=_sampler(
                self._choice, None if self._choice.is_greedy else self._rng
            ),
            processors=make_processors(
                vocab_size=self._vocab_size, suppressed_ids=self._config.suppressed_ids
            ),
            output=OutputText(self._tokenizer, stops, skip_special_tokens=False),
            max_new_tokens=min(self._max_output_tokens or num_free, num_free),
        )

    def limit(self, request: GenerateRequest, num_free: int) -> int:
        """Most tokens of an answer into `num_free` tokens of context.

        Raises:
            InvalidArgumentError: less is left than `min_new_tokens`.
        """
        minimum, limit = request.min_new_tokens or 0, request.max_new_tokens
        if limit is None:
            default = self._max_output_tokens or self._default_max_new_tokens
            limit = max(default, minimum)
        if minimum > num_free:
            raise InvalidArgumentError(
                f"min_new_tokens is {minimum}, more than max_new_tokens can be, "
                f"{num_free}: the context has no more room behind the prompt."
            )
        return min(limit, num_free)

    def _stops(self, request: GenerateRequest) -> Stops:
        return Stops(
            sequences=() if request.ignore_eos else self._config.stop_sequences,
            eos_id=self._config.eos_id,
            token_ids=request.stop_token_ids,
            strings=request.stop_strings,
            include=request.include_stop_strings,
            min_new_tokens=request.min_new_tokens or 0,
        )

    def _rngs(
        self, request: GenerateRequest, choice: SamplingChoice
    ) -> list[np.random.Generator | None]:
        """A generator for each answer."""
        count = request.num_sequences
        if choice.is_greedy:  # a generator costs more than a greedy token
            return [None] * count
        if request.seed is not None and request.seed != UNSET_SEED:
            return [make_rng(request.seed + index) for index in range(count)]
        if not self._has_own_seed:
            return [make_rng() for _ in range(count)]
        return [self._rng] if count == 1 else list(self._rng.spawn(count))

    def processors(
        self, request: GenerateRequest, context_ids: Sequence[int] = ()
    ) -> LogitsPipeline:
        """The changes to logits that a request asks for."""
        return make_processors(
            vocab_size=self._vocab_size,
            suppressed_ids=self._config.suppressed_ids,
            allowed_ids=request.allowed_token_ids,
            stop_ids=(*self._config.stop_ids, *request.stop_token_ids),
            min_new_tokens=request.min_new_tokens or 0,
            bias=dict(request.logit_bias),
            penalties=_penalties(request, context_ids),
        )


def _penalties(
    request: GenerateRequest, context_ids: Sequence[int]
) -> Penalties | None:
    repetition = request.repetition_penalty or 1.0
    frequency, presence = request.frequency_penalty or 0.0, request.presence_penalty
    if repetition == 1.0 and not frequency and not presence:
        return None
    return Penalties(
        context_ids,
        repetition=repetition,
        frequency=frequency,
        presence=presence or 0.0,
    )


def _scorer(request: GenerateRequest) -> TokenScorer | None:
    if not request.output_logprobs:
        return None
    return TokenScorer(request.output_candidates)


def _sampler(choice: SamplingChoice, rng: np.random.Generator | None) -> Sampler:
    return make_sampler(
        temperature=choice.temperature,
        top_k=choice.top_k,
        top_p=choice.top_p,
        min_p=choice.min_p,
        rng=rng,
    )
