"""What the context holds from turn to turn."""

from __future__ import annotations

import pytest

from litert_lm import FinishReason, Message
from litert_lm.errors import InvalidArgumentError, PromptTooLongError
from tests.conversation.conftest import TEMPLATE, replies

THINK = {
    "channels": [{"channel_name": "thought", "start": "<think>", "end": "</think>"}]
}
HELLO = replies(["hello"], ["you"], ["end"])


def expected(*turns):
    """The template's rendering of turns, as a context that ends with a reply."""
    shown = "".join(f"<{role}>{text}<eot>\n" for role, text in turns)
    return "<bos>" + shown.removesuffix("\n")


def test_the_context_is_the_templates_rendering(open_chat, text_of):
    chat = open_chat(HELLO, system_message="S")
    assert str(chat.send_message("1")) == "hello"
    assert str(chat.send_message("2")) == "you"
    turns = [("system", "S"), ("user", "1"), ("assistant", "hello")]
    turns += [("user", "2"), ("assistant", "you")]
    assert text_of(chat) == expected(*turns)


def test_a_turn_reads_only_its_own_tokens(open_chat):
    chat = open_chat(HELLO)
    chat.send_message("1")
    info = chat.send_message("2").info
    assert info.num_prefill_tokens == len("\n<user>2\n<assistant>") + 1
    assert info.num_context_tokens + info.num_output_tokens == chat.token_count


def test_a_reply_that_was_cut_gets_its_turn_end(open_chat, text_of):
    chat = open_chat(HELLO)
    reply = chat.send_message("1", max_output_tokens=2)
    assert reply.info.finish_reason is FinishReason.LENGTH
    chat.send_message("2")
    turns = [("user", "1"), ("assistant", "he"), ("user", "2"), ("assistant", "you")]
    assert text_of(chat) == expected(*turns)


def test_thoughts_leave_the_context_with_the_next_message(open_chat, text_of):
    options = replies(["<think>", "hm", "</think>", "hello"], ["you"])
    chat = open_chat(options, THINK)
    reply = chat.send_message("1")
    assert reply["reasoning_content"] == "hm"
    assert "<think>hm</think>" in text_of(chat)
    chat.send_message("2")
    turns = [("user", "1"), ("assistant", "hello"), ("user", "2"), ("assistant", "you")]
    assert text_of(chat) == expected(*turns)


def test_thoughts_may_stay(open_chat, text_of):
    options = replies(["<think>", "hm", "</think>", "hello"], ["you"])
    chat = open_chat(options, THINK, filter_channel_content_from_kv_cache=False)
    chat.send_message("1")
    chat.send_message("2")
    assert "<think>hm</think>hello<eot>\n<user>2" in text_of(chat)


def test_a_template_that_rewrites_the_last_reply_is_followed(open_chat, text_of):
    last = "{{ m.content }}{% if loop.last %}!{% endif %}"
    template = TEMPLATE.replace("{{ m.content }}", last)
    options = replies([".hello"], [".you"])
    chat = open_chat(options, {"jinja_prompt_template": template})
    chat.send_message("1")
    chat.send_message("2")
    assert "<user>1<eot>\n<assistant>hello<eot>\n<user>2!<eot>" in text_of(chat)


def test_what_was_asked_is_shown_as_the_template_shows_it(open_chat, text_of):
    mark = "{% if loop.last and m.role == 'user' %}!{% endif %}"
    template = TEMPLATE.replace("{{ m.content }}", "{{ m.content }}" + mark)
    options = replies([".hello"], [".you"])
    chat = open_chat(options, {"jinja_prompt_template": template})
    chat.send_message("1")
    chat.send_message("2")
    assert "<user>1<eot>\n<assistant>hello<eot>\n<user>2!<eot>" in text_of(chat)


def test_a_variable_of_a_message_counts_for_the_whole_prompt(open_chat, text_of):
    chat = open_chat(HELLO, {"jinja_prompt_template": "{{ mood }}" + TEMPLATE})
    chat.send_message("1", extra_context={"mood": "glad"})
    chat.send_message("2", extra_context={"mood": "sad"})
    assert text_of(chat).startswith("<bos>sad<user>1<eot>\n<assistant>hello<eot>")


def test_a_thought_that_had_only_begun_leaves_as_well(open_chat, text_of):
    chat = open_chat(replies(["<think>", "hm"], ["you"]), THINK)
    chat.send_message("1", max_output_tokens=1)
    chat.send_message("2")
    assert text_of(chat).startswith("<bos><user>1<eot>\n<assistant><eot>\n<user>2")


