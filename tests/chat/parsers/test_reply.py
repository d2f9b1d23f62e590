"""Replies are split into text and calls, however they arrive."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from litert_lm.chat.parsers.dialects import DIALECTS
from litert_lm.chat.parsers.reply import ReplyParser, parse_reply
from litert_lm.chat.parsers.tool_call import ToolCall

TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "parameters": {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": ["array", "null"]},
                "c": {"type": "string"},
                "d": {"type": "boolean", "nullable": True},
            },
        },
    },
}
REPLIES = {
    "qwen3": 'hi <tool_call>\n{"name": "f", "arguments": {"c": "</tool_call>"}}\n'
    '</tool_call>\n<tool_call>{"name": "g"}</tool_call> bye <tool',
    "gemma3": "Let me ``see``:\n```tool_code\nprint(f(c='```', b=[1]))\n```\nok ```",
    "lfm2": '<|tool_call_start|>[f(a=1), f(c="<|tool_call_end|>")]<|tool_call_end|>!',
    "function_gemma": "a<start_function_call>call:f{c:<escape><end_function_call>"
    "<escape>}<end_function_call>b<start_function_call>call:f{",
    "gemma4": '<|tool_call>call:f{c:<|"|>x<|"|>}<tool_call|><|tool_call>no<tool_call|>',
    "minicpm5": 'x<function name="f"><param name="c"><![CDATA[</function>]]></param>'
    '</function><function name="g"></function>y<func',
}


def streamed(text, family, cuts):
    parser = ReplyParser(DIALECTS[family], [TOOL])
    events = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        events += parser.feed(text[start:end])
    return parser.reply, events + parser.finish(), parser


@pytest.mark.parametrize("family", REPLIES)
def test_each_cut_gives_the_same(family):
    text = REPLIES[family]
    whole = parse_reply(text, DIALECTS[family], [TOOL])
    for cut in range(len(text) + 1):
        _, _, parser = streamed(text, family, [cut])
        assert parser.reply == whole


@pytest.mark.parametrize("family", REPLIES)
@given(data=st.data())
def test_many_cuts_of_a_mangled_reply_give_the_same(family, data):
    text = REPLIES[family] * 2
    for _ in range(data.draw(st.integers(0, 6))):
        place = data.draw(st.integers(0, len(text)))
        text = text[:place] + text[place + data.draw(st.integers(1, 4)) :]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    _, events, parser = streamed(text, family, cuts)
    whole = parse_reply(text, DIALECTS[family], [TOOL])
    assert parser.reply == whole
    assert "".join(e for e in events if isinstance(e, str)) == whole.text
    assert [e for e in events if not isinstance(e, str)] == list(whole.calls)


def test_text_around_calls_stays_in_parts():
    reply = parse_reply(REPLIES["qwen3"], DIALECTS["qwen3"])
    assert reply.parts == (
        "hi ",
        ToolCall("f", {"c": "</tool_call>"}),
        "\n",
        ToolCall("g", {}),
        " bye <tool",
    )
    assert reply.parse_error is None


def test_text_streams_until_a_fence_may_begin():
    parser = ReplyParser(DIALECTS["qwen3"])
    assert parser.feed("a < b <tool") == ["a < b "]
    assert parser.feed("box> <tool_call>") == ["<toolbox> "]
    assert parser.feed('{"name": "f"}</tool_call') == []
    assert parser.feed("> c") == [ToolCall("f", {}), " c"]


@pytest.mark.parametrize("family", REPLIES)
def test_a_call_that_cannot_be_read_stays_text(family):
    dialect = DIALECTS[family]
    text = f"a {dialect.fence_start}%$!{dialect.fence_end} b"
    reply = parse_reply(text, dialect)
    assert reply.parts == (text,)
    assert reply.parse_error.startswith("The model's tool call cannot be read: ")


def test_a_call_after_one_that_cannot_be_read_is_read():
    text = '<tool_call>{"name": "f}</tool_call><tool_call>{"name": "g"}</tool_call>'
    reply = parse_reply(text, DIALECTS["qwen3"])
    assert reply.calls == (ToolCall("g", {}),)
    assert reply.text == '<tool_call>{"name": "f}</tool_call>'
    assert reply.parse_error


def test_a_fence_that_is_opened_twice_counts_the_second_time():
    text = '<tool_call>so: <tool_call>{"name": "g"}</tool_call>'
    reply = parse_reply(text, DIALECTS["qwen3"])
    assert reply.parts == ("<tool_call>so: ", ToolCall("g", {}))


def test_a_whole_call_needs_no_closing_fence():
    text = "<start_function_call>call:f{a:1}"
    reply = parse_reply(text, DIALECTS["function_gemma"])
    assert reply.parts == (ToolCall("f", {"a": 1}),)


def test_half_a_call_without_closing_fence_is_text():
    reply = parse_reply('x <tool_call>{"name": "f"', DIALECTS["qwen3"])
    assert reply.parts == ('x <tool_call>{"name": "f"',)
    assert "not closed" in reply.parse_error


def test_xml_arguments_get_the_types_of_the_tool():
    values = {"a": "7", "b": "[1, 2]", "c": "8", "d": "null", "e": "9"}
    params = "".join(f'<param name="{k}">{v}</param>' for k, v in values.items())
    text = f'<function name="f">{params}</function>'
    (call,) = parse_reply(text, DIALECTS["minicpm5"], [TOOL]).calls
    assert call.arguments == {"a": 7, "b": [1, 2], "c": "8", "d": None, "e": "9"}


def test_a_prefix_of_a_tool_name_is_dropped():
    text = "```tool_code\ndefault_api.f(1)\n```"
    (call,) = parse_reply(text, DIALECTS["gemma3"], [TOOL]).calls
    assert call == ToolCall("f", {"a": 1})


def test_a_reply_has_a_limited_number_of_calls():
    text = '<tool_call>{"name": "f"}</tool_call>' * 1030
    reply = parse_reply(text, DIALECTS["qwen3"])
    assert len(reply.calls) == 1024
    assert "1024 calls" in reply.parse_error


def test_a_line_break_before_the_closing_fence_is_not_needed():
    (call,) = parse_reply("```tool_code\nf(a=1)```", DIALECTS["gemma3"]).calls
    assert call == ToolCall("f", {"a": 1})


def test_xml_calls_may_lie_in_fences_of_their_own():
    dialect = dataclasses.replace(
        DIALECTS["minicpm5"],
        fence_start="<tool>",
        fence_end="</tool>",
        is_fence_syntax=False,
    )
    text = '<tool><function name="f"></function><function name="g"></function></tool>'
    assert [call.name for call in parse_reply(text, dialect).calls] == ["f", "g"]
