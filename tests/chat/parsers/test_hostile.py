"""Hostile replies and expressions take time in proportion to their length."""

from __future__ import annotations

import os
import time

import pytest

from litert_lm.bundle.tool_syntax import ToolSyntax
from litert_lm.chat.parsers.dialects import DIALECTS, dialect_of
from litert_lm.chat.parsers.reply import ReplyParser, parse_reply
from litert_lm.errors import ModelFileError

LIMIT_S = 5 if os.environ.get("CI") else 1
LENGTH = 50_000
OPEN = {family: dialect.fence_start for family, dialect in DIALECTS.items()}

BODIES = {
    "quotes": '"',
    "double quotes and backslashes": '"\\',
    "backslashes": "\\",
    "brackets": "[",
    "braces": '{"a":',
    "parentheses": "(",
    "print": "print(",
    "call": "call:f{a:",
    "escape": "<escape>",
    "letters": "x",
    "dots": "x.",
    "spaces": " ",
    "words": "a ",
    "comments": "#\n",
    "digits": "9",
    "angle brackets": "<",
    "functions": '<function name="f">',
    "CDATA": "<![CDATA[",
    "ends": "%END%",
    "starts": "%START%",
    "starts and ends": "%START%%END%",
    "open strings": '%START%{"a":"%END%',
    "open quotes": "%START%'\"%END%",
    "ticks": "`",
}
HEADS = ("", '{"name": "f", "arguments": {"a": "', "f(a=", 'f(a="', "call:f{a:")


def timed(parse):
    start = time.perf_counter()
    parse()
    return time.perf_counter() - start


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("family", ["qwen3", "gemma3", "function_gemma", "minicpm5"])
def test_a_long_reply_is_read_in_time(family, body):
    dialect = DIALECTS[family]
    part = BODIES[body].replace("%START%", dialect.fence_start)
    part = part.replace("%END%", dialect.fence_end)
    for head in HEADS:
        text = dialect.fence_start + head + part * (LENGTH // len(part))
        assert timed(lambda text=text: parse_reply(text, dialect)) < LIMIT_S
        assert timed(
            lambda text=text: parse_reply(text + dialect.fence_end, dialect)
        ) < (LIMIT_S)


@pytest.mark.parametrize("family", DIALECTS)
def test_a_long_call_in_small_chunks_is_read_in_time(family):
    def parse():
        parser = ReplyParser(DIALECTS[family])
        parser.feed(OPEN[family])
        for _ in range(LENGTH // 2):
            parser.feed('x"')
        parser.finish()

    assert timed(parse) < LIMIT_S


def with_regex(source):
    return dialect_of("qwen3", ToolSyntax(tool_code_regex=source))


@pytest.mark.parametrize(
    "source",
    ["(a+)+$", "(a|a)*b", "(x+x+)+y", "(.*)*(.*)*z", "a.*?b|a", "(a?){500}a{500}"],
)
def test_an_expression_of_a_model_is_matched_in_time(source):
    pytest.importorskip("re2", reason="needs the extra tools")
    text = "<tool_call>" + "a" * LENGTH + "</tool_call>"

    def parse():
        try:
            parse_reply(text, with_regex(source))
        except ModelFileError as error:
            assert "tool_code_regex" in str(error)

    assert timed(parse) < LIMIT_S


@pytest.mark.parametrize(
    "source",
    ["(", "(?=a)", r"(a)\1", "(a{1000}){1000}", "x" * 5000, "\ud800", "(" * 2000],
)
def test_an_expression_that_cannot_be_used_is_named(source):
    pytest.importorskip("re2", reason="needs the extra tools")
    with pytest.raises(ModelFileError, match="tool_code_regex"):
        parse_reply("", with_regex(source))


def test_surrogates_come_through():
    reply = parse_reply(
        '\ud800<tool_call>{"name": "\ud800"}</tool_call>', DIALECTS["qwen3"]
    )
    assert reply.parts[0] == "\ud800"
    assert reply.calls[0].name == "\ufffd"
