"""What a prompt adds to the tokens that are in the context already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.chat.prompts import PromptRenderer
from litert_lm.errors import LiteRtLmError
from litert_lm.tokenizer import Tokenizer

__all__ = ["ContextText", "Plan", "Planner", "Standing", "opening", "stop_ids_of"]

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ContextText:
    """What the context says after a reply, in text, its BOS left out.

    Attributes:
        prompt: the rendering that was answered.
        reply: what the model said, without the stop.
        stop_ids: tokens of the stop at the end of the context; none for a reply that
            was cut.
        is_filtered: the reply has thoughts that the next prompt shall not keep.
    """

    prompt: str
    reply: str
    stop_ids: tuple[int, ...] = ()
    is_filtered: bool = False


@dataclass(frozen=True)
class Standing:
    """Where a conversation stands.

    Attributes:
        messages: all that was said, in the JSON shape.
        token_ids: of the context.
        said: what they say; None where that is not known.
    """

    messages: list[Mapping[str, Any]]
    token_ids: tuple[int, ...]
    said: ContextText | None

    def num_common(self, token_ids: Sequence[int]) -> int:
        """Tokens that the context and others begin with alike."""
        return _num_common(self.token_ids, token_ids)

    def said_in(self, num_tokens: int) -> ContextText | None:
        """What the first tokens of the context say, where that is known."""
        num_stop = len(self.token_ids) - num_tokens
        if self.said is None or num_stop == 0:
            return self.said
        if num_stop != len(self.said.stop_ids):
            return None
        return replace(self.said, stop_ids=())


@dataclass(frozen=True)
class Plan:
    """How the context becomes a prompt.

    Attributes:
        prompt: the prompt's text.
        num_kept: tokens of the context that stay.
        ids: what comes behind them, one token or more.
        added_text: their text, for a look at what a message adds.
        has_thoughts: thoughts that the context shall not keep stay until the tools
            that they called for have answered.
        opening: how the prompt opens the model's turn, where it may open a channel.
    """

    prompt: str
    num_kept: int
    ids: tuple[int, ...]
    added_text: str
    has_thoughts: bool = False
    opening: str = ""

    @property
    def num_tokens(self) -> int:
        """Length of the prompt."""
        return self.num_kept + len(self.ids)


class Planner:
    """Finds the shortest way from the context to the next prompt.

    Where the new rendering goes on behind what the context says, only the rest is
    added: the reply's own tokens stay, and a turn end that the model did not say, or
    said in part, is put behind them. Where the template shows an earlier reply in other
    words, but the same ones each time, the reply stays as it was said, as in the
    official runtime; what was asked must be shown as it was. In all other cases the
    tokens that both have in common stay.
    """

    def __init__(
        self, config: ModelConfig, tokenizer: Tokenizer, renderer: PromptRenderer
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._renderer = renderer

    def plan(
        self,
        prompt: str,
        standing: Standing,
        closed: Callable[[Messages], str],
        is_for_tools: bool = False,
    ) -> Plan:
        """The plan for `prompt`.

        Args:
            prompt: the new rendering.
            standing: of the conversation, up to and with the last reply.
            closed: renders messages without the opening of the model's turn.
            is_for_tools: the prompt adds results of tools, so that the model goes on
                with what it thought.
        """
        said, num_tokens = standing.said, len(standing.token_ids)
        has_thoughts = is_for_tools and said is not None and said.is_filtered
        if said is not None and num_tokens:
            said = replace(said, is_filtered=said.is_filtered and not is_for_tools)
            rest = self._rest(prompt, said, standing.messages, closed)
            if rest is not None:
                num_kept, rest = self._behind_stop(rest, num_tokens, said)
                ids = self._encode(rest)
                if ids:
                    return Plan(prompt, num_kept, tuple(ids), rest, has_thoughts)
        return self._anew(prompt, standing.token_ids)

    def _rest(
        self,
        prompt: str,
        said: ContextText,
        messages: Messages,
        closed: Callable[[Messages], str],
    ) -> str | None:
        """What the prompt has behind the reply's text, its turn end included."""
        spoken = said.prompt + said.reply
        if prompt.startswith(spoken):
            return prompt[len(spoken) :]
        if said.is_filtered:
            return None
        try:
            old, asked = closed(messages), closed(messages[:-1])
        except LiteRtLmError:  # the template wants the user to be last
            return None
        is_same = said.prompt.startswith(asked) and prompt.startswith(asked)
        if not old or not prompt.startswith(old) or not is_same:
            return None
        return self._renderer.turn_end + prompt[len(old) :]

    def _behind_stop(
        self, rest: str, num_tokens: int, said: ContextText
    ) -> tuple[int, str]:
        """Tokens that stay and text to add, so that there is one turn end."""
        if not said.stop_ids:
            return num_tokens, rest
        stop = self._tokenizer.decode(said.stop_ids)
        if stop and rest.startswith(stop):
            return num_tokens, rest[len(stop) :]
        if not self._renderer.turn_end:
            return num_tokens, rest
        return num_tokens - len(said.stop_ids), rest

    def _anew(self, prompt: str, context_ids: Sequence[int]) -> Plan:
        """Keep the tokens that the context and the whole prompt have in common."""
        ids = self.prompt_ids(prompt)
        num_kept = _num_common(context_ids, ids[:-1])
        added = tuple(ids[num_kept:])
        text = prompt if not num_kept else self._tokenizer.decode(added)
        return Plan(prompt, num_kept, added, text)

    def prompt_ids(self, prompt: str) -> list[int]:
        """Ids of a whole prompt: one BOS, where the model has one, and the text."""
        bos_id, bos_text = self._config.bos_id, self._config.bos_text
        if bos_id is None:
            return self._encode(prompt)
        return [bos_id, *self._encode(prompt.removeprefix(bos_text or ""))]

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text) if text else []


def opening(prompt: str, closed: str) -> str:
    """What a prompt has at its end, compared with the rendering that asks for no reply.

    Args:
        prompt: ends with the opening of the model's turn.
        closed: the same without it.
    """
    return prompt[_num_common(prompt, closed) :]


def stop_ids_of(
    context_ids: Sequence[int], stop_sequences: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """The stop sequence that the context ends with, the shortest of several."""
    matching = [
        tuple(ids)
        for ids in stop_sequences
        if ids and tuple(context_ids[-len(ids) :]) == tuple(ids)
    ]
    return min(matching, key=len, default=())


def _num_common(some: Sequence[object], others: Sequence[object]) -> int:
    """Length of the common beginning."""
    pairs = enumerate(zip(some, others, strict=False))
    shorter = min(len(some), len(others))
    return next((i for i, (one, other) in pairs if one != other), shorter)
