"""Session: one sequence, from prompt to answer to the next prompt."""

from __future__ import annotations

import copy
import math
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.config import SamplerConfig, check_count
from litert_lm.errors import CancelledError, InvalidArgumentError, SessionStateError
from litert_lm.executor.executor import Executor
from litert_lm.generate.answers import Answers
from litert_lm.generate.chunk_iterator import ChunkIterator
from litert_lm.generate.decoding import decode
from litert_lm.generate.prefix_cache import PrefixCache
from litert_lm.generate.prompt import PromptAssembler, Turn, Turns, checked_texts
from litert_lm.generate.prompt_scores import score_continuation
from litert_lm.generate.reply import ReplyOptions
from litert_lm.generate.request import GenerateRequest, Prompt
from litert_lm.generate.request_runner import Place, PreparedRequest, RequestRunner
from litert_lm.generate.response import GenerateResponse, join
from litert_lm.generate.saved_session import load_session, save_session
from litert_lm.generate.sequence import TokenSequence
from litert_lm.generate.times import Times
from litert_lm.interfaces import AbstractSession
from litert_lm.results import BenchmarkInfo, Responses
from litert_lm.tokenizer import Tokenizer

__all__ = ["Session"]


class Session(AbstractSession):
    """One sequence of tokens with its KV cache; made by ``Engine.create_session``.

    Prompts and answers follow each other in one context. A session does one thing at a
    time: a second thread, or a second stream before the first has ended, gets a
    SessionStateError. A context manager.

    Attributes:
        prefill_progress: called with (tokens done, tokens in all) while a prompt is
            read; None by default.
    """

    def __init__(
        self,
        executor: Executor,
        tokenizer: Tokenizer,
        config: ModelConfig,
        *,
        runner: RequestRunner,
        init_seconds: float,
        apply_prompt_template: bool,
        sampler_config: SamplerConfig | None,
        max_output_tokens: int | None,
        prefix_cache: PrefixCache | None = None,
        model_hash: str = "",
    ) -> None:
        check_count("max_output_tokens", max_output_tokens, minimum=1)
        self._executor = executor
        self._tokenizer = tokenizer
        self._runner = runner
        self._init_seconds = init_seconds
        self._assembler = PromptAssembler(config, tokenizer, apply_prompt_template)
        self._answers = Answers(
            config,
            tokenizer,
            executor.vocab_size,
            sampler_config=sampler_config,
            max_output_tokens=max_output_tokens,
            default_max_new_tokens=runner.limits.default_max_new_tokens,
        )
        self._model_hash = model_hash
        self._sequence = TokenSequence(executor, prefix_cache)
        self._turns = Turns()
        self._busy = threading.Lock()
        self._num_cancels = 0
        self._is_closed = False
        self._times = Times()
        self.prefill_progress: Callable[[int, int], None] | None = None

    def close(self) -> None:
        """Free the context; later calls raise SessionStateError.

        The engine's prefix cache may keep the entries of what was prefilled first.
        A call that is running is cancelled, and frees the context at its end.
        """
        self._is_closed = True
        self.cancel_process()
        self._free_if_closed()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """All token ids of the context, prompts and answers."""
        return tuple(self._sequence.token_ids)

    def generate(self, prompt: Prompt, **options: object) -> GenerateResponse:
        """Answer a prompt; `generate_stream` gives the same in chunks.

        Args:
            prompt: text, put together as by `run_prefill`, or token ids taken verbatim:
                no BOS, no affixes.
            **options: fields of GenerateRequest. Unset ones come from the session's
                sampler_config, then from the bundle; ``max_new_tokens`` from the
                session's max_output_tokens, else 20. Without a seed each call differs.

        Raises:
            TypeError: an option that does not exist.
            InvalidArgumentError: a wrong value, or a prompt that does not fit.
            ContextFullError: the context was full before.
            NoTokenLeftError: constraints forbid every token at some step.
            QueueFullError: too many requests wait for the engine.
            SessionStateError: closed, or busy elsewhere.
        """
        return join(self.generate_stream(prompt, **options))

    def generate_stream(
        self, prompt: Prompt, **options: object
    ) -> ChunkIterator[GenerateResponse]:
        """Answer a prompt in chunks: first the prompt's info, then one per token.

        Arguments are checked at once. Closing the iterator, or breaking out of the loop
        over it, ends generation; the session goes on from there.
        """
        is_cancelled = self._cancellation()
        request = GenerateRequest.from_options(prompt, options)
        prepared = self._runner.prepare(request, self._answers)
        return self.prepared_stream(prepared, is_cancelled)

    def prepare_reply(
        self, token_ids: Sequence[int], num_kept: int, options: ReplyOptions
    ) -> PreparedRequest:
        """The request for a conversation's reply; checked, and nothing has changed.

        `token_ids` go behind the first `num_kept` tokens of the context, which the
        reply may fill. Raises InvalidArgumentError for a wrong option.
        """
        num_free = self._executor.context_length - num_kept - len(token_ids)
        request = options.request(token_ids, num_free)
        return self._runner.prepare(request, self._answers, options)

    def prepared_stream(
        self,
        prepared: PreparedRequest,
        is_cancelled: Callable[[], bool] | None = None,
    ) -> ChunkIterator[GenerateResponse]:
        """`generate_stream` for a request that is checked but for its length."""
        is_cancelled = is_cancelled or self._cancellation()
        with self._exclusive():
            ids = self._assembler.request_ids(prepared.request, self._turn)
            self._runner.check_prompt(prepared, ids, len(self._sequence.token_ids))
        return ChunkIterator(self._stream(prepared, is_cancelled), self.cancel_process)

    def _stream(
        self, prepared: PreparedRequest, is_cancelled: Callable[[], bool]
    ) -> Generator[GenerateResponse, None, None]:
        with self._exclusive():
            ids = self._assembler.request_ids(prepared.request, self._turn)
            place = Place(
                sequence=self._sequence,
                is_cancelled=is_cancelled,
                times=self._times,
                progress=self.prefill_progress,
            )
            with closing(self._runner.run(prepared, ids, place)) as chunks:
                first = next(chunks)
                if not first.outputs:  # the prompt was read
                    self._turn = Turn.DECODED
                yield first
                yield from chunks

    def run_prefill(self, contents: Sequence[str]) -> None:
        """Put text into the context.

        Args:
            contents: texts; with a prompt template the first of a turn gets the user
                prefix. Each is tokenized on its own.

        Raises:
            InvalidArgumentError: no text, or too long for the context.
            CancelledError: by `cancel_process`; the session is as before.
        """
        is_cancelled = self._cancellation()
        texts = checked_texts("contents", contents)
        with self._exclusive():
            ids = self._assembler.prompt_ids(texts, self._turn)
            self._check_room(len(ids))
            self._extend(ids, is_cancelled)
            self._turn = Turn.PREFILLED

    def run_decode(self) -> Responses:
        """Answer what was prefilled, up to a stop token or the session's limit."""
        return Responses(
            texts=["".join(r.texts[0] for r in self.run_decode_async())], scores=[0.0]
        )

    def run_decode_async(self) -> ChunkIterator[Responses]:
        """Answer what was prefilled, in pieces of text as they come.

        Ends without an error when the session's limit is reached or `cancel_process`
        is called.
        """
        is_cancelled = self._cancellation()
        with self._exclusive():
            self._check_prefilled()
        return ChunkIterator(self._decode_texts(is_cancelled), self.cancel_process)

    def _decode_texts(
        self, is_cancelled: Callable[[], bool]
    ) -> Generator[Responses, None, None]:
        with self._exclusive():
            self._check_prefilled()
            ids = self._assembler.answer_ids()
            self._check_room(len(ids))
            try:
                self._extend(ids, is_cancelled)
            except CancelledError:
                return
            self._turn = Turn.DECODED
            decoding = self._answers.plain(self._sequence.num_free)
            outputs = decode(self._sequence, decoding, is_cancelled)
            for output in self._times.decode(outputs):
                yield Responses(texts=[output.text], scores=[0.0])

    def run_text_scoring(
        self, target_text: Sequence[str], store_token_lengths: bool = False
    ) -> Responses:
        """Log-probability of a text as the continuation of the context.

        The context is as before afterwards.

        Args:
            target_text: one text.
            store_token_lengths: also give the number of tokens.

        Returns:
            ``scores`` holds the sum of the log-probabilities at temperature 1,
            ``token_scores`` those of the tokens.

        Raises:
            InvalidArgumentError: not one text, or too long for the context.
            SessionStateError: the context is empty.
            CancelledError: by `cancel_process`.
        """
        is_cancelled = self._cancellation()
        (text,) = checked_texts("target_text", target_text, count=1)
        with self._exclusive():
            if not self._sequence.token_ids:
                raise SessionStateError("There is no context to score after; prefill.")
            ids = self._tokenizer.encode(text) if text else []
            self._check_room(len(ids) - 1)
            scores = score_continuation(self._sequence, ids, is_cancelled)
        return Responses(
            texts=[],
            scores=[math.fsum(scores)],
            token_lengths=[len(ids)] if store_token_lengths else [],
            token_scores=[scores] if scores else [],
        )

    def clone(self) -> Session:
        """A session of its own that stands where this one does.

        Its answers are those that this session would give, bit for bit: the entries
        are copied, and a seeded random sequence goes on from the same place.

        Raises:
            SessionStateError: closed, or busy elsewhere.
        """
        with self._exclusive():
            made = copy.copy(self)
            made._sequence = self._sequence.fork()
            made._turns = self._turns.clone()
            made._answers = self._answers.clone()
        made._busy = threading.Lock()
        made._times = Times()
        made._num_cancels = 0
        return made

    def rewind(self, num_tokens: int) -> None:
        """Forget all but the first `num_tokens` tokens of the context.

        Texts then go on as they did when the context first had that many tokens.
        Entries that stay are not computed again, so answers are the same as before,
        bit for bit. Recurrent states and rings cannot go back: the next call computes
        all entries anew, in calls of other lengths maybe, whose logits can differ in
        their last bits.

        Raises:
            InvalidArgumentError: more tokens than the context has.
            SessionStateError: closed, or busy elsewhere.
        """
        with self._exclusive():
            most = len(self._sequence.token_ids)
            if num_tokens is None:
                raise InvalidArgumentError("num_tokens must be a whole number.")
            check_count("num_tokens", num_tokens, minimum=0, maximum=most)
            self._sequence.rewind(num_tokens)
            self._turns.rewind(num_tokens)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the session into a file, from which `Engine.load_session` goes on.

        A safetensors file with the token ids, all entries and a checksum; it appears
        whole or not at all.

        Raises:
            InvalidArgumentError: no path.
            StorageError: the file cannot be written.
            SessionStateError: closed, or busy elsewhere.
        """
        self._save(path, dict)

    def _save(
        self, path: str | os.PathLike[str], texts: Callable[[], Mapping[str, str]]
    ) -> None:
        """`save`, with further texts, which are made while nothing changes."""
        with self._exclusive():
            save_session(
                path,
                self._sequence,
                self._executor,
                self._model_hash,
                self._turns,
                self._answers,
                texts(),
            )

    def _load(self, path: str | os.PathLike[str]) -> Mapping[str, str]:
        """Stand where a saved session stood; gives all texts of its file."""
        with self._exclusive():
            self._turns, texts = load_session(
                path, self._sequence, self._executor, self._model_hash, self._answers
            )
        return texts

    def cancel_process(self) -> None:
        """Stop what the session is doing, from any thread; it stays usable.

        What was called before is stopped, also a stream of which nothing was read yet;
        later calls are not.
        """
        self._num_cancels += 1
        self._runner.scheduler.wake()

    def get_benchmark_info(self) -> BenchmarkInfo:
        """Times of the engine's start and of the last prefill and decode."""
        return self._times.info(self._init_seconds)

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Raise SessionStateError unless this thread may use the session now."""
        if self._is_closed:
            raise SessionStateError("The session is closed; create a new one.")
        self._executor.check_open()
        if not self._busy.acquire(blocking=False):
            raise SessionStateError(
                "The session is busy in another thread or with a stream that has not "
                "ended; close that stream, or use a session of its own."
            )
        try:
            yield
        finally:
            self._busy.release()
            self._free_if_closed()

    def _free_if_closed(self) -> None:
        if self._is_closed and self._busy.acquire(blocking=False):
            self._sequence.close()
            self._busy.release()

    @property
    def _turn(self) -> Turn:
        return self._turns.at(len(self._sequence.token_ids))

    @_turn.setter
    def _turn(self, turn: Turn) -> None:
        self._turns.begin(turn, len(self._sequence.token_ids))

    def _check_room(self, num_tokens: int) -> None:
        self._runner.check_room(num_tokens, len(self._sequence.token_ids))

    def _check_prefilled(self) -> None:
        if self._turn is not Turn.PREFILLED:
            raise SessionStateError(
                "The session is not prefilled yet; call run_prefill before run_decode."
            )

    def _cancellation(self) -> Callable[[], bool]:
        """Whether what begins now was cancelled."""
        before = self._num_cancels
        return lambda: self._num_cancels != before

    def _extend(self, ids: Sequence[int], is_cancelled: Callable[[], bool]) -> None:
        with self._times.prefill(len(ids)):
            self._sequence.extend(
                ids, is_cancelled=is_cancelled, progress=self.prefill_progress
            )
