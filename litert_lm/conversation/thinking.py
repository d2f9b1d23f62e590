"""What thoughts ask of decoding: an end within their budget, and no format."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from litert_lm.bundle.metadata import Channel
from litert_lm.chat.channels import ChannelSplitter
from litert_lm.generate.decoding import Constraint
from litert_lm.sampling.selection import Logits
from litert_lm.tokenizer import StreamingDetokenizer, Tokenizer

__all__ = ["ConstraintBehindThought", "ThinkingBudget"]


class ThinkingBudget:
    """A logits processor that forces the end marker of the reply's first channel.

    Args:
        tokenizer: of the model.
        channels: those that the model has.
        opened: the channel in which the reply begins.
        num_tokens: tokens inside the channel after which it is ended.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        channels: Sequence[Channel],
        opened: Channel | None,
        num_tokens: int,
    ) -> None:
        self._tokenizer = tokenizer
        self._detokenizer = StreamingDetokenizer(tokenizer, skip_special_tokens=False)
        self._splitter = ChannelSplitter(channels, opened)
        self._left = num_tokens
        self._forced: list[int] = []
        self._is_over = False
        self._text = ""

    def __call__(self, output_ids: Sequence[int], logits: Logits) -> Logits:
        """Leave one token possible where the thought must end."""
        if self._forced:
            logits.fill(-np.inf)
            logits[self._forced[0]] = 0.0
        return logits

    def accept(self, token_id: int) -> None:
        """Count a token of the thought."""
        if self._is_over:
            return
        if self._forced:
            self._forced.pop(0)
            self._is_over = not self._forced
            return
        before = self._splitter.current
        text = self._detokenizer.add(token_id)
        self._splitter.feed(text)
        current = self._splitter.current
        if current is None:
            self._is_over = before is not None
            return
        self._text = self._text + text if before is not None else ""
        if before is not None:
            self._left -= 1
        if self._left <= 0:
            self._force_end(current)

    def rollback(self, num_tokens: int) -> None:
        """Replies are never taken back token by token."""
        raise NotImplementedError

    def _force_end(self, channel: Channel) -> None:
        """Force what is missing of the end marker."""
        end = channel.end
        said = next(
            (n for n in range(len(end) - 1, 0, -1) if self._text.endswith(end[:n])), 0
        )
        self._forced = list(self._tokenizer.encode(end[said:])) if end else []
        self._is_over = not self._forced


class ConstraintBehindThought:
    """A constraint that holds from the end of the thought in which a reply begins.

    Args:
        constraint: of what comes behind the thought.
        tokenizer: of the model.
        opened: the channel that the prompt has opened.
    """

    def __init__(
        self, constraint: Constraint, tokenizer: Tokenizer, opened: Channel
    ) -> None:
        self._constraint = constraint
        self._tokenizer = tokenizer
        self._opened = opened
        self._detokenizer = StreamingDetokenizer(tokenizer, skip_special_tokens=False)
        self._splitter = ChannelSplitter((), opened)
        self._thought_ids: list[int] = []

    @property
    def _is_thinking(self) -> bool:
        return self._splitter.current is not None

    def apply(self, logits: Logits) -> None:
        """Leave a thought free."""
        if not self._is_thinking:
            self._constraint.apply(logits)

    def accept(self, token_id: int) -> None:
        """Go on behind a token, of the thought or of what comes then."""
        if not self._is_thinking:
            self._constraint.accept(token_id)
            return
        self._thought_ids.append(token_id)
        self._splitter.feed(self._detokenizer.add(token_id))

    def forced_ids(self) -> list[int]:
        """None in a thought."""
        return [] if self._is_thinking else self._constraint.forced_ids()

    def fork(self) -> ConstraintBehindThought:
        """The same place, from which another answer goes on."""
        constraint = self._constraint.fork()
        made = ConstraintBehindThought(constraint, self._tokenizer, self._opened)
        for token_id in self._thought_ids:
            made.accept(token_id)
        return made
