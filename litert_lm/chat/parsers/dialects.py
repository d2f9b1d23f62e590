"""Which way of writing tool calls a model uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from litert_lm.bundle.tool_syntax import CALLS_ONLY, ToolSyntax
from litert_lm.errors import ModelFileError, shown

__all__ = ["DIALECTS", "Dialect", "dialect_of", "infer_dialect"]

PYTHON, JSON, FC, XML = "python", "json", "fc", "xml"
_MAX_MARKER_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One way of writing tool calls.

    Attributes:
        syntax: ``python``, ``json``, ``fc`` or ``xml``: what lies between the fences.
        fence_start, fence_end: text around calls; expressions if `is_fence_pattern`.
        is_fence_pattern: the fences are regular expressions of RE2's syntax.
        is_fence_syntax: the fences belong to the call, as an XML element's tags do.
        is_call_list: calls are written as one list, in brackets.
        call_pattern: what of a fence's inside is a call: the first group, or all.
        open_quote, close_quote: text around a string of the ``fc`` syntax.
        response_start: text that opens a tool's answer; empty where the family has
            none.
        is_text_for_template: the chat template is given declarations, arguments and
            results as text in the dialect, not as objects.
        is_calls_only: constrained decoding lets through calls alone, by the file.
    """

    syntax: str
    fence_start: str
    fence_end: str
    is_fence_pattern: bool = False
    is_fence_syntax: bool = False
    is_call_list: bool = False
    call_pattern: str | None = None
    open_quote: str = "<escape>"
    close_quote: str = "<escape>"
    response_start: str = ""
    is_text_for_template: bool = False
    is_calls_only: bool = False


_GEMMA = Dialect(
    syntax=PYTHON,
    fence_start="```tool_code\n",
    fence_end="\n```",
    is_text_for_template=True,
)
_FUNCTION_GEMMA = Dialect(
    syntax=FC,
    fence_start="<start_function_call>",
    fence_end="<end_function_call>",
    response_start="<start_function_response>",
    is_text_for_template=True,
)
_GEMMA4 = Dialect(
    syntax=FC,
    fence_start="<|tool_call>",
    fence_end="<tool_call|>",
    open_quote='<|"|>',
    close_quote='<|"|>',
    response_start="<|tool_response>",
)
_QWEN = Dialect(syntax=JSON, fence_start="<tool_call>", fence_end="</tool_call>")
_LFM2 = Dialect(
    syntax=PYTHON,
    fence_start="<|tool_call_start|>",
    fence_end="<|tool_call_end|>",
    is_call_list=True,
)
_MINICPM = Dialect(
    syntax=XML,
    fence_start="<function",
    fence_end="</function>",
    is_fence_syntax=True,
)

#: By ``LlmModelType``; families that are missing here write no calls.
DIALECTS: Mapping[str, Dialect] = {
    "gemma3": _GEMMA,
    "gemma3n": _GEMMA,
    "function_gemma": _FUNCTION_GEMMA,
    "gemma4": _GEMMA4,
    "qwen3": _QWEN,
    "qwen2p5": _QWEN,
    "lfm2": _LFM2,
    "minicpm5": _MINICPM,
}
#: What a chat template writes around calls, the longer marker first.
_SIGNS = (
    ("<|tool_call_start|>", _LFM2),
    ("<start_function_call>", replace(_FUNCTION_GEMMA, is_text_for_template=False)),
    ("<|tool_call>", _GEMMA4),
    ("<tool_call>", _QWEN),
    ("```tool_code", replace(_GEMMA, is_text_for_template=False)),
    ("<function name=", _MINICPM),
)


def dialect_of(model_type: str, syntax: ToolSyntax | None = None) -> Dialect | None:
    """The dialect of a model of this family; None where it writes no tool calls.

    Args:
        model_type: as in ``ModelConfig.model_type``.
        syntax: what the model's file says; wins over the family's own.

    Raises ModelFileError for a syntax that does not exist or a marker that is too long.
    """
    dialect = DIALECTS.get(model_type)
    if dialect is None or syntax is None:
        return dialect
    given = syntax.syntax_type or dialect.syntax
    if given not in (PYTHON, JSON, FC, XML):
        raise ModelFileError(
            f"The model's syntax_type is {shown(given)}; the tool calls that can be"
            " read are python, json, fc and xml. Correct the metadata."
        )
    fences = syntax.code_fence_start, syntax.code_fence_end
    return replace(
        dialect,
        syntax=given,
        fence_start=_marker(syntax.code_fence_start, dialect.fence_start),
        fence_end=_marker(syntax.code_fence_end, dialect.fence_end),
        is_fence_pattern=any(fences) and syntax.escape_fence_strings is False,
        is_fence_syntax=dialect.is_fence_syntax and not any(fences),
        call_pattern=syntax.tool_code_regex,
        open_quote=_marker(syntax.open_quote, dialect.open_quote),
        close_quote=_marker(syntax.close_quote, dialect.close_quote),
        response_start=_marker(syntax.function_response_start, dialect.response_start),
        is_text_for_template=dialect.is_text_for_template
        and not syntax.use_template_for_fc_format,
        is_calls_only=syntax.constraint_mode == CALLS_ONLY,
    )


def infer_dialect(template: str) -> Dialect | None:
    """The dialect in which a chat template writes calls; None where it shows none.

    For models of a family that says nothing about tools, such as ``generic``.
    """
    found = (dialect for sign, dialect in _SIGNS if sign in template)
    return next(found, None)


def _marker(given: str | None, default: str) -> str:
    if given is not None and len(given) > _MAX_MARKER_CHARS:
        raise ModelFileError(
            f"A marker of the model's tool calls has {len(given)} characters; at most"
            f" {_MAX_MARKER_CHARS} are read. Correct the metadata."
        )
    return given or default
