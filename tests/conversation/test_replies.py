"""Replies: streams, cancelling, limits, formats, what is known about them."""

from __future__ import annotations

import asyncio
import threading

import pytest

import litert_lm
from litert_lm import FinishReason, ResponseFormat
from litert_lm.errors import CancelledError, InvalidArgumentError, SessionStateError
from tests.conversation.conftest import TEMPLATE, replies

THOUGHT = {"name": "thought", "start": "<think>", "end": "</think>"}
ENDLESS = replies(["x" * 200], ["you"])
FLAT = {"logits": {"a": 5.0, "b": 4.5, "c": 4.0, "1": 3.0, "<eot>": 1.0}}


def test_a_stream_gives_what_the_message_says(open_chat):
    stream = open_chat(replies(["hello"])).send_message_async("1")
    deltas = [str(delta) for delta in stream]
    assert deltas == list("hello")
    assert str(stream.message) == "hello"
    assert stream.info.finish_reason is FinishReason.STOP


def test_leaving_a_loop_ends_the_reply(open_chat, text_of):
    chat = open_chat(ENDLESS)
    stream = chat.send_message_async("1")
    for number, _ in enumerate(stream, 1):
        if number == 3:
            break
    assert str(chat.send_message("2")) == "you"
    assert "<assistant>xxx<eot>\n<user>2" in text_of(chat)
    assert list(stream) == []


def test_cancelling_from_another_thread_keeps_what_was_said(open_chat):
    chat = open_chat(ENDLESS)
    stream = chat.send_message_async("1")
    next(stream)
    thread = threading.Thread(target=chat.cancel_process)
    thread.start()
    thread.join()
    rest = list(stream)
    assert len(rest) <= 1
    assert stream.info.finish_reason is FinishReason.ABORTED
    assert str(chat.send_message("2")) == "you"


def test_cancelling_before_the_first_token_changes_nothing(open_chat):
    chat = open_chat(ENDLESS)
    stream = chat.send_message_async("1")
    chat.cancel_process()
    assert list(stream) == []
    assert stream.message is None
    assert chat.messages == []
    assert str(chat.send_message("2")) == "you"


def test_cancelling_a_whole_message_early_raises(open_chat, monkeypatch):
    chat = open_chat(ENDLESS)
    chat._session.prefill_progress = lambda done, total: chat.cancel_process()
    with pytest.raises(CancelledError):
        chat.send_message("1" * 20)
    chat._session.prefill_progress = None
    assert str(chat.send_message("2")) == "you"


def test_a_conversation_that_answers_takes_no_other_message(open_chat):
    chat, refused = open_chat(ENDLESS), []

    def ask_too(done: int, total: int) -> None:
        with pytest.raises(SessionStateError, match="busy"):
            chat.send_message("2")
        refused.append(done)
        chat.cancel_process()

    chat._session.prefill_progress = ask_too
    assert list(chat.send_message_async("1" * 20)) == []
    assert refused


def test_async_for_gives_the_same(open_chat):
    async def ask(chat):
        deltas = [str(delta) async for delta in chat.send_message_async("1")]
        return deltas, str(await chat.asend_message("2"))

    deltas, second = asyncio.run(ask(open_chat(replies(["hello"], ["you"]))))
    assert deltas == list("hello")
    assert second == "you"


