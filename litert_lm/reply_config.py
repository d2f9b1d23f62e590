"""What a caller chooses about one reply: penalties, bans, thinking, its format.

Names, defaults and ranges are those of the official package. Frozen values, checked
when made.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from litert_lm.config import check_count, check_flag, check_number
from litert_lm.enums import LiteRtLmConstraintProviderType
from litert_lm.errors import InvalidArgumentError, shown

__all__ = [
    "ConstrainedDecodingConfig",
    "LoraConfig",
    "LoraRankConfig",
    "NoRepeatNgramConfig",
    "RepetitionPenaltyConfig",
    "ResponseFormat",
    "SuppressTokensConfig",
    "ThinkingConfig",
]


@dataclass(frozen=True)
class RepetitionPenaltyConfig:
    """Makes tokens that the reply already has less likely. None switches a part off.

    Args:
        repetition_penalty: divides positive logits and multiplies negative ones, >= 1.
        presence_penalty: subtracted once from the logits of such tokens.
        frequency_penalty: subtracted once per occurrence.
        window_size: count only so many last tokens of the reply; 0 counts all.
    """

    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    window_size: int | None = None

    def __post_init__(self) -> None:
        check_number("repetition_penalty", self.repetition_penalty, 1.0, math.inf)
        check_number("presence_penalty", self.presence_penalty, -math.inf, math.inf)
        check_number("frequency_penalty", self.frequency_penalty, -math.inf, math.inf)
        check_count("window_size", self.window_size, minimum=0)


@dataclass(frozen=True)
class NoRepeatNgramConfig:
    """Forbids runs of tokens that the reply already has.

    Args:
        no_repeat_ngram_size: length of the runs in tokens; 0 or None forbids nothing.
        window_size: look only at so many last tokens of the reply; 0 looks at all.
    """

    no_repeat_ngram_size: int | None = None
    window_size: int | None = None

    def __post_init__(self) -> None:
        check_count("no_repeat_ngram_size", self.no_repeat_ngram_size, minimum=0)
        check_count("window_size", self.window_size, minimum=0)


@dataclass(frozen=True)
class SuppressTokensConfig:
    """Forbids tokens, beside those that the bundle forbids.

    Args:
        suppress_tokens: token ids.
    """

    suppress_tokens: Iterable[int] | None = None

    def __post_init__(self) -> None:
        ids = self.suppress_tokens
        if ids is None:
            return
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise InvalidArgumentError(
                f"suppress_tokens must be a list of token ids, got {shown(ids)}."
            )
        kept = ids if isinstance(ids, list | tuple | set | frozenset) else list(ids)
        for token_id in kept:
            if token_id is None:
                raise InvalidArgumentError("suppress_tokens must hold ids, got None.")
            check_count("a token id in suppress_tokens", token_id, minimum=0)
        object.__setattr__(self, "suppress_tokens", kept)


@dataclass(frozen=True)
class ThinkingConfig:
    """Whether and how long the model thinks before it answers.

    Args:
        enable_thinking: what the chat template gets under this name.
        thinking_token_budget: tokens of thought after which the thought is ended; 0 and
            less set no limit. Needs a channel.
    """

    enable_thinking: bool = True
    thinking_token_budget: int = -1

    def __post_init__(self) -> None:
        check_flag("enable_thinking", self.enable_thinking)
        if self.thinking_token_budget is None:
            raise InvalidArgumentError(
                "thinking_token_budget must be a whole number; -1 sets no limit."
            )
        check_count("thinking_token_budget", self.thinking_token_budget)


@dataclass(frozen=True)
class ConstrainedDecodingConfig:
    """Whether replies may be held to a format.

    Args:
        enable: False refuses formats.
        provider: None and LL_GUIDANCE both allow formats; tool calls are held to their
            schemas where `tool_choice` asks for it.
    """

    enable: bool = True
    provider: LiteRtLmConstraintProviderType | None = None

    def __post_init__(self) -> None:
        check_flag("enable", self.enable)
        if self.provider is None:
            return
        try:
            provider = LiteRtLmConstraintProviderType(self.provider)
        except ValueError as error:
            raise InvalidArgumentError(
                f"provider must be a LiteRtLmConstraintProviderType, "
                f"got {shown(self.provider)}."
            ) from error
        object.__setattr__(self, "provider", provider)


@dataclass(frozen=True)
class ResponseFormat:
    """The format that a reply must have; made by one of the class methods.

    Args:
        type: one of ``ResponseFormat.Type``.
        schema_or_pattern: text of the schema, pattern or grammar; a tuple of choices.
    """

    type: int
    schema_or_pattern: str | tuple[str, ...]

    class Type:
        """Kinds of format; those from CHOICE on are not in the official package."""

        NONE: ClassVar[int] = 0
        REGEX: ClassVar[int] = 1
        JSON_OBJECT: ClassVar[int] = 2
        CHOICE: ClassVar[int] = 3
        GRAMMAR: ClassVar[int] = 4
        STRUCTURAL_TAG: ClassVar[int] = 5
        ANY_JSON_OBJECT: ClassVar[int] = 6

    @classmethod
    def json(cls, schema: Mapping[str, Any] | str) -> ResponseFormat:
        """JSON that fits a JSON schema, given as a mapping or as text."""
        return cls(cls.Type.JSON_OBJECT, _json_text("schema", schema))

    @classmethod
    def regex(cls, pattern: str) -> ResponseFormat:
        """Text that a regular expression matches as a whole."""
        return cls(cls.Type.REGEX, _text("pattern", pattern))

    @classmethod
    def json_object(cls) -> ResponseFormat:
        """Any JSON object."""
        return cls(cls.Type.ANY_JSON_OBJECT, "")

    @classmethod
    def choice(cls, choices: Iterable[str]) -> ResponseFormat:
        """Exactly one of these texts."""
        if isinstance(choices, str) or not isinstance(choices, Iterable):
            raise InvalidArgumentError(
                f"choices must be a list of texts, got {shown(choices)}."
            )
        texts = tuple(_text("choices", choice) for choice in choices)
        if not texts:
            raise InvalidArgumentError("choices is empty; give at least one text.")
        return cls(cls.Type.CHOICE, texts)

    @classmethod
    def grammar(cls, grammar: str) -> ResponseFormat:
        """Text of a grammar, in Lark's notation or in EBNF with the start ``root``."""
        return cls(cls.Type.GRAMMAR, _text("grammar", grammar))

    @classmethod
    def structural_tag(cls, tag: Mapping[str, Any] | str) -> ResponseFormat:
        """Free text in which tagged parts have formats of their own."""
        return cls(cls.Type.STRUCTURAL_TAG, _json_text("tag", tag))


@dataclass(frozen=True)
class LoraConfig:
    """Files of low-rank adapters; not supported yet."""

    lora_path: str | None = None
    audio_lora_path: str | None = None


@dataclass(frozen=True)
class LoraRankConfig:
    """Ranks of low-rank adapters; not supported yet."""

    lora_rank: int | None = None
    audio_lora_rank: int | None = None


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be text, got {shown(value)}.")
    return value


def _json_text(name: str, value: object) -> str:
    try:
        if isinstance(value, str):
            json.loads(value)
            return value
        if isinstance(value, Mapping):
            return json.dumps(value, default=dict)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgumentError(f"{name} is no valid JSON: {error}.") from error
    raise InvalidArgumentError(
        f"{name} must be a mapping or JSON text, got {shown(value)}."
    )
