"""Gives arguments that arrive as strings the types that a tool's schema declares."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["typed_arguments"]

_MAX_DIGITS = 400
_WORDS = {"true": True, "false": False}


def typed_arguments(
    arguments: Mapping[str, Any], schema: Mapping[str, Any]
) -> dict[str, Any]:
    """`arguments`, of which strings become what ``schema["properties"]`` asks for.

    A string that does not fit the type stays a string.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    return {name: _typed(value, known.get(name)) for name, value in arguments.items()}


def _typed(value: Any, schema: Any) -> Any:
    if not isinstance(value, str) or not isinstance(schema, Mapping):
        return value
    declared = schema.get("type")
    kinds = declared if isinstance(declared, list) else [declared]
    if "string" in kinds or declared is None:
        return value
    text = value.strip()
    if text in ("null", "None", "") and (schema.get("nullable") or "null" in kinds):
        return None
    return next((v for kind in kinds if (v := _as(text, kind)) is not None), value)


def _as(text: str, kind: Any) -> Any:
    if kind == "boolean":
        return _WORDS.get(text.lower())
    if kind in ("integer", "number") and len(text) > _MAX_DIGITS:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "integer": is_number and isinstance(value, int),
        "number": is_number and math.isfinite(value),
        "array": isinstance(value, list),
        "object": isinstance(value, dict),
    }
    return value if fits.get(kind) else None
