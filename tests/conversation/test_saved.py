"""Conversations that are saved, loaded and cloned."""

from __future__ import annotations

import hashlib
import json

import pytest

from litert_lm import Content, Message, ThinkingConfig
from litert_lm.bundle.safetensors import open_header
from litert_lm.errors import InvalidArgumentError, SavedStateError, SessionStateError
from litert_lm.generate.session_format import canonical, header_of
from tests.conversation.conftest import TEMPLATE, replies

HELLO = replies(["hello"], ["you"], ["end"])
THOUGHT = replies(["<think>", "hm", "</think>", "hello"], ["you"])
CHANNEL = {"name": "thought", "start": "<think>", "end": "</think>"}


@pytest.fixture
def engine(open_engine, make_echo_bundle):
    """engine(options): an engine of an echo model."""

    def make(options=HELLO, **metadata):
        metadata = {"jinja_prompt_template": TEMPLATE, **metadata}
        return open_engine(make_echo_bundle(metadata, **options))

    return make


def rewritten(path, change):
    """The file with another conversation in it, sound in all else."""
    header = open_header(path)
    metadata = dict(header.metadata)
    metadata.pop("sha256")
    metadata["conversation"] = change(json.loads(metadata["conversation"]))
    data = path.read_bytes()[header.start :]
    digest = hashlib.sha256(canonical(metadata, header.tensors) + data).hexdigest()
    path.write_bytes(header_of({**metadata, "sha256": digest}, header.tensors) + data)
    return path


def changed(**values):
    """A change of what the file says: its entries replaced."""
    return lambda whole: json.dumps({**whole, **values})


def test_a_loaded_conversation_goes_on_without_reading_again(engine, tmp_path, text_of):
    made = engine()
    chat = made.create_conversation(system_message="S")
    chat.send_message("1")
    chat.save(tmp_path / "a")
    loaded = made.load_conversation(tmp_path / "a")
    assert (loaded.messages, loaded.token_ids) == (chat.messages, chat.token_ids)
    reply = loaded.send_message("2")
    assert reply.info.num_prefill_tokens == len("\n<user>2\n<assistant>") + 1
    chat.send_message("2")
    assert text_of(loaded) == text_of(chat)


def test_another_process_may_load_it(engine, tmp_path):
    chat = engine().create_conversation()
    chat.send_message("1")
    chat.save(tmp_path / "a")
    loaded = engine().load_conversation(tmp_path / "a")
    assert str(loaded.send_message("2")) == "you"


def test_thoughts_are_forgotten_after_loading_too(engine, tmp_path, text_of):
    made = engine(THOUGHT)
    chat = made.create_conversation(channels=[CHANNEL])
    chat.send_message("1")
    chat.save(tmp_path / "a")
    loaded = made.load_conversation(tmp_path / "a")
    assert "<think>hm</think>" in text_of(loaded)
    loaded.send_message("2")
    assert "<think>" not in text_of(loaded)


def test_what_was_chosen_is_in_the_file(engine, tmp_path):
    made = engine()
    chat = made.create_conversation(
        max_output_tokens=2,
        extra_context={"place": ["here"]},
        thinking_config=ThinkingConfig(False),
        chat_template=TEMPLATE + "!",
        context_overflow="drop_oldest",
        channels="infer",
    )
    chat.save(tmp_path / "a")
    loaded = made.load_conversation(tmp_path / "a")
    for name in ("max_output_tokens", "extra_context", "thinking_config"):
        assert getattr(loaded, name) == getattr(chat, name)
    assert loaded.render_message_to_string("a") == chat.render_message_to_string("a")


def test_tools_are_given_again(engine, tmp_path):
    def shout(text: str) -> str:
        return text.upper()

    made = engine(llm_model_type={"qwen3": {}})
    chat = made.create_conversation(tools=[shout])
    chat.save(tmp_path / "a")
    assert made.load_conversation(tmp_path / "a").tools is None
    assert made.load_conversation(tmp_path / "a", tools=[shout]).tools == [shout]
    with pytest.raises(InvalidArgumentError, match="tool_event_handler"):
        made.load_conversation(tmp_path / "a", tool_event_handler=3)


