"""Requests that have no session: each runs in a context of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.config import GenerateLimits
from litert_lm.errors import PromptTooLongError
from litert_lm.executor.executor import Executor
from litert_lm.generate.answers import Answers
from litert_lm.generate.chunk_iterator import ChunkIterator
from litert_lm.generate.kv_transfer import KVTransfers
from litert_lm.generate.prefix_cache import PrefixCache
from litert_lm.generate.prompt import PromptAssembler, Turn
from litert_lm.generate.request import GenerateRequest
from litert_lm.generate.response import GenerateResponse
from litert_lm.generate.running import AdmittedRequest, Place, RequestRunner
from litert_lm.generate.scheduler import Scheduler
from litert_lm.generate.sequence import TokenSequence
from litert_lm.tokenizer import Tokenizer

__all__ = ["EngineRequests"]

_MAX_CHARACTERS = 1024  # of one token; the longest known are 128 spaces


class EngineRequests:
    """Runs the stateless requests to one engine, from any number of threads.

    Args:
        executor: of the model.
        tokenizer, config: of the same bundle.
        limits: what requests may ask for.
        scheduler: says when a request may run.
        prefix_cache: where prompts look for what others stored.
        transfers: the states that requests export.

    Attributes:
        runner: runs requests, also those of sessions.
    """

    def __init__(
        self,
        executor: Executor,
        tokenizer: Tokenizer,
        config: ModelConfig,
        *,
        limits: GenerateLimits,
        scheduler: Scheduler,
        prefix_cache: PrefixCache,
        transfers: KVTransfers,
    ) -> None:
        self.runner = RequestRunner(
            executor,
            tokenizer,
            config,
            limits=limits,
            scheduler=scheduler,
            transfers=transfers,
        )
        self._executor = executor
        self._prefix_cache = prefix_cache
        self._assembler = PromptAssembler(config, tokenizer, apply_template=False)
        self._answers = Answers(
            config,
            tokenizer,
            executor.vocab_size,
            sampler_config=None,
            max_output_tokens=None,
            default_max_new_tokens=limits.default_max_new_tokens,
        )

    def stream(self, request: GenerateRequest) -> ChunkIterator[GenerateResponse]:
        """The chunks of a request's answers; the request is checked at once."""
        admitted = self.runner.admit(request, self._answers)
        ids = self._prompt_ids(request)
        self.runner.check_prompt(admitted, ids, num_used=0)
        cancelled = threading.Event()

        def cancel() -> None:
            cancelled.set()
            self.runner.scheduler.wake()

        return ChunkIterator(self._run(admitted, ids, cancelled.is_set), cancel)

    def _run(
        self,
        admitted: AdmittedRequest,
        ids: list[int],
        is_cancelled: Callable[[], bool],
    ) -> Generator[GenerateResponse, None, None]:
        sequence = TokenSequence(self._executor, self._prefix_cache)
        try:
            place = Place(sequence=sequence, is_cancelled=is_cancelled)
            yield from self.runner.run(admitted, ids, place)
        finally:
            sequence.close()

    def _prompt_ids(self, request: GenerateRequest) -> list[int]:
        if isinstance(request.prompt, str):
            self._check_length(request.prompt, request.truncate_prompt_tokens)
        return self._assembler.request_ids(request, Turn.FRESH)

    def _check_length(self, text: str, num_kept: int | None) -> None:
        """Refuse what cannot fit before it is tokenized, which may take seconds."""
        context_length = self._executor.context_length
        if len(text) > context_length * _MAX_CHARACTERS and not num_kept:
            raise PromptTooLongError(
                f"The prompt has {len(text)} characters, more than a context of "
                f"{context_length} tokens holds; shorten it, or set "
                "truncate_prompt_tokens."
            )
