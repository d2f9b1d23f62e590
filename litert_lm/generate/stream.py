"""From generated ids to output text: stops, hold-back and whole characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from litert_lm.generate.response import FinishInfo, FinishReason
from litert_lm.generate.stop import StopSequences, StopStrings
from litert_lm.tokenizer import StreamingDetokenizer, Tokenizer

__all__ = ["OutputText", "Stops"]


@dataclass(frozen=True, kw_only=True)
class Stops:
    """What ends generation.

    Attributes:
        sequences: the bundle's stop sequences of ids; none when they are ignored.
        eos_id: the id among them that is reported as EOS.
        token_ids: ids the request adds.
        strings: texts the request adds.
        include: keep the stop in the text.
        min_new_tokens: tokens that come before any stop.
    """

    sequences: Sequence[Sequence[int]] = ()
    eos_id: int | None = None
    token_ids: Sequence[int] = ()
    strings: Sequence[str] = ()
    include: bool = False
    min_new_tokens: int = 0


class OutputText:
    """Text of one answer as its tokens come."""

    def __init__(
        self, tokenizer: Tokenizer, stops: Stops, *, skip_special_tokens: bool
    ) -> None:
        self._stops = stops
        self._tokenizer = tokenizer
        alone = [(token_id,) for token_id in stops.token_ids]
        self._sequences = StopSequences([*stops.sequences, *alone])
        self._strings = StopStrings(stops.strings, stops.include)
        self._detokenizer = StreamingDetokenizer(tokenizer, skip_special_tokens)
        self._num_tokens = 0
        self._has_strings = bool(stops.strings)

    def push(self, token_id: int) -> tuple[str, FinishInfo | None]:
        """Text that one more token brings, and how it ends the answer if it does."""
        self._num_tokens += 1
        if not self._has_strings and self._sequences.passes(token_id):
            return self._detokenizer.add(token_id), None
        may_stop = self._num_tokens > self._stops.min_new_tokens
        step = self._sequences.push(token_id, may_stop=may_stop)
        text = ""
        for released in step.released:
            text += self._detokenizer.add(released)
        if not self._has_strings:
            if step.match is None:
                return text, None
            return text + self._last_text(step.match), self._token_finish(step.match)
        piece = self._strings.push(text, may_stop=may_stop)
        if piece.match is not None:
            return piece.text, self._finish(stop_string=piece.match)
        if step.match is None:
            return piece.text, None
        text = piece.text + self._strings.finish() + self._last_text(step.match)
        return text, self._token_finish(step.match)

    def finish(self) -> str:
        """What is still held back when generation ends without a stop."""
        text = "".join(map(self._detokenizer.add, self._sequences.finish()))
        text += self._detokenizer.finish()
        return self._strings.push(text, may_stop=False).text + self._strings.finish()

    def _last_text(self, match: Sequence[int]) -> str:
        """The unfinished character before a token stop, and the stop if included."""
        shown = match if self._stops.include else ()
        text = "".join(map(self._detokenizer.add, shown))
        return text + self._detokenizer.finish()

    def _token_finish(self, match: Sequence[int]) -> FinishInfo:
        if len(match) > 1:
            return self._finish(stop_string=self._tokenizer.decode(match))
        is_eos = match[0] == self._stops.eos_id and match in self._stops.sequences
        if is_eos:
            return self._finish(eos_token_id=match[0])
        return self._finish(stop_token_id=match[0])

    def _finish(
        self,
        *,
        stop_token_id: int | None = None,
        eos_token_id: int | None = None,
        stop_string: str | None = None,
    ) -> FinishInfo:
        return FinishInfo(
            num_output_tokens=self._num_tokens,
            finish_reason=FinishReason.STOP,
            stop_token_id=stop_token_id,
            eos_token_id=eos_token_id,
            stop_string=stop_string,
        )