def test_templates_keep_the_time_at_which_a_conversation_began(engine, tmp_path):
    made = engine()
    template = "{{ now }}" + TEMPLATE
    made.create_conversation(chat_template=template).save(tmp_path / "a")
    path = rewritten(tmp_path / "a", changed(now=7))
    loaded = made.load_conversation(path)
    assert loaded.render_message_to_string("1").startswith("7<user>1")


def test_a_session_is_no_conversation(engine, tmp_path):
    made = engine()
    made.create_session().save(tmp_path / "a")
    with pytest.raises(SavedStateError, match="no conversation; use load_session"):
        made.load_conversation(tmp_path / "a")


def test_a_conversations_file_is_a_sessions_too(engine, tmp_path):
    made = engine()
    chat = made.create_conversation()
    chat.send_message("1")
    chat.save(tmp_path / "a")
    assert made.load_session(tmp_path / "a").token_ids == chat.token_ids


@pytest.mark.parametrize(
    "change",
    [
        lambda whole: "{",
        lambda whole: "[" * 100_000,
        lambda whole: "[]",
        lambda whole: json.dumps({}),
        changed(version=2),
        changed(settings=None),
        changed(settings={"tools": []}),
        changed(settings={"colour": 1}),
        changed(settings={"max_output_tokens": -1}),
        changed(settings={"thinking_config": {"colour": 1}}),
        changed(settings={"channels": [1]}),
        changed(messages=3),
        changed(messages=[3]),
        changed(messages=[{"role": 3}]),
        changed(said={"prompt": "a"}),
        changed(said={"prompt": "a", "reply": 3}),
        changed(said={"prompt": "a", "reply": "b", "stop_ids": [1] * 999}),
        changed(said={"prompt": "a", "reply": "b", "stop_ids": 3}),
        changed(num_first=-1),
        changed(num_first=10**30),
        changed(now=10**30),
        changed(now="noon"),
    ],
)
def test_a_damaged_conversation_is_refused(engine, tmp_path, change):
    made = engine()
    made.create_conversation().save(tmp_path / "a")
    with pytest.raises(SavedStateError, match="conversation"):
        made.load_conversation(rewritten(tmp_path / "a", change))


def test_what_is_no_json_cannot_be_saved(engine, tmp_path):
    result = Message.tool([Content.ToolResponse("f", object())])
    chat = engine().create_conversation(messages=[result])
    with pytest.raises(InvalidArgumentError, match="no JSON value"):
        chat.save(tmp_path / "a")
    assert not list(tmp_path.iterdir())


def test_a_conversation_too_long_for_a_file_is_refused(engine, tmp_path):
    chat = engine().create_conversation(extra_context={"more": "x" * (9 << 20)})
    with pytest.raises(InvalidArgumentError, match="too long for a file"):
        chat.save(tmp_path / "a")


def test_a_clone_goes_its_own_way(engine, text_of):
    chat = engine().create_conversation()
    chat.send_message("1")
    other = chat.clone()
    assert str(other.send_message("2")) == "you"
    assert str(chat.send_message("3")) == "end"
    assert (len(chat.messages), len(other.messages)) == (4, 4)
    assert "2" not in text_of(chat)
    other.close()
    assert str(chat.send_message("1")) == "hello"


@pytest.mark.parametrize("name", ["clone", "save"])
def test_a_reply_that_has_not_ended_is_in_the_way(engine, tmp_path, name):
    chat = engine().create_conversation()
    arguments = [tmp_path / "a"] if name == "save" else []
    stream = chat.send_message_async("1")
    next(stream)
    with pytest.raises(SessionStateError, match="has not ended"):
        getattr(chat, name)(*arguments)
    stream.close()
    getattr(chat, name)(*arguments)


def test_a_closed_conversation_is_neither_cloned_nor_saved(engine, tmp_path):
    chat = engine().create_conversation()
    chat.close()
    with pytest.raises(SessionStateError):
        chat.clone()
    with pytest.raises(SessionStateError):
        chat.save(tmp_path / "a")
