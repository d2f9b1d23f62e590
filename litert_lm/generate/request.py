"""One request to generate, checked when it is made.

Field names, ranges and defaults are those of the vLLM Generate schema; None is unset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from litert_lm.errors import InvalidArgumentError, shown
from litert_lm.generate.request_checks import check_values
from litert_lm.generate.request_values import (
    Candidates,
    Prompt,
    as_bias,
    as_candidates,
    as_constraint,
    as_plain,
    as_prompt,
    as_tuple,
)
from litert_lm.sampling.constraint.spec import CONSTRAINT_KINDS, ConstraintSpec

__all__ = ["Candidates", "GenerateRequest", "Prompt"]

_LISTS = (
    ("stop_token_ids", int),
    ("stop_strings", str),
    ("allowed_token_ids", int),
)


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """What is to be generated.

    Attributes:
        prompt: text, or token ids that are used verbatim.
        request_id: the caller's name for it; need not be unique.
        model: the name of the model, "" for the one there is; servers check it.
        temperature: divides the logits, 0..2; 0 is greedy.
        num_sequences: independent answers, 1..16384; more than 1 need a temperature
            above 0. A session then ends with the prompt: it holds none of them.
        top_k: keep the k most likely tokens; 0 keeps all.
        top_p: keep the smallest set with this probability, above 0 and up to 1.
        min_p: drop tokens less likely than min_p times the likeliest, 0..1.
        seed: start of the random sequence, any int64; -1 counts as unset. Answer i of
            several starts at seed + i.
        presence_penalty: taken once from the logit of a generated token, -2..2.
        frequency_penalty: taken as often as the token was generated, -2..2.
        repetition_penalty: divides positive and multiplies negative logits of tokens
            of the prompt and the answer, above 0; 1 is off.
        logit_bias: (token id, number added to its logit).
        allowed_token_ids: no other token is generated; empty allows all.
        constraint: structured output, from json, json_object, regex, choice, grammar
            or structural_tag.
        max_new_tokens: most tokens to generate, >= 1.
        min_new_tokens: no stop before this many tokens.
        stop_token_ids: ids that end generation, beside the bundle's.
        stop_strings: texts that end generation.
        include_stop_strings: keep the stop in the text.
        ignore_eos: the bundle's stop sequences do not end generation.
        prompt_token_ids, output_token_ids: return ids over the wire; Python always
            gets them.
        prompt_logprobs: return log-probability and rank of each token of the prompt.
            The whole prompt is computed then, nothing is taken from the prefix cache.
        prompt_candidates: other tokens to return at each of these positions: how
            many of the likeliest, or which ids, or "all".
        output_text: return text; stop strings work without it too.
        output_logprobs: return log-probability and rank of each token.
        output_candidates: as prompt_candidates, for the answer.
        bypass_prefix_cache: take nothing from the prefix cache.
        cache_salt: prompts of other salts share nothing in the prefix cache.
        kv_transfer_params: exports or imports the KV state of the prompt.
        truncate_prompt_tokens: keep only so many tokens of the prompt, the last ones;
            0 keeps all.
        priority: lower runs earlier, any int32.
    """

    prompt: Prompt
    request_id: str = ""
    model: str = ""
    temperature: float | None = None
    num_sequences: int = 1
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    allowed_token_ids: tuple[int, ...] = ()
    constraint: ConstraintSpec | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()
    include_stop_strings: bool = False
    ignore_eos: bool = False
    prompt_token_ids: bool = False
    prompt_logprobs: bool = False
    prompt_candidates: Candidates | None = None
    output_text: bool = True
    output_token_ids: bool = False
    output_logprobs: bool = False
    output_candidates: Candidates | None = None
    bypass_prefix_cache: bool = False
    cache_salt: str = ""
    kv_transfer_params: Mapping[str, Any] | None = None
    truncate_prompt_tokens: int | None = None
    priority: int = 0

    @classmethod
    def from_options(
        cls, prompt: Prompt, options: Mapping[str, object]
    ) -> GenerateRequest:
        """A request from keyword arguments, where None means unset.

        Args:
            prompt: text or token ids.
            options: fields by name; instead of `constraint` the schema's json (also as
                a mapping), json_object, regex, choice, grammar or structural_tag.

        Raises:
            TypeError: an option that does not exist.
            InvalidArgumentError: a value of a wrong type or out of range.
        """
        known = {item.name for item in fields(cls)} - {"prompt", "constraint"}
        known.update(CONSTRAINT_KINDS)
        unknown = sorted(set(options) - known)
        if unknown:
            raise TypeError(
                f"generate() has no option {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(sorted(known))}."
            )
        given = {name: value for name, value in options.items() if value is not None}
        return cls(prompt=as_prompt(prompt), **_plain_values(given))

    def __post_init__(self) -> None:
        check_values(self)

    def truncated(self, prompt_ids: list[int]) -> list[int]:
        """The end of the prompt that `truncate_prompt_tokens` keeps."""
        return prompt_ids[-(self.truncate_prompt_tokens or 0) :]


def _plain_values(given: dict[str, object]) -> dict[str, Any]:
    """Options as fields."""
    values: dict[str, Any] = {
        k: as_plain(value) for k, value in given.items() if k not in CONSTRAINT_KINDS
    }
    for name, kind in _LISTS:
        if name in values:
            values[name] = as_tuple(name, values[name], kind)
    for name in ("prompt_candidates", "output_candidates"):
        if name in values:
            values[name] = as_candidates(name, values[name])
    if "logit_bias" in values:
        values["logit_bias"] = as_bias(values["logit_bias"])
    if "kv_transfer_params" in values:
        _check_mapping("kv_transfer_params", values["kv_transfer_params"])
    values["constraint"] = as_constraint(given)
    return values


def _check_mapping(name: str, value: object) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgumentError(
            f"{name} must map names to values, got {shown(value)}."
        )
