"""Ends a thought that has had its budget of tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from litert_lm.bundle.metadata import Channel
from litert_lm.chat.channels import ChannelSplitter
from litert_lm.sampling.selection import Logits
from litert_lm.tokenizer import StreamingDetokenizer, Tokenizer

__all__ = ["ThinkingBudget"]


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
