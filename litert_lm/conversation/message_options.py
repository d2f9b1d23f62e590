"""What is chosen for one message, as options of its reply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from litert_lm.bundle.metadata import Channel
from litert_lm.config import check_count, check_flag
from litert_lm.conversation.thinking import ConstraintBehindThought, ThinkingBudget
from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.generate.decoding import Constraint
from litert_lm.generate.reply import ReplyOptions
from litert_lm.generate.request_checks import check_ids
from litert_lm.reply_config import (
    ConstrainedDecodingConfig,
    NoRepeatNgramConfig,
    RepetitionPenaltyConfig,
    ResponseFormat,
    SuppressTokensConfig,
    ThinkingConfig,
)
from litert_lm.sampling.processors import LogitsProcessor, make_processors
from litert_lm.sampling.repetition import NoRepeatNgrams, penalties_in_window
from litert_lm.tokenizer import Tokenizer

__all__ = ["MessageOptions"]

_KINDS = {
    "repetition_penalty_config": RepetitionPenaltyConfig,
    "no_repeat_ngram_config": NoRepeatNgramConfig,
    "suppress_tokens_config": SuppressTokensConfig,
    "thinking_config": ThinkingConfig,
    "response_format": ResponseFormat,
}
_FORMATS = {
    ResponseFormat.Type.REGEX: "regex",
    ResponseFormat.Type.JSON_OBJECT: "json",
    ResponseFormat.Type.CHOICE: "choice",
    ResponseFormat.Type.GRAMMAR: "grammar",
    ResponseFormat.Type.STRUCTURAL_TAG: "structural_tag",
    ResponseFormat.Type.ANY_JSON_OBJECT: "json_object",
}


@dataclass(frozen=True, kw_only=True)
class MessageOptions:
    """The arguments of `send_message`; None is unset."""

    repetition_penalty_config: RepetitionPenaltyConfig | None = None
    no_repeat_ngram_config: NoRepeatNgramConfig | None = None
    suppress_tokens_config: SuppressTokensConfig | None = None
    max_output_tokens: int | None = None
    thinking_config: ThinkingConfig | None = None
    response_format: ResponseFormat | None = None
    extra_context: Mapping[str, Any] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    output_logprobs: bool = False
    output_candidates: int | None = None

    def __post_init__(self) -> None:
        for name, kind in _KINDS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InvalidArgumentError(
                    f"{name} must be a {kind.__name__}, got {shown(value)}."
                )
        check_count("max_output_tokens", self.max_output_tokens, minimum=1)
        check_flag("output_logprobs", self.output_logprobs)
        check_count("output_candidates", self.output_candidates, minimum=0)
        if self.extra_context is not None and not _has_names(self.extra_context):
            raise InvalidArgumentError(
                "extra_context must map names to values, "
                f"got {shown(self.extra_context)}."
            )

    def with_defaults(
        self, thinking_config: ThinkingConfig | None, max_output_tokens: int | None
    ) -> MessageOptions:
        """The options, with those of the conversation where they are unset."""
        return replace(
            self,
            thinking_config=self.thinking_config or thinking_config,
            max_output_tokens=self.max_output_tokens or max_output_tokens,
        )

    def variables(self) -> dict[str, Any]:
        """What the template gets for this message."""
        made: dict[str, Any] = {}
        if self.thinking_config is not None:
            made["enable_thinking"] = self.thinking_config.enable_thinking
        return made | dict(self.extra_context or {})

    def check_format(self, config: ConstrainedDecodingConfig | None) -> None:
        """Raise where the conversation was told not to hold replies to formats."""
        if self.response_format is None or config is None or config.enable:
            return
        raise InvalidArgumentError(
            "response_format is set, but constrained_decoding_config has enable=False;"
            " leave one of them out."
        )

    def reply_options(
        self,
        tokenizer: Tokenizer,
        vocab_size: int,
        channels: Sequence[Channel],
        opened: Channel | None,
        grammar: str | None,
    ) -> ReplyOptions:
        """How the reply is generated.

        Args:
            tokenizer, vocab_size: of the model.
            channels: those that the model has.
            opened: the channel in which the reply begins.
            grammar: of tool calls that must be made; wins over the format.
        """
        fields: dict[str, object] = self._format() if grammar is None else {}
        if grammar is not None:
            fields["grammar"] = grammar
        if self.output_logprobs or self.output_candidates is not None:
            fields["output_logprobs"] = True
            fields["output_candidates"] = self.output_candidates
        processors = self._penalties(vocab_size)
        thinking = self.thinking_config
        has_budget = thinking is not None and thinking.enable_thinking
        if thinking is not None and has_budget and thinking.thinking_token_budget > 0:
            budget = thinking.thinking_token_budget
            processors.append(ThinkingBudget(tokenizer, channels, opened, budget))

        def constrain(constraint: Constraint) -> Constraint:
            if opened is None:
                return constraint
            return ConstraintBehindThought(constraint, tokenizer, opened)

        return ReplyOptions(
            max_output_tokens=self.max_output_tokens,
            processors=tuple(processors),
            request_fields=tuple(fields.items()),
            constrain=constrain,
        )

    def _format(self) -> dict[str, object]:
        wanted = self.response_format
        if wanted is None or wanted.type == ResponseFormat.Type.NONE:
            return {}
        if wanted.type not in _FORMATS:
            raise InvalidArgumentError(
                f"response_format has the unknown type {shown(wanted.type)}; use "
                "ResponseFormat.json, regex, choice or grammar."
            )
        name = _FORMATS[wanted.type]
        return {name: True if name == "json_object" else wanted.schema_or_pattern}

    def _penalties(self, vocab_size: int) -> list[LogitsProcessor]:
        processors: list[LogitsProcessor] = []
        suppressed = self.suppress_tokens_config
        if suppressed is not None and suppressed.suppress_tokens:
            ids = tuple(suppressed.suppress_tokens)
            check_ids("suppress_tokens", ids, vocab_size)
            processors.append(
                make_processors(vocab_size=vocab_size, suppressed_ids=ids)
            )
        penalty = self.repetition_penalty_config
        if penalty is not None:
            made = penalties_in_window(
                repetition=penalty.repetition_penalty or 1.0,
                frequency=penalty.frequency_penalty or 0.0,
                presence=penalty.presence_penalty or 0.0,
                window=penalty.window_size or 0,
            )
            processors += [] if made is None else [made]
        ngrams = self.no_repeat_ngram_config
        if ngrams is not None and ngrams.no_repeat_ngram_size:
            size, window = ngrams.no_repeat_ngram_size, ngrams.window_size or 0
            processors.append(NoRepeatNgrams(size, window))
        return processors


def _has_names(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
