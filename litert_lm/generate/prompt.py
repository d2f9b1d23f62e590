"""From a session's texts to token ids, by the official runtime's rules.

With a template, the first text of a turn gets the user prefix, and decoding begins
with user suffix and model prefix, tokenized as one text. BOS comes once, at the very
beginning. Nothing is added behind an answer: its stop token stays in the context.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from litert_lm.bundle.metadata import ModelConfig
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.generate.request import GenerateRequest
from litert_lm.tokenizer.base import Tokenizer

__all__ = ["PromptAssembler", "Turn", "Turns", "checked_texts"]


class Turn(enum.Enum):
    """Where a session stands."""

    FRESH = "nothing was prefilled yet"
    PREFILLED = "a prompt waits for its answer"
    DECODED = "the last prompt was answered"


class Turns:
    """Where a session stood at which number of tokens."""

    def __init__(self, marks: Iterable[tuple[int, Turn]] = ((0, Turn.FRESH),)) -> None:
        self._marks = list(marks)

    @property
    def marks(self) -> tuple[tuple[int, Turn], ...]:
        """Pairs of a number of tokens and what began there, in order."""
        return tuple(self._marks)

    def at(self, num_tokens: int) -> Turn:
        """Where the session stands that has so many tokens.

        What began behind them is forgotten. In the middle of its first prompt it is
        as after the first part of one: BOS comes no more.
        """
        if self._marks[-1][0] > num_tokens:
            self.rewind(num_tokens)
        turn = self._marks[-1][1]
        return Turn.PREFILLED if num_tokens and turn is Turn.FRESH else turn

    def begin(self, turn: Turn, num_tokens: int) -> None:
        """Note that `turn` begins behind that many tokens."""
        self._marks.append((num_tokens, turn))

    def rewind(self, num_tokens: int) -> None:
        """Go back to where the session stood when it first had that many tokens."""
        kept = [mark for mark in self._marks if mark[0] < num_tokens]
        here = [mark for mark in self._marks if mark[0] == num_tokens]
        self._marks = kept + here[:1] or [(0, Turn.FRESH)]

    def clone(self) -> Turns:
        """A copy that goes its own way."""
        return Turns(self._marks)


class PromptAssembler:
    """Gives the token ids of each part of a turn.

    Args:
        config: affixes and BOS.
        tokenizer: of the same bundle.
        apply_template: put the affixes around user text.
    """

    def __init__(
        self, config: ModelConfig, tokenizer: Tokenizer, apply_template: bool
    ) -> None:
        self._config = config
        self._tokenizer = tokenizer
        self._apply_template = apply_template

    def prompt_ids(self, contents: Sequence[str], turn: Turn) -> list[int]:
        """Ids that `contents` add to a session that stands at `turn`.

        Raises:
            InvalidArgumentError: no content, or text that begins with BOS itself where
                a template is applied.
        """
        if not contents:
            raise InvalidArgumentError("The prompt has no content; give some text.")
        if self._apply_template:
            for text in contents:
                self._refuse_bos(text)
        first, *rest = contents
        if self._apply_template and turn is not Turn.PREFILLED:
            first = self._config.user.prefix + first
        ids = self._begin(first) if turn is Turn.FRESH else self._encode(first)
        for text in rest:
            ids += self._encode(text)
        if not ids:
            raise InvalidArgumentError("The prompt has no tokens; give some text.")
        return ids

    def answer_ids(self) -> list[int]:
        """Ids between a prompt and its answer."""
        if not self._apply_template:
            return []
        return self._encode(self._config.user.suffix + self._config.model.prefix)

    def request_ids(self, request: GenerateRequest, turn: Turn) -> list[int]:
        """Ids that a request adds before its answer, cut where it says so."""
        if isinstance(request.prompt, str):
            ids = self.prompt_ids([request.prompt], turn) + self.answer_ids()
        else:
            ids = list(request.prompt)
        return request.truncated(ids)

    def _begin(self, text: str) -> list[int]:
        """Ids of the first text, with BOS exactly once where the bundle has one."""
        bos_id, bos_text = self._config.bos_id, self._config.bos_text
        if bos_id is None:
            return self._encode(text)
        if bos_text:
            text = text.removeprefix(bos_text)
        return [bos_id, *self._encode(text)]

    def _refuse_bos(self, text: str) -> None:
        bos_text = self._config.bos_text
        if bos_text and text.startswith(bos_text):
            raise InvalidArgumentError(
                f"The text begins with the control token {bos_text!r}, which the "
                "session adds by itself; leave it out."
            )

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text) if text else []


def checked_texts(name: str, values: object, count: int | None = None) -> list[str]:
    """`values` as a list of `count` texts, else InvalidArgumentError with `name`."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidArgumentError(
            f"{name} must be a list of texts, got {shown(values)}."
        )
    for value in values:
        if not isinstance(value, str):
            raise InvalidArgumentError(f"{name} must hold texts, got {shown(value)}.")
    if count is not None and len(values) != count:
        raise InvalidArgumentError(
            f"{name} must hold {count} text, got {len(values)}; take them in turn."
        )
    return list(values)