def test_a_cancelled_task_stops_the_model(open_chat):
    async def ask(chat):
        task = asyncio.create_task(chat.asend_message("1"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return str(await chat.asend_message("2"))

    assert asyncio.run(ask(open_chat(ENDLESS))) == "you"


def test_a_closed_conversation_says_so(open_chat):
    chat = open_chat(ENDLESS)
    with chat:
        pass
    with pytest.raises(SessionStateError, match="closed"):
        chat.send_message("1")


def test_channels_of_the_caller(open_chat):
    chat = open_chat(replies(["<think>", "hm", "</think>", "ok"]), channels=[THOUGHT])
    reply = chat.send_message("1")
    assert reply.channels == {"thought": "hm"}
    assert str(reply) == "ok"


def test_channels_that_the_template_shows(open_chat):
    template = "{# <think></think> #}{{ messages[-1].content }}" + "." * 13
    options = {"replies": {"1": ["." * 13, "<think>", "hm", "</think>", "ok", "<eot>"]}}
    chat = open_chat(options, {"jinja_prompt_template": template}, channels="infer")
    assert chat.send_message("1").channels == {"thought": "hm"}


@pytest.mark.parametrize("channels", ["x", [{"name": ""}], [3], 5])
def test_wrong_channels_are_refused(open_chat, channels):
    with pytest.raises(InvalidArgumentError):
        open_chat(channels=channels)


def test_a_thought_ends_with_its_budget(open_chat):
    options = replies(["<think>", "abcdefgh", "</think>", "ok"])
    chat = open_chat(options, channels=[THOUGHT])
    thinking = litert_lm.ThinkingConfig(thinking_token_budget=3)
    assert chat.send_message("1", thinking_config=thinking).channels == {
        "thought": "abc"
    }


@pytest.mark.parametrize("budget", [-1, 2])
def test_a_format_holds_behind_the_thought_that_a_prompt_begins(open_chat, budget):
    pytest.importorskip("llguidance")
    logits = {"a": 5.0, "b": 4.5, "c": 4.0, "<think>": 2.0, "<eot>": 1.0}
    template = TEMPLATE.replace("<assistant>{% endif", "<assistant><think>\n{% endif")
    metadata = {"jinja_prompt_template": template}
    chat = open_chat({"logits": logits}, metadata, channels=[THOUGHT])
    reply = chat.send_message(
        "x",
        response_format=ResponseFormat.regex("[bc]{3}"),
        thinking_config=litert_lm.ThinkingConfig(True, budget),
        max_output_tokens=20,
    )
    thought, said = ("a" * 20, "") if budget < 0 else ("aa", "bbb")
    assert (reply.channels["thought"], str(reply)) == (thought, said)


@pytest.mark.parametrize("mark", ["\n", "<assistant>"])
def test_a_channel_is_open_only_behind_its_start(open_chat, mark):
    channel = {"name": "note", "start": mark, "end": mark}
    reply = open_chat(replies(["hello"]), channels=[channel]).send_message("1")
    is_open = mark == "<assistant>"
    assert str(reply) == ("" if is_open else "hello")
    assert reply.channels == ({"note": "hello"} if is_open else {})


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (ResponseFormat.regex("[bc]{3}"), "bbb"),
        (ResponseFormat.choice(["ca", "cb"]), "ca"),
        (ResponseFormat.json({"enum": ["b"]}), '"b"'),
        (ResponseFormat.grammar('start: "c" "a"'), "ca"),
    ],
)
def test_replies_of_a_format(open_chat, wanted, said):
    pytest.importorskip("llguidance")
    chat = open_chat(FLAT)
    assert str(chat.send_message("x", response_format=wanted)) == said


def test_a_conversation_may_refuse_formats(open_chat):
    config = litert_lm.ConstrainedDecodingConfig(enable=False)
    chat = open_chat(FLAT, constrained_decoding_config=config)
    with pytest.raises(InvalidArgumentError, match="enable=False"):
        chat.send_message("x", response_format=ResponseFormat.regex("b"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"no_repeat_ngram_config": litert_lm.NoRepeatNgramConfig(1)}, "abc1"),
        ({"suppress_tokens_config": litert_lm.SuppressTokensConfig([10 + 97])}, "bbbb"),
        (
            {
                "repetition_penalty_config": litert_lm.RepetitionPenaltyConfig(
                    1.2, None, None, 1
                )
            },
            "abab",
        ),
        (
            {
                "repetition_penalty_config": litert_lm.RepetitionPenaltyConfig(
                    frequency_penalty=0.3
                )
            },
            "aaba",
        ),
    ],
)
def test_what_a_reply_must_not_repeat(open_chat, options, said):
    chat = open_chat(FLAT)
    assert str(chat.send_message("x", max_output_tokens=4, **options)) == said


def test_log_probabilities_on_request(open_chat):
    chat = open_chat(FLAT, max_output_tokens=3)
    assert chat.send_message("x").info.logprobs == ()
    info = chat.send_message("x", output_candidates=2).info
    assert len(info.token_ids) == len(info.logprobs) == len(info.candidate_tokens) == 3
    assert info.ranks == (1, 1, 1)


def test_texts_are_scored_without_a_trace(open_chat):
    chat = open_chat(FLAT)
    chat.send_message("x", max_output_tokens=1)
    before = chat.token_ids
    scores = chat.run_text_scoring(["ab"], store_token_lengths=True)
    assert scores.token_lengths == [2]
    assert scores.scores[0] == pytest.approx(sum(scores.token_scores[0]))
    assert chat.token_ids == before


def test_wrong_options_are_told_at_once(open_chat):
    chat = open_chat(FLAT)
    for options in (
        {"max_output_tokens": 0},
        {"thinking_config": True},
        {"response_format": "json"},
        {"extra_context": 3},
        {"tool_choice": "required"},
    ):
        with pytest.raises(InvalidArgumentError):
            chat.send_message("x", **options)
    with pytest.raises(InvalidArgumentError):
        chat.send_message(3)
    assert chat.messages == []
