"""How a bundle's metadata says that its model writes tool calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from litert_lm._proto.llm_model_type_pb2 import LlmModelType

__all__ = ["CALLS_ONLY", "TEXT_AND_CALLS", "ToolSyntax", "tool_syntax"]

TEXT_AND_CALLS = "text_and_calls"
CALLS_ONLY = "calls_only"

_TEXTS = (
    "code_fence_start",
    "code_fence_end",
    "syntax_type",
    "tool_code_regex",
    "open_quote",
    "close_quote",
    "function_response_start",
)
_MODES = {1: TEXT_AND_CALLS, 2: CALLS_ONLY}


@dataclass(frozen=True, slots=True)
class ToolSyntax:
    """What the fields of ``LlmModelType`` change; None where the file is silent.

    Attributes:
        code_fence_start, code_fence_end: text around calls.
        syntax_type: ``python``, ``json`` or ``fc``, as written in the file.
        tool_code_regex: what of a fence's inside is a call.
        open_quote, close_quote: text around a string of the ``fc`` syntax.
        function_response_start: text that opens a tool's answer.
        escape_fence_strings: False: the fences are regular expressions.
        use_template_for_fc_format: True: the chat template writes declarations itself.
        constraint_mode: TEXT_AND_CALLS or CALLS_ONLY.
    """

    code_fence_start: str | None = None
    code_fence_end: str | None = None
    syntax_type: str | None = None
    tool_code_regex: str | None = None
    open_quote: str | None = None
    close_quote: str | None = None
    function_response_start: str | None = None
    escape_fence_strings: bool | None = None
    use_template_for_fc_format: bool | None = None
    constraint_mode: str | None = None


def tool_syntax(model_type: LlmModelType) -> ToolSyntax:
    """The tool fields of whatever family `model_type` names."""
    named = model_type.WhichOneof("model_type")
    if named is None:
        return ToolSyntax()
    family = getattr(model_type, named)
    fields = family.DESCRIPTOR.fields_by_name
    given: dict[str, Any] = {
        name: getattr(family, name) or None for name in _TEXTS if name in fields
    }
    if "constraint_mode" in fields:
        given["constraint_mode"] = _MODES.get(family.constraint_mode)
    for name in ("escape_fence_strings", "use_template_for_fc_format"):
        if name in fields:
            given[name] = _flag(family, name)
    return ToolSyntax(**given)


def _flag(family: Any, name: str) -> bool | None:
    """A flag without presence cannot tell False from unset, which is then None."""
    value: bool = getattr(family, name)
    if family.DESCRIPTOR.fields_by_name[name].has_presence:
        return value if family.HasField(name) else None
    return value or None
