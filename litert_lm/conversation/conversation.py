"""Conversation: messages in, messages out."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.chat.messages import Contents, Message, message_json
from litert_lm.conversation.context import ContextText, Standing
from litert_lm.conversation.message_options import MessageOptions
from litert_lm.conversation.prompting import Prompting
from litert_lm.conversation.reply import Reply
from litert_lm.conversation.reply_stream import ReplyStream
from litert_lm.conversation.saved import SavedConversation
from litert_lm.conversation.settings import ConversationSettings
from litert_lm.errors import SessionStateError
from litert_lm.interfaces import AbstractConversation
from litert_lm.reply_config import (
    NoRepeatNgramConfig,
    RepetitionPenaltyConfig,
    ResponseFormat,
    SuppressTokensConfig,
    ThinkingConfig,
)
from litert_lm.results import BenchmarkInfo, Responses
from litert_lm.session import Session
from litert_lm.tokenizer import Tokenizer

__all__ = ["Conversation"]

_MESSAGE = str | Contents | Message | Mapping[str, Any]
_JSON = Mapping[str, Any]


class Conversation(AbstractConversation):
    """A chat with a model; made by ``Engine.create_conversation``. A context manager.

    Each message is rendered with the model's chat template, and what the context has
    already is not read again. A conversation does one thing at a time, but sending a
    message ends a reply of which the rest is not wanted.

    Attributes:
        messages: all that was said, in the JSON shape; not to be changed.
        channels: what the model's replies are split into.
    """

    def __init__(
        self,
        session: Session,
        tokenizer: Tokenizer,
        config: ModelConfig,
        settings: ConversationSettings,
        *,
        context_length: int,
        vocab_size: int,
        saved: SavedConversation | None = None,
    ) -> None:
        super().__init__(
            tools=settings.tools,
            tool_event_handler=settings.tool_event_handler,
            automatic_tool_calling=settings.automatic_tool_calling,
            extra_context=settings.extra_context,
            thinking_config=settings.thinking_config,
            max_output_tokens=settings.max_output_tokens,
            chat_template=settings.chat_template,
        )
        self.constrained_decoding_config = settings.constrained_decoding_config
        self._session = session
        self._tokenizer = tokenizer
        self._config = config
        self._settings = settings
        self._vocab_size = vocab_size
        self.messages: list[_JSON] = [*settings.first_messages()]
        self._said: ContextText | None = None
        if saved is not None:
            self.messages, self._said = [*saved.messages], saved.said
        self._prompting = Prompting(
            settings, config, tokenizer, context_length=context_length, saved=saved
        )
        self.channels = self._prompting.channels
        self._starting = threading.Lock()
        self._stream: weakref.ref[ReplyStream] | None = None
        self._num_cancels = 0

    def close(self) -> None:
        """Free the context; later calls raise SessionStateError."""
        self._session.close()

    def send_message(
        self,
        message: _MESSAGE,
        *,
        repetition_penalty_config: RepetitionPenaltyConfig | None = None,
        no_repeat_ngram_config: NoRepeatNgramConfig | None = None,
        suppress_tokens_config: SuppressTokensConfig | None = None,
        max_output_tokens: int | None = None,
        thinking_config: ThinkingConfig | None = None,
        response_format: ResponseFormat | None = None,
        extra_context: Mapping[str, Any] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        output_logprobs: bool = False,
        output_candidates: int | None = None,
    ) -> Message:
        """Say something and get the model's reply; its `info` tells how it came about.

        Tools that the model calls are run, and the reply is what it says then.

        Args:
            message: text, parts, a message, or a mapping in the JSON shape.
            repetition_penalty_config, no_repeat_ngram_config, suppress_tokens_config:
                for this reply only.
            max_output_tokens: limit on each reply; None is the conversation's.
            thinking_config: instead of the conversation's.
            response_format: what the reply must look like. Where tools are called by
                themselves it holds for a reply that calls none.
            extra_context: variables for the template, over the conversation's.
            tool_choice: "none", "auto", "required", or the name of the tool that the
                first reply must call.
            output_logprobs: give log-probabilities of the reply's tokens.
            output_candidates: so many other tokens at each place.

        Raises:
            PromptTooLongError: the message does not fit; says by how many tokens.
            InvalidArgumentError: a wrong argument, or the template refuses.
            CancelledError: `cancel_process` was called before the reply began.
            SessionStateError: closed, or busy in another thread.

        After an error the conversation is as before.
        """
        stream = self._start(message, _options(locals()), is_whole=True)
        for _ in stream:
            pass
        return stream.whole()

    def send_message_async(
        self,
        message: _MESSAGE,
        *,
        repetition_penalty_config: RepetitionPenaltyConfig | None = None,
        no_repeat_ngram_config: NoRepeatNgramConfig | None = None,
        suppress_tokens_config: SuppressTokensConfig | None = None,
        max_output_tokens: int | None = None,
        thinking_config: ThinkingConfig | None = None,
        response_format: ResponseFormat | None = None,
        extra_context: Mapping[str, Any] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        output_logprobs: bool = False,
        output_candidates: int | None = None,
    ) -> ReplyStream:
        """Say something and get the reply in deltas, by ``for`` or ``async for``.

        Arguments and errors as in `send_message`; they are checked at once. The
        stream's `message` is the whole reply at the end. Ends without an error when
        `cancel_process` is called.
        """
        return self._start(message, _options(locals()))

    async def asend_message(self, message: _MESSAGE, **options: Any) -> Message:
        """`send_message` for coroutines; cancelling the task stops the model."""
        stream = self._start(message, MessageOptions(**options), is_whole=True)
        async for _ in stream:
            pass
        return stream.whole()

    def cancel_process(self) -> None:
        """Stop the reply within a token, from any thread; the conversation goes on.

        What was said until then stays in it.
        """
        self._num_cancels += 1
        self._session.cancel_process()

    def render_message_to_string(self, message: _MESSAGE) -> str:
        """The text that sending the message would add to the context; changes nothing.

        Raises:
            InvalidArgumentError: the template refuses the message.
        """
        options = MessageOptions().with_defaults(self._settings.thinking_config, None)
        messages = [*self.messages, message_json(message)]
        return self._prompting.plan(messages, options, self._standing).added_text

    @property
    def token_count(self) -> int:
        """Tokens in the context, the stop of the last reply included."""
        return len(self._session.token_ids)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Token ids of the context."""
        return self._session.token_ids

    def get_benchmark_info(self) -> BenchmarkInfo:
        """Times of the engine's start and of the last prefill and decode."""
        return self._session.get_benchmark_info()

    def run_text_scoring(
        self, target_text: Sequence[str], store_token_lengths: bool = False
    ) -> Responses:
        """Log-probability of a text as what comes next; see the session's method.

        The conversation is as before afterwards.
        """
        return self._session.run_text_scoring(target_text, store_token_lengths)

    @property
    def prefill_progress(self) -> Callable[[int, int], None] | None:
        """Called with (tokens done, tokens in all) while a message is read."""
        return self._session.prefill_progress

    @prefill_progress.setter
    def prefill_progress(self, progress: Callable[[int, int], None] | None) -> None:
        self._session.prefill_progress = progress

    def clone(self) -> Conversation:
        """A conversation of its own that stands where this one does.

        Tools and what watches them are shared, the context is copied.

        Raises:
            SessionStateError: closed, or a reply has not ended.
        """
        with self._between_replies():
            made = copy.copy(self)
            made._session = self._session.clone()
        made._starting = threading.Lock()
        made._stream, made._num_cancels = None, 0
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the conversation into a file; `Engine.load_conversation` goes on.

        The file is that of a session (see `Session.save`) with what was said and the
        arguments of `create_conversation`, without tools and sampler_config.

        Raises:
            InvalidArgumentError: no path, or a message that is no JSON.
            StorageError: the file cannot be written.
            SessionStateError: closed, or a reply has not ended.
        """
        with self._between_replies():
            saved = SavedConversation.of(
                self._settings, self._standing, self._prompting.renderer
            )
            self._session._save(path, saved.texts)

    @contextlib.contextmanager
    def _between_replies(self) -> Iterator[None]:
        """Raise SessionStateError unless all replies have ended; none begins."""
        if not self._starting.acquire(blocking=False):
            raise _busy()
        try:
            stream = None if self._stream is None else self._stream()
            if stream is not None and not stream.has_ended:
                raise SessionStateError(
                    "A reply of the conversation has not ended; read its stream to the "
                    "end, or close it."
                )
            yield
        finally:
            self._starting.release()

    @property
    def _standing(self) -> Standing:
        return Standing(self.messages, self.token_ids, self._said)

    def _start(
        self, message: _MESSAGE, options: MessageOptions, *, is_whole: bool = False
    ) -> ReplyStream:
        """The stream of a reply, for a caller who waits for the whole of it or not."""
        options = options.with_defaults(
            self._settings.thinking_config, self._settings.max_output_tokens
        )
        options.check_format(self._settings.constrained_decoding_config)
        incoming = [message_json(message)]
        if not self._starting.acquire(blocking=False):
            raise _busy()
        try:
            self._end_last_stream()
            reply = self._reply(incoming, options, is_first=True)
            deltas = self._or_as_before(self._deltas(reply, options, self._num_cancels))
            stream = ReplyStream(deltas, self.cancel_process, is_whole=is_whole)
            self._stream = weakref.ref(stream)
        finally:
            self._starting.release()
        return stream

    def _end_last_stream(self) -> None:
        stream = None if self._stream is None else self._stream()
        if stream is None:
            return
        if stream.is_busy:
            raise _busy()
        stream.close()

    def _or_as_before(
        self, deltas: Generator[Message, None, Message | None]
    ) -> Generator[Message, None, Message | None]:
        """The deltas; an error among them takes back what was said since."""
        before = self._standing
        try:
            return (yield from deltas)
        except Exception:
            self._go_back(before)
            raise

    def _go_back(self, before: Standing) -> None:
        num_kept = before.num_common(self.token_ids)
        self.messages, self._said = before.messages, None
        with contextlib.suppress(SessionStateError):  # it was closed meanwhile
            self._session.rewind(num_kept)
            self._said = before.said_in(num_kept)

    def _deltas(
        self, reply: Reply, options: MessageOptions, num_cancels: int
    ) -> Generator[Message, None, Message | None]:
        """Deltas of the reply, and of those that answer the tools it calls."""
        settings, num_rounds = self._settings, 0
        message: Message | None = None
        while self._num_cancels == num_cancels:
            calls: list[Message] = []
            for delta in self._spoken(reply):
                if "tool_calls" in delta and settings.automatic_tool_calling:
                    calls.append(delta)
                else:
                    yield delta
            message = reply.message
            is_asking = bool(reply.calls) and settings.automatic_tool_calling
            is_over = num_rounds >= settings.max_tool_rounds
            results = None
            if is_asking and not is_over and not reply.is_aborted:
                results = self._prompting.tools.run(reply.calls)
            if results is None or self._num_cancels != num_cancels:
                yield from calls
                return message
            num_rounds += 1
            reply = self._reply([results.to_json()], options, is_first=False)
        return message

    def _spoken(self, reply: Reply) -> Generator[Message, None, None]:
        """Deltas of one reply; then it is part of the conversation."""
        before, self._said = self._standing, None
        try:
            yield from reply.run()
        finally:
            if reply.message is not None:
                self.messages = [*reply.messages, reply.message.to_json()]
                self._said = reply.said(self._settings.is_filtering)
            elif self.token_ids == before.token_ids:
                self._said = before.said

    def _reply(
        self, incoming: Sequence[_JSON], options: MessageOptions, *, is_first: bool
    ) -> Reply:
        """The reply to what comes in, ready to run; nothing has changed yet."""
        messages, plan = self._prompting.fitting(
            [*self.messages, *incoming], options, self._standing
        )
        markers = [(channel.start, channel.end) for channel in self.channels]
        grammar = self._prompting.tools.grammar(
            options.tool_choice if is_first or options.tool_choice == "none" else None,
            self._tokenizer,
            self._config.stop_ids,
            markers,
        )
        return Reply(
            messages,
            plan,
            options,
            session=self._session,
            tokenizer=self._tokenizer,
            config=self._config,
            vocab_size=self._vocab_size,
            channels=self.channels,
            tools=self._prompting.tools,
            grammar=grammar,
        )


def _options(arguments: Mapping[str, Any]) -> MessageOptions:
    """The options among the arguments of a method."""
    names = MessageOptions.__dataclass_fields__
    return MessageOptions(**{name: arguments[name] for name in names})


def _busy() -> SessionStateError:
    return SessionStateError(
        "The conversation is busy in another thread; wait for its reply, or call "
        "cancel_process."
    )
