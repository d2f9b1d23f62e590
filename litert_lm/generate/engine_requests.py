"""Requests that have no session: each runs in a context of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.errors import PromptTooLongError
from litert_lm.executor.executor import Executor
from litert_lm.generate.answers import Answers
from litert_lm.generate.chunk_iterator import ChunkIterator
from litert_lm.generate.prefix_cache import PrefixCache
from litert_lm.generate.prompt import PromptAssembler, Turn
from litert_lm.generate.request import GenerateRequest
from litert_lm.generate.request_runner import Place, PreparedRequest, RequestRunner
from litert_lm.generate.response import GenerateResponse
from litert_lm.generate.sequence import TokenSequence
from litert_lm.tokenizer import Tokenizer

__all__ = ["EngineRequests"]

_MAX_CHARACTERS = 1024  # of one token; the longest known are 128 spaces


class EngineRequests:
    """Runs the stateless requests to one engine, from any number of threads.

    Args:
        runner: runs them, and those of sessions.
        executor: of the model.
        tokenizer, config: of the same bundle.
        prefix_cache: where prompts look for what others stored.

    Attributes:
        runner: as given.
    """

    def __init__(
        self,
        runner: RequestRunner,
        executor: Executor,
        tokenizer: Tokenizer,
        config: ModelConfig,
        prefix_cache: PrefixCache,
    ) -> None:
        self.runner = runner
        self._executor = executor
        self._prefix_cache = prefix_cache
        self._assembler = PromptAssembler(config, tokenizer, apply_template=False)
        self._answers = Answers(
            config,
            tokenizer,
            executor.vocab_size,
            sampler_config=None,
            max_output_tokens=None,
            default_max_new_tokens=runner.limits.default_max_new_tokens,
        )

    def stream(self, request: GenerateRequest) -> ChunkIterator[GenerateResponse]:
        """The chunks of a request's answers; the request is checked at once."""
        prepared = self.runner.prepare(request, self._answers)
        ids = self._prompt_ids(request)
        self.runner.check_prompt(prepared, ids, num_used=0)
        cancelled = threading.Event()

        def cancel() -> None:
            cancelled.set()
            self.runner.scheduler.wake()

        return ChunkIterator(self._run(prepared, ids, cancelled.is_set), cancel)

    def _run(
        self,
        prepared: PreparedRequest,
        ids: list[int],
        is_cancelled: Callable[[], bool],
    ) -> Generator[GenerateResponse, None, None]:
        sequence = TokenSequence(self._executor, self._prefix_cache)
        try:
            place = Place(sequence=sequence, is_cancelled=is_cancelled)
            yield from self.runner.run(prepared, ids, place)
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
