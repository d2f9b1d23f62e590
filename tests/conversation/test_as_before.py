"""After an error a conversation is as it was; nobody takes it from somebody else."""

from __future__ import annotations

import asyncio
import threading

import pytest

from litert_lm import ResponseFormat, SuppressTokensConfig
from litert_lm.conversation import reply_stream
from litert_lm.errors import (
    CancelledError,
    InvalidArgumentError,
    NoTokenLeftError,
    PromptTooLongError,
    SessionStateError,
)
from tests.conversation.conftest import TEMPLATE, replies
from tests.conversation.test_tools import PAD, QWEN, call

LONG = replies(["hello" * 10], ["you"], ["end"])
THINK = {
    "channels": [{"channel_name": "thought", "start": "<think>", "end": "</think>"}]
}
THOUGHTFUL = replies(["<think>", "hm", "</think>", "hello"], ["you"], ["end"])


@pytest.fixture
def ask_with(open_chat):
    """ask_with(tool): a chat that knows "3" and whose model calls the tool at "1"."""

    def make(tool, **arguments):
        calls = [PAD, call(tool.__name__), "<eot>"]
        table = {"1": calls, "3": [PAD, "three", "<eot>"], "Z": [PAD, "done", "<eot>"]}
        options = {"replies": table, "kv_length": 512}
        chat = open_chat(options, QWEN, tools=[tool], **arguments)
        chat.send_message("3")
        return chat

    return make


def check_as_before(chat, error, action):
    before = list(chat.messages), chat.token_ids
    with pytest.raises(error):
        action(chat)
    assert (list(chat.messages), chat.token_ids) == before


def check_like_a_new_one(chat, open_new):
    """The next reply is that of a conversation with the same messages."""
    new = open_new(messages=list(chat.messages))
    assert str(chat.send_message("2")) == str(new.send_message("2")) == "you"
    assert chat.token_ids == new.token_ids


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (
            NoTokenLeftError,
            {"suppress_tokens_config": SuppressTokensConfig(range(600))},
        ),
        (InvalidArgumentError, {"extra_context": {"wrong": True}}),
        (InvalidArgumentError, {"response_format": ResponseFormat.regex("(((")}),
    ],
)
def test_an_error_takes_everything_back(open_chat, error, options):
    if "response_format" in options:
        pytest.importorskip("llguidance")
    refusal = "{% if wrong %}{{ raise_exception('no') }}{% endif %}"
    chat = open_chat(LONG, {"jinja_prompt_template": TEMPLATE + refusal})
    chat.send_message("2")
    check_as_before(chat, error, lambda chat: chat.send_message("1", **options))
    assert str(chat.send_message("3")) == "end"


def test_a_result_that_does_not_fit_takes_back_the_call_as_well(ask_with):
    def much() -> str:
        return "x" * 5000

    chat = ask_with(much)
    check_as_before(chat, PromptTooLongError, lambda chat: chat.send_message("1"))


def test_a_thought_that_was_taken_out_does_not_come_back(open_chat, text_of):
    chat = open_chat(THOUGHTFUL, THINK)
    chat.send_message("1")
    everything = SuppressTokensConfig(range(600))
    with pytest.raises(NoTokenLeftError):
        chat.send_message("2", suppress_tokens_config=everything)
    assert str(chat.send_message("2")) == "you"
    assert "hm" not in text_of(chat)


@pytest.mark.parametrize("count", range(9))
def test_leaving_at_any_delta_is_like_a_new_conversation(open_chat, count):
    chat = open_chat(THOUGHTFUL, THINK)
    stream = chat.send_message_async("1")
    for _ in range(count):
        next(stream, None)
    stream.close()
    check_like_a_new_one(chat, lambda **given: open_chat(THOUGHTFUL, THINK, **given))


@pytest.mark.parametrize("delay_ms", [0, 1, 3, 6, 10])
def test_cancelling_at_any_time_is_like_a_new_conversation(open_chat, delay_ms):
    chat = open_chat(LONG)
    timer = threading.Timer(delay_ms / 1000, chat.cancel_process)
    timer.start()
    list(chat.send_message_async("1"))
    timer.join()
    check_like_a_new_one(chat, lambda **given: open_chat(LONG, **given))


def test_a_prefill_that_was_cancelled_leaves_what_is_known(open_chat):
    chat = open_chat(LONG)
    chat.send_message("2")
    chat._session.prefill_progress = lambda done, total: chat.cancel_process()
    check_as_before(chat, CancelledError, lambda chat: chat.send_message("1" * 40))
    assert chat._said is not None


def test_the_second_of_two_tasks_is_refused(open_chat):
    async def ask(chat):
        both = chat.asend_message("1"), chat.asend_message("2")
        first, second = await asyncio.gather(*both, return_exceptions=True)
        return str(first), second

    chat = open_chat(LONG)
    first, second = asyncio.run(ask(chat))
    assert first == "hello" * 10
    assert isinstance(second, SessionStateError)
    assert [message["role"] for message in chat.messages] == ["user", "assistant"]


def test_a_tool_that_does_not_end_is_left_behind(ask_with, monkeypatch):
    monkeypatch.setattr(reply_stream, "_PATIENCE_S", 0.05)
    gate, begun = threading.Event(), threading.Event()

    def stuck() -> str:
        begun.set()
        gate.wait(20)
        return "Z"

    async def ask(chat):
        task = asyncio.create_task(chat.asend_message("1"))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(SessionStateError, match="busy"):
            await chat.asend_message("3")
        gate.set()

    chat = ask_with(stuck)
    asyncio.run(ask(chat))
    assert str(chat.send_message("3")) == "three"


def test_a_tool_cannot_use_its_own_conversation(ask_with):
    def evil() -> str:
        chat.send_message("3")
        return "?"

    chat = ask_with(evil)
    chat.send_message("1", max_output_tokens=100)
    (result,) = [m for m in chat.messages if m["role"] == "tool"]
    assert "busy" in result["content"][0]["response"]


def test_a_tool_that_cancels_leaves_the_call_to_the_caller(ask_with):
    def cancel() -> str:
        chat.cancel_process()
        return "Z"

    chat = ask_with(cancel)
    deltas = list(chat.send_message_async("1"))
    assert [each.name for delta in deltas for each in delta.tool_calls] == ["cancel"]
    assert str(chat.send_message("3")) == "three"


def test_closing_the_engine_ends_its_conversations(open_engine, make_echo_bundle):
    metadata = {"jinja_prompt_template": TEMPLATE}
    engine = open_engine(make_echo_bundle(metadata, **LONG))
    chat = engine.create_conversation()
    stream = chat.send_message_async("1")
    next(stream)
    engine.close()
    for action in (lambda: next(stream), lambda: chat.send_message("2")):
        with pytest.raises(SessionStateError, match="engine is closed"):
            action()
