"""Careless and hostile arguments: one clear error, and soon."""

from __future__ import annotations

import time

import pytest

from litert_lm import (
    Content,
    Contents,
    Message,
    RepetitionPenaltyConfig,
    ResponseFormat,
    SuppressTokensConfig,
    Tool,
    ToolCall,
    ToolEventHandler,
)
from litert_lm.errors import InvalidArgumentError, LiteRtLmError, PromptTooLongError
from tests.conversation.test_replies import FLAT
from tests.conversation.test_tools import QWEN, call, shout

ODD = (
    *(None, 0, -1, 1.5, True, "x", b"x", "\ud800", [], [1], (), {}, {1: 2}, {"a": 1}),
    *(object(), int, float("nan"), 10**30, [None], [Content.Text("a")], lambda: 1),
)
CHOICES = (
    *("messages", "tools", "tool_event_handler", "automatic_tool_calling"),
    *("extra_context", "filter_channel_content_from_kv_cache", "thinking_config"),
    *("sampler_config", "system_message", "constrained_decoding_config"),
    *("lora_config", "max_output_tokens", "chat_template", "channels"),
    *("context_overflow", "max_tool_rounds", "max_parallel_tools"),
)
OPTIONS = (
    *("repetition_penalty_config", "no_repeat_ngram_config", "suppress_tokens_config"),
    *("thinking_config", "response_format", "extra_context", "tool_choice"),
    *("output_logprobs", "output_candidates", "max_output_tokens"),
)


@pytest.fixture
def engine(open_engine, make_echo_bundle):
    return open_engine(make_echo_bundle(None, kv_length=128))


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_chosen_for_a_conversation(engine, name):
    for value in ODD:
        try:
            chat = engine.create_conversation(**{name: value})
            chat.send_message("hi", max_output_tokens=1)
        except LiteRtLmError as error:
            assert str(error)


@pytest.mark.parametrize("name", OPTIONS)
def test_what_is_chosen_for_a_message(engine, name):
    for value in ODD:
        options = {"max_output_tokens": 1, name: value}
        try:
            engine.create_conversation().send_message("hi", **options)
        except LiteRtLmError as error:
            assert str(error)


@pytest.mark.parametrize(
    "make",
    [
        Message,
        Message.user,
        Message.from_json,
        Contents,
        Contents.of,
        lambda value: Message("user", value),
        lambda value: Message("assistant", None, value),
        lambda value: Message("assistant", None, [value]),
        lambda value: Message("assistant", None, (), value),
        lambda value: Message.user(Contents.of(Content.Text(value))),
        lambda value: Message.user(Contents.of(Content.ImageBytes(value))),
        lambda value: Message("assistant", None, [ToolCall(value, value)]),
    ],
)
def test_what_messages_are_made_of(engine, make):
    chat = engine.create_conversation()
    for value in ODD:
        try:
            made = make(value)
            assert str(made) + repr(made)
            chat.render_message_to_string(made)
        except LiteRtLmError as error:
            assert str(error)


@pytest.mark.parametrize("part", [Content.ImageBytes(b"x"), Content.AudioFile("/x")])
def test_images_and_sound_are_not_silently_dropped(engine, part):
    with pytest.raises(InvalidArgumentError, match="not supported yet"):
        engine.create_conversation().send_message(Contents.of("look", part))


def test_a_role_has_one_spelling():
    assert Message("model", "hi")["role"] == "assistant"


@pytest.mark.parametrize("overflow", ["error", "drop_oldest"])
def test_a_huge_message_is_the_senders_mistake(engine, overflow):
    chat = engine.create_conversation(context_overflow=overflow)
    with pytest.raises(PromptTooLongError, match="4000000 characters"):
        chat.send_message("x" * 5_000_000)


def test_a_long_history_is_shortened_soon(engine):
    history = [
        {"role": ("user", "assistant")[i % 2], "content": f"m{i}"} for i in range(2000)
    ]
    chat = engine.create_conversation(messages=history, context_overflow="drop_oldest")
    begin = time.monotonic()
    chat.send_message("x", max_output_tokens=1)
    assert time.monotonic() - begin < 5
    kept = chat.messages[:-2]
    assert kept == history[-len(kept) :]
    assert kept[0]["role"] == "user"


class Described(Tool):
    """A tool that says of itself what it was told to."""

    def __init__(self, description):
        self.description = description

    def get_tool_description(self):
        return self.description

    def execute(self, param):
        return None


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


@pytest.mark.parametrize(
    "tools",
    [
        shout,
        5,
        "x",
        {"shout": shout},
        [Described],
        *([Described(value)] for value in (None, 3, {}, {"name": 3}, {"function": 3})),
        [Described({"name": "f", "parameters": 3})],
        [Described({"name": "f", "parameters": {"properties": [1]}})],
        [Described({"name": "f", "parameters": ENDLESS})],
    ],
)
def test_tools_that_are_none(open_chat, tools):
    with pytest.raises(InvalidArgumentError):
        open_chat({}, QWEN, tools=tools)


class Handler(ToolEventHandler):
    """Answers what it was told to."""

    def __init__(self, approval, response):
        self.approval, self.response = approval, response

    def approve_tool_call(self, tool_call):
        return self.approval

    def process_tool_response(self, tool_response):
        return self.response


@pytest.mark.parametrize(("approval", "response"), [("no", 1), (1, 1), (True, ENDLESS)])
def test_odd_answers_of_a_handler(open_chat, approval, response):
    said = ["." * (len("<assistant>") + 1), call("shout", text="z"), "<eot>"]
    handler = Handler(approval, response)
    chat = open_chat(
        {"replies": {"1": said}}, QWEN, tools=[shout], tool_event_handler=handler
    )
    with pytest.raises(InvalidArgumentError, match="must return"):
        chat.send_message("1")
    assert chat.messages == []


@pytest.mark.parametrize("number", [1e308, -1e308, 1e30])
def test_penalties_without_measure(open_chat, number):
    chat = open_chat(FLAT)
    penalty = RepetitionPenaltyConfig(max(1.0, number), number, number)
    options = {"repetition_penalty_config": penalty, "max_output_tokens": 3}
    assert str(chat.send_message("x", **options)) in ("abc", "aaa")


def test_wrong_values_are_told_at_the_call_and_not_at_the_first_delta(engine):
    chat = engine.create_conversation()
    with pytest.raises(InvalidArgumentError, match="regex"):
        chat.send_message_async("hi", response_format=ResponseFormat.regex("("))
    tokens = SuppressTokensConfig(suppress_tokens=[10**6])
    with pytest.raises(InvalidArgumentError, match=r"suppress_tokens holds .*1000000"):
        chat.send_message_async("hi", suppress_tokens_config=tokens)
    assert chat.messages == []
    assert chat.send_message("hi", max_output_tokens=1)
