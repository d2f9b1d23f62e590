"""One reply of the model: runs it and puts the message together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from litert_lm.bundle.metadata import Channel, ModelConfig
from litert_lm.chat.channels import open_channel
from litert_lm.chat.messages import Message
from litert_lm.chat.parsers.tool_call import ToolCall
from litert_lm.chat.reply_reader import ReplyReader
from litert_lm.conversation.context import ContextText, Plan, stop_ids_of
from litert_lm.conversation.message_options import MessageOptions
from litert_lm.conversation.reply_info import ReplyInfo
from litert_lm.conversation.tool_set import ToolSet
from litert_lm.generate.response import (
    FinishReason,
    GenerateResponse,
    PromptInfo,
    SequenceOutput,
    join,
)
from litert_lm.session import Session
from litert_lm.tokenizer import Tokenizer

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Reply"]


class Reply:
    """A reply that is to be generated.

    Args:
        messages: all that was said, in the JSON shape, up to what is answered.
        plan: how the context becomes their prompt.
        options: of the message.
        session: what runs it.
        tokenizer, config, vocab_size: of the model.
        channels: what replies are split into.
        tools: what the model may call.
        grammar: of calls that must be made, or None.

    Attributes:
        message: the whole reply, once something of it was generated and it has ended.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, Any]],
        plan: Plan,
        options: MessageOptions,
        *,
        session: Session,
        tokenizer: Tokenizer,
        config: ModelConfig,
        vocab_size: int,
        channels: Sequence[Channel],
        tools: ToolSet,
        grammar: str | None,
    ) -> None:
        self.messages = list(messages)
        self.plan = plan
        self.message: Message | None = None
        self._stop_sequences = config.stop_sequences
        opened = open_channel(plan.opening, channels)
        self._session = session
        self._prepared = session.prepare_reply(
            plan.ids,
            plan.num_kept,
            options.reply_options(tokenizer, vocab_size, channels, opened, grammar),
        )
        dialect = None if options.tool_choice == "none" else tools.dialect
        self._reader = ReplyReader(channels, opened, dialect, tools.descriptions)
        self._stop_ids: tuple[int, ...] = ()

    @property
    def calls(self) -> list[ToolCall]:
        """The tools that the reply calls."""
        return self._reader.calls

    @property
    def is_aborted(self) -> bool:
        """Whether the reply was cancelled or closed before its end."""
        info = None if self.message is None else self.message.info
        return info is None or info.finish_reason is FinishReason.ABORTED

    def run(self) -> Generator[Message, None, None]:
        """Generate it, in deltas. Closing the generator ends the reply there."""
        session = self._session
        if self.plan.num_kept < len(session.token_ids):
            session.rewind(self.plan.num_kept)
        chunks = session.prepared_stream(self._prepared)
        prompt_info: PromptInfo | None = None
        outputs: list[SequenceOutput] = []
        try:
            for chunk in chunks:
                if chunk.prompt_info is not None and not chunk.outputs:
                    prompt_info = chunk.prompt_info
                elif prompt_info is not None:
                    outputs += chunk.outputs
                    yield from self._reader.feed(chunk.text)
        finally:
            chunks.close()
            rest = self._reader.finish()
            if prompt_info is not None:
                self._end(prompt_info, outputs)
        yield from rest

    def said(self, is_filtering: bool) -> ContextText:
        """What the context says now."""
        return ContextText(
            self.plan.prompt,
            self._reader.text,
            self._stop_ids,
            is_filtering and (self._reader.has_channels or self.plan.has_thoughts),
        )

    def _end(self, prompt_info: PromptInfo, outputs: Sequence[SequenceOutput]) -> None:
        joined = join([GenerateResponse(outputs=tuple(outputs))])
        output = joined.outputs[0] if joined.outputs else SequenceOutput()
        finish = output.finish_info
        reason = FinishReason.ABORTED if finish is None else finish.finish_reason
        if reason is FinishReason.STOP:
            self._stop_ids = stop_ids_of(self._session.token_ids, self._stop_sequences)
        self.message = self._reader.message()
        self.message.info = ReplyInfo(
            finish_reason=reason,
            num_context_tokens=self.plan.num_kept + len(self.plan.ids),
            num_prefill_tokens=prompt_info.num_prompt_tokens,
            num_cached_tokens=prompt_info.num_cached_tokens,
            num_output_tokens=output.num_tokens,
            token_ids=output.token_ids,
            logprobs=output.logprobs,
            ranks=output.ranks,
            candidate_tokens=output.candidate_tokens,
            parse_error=self._reader.parse_error,
        )
