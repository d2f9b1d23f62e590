"""What structured output is asked for; free of anything that compiles it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CONSTRAINT_KINDS", "ConstraintSpec"]

CONSTRAINT_KINDS = (
    "json",
    "json_object",
    "regex",
    "choice",
    "grammar",
    "structural_tag",
)


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """One language that the output must be of.

    Attributes:
        kind: one of CONSTRAINT_KINDS, the field of the vLLM Generate schema.
        value: the field's text; the texts of a ``choice``; "" for ``json_object``.
    """

    kind: str
    value: str | tuple[str, ...] = ""
