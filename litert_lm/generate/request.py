"""One request to generate, checked when it is made.

Field names, ranges and defaults are those of the vLLM Generate schema; None is unset.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from itertools import islice

from litert_lm.config import check_count, check_flag, check_number
from litert_lm.errors import InvalidArgumentError, shown

__all__ = ["DEFAULT_MAX_NEW_TOKENS", "GenerateRequest", "Prompt"]

Prompt = str | Sequence[int]

DEFAULT_MAX_NEW_TOKENS = 20  # StoppingCriteria.max_new_tokens when unset
MAX_TEMPERATURE = 2.0
# A set has no order, and a mapping is rarely meant.
_NO_LISTS = (str, bytes, bytearray, Set, Mapping)
_MAX_ITEMS = 1 << 22  # of a list; no context holds as many tokens


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """What is to be generated.

    Attributes:
        prompt: text, or token ids that are used verbatim.
        temperature: divides the logits, 0..2; 0 is greedy.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set with this probability, above 0 and up to 1.
        min_p: drop tokens less likely than min_p times the likeliest, 0..1.
        seed: start of the random sequence, any int64; -1 counts as unset.
        max_new_tokens: most tokens to generate, >= 1.
        min_new_tokens: no stop before this many tokens.
        stop_token_ids: ids that end generation, beside the bundle's.
        stop_strings: texts that end generation.
        include_stop_strings: keep the stop in the text.
        ignore_eos: the bundle's stop sequences do not end generation.
        output_logprobs: return log-probability and rank of each token.
    """

    prompt: Prompt
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    include_stop_strings: bool = False
    ignore_eos: bool = False
    output_logprobs: bool = False

    @classmethod
    def from_options(
        cls, prompt: Prompt, options: Mapping[str, object]
    ) -> GenerateRequest:
        """A request from keyword arguments, where None means unset.

        Raises:
            TypeError: an option that does not exist.
            InvalidArgumentError: a value of a wrong type or out of range.
        """
        known = {item.name for item in fields(cls)} - {"prompt"}
        unknown = sorted(set(options) - known)
        if unknown:
            raise TypeError(
                f"generate() has no option {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(sorted(known))}."
            )
        given = {name: value for name, value in options.items() if value is not None}
        for name, kind in (("stop_token_ids", int), ("stop_strings", str)):
            if name in given:
                given[name] = _as_tuple(name, given[name], kind)
        return cls(prompt=_checked_prompt(prompt), **given)  # type: ignore[arg-type]

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, 0.0, MAX_TEMPERATURE)
        check_count("top_k", self.top_k, minimum=0)
        check_number("top_p", self.top_p, math.nextafter(0.0, 1.0), 1.0)
        check_number("min_p", self.min_p, 0.0, 1.0)
        check_count("seed", self.seed)
        check_count("max_new_tokens", self.max_new_tokens, minimum=1)
        check_count("min_new_tokens", self.min_new_tokens, minimum=0)
        for name in ("include_stop_strings", "ignore_eos", "output_logprobs"):
            check_flag(name, getattr(self, name))
        if "" in self.stop_strings:
            raise InvalidArgumentError(
                "stop_strings holds an empty string, which would stop at once; "
                "leave it out."
            )
        self._check_limits()

    def _check_limits(self) -> None:
        limit, minimum = self.max_new_tokens, self.min_new_tokens
        if limit is not None and minimum is not None and minimum > limit:
            raise InvalidArgumentError(
                f"min_new_tokens is {minimum}, more than max_new_tokens, {limit}."
            )

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raise InvalidArgumentError for an id that the model does not have."""
        prompt = () if isinstance(self.prompt, str) else self.prompt
        for name, ids in (("prompt", prompt), ("stop_token_ids", self.stop_token_ids)):
            wrong = next((i for i in ids if not 0 <= i < vocab_size), None)
            if wrong is not None:
                raise InvalidArgumentError(
                    f"{name} holds token id {shown(wrong)}; this model has ids 0 to "
                    f"{vocab_size - 1}."
                )


def _checked_prompt(prompt: object) -> Prompt:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, bytes | bytearray) or not isinstance(prompt, Iterable):
        raise InvalidArgumentError(
            f"prompt must be text or token ids, got {type(prompt).__name__}."
        )
    ids = _as_tuple("prompt", prompt, int)
    if not ids:
        raise InvalidArgumentError("prompt holds no token ids; give at least one.")
    return ids  # type: ignore[return-value]


def _as_tuple(name: str, values: object, kind: type) -> tuple[object, ...]:
    if isinstance(values, _NO_LISTS) or not isinstance(values, Iterable):
        raise InvalidArgumentError(
            f"{name} must be a list of {kind.__name__}, got {shown(values)}."
        )
    return tuple(_plain(name, item, kind) for item in _items(name, values))


def _items(name: str, values: Iterable[object]) -> tuple[object, ...]:
    try:
        items = tuple(islice(values, _MAX_ITEMS + 1))
    except TypeError as error:  # an array without dimensions
        raise InvalidArgumentError(
            f"{name} must be a list, got {shown(values)}."
        ) from error
    if len(items) > _MAX_ITEMS:
        raise InvalidArgumentError(f"{name} has more than {_MAX_ITEMS} items.")
    return items


def _plain(name: str, item: object, kind: type) -> object:
    """The item as a plain str or int; numpy's integers are taken."""
    if isinstance(item, kind) and not isinstance(item, bool):
        return item
    try:
        if kind is int and not isinstance(item, bool):
            return operator.index(item)  # type: ignore[arg-type]
    except Exception as error:  # a class of the caller's decides which
        raise _wrong_item(name, item, kind) from error
    raise _wrong_item(name, item, kind)


def _wrong_item(name: str, item: object, kind: type) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{name} must hold {kind.__name__} values, got {shown(item)}."
    )
