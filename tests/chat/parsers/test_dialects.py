"""A model's family and file decide how its calls are read."""

from __future__ import annotations

import sys

import pytest
from google.protobuf import text_format

from litert_lm._proto.llm_model_type_pb2 import LlmModelType
from litert_lm.bundle.tool_syntax import CALLS_ONLY, ToolSyntax, tool_syntax
from litert_lm.chat.parsers.dialects import (
    DIALECTS,
    dialect_of,
    infer_dialect,
)
from litert_lm.chat.parsers.reply import parse_reply
from litert_lm.chat.parsers.tool_call import ToolCall
from litert_lm.errors import MissingExtraError, ModelFileError


def dialect(text):
    """The dialect of a model with this LlmModelType."""
    stored = text_format.Parse(text, LlmModelType())
    return dialect_of(stored.WhichOneof("model_type"), tool_syntax(stored))


def test_a_file_without_overrides_has_the_familys_dialect():
    for family in DIALECTS:
        assert dialect(f"{family} {{}}") == DIALECTS[family]


def test_families_without_calls_have_no_dialect():
    assert dialect("generic_model {}") is None
    assert dialect_of("generic") is None
    assert tool_syntax(LlmModelType()) == ToolSyntax()


def test_the_file_changes_fences_quotes_and_syntax():
    made = dialect(
        "gemma4 { code_fence_start: '[[' code_fence_end: ']]' open_quote: '<<'"
        " close_quote: '>>' function_response_start: 'R' constraint_mode:"
        " CONSTRAINT_MODE_FUNCTION_CALL_ONLY }"
    )
    assert (made.response_start, made.is_calls_only) == ("R", True)
    reply = parse_reply("a[[call:f{x:<<[]>>}]]b", made)
    assert reply.parts == ("a", ToolCall("f", {"x": "[]"}), "b")


@pytest.mark.parametrize(
    ("syntax", "call"),
    [("python", "f(x=1)"), ("json", '{"name": "f", "arguments": {"x": 1}}')],
)
def test_the_syntax_may_be_another_one(syntax, call):
    made = dialect(f"function_gemma {{ syntax_type: '{syntax}' }}")
    text = f"<start_function_call>{call}<end_function_call>"
    assert parse_reply(text, made).calls == (ToolCall("f", {"x": 1}),)


def test_an_unknown_syntax_is_named():
    with pytest.raises(ModelFileError, match="syntax_type is 'lisp'"):
        dialect("gemma4 { syntax_type: 'lisp' }")


def test_a_marker_of_a_model_is_short():
    with pytest.raises(ModelFileError, match="300 characters"):
        dialect_of("qwen3", ToolSyntax(code_fence_start="x" * 300))


def test_a_template_that_writes_declarations_gets_objects():
    assert dialect("function_gemma {}").is_text_for_template
    made = dialect("function_gemma { use_template_for_fc_format: true }")
    assert not made.is_text_for_template


def test_a_regular_expression_picks_the_calls():
    pytest.importorskip("re2", reason="needs the extra tools")
    made = dialect("qwen3 { tool_code_regex: 'X([^Y]+)Y' }")
    text = '<tool_call>? X{"name": "f"}Y X{"name": "g"}Y !</tool_call>'
    assert [call.name for call in parse_reply(text, made).calls] == ["f", "g"]
    assert (
        "tool_code_regex" in parse_reply("<tool_call>?</tool_call>", made).parse_error
    )


def test_fences_may_be_regular_expressions():
    pytest.importorskip("re2", reason="needs the extra tools")
    made = dialect(
        "qwen3 { code_fence_start: '<t+>' code_fence_end: '</t+>'"
        " escape_fence_strings: false }"
    )
    text = 'a<ttt>{"name": "f"}</tt>b<t>{"name": "g"}</t>'
    assert parse_reply(text, made).parts == (
        "a",
        ToolCall("f", {}),
        "b",
        ToolCall("g", {}),
    )


def test_a_regular_expression_needs_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingExtraError, match=r"pylitert-lm\[tools\]"):
        parse_reply("", dialect("qwen3 { tool_code_regex: 'x' }"))


def test_a_template_shows_its_dialect():
    assert infer_dialect("... <tool_call> ...") == DIALECTS["qwen3"]
    assert infer_dialect("<|tool_call_start|>") == DIALECTS["lfm2"]
    assert infer_dialect("no tools") is None


def test_calls_only_is_the_files_word():
    assert ToolSyntax(constraint_mode=CALLS_ONLY).constraint_mode == CALLS_ONLY
    assert not dialect("gemma4 {}").is_calls_only
