"""From the messages of a conversation to a prompt that fits the context."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.chat.channels import infer_channels, may_open
from litert_lm.chat.prompt_templates import chat_template
from litert_lm.chat.prompts import PromptRenderer
from litert_lm.conversation.context import Plan, Planner, Standing, opening
from litert_lm.conversation.history import num_old_turns, without_oldest_turns
from litert_lm.conversation.message_options import MessageOptions
from litert_lm.conversation.saved import SavedConversation
from litert_lm.conversation.settings import INFER, ConversationSettings
from litert_lm.conversation.tool_set import ToolSet
from litert_lm.errors import PromptTooLongError
from litert_lm.tokenizer import Tokenizer

__all__ = ["Prompting"]

_JSON = Mapping[str, Any]
_USUAL_ANSWER = 256  # tokens kept free for a reply when old turns are dropped


class Prompting:
    """Renders what was said with a chat template, and plans what has to be read.

    Args:
        settings: of the conversation.
        config, tokenizer: of the model.
        context_length: in tokens.
        saved: the conversation goes on with this one.

    Attributes:
        tools: what the model may call.
        channels: what its replies are split into.
        renderer: of the prompts.
    """

    def __init__(
        self,
        settings: ConversationSettings,
        config: ModelConfig,
        tokenizer: Tokenizer,
        *,
        context_length: int,
        saved: SavedConversation | None = None,
    ) -> None:
        given = settings.chat_template
        template = chat_template(config, given, has_tools=bool(settings.tools))
        self.tools = ToolSet(
            settings.tools,
            settings.tool_event_handler,
            config,
            template,
            is_own_template=given is None and not config.jinja_template,
            max_parallel=settings.max_parallel_tools,
        )
        own = settings.own_channels()
        self.channels = config.channels if own is None else own
        if settings.channels == INFER and not self.channels:
            self.channels = infer_channels(template)
        num_first = len(settings.first_messages())
        self.renderer = PromptRenderer(
            template,
            tools=self.tools.for_template(),
            bos_token=config.bos_text or "",
            eos_token=_eos_text(config, tokenizer),
            variables=settings.extra_context,
            as_text=self.tools.as_text,
            num_first=num_first if saved is None else saved.num_first,
            now=None if saved is None else saved.now,
        )
        self._planner = Planner(config, tokenizer, self.renderer)
        self._is_dropping = settings.context_overflow == "drop_oldest"
        self._context_length = context_length

    def plan(
        self, messages: Sequence[_JSON], options: MessageOptions, standing: Standing
    ) -> Plan:
        """How the context becomes the prompt for `messages`, be it too long or not.

        Args:
            messages: all that was said, and what is to be answered.
            options: of the reply.
            standing: of the conversation, before what is to be answered.
        """

        def without_opening(messages: Sequence[_JSON]) -> str:
            return self._render(messages, options, add_generation_prompt=False)

        prompt = self._render(messages, options)
        plan = self._planner.plan(
            prompt,
            standing,
            without_opening,
            is_for_tools=messages[-1].get("role") == "tool",
        )
        if not may_open(prompt, self.channels):
            return plan
        return replace(plan, opening=opening(prompt, without_opening(messages)))

    def fitting(
        self, messages: Sequence[_JSON], options: MessageOptions, standing: Standing
    ) -> tuple[list[_JSON], Plan]:
        """Messages and the plan for them; old turns go where the caller allows that.

        Arguments as of `plan`.

        Raises:
            PromptTooLongError: says by how many tokens they do not fit.
        """
        count = self._num_dropped(messages, options, standing)
        left = without_oldest_turns(messages, count)
        plan = self.plan(left, options, standing)
        excess = plan.num_tokens + 1 - self._context_length
        if excess <= 0:
            return left, plan
        raise PromptTooLongError(
            f"The message does not fit by {excess} tokens: the context holds "
            f"{self._context_length}, the conversation with it takes "
            f"{plan.num_tokens}, and the reply needs at least one. Shorten it, begin a "
            "new conversation, or create it with context_overflow='drop_oldest'."
        )

    def _num_dropped(
        self, messages: Sequence[_JSON], options: MessageOptions, standing: Standing
    ) -> int:
        """How many of the oldest turns have to go for the rest to fit."""
        if not self._is_dropping:
            return 0
        wanted = options.max_output_tokens or _USUAL_ANSWER
        num_free = min(wanted, self._context_length // 4)

        def fits(count: int) -> bool:
            try:
                left = without_oldest_turns(messages, count)
                plan = self.plan(left, options, standing)
            except PromptTooLongError:
                return False
            return plan.num_tokens + num_free <= self._context_length

        return 0 if fits(0) else _first(fits, num_old_turns(messages))

    def _render(
        self,
        messages: Sequence[_JSON],
        options: MessageOptions,
        add_generation_prompt: bool = True,
    ) -> str:
        return self.renderer.render(
            messages,
            add_generation_prompt=add_generation_prompt,
            variables=options.variables(),
        )


def _first(fits: Callable[[int], bool], most: int) -> int:
    """The first number from 1 on that fits, else `most`; larger ones fit as well."""
    numbers = range(1, most)
    return min(bisect_left(numbers, True, key=fits) + 1, most)


def _eos_text(config: ModelConfig, tokenizer: Tokenizer) -> str:
    """The spelling of the token that ends a text, or of the first stop."""
    if config.eos_id is not None:
        return tokenizer.decode((config.eos_id,))
    first = next(iter(config.stop_sequences), ())
    return tokenizer.decode(first) if first else ""