def test_a_template_may_change_case(open_chat, text_of):
    template = TEMPLATE.replace("{{ m.content }}", "{{ m.content | upper }}")
    chat = open_chat({}, {"jinja_prompt_template": template})
    assert chat.render_message_to_string("hi").startswith("<user>HI<eot>")


def test_states_that_cannot_go_back_are_built_again(open_chat, text_of):
    options = replies(["<think>", "hm", "</think>", "hello"], ["you"])
    chat = open_chat(options | {"recurrent": True}, THINK)
    chat.send_message("1")
    assert str(chat.send_message("2")) == "you"
    turns = [("user", "1"), ("assistant", "hello"), ("user", "2"), ("assistant", "you")]
    assert text_of(chat) == expected(*turns)


def test_another_stop_gives_way_to_the_templates_turn_end(open_chat, text_of):
    options = {
        "replies": {"1": ["." * 13, "hi", "<eos>"], "2": ["." * 13, "yo", "<eot>"]}
    }
    stops = {"stop_tokens": [{"token_str": "<eot>"}, {"token_str": "<eos>"}]}
    chat = open_chat(options, stops)
    chat.send_message("1")
    assert text_of(chat).endswith("hi<eos>")
    chat.send_message("2")
    assert "<assistant>hi<eot>\n<user>2" in text_of(chat)


def test_history_of_either_spelling_is_rendered(open_chat, text_of):
    said = [{"role": "user", "content": "x"}, {"role": "model", "content": "y"}]
    chat = open_chat(HELLO, messages=said)
    chat.send_message(Message.user("1"))
    assert "<user>x<eot>\n<assistant>y<eot>\n<user>1" in text_of(chat)


def test_a_message_that_does_not_fit_says_by_how_much(open_chat):
    chat = open_chat(HELLO)
    chat.send_message("1")
    before = chat.token_ids, list(chat.messages)
    with pytest.raises(PromptTooLongError, match=r"does not fit by \d+ tokens"):
        chat.send_message("x" * 500)
    assert (chat.token_ids, chat.messages) == before
    assert str(chat.send_message("2")) == "you"


def test_old_turns_can_make_room(open_chat, text_of):
    chat = open_chat(HELLO, system_message="S", context_overflow="drop_oldest")
    for _ in range(12):
        assert str(chat.send_message("1")) == "hello"
    assert text_of(chat).startswith("<bos><system>S<eot>\n<user>1")
    assert chat.messages[0]["role"] == "system"
    assert len(chat.messages) < 24


def test_what_never_fits_is_refused_with_old_turns_dropped_too(open_chat):
    chat = open_chat(HELLO, context_overflow="drop_oldest")
    with pytest.raises(PromptTooLongError):
        chat.send_message("x" * 500)
    assert chat.messages == []


def test_rendering_changes_nothing(open_chat):
    chat = open_chat(HELLO)
    assert chat.render_message_to_string("1") == "<user>1<eot>\n<assistant>"
    chat.send_message("1")
    before = chat.token_ids
    shown = chat.render_message_to_string("2")
    assert shown == "\n<user>2<eot>\n<assistant>"
    assert chat.token_ids == before


def test_a_template_that_refuses_leaves_the_conversation_alone(open_chat):
    template = "{% if messages[-1].content == 'no' %}{{ raise_exception('not that') }}"
    chat = open_chat(
        HELLO, {"jinja_prompt_template": template + "{% endif %}" + TEMPLATE}
    )
    with pytest.raises(InvalidArgumentError, match="not that"):
        chat.send_message("no")
    assert str(chat.send_message("1")) == "hello"


def test_a_template_argument_wins(open_chat, text_of):
    chat = open_chat(HELLO, chat_template="{{ messages[0].content }}:" + "." * 8)
    chat.send_message("x", max_output_tokens=1)
    assert text_of(chat).startswith("<bos>x:")


def test_variables_reach_the_template(open_chat):
    template = "{{ mood }}{{ enable_thinking }}" + TEMPLATE
    chat = open_chat(
        HELLO, {"jinja_prompt_template": template}, extra_context={"mood": "m"}
    )
    assert chat.render_message_to_string("1").startswith("m<user>")
    chat.send_message("1", max_output_tokens=1, extra_context={"mood": "n"})
    assert chat._said.prompt.startswith("n<user>")
