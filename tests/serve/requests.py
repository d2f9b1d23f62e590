"""Requests from flat keywords: the schema's field names are unique across its parts."""

from __future__ import annotations

from typing import Any

from litert_lm._proto import vllm_generate_pb2 as schema

__all__ = ["request"]

_HOMES = {
    field.name: part.name
    for part in schema.GenerateRequest.DESCRIPTOR.fields
    if part.message_type is not None and part.containing_oneof is None
    for field in part.message_type.fields
}


def request(prompt: str | list[int] | None = "abc", **fields: Any) -> Any:
    """A GenerateRequest; `prompt` is text, token ids or nothing.

    Choices are given as a list, candidates as {"top_n": 3}, {"ids": [4, 5]} or
    {"all": True}, a Struct as a dict.
    """
    made = schema.GenerateRequest()
    if isinstance(prompt, str):
        made.text = prompt
    elif prompt is not None:
        made.token_ids.SetInParent()
        made.token_ids.ids.extend(prompt)
    for name, value in fields.items():
        part = getattr(made, _HOMES[name]) if name in _HOMES else made
        if name in _HOMES:
            part.SetInParent()
        _put(part, name, value)
    return made


def _put(part: Any, name: str, value: Any) -> None:
    if name == "choice":
        part.choice.SetInParent()
        part.choice.choices.extend(value)
    elif name.endswith("_candidates"):
        _select(getattr(part, name), value)
    elif isinstance(value, list):
        getattr(part, name).extend(value)
    elif isinstance(value, dict):
        getattr(part, name).update(value)
    else:
        setattr(part, name, value)


def _select(candidates: Any, value: dict[str, Any]) -> None:
    candidates.SetInParent()
    if "ids" in value:
        candidates.token_ids.SetInParent()
        candidates.token_ids.ids.extend(value["ids"])
    else:
        for name, selected in value.items():
            setattr(candidates, name, selected)
