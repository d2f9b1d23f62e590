"""How answers are generated: a session's choices joined with a request's."""

from __future__ import annotations

import copy
from functools import cached_property

import numpy as np

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.config import SamplerConfig
from litert_lm.generate.decoding import Decoding
from litert_lm.generate.request import DEFAULT_MAX_NEW_TOKENS, GenerateRequest
from litert_lm.generate.sampling_choice import SamplingChoice, make_rng, session_choice
from litert_lm.generate.stream import OutputText, Stops
from litert_lm.sampling.logprobs import Logprobs
from litert_lm.sampling.processors import make_processors
from litert_lm.sampling.sampler import make_sampler
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
    """

    def __init__(
        self,
        config: ModelConfig,
        tokenizer: Tokenizer,
        vocab_size: int,
        *,
        sampler_config: SamplerConfig | None,
        max_output_tokens: int | None,
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._max_output_tokens = max_output_tokens
        self._choice = session_choice(sampler_config, config.sampler)
        seed = None if sampler_config is None else sampler_config.seed
        bundle_seed = None if config.sampler is None else config.sampler.seed
        self._has_own_seed = seed is not None
        self._seeds = seed, bundle_seed

    @cached_property
    def _rng(self) -> np.random.Generator:
        """One generator for the session's life: answers differ, sessions repeat."""
        return make_rng(*self._seeds)

    def clone(self) -> Answers:
        """Another session's, whose seeded random sequence goes on from the same place.

        Without a seed the clone draws tokens of its own.
        """
        made = copy.copy(self)
        rng = made.__dict__.pop("_rng", None)
        if rng is not None and any(seed is not None for seed in self._seeds):
            made.__dict__["_rng"] = copy.deepcopy(rng)
        return made

    def _limit(self, request: GenerateRequest) -> int:
        """Most tokens of an answer, the context aside."""
        if request.max_new_tokens is not None:
            return request.max_new_tokens
        default = self._max_output_tokens or DEFAULT_MAX_NEW_TOKENS
        return max(default, request.min_new_tokens or 0)

    def of_request(self, request: GenerateRequest, num_free: int) -> Decoding:
        """The decoding of a generate call into `num_free` tokens of context."""
        stops = Stops(
            sequences=() if request.ignore_eos else self._config.stop_sequences,
            eos_id=self._config.eos_id,
            token_ids=request.stop_token_ids,
            strings=request.stop_strings,
            include=request.include_stop_strings,
            min_new_tokens=request.min_new_tokens or 0,
        )
        choice = self._choice.with_request(request)
        rng = None
        if not choice.is_greedy:  # a generator costs more than a greedy token
            is_session_seed = self._has_own_seed and request.seed is None
            rng = self._rng if is_session_seed else make_rng(request.seed)
        return self._decoding(
            choice,
            rng,
            OutputText(self._tokenizer, stops, skip_special_tokens=True),
            stops,
            min(self._limit(request), num_free),
            Logprobs() if request.output_logprobs else None,
        )

    def plain(self, num_free: int) -> Decoding:
        """The decoding of `run_decode`, which shows special tokens as text."""
        stops = Stops(sequences=self._config.stop_sequences, eos_id=self._config.eos_id)
        return self._decoding(
            self._choice,
            None if self._choice.is_greedy else self._rng,
            OutputText(self._tokenizer, stops, skip_special_tokens=False),
            stops,
            min(self._max_output_tokens or num_free, num_free),
            None,
        )

    def _decoding(
        self,
        choice: SamplingChoice,
        rng: np.random.Generator | None,
        output: OutputText,
        stops: Stops,
        max_new_tokens: int,
        logprobs: Logprobs | None,
    ) -> Decoding:
        return Decoding(
            sampler=make_sampler(
                temperature=choice.temperature,
                top_k=choice.top_k,
                top_p=choice.top_p,
                min_p=choice.min_p,
                rng=rng,
            ),
            processors=make_processors(
                vocab_size=self._vocab_size,
                suppressed_ids=self._config.suppressed_ids,
                stop_ids=stops.single_ids,
                min_new_tokens=stops.min_new_tokens,
            ),
            output=output,
            max_new_tokens=max_new_tokens,
            logprobs=logprobs,
        )
