"""Messages and their JSON shape."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from litert_lm import Content, Contents, Message, Role, ToolCall
from litert_lm.chat.messages import message_json
from litert_lm.errors import InvalidArgumentError

TEXT = {"type": "text", "text": "hi"}


def test_a_message_is_a_dict_in_the_json_shape():
    assert Message.user("hi") == {"role": "user", "content": [TEXT]}
    assert Message.system(Contents.of("hi"))["role"] == "system"
    assert Message.model("hi") == {"role": "assistant", "content": [TEXT]}
    assert Message.model() == {"role": "assistant"}


def test_calls_and_channels_are_keys_where_there_are_any():
    message = Message.model("hi", [ToolCall("f", {"a": 1}, "7")], {"thought": "t"})
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert message.to_json()["tool_calls"] == [call | {"id": "7"}]
    assert message.to_json()["channels"] == {"thought": "t"}
    assert message.tool_calls == [ToolCall("f", {"a": 1}, "7")]


def test_attributes_follow_the_dict():
    message = Message.user("a")
    message["content"] = "b"
    message["role"] = "tool"
    message["more"] = 1
    assert (str(message), message.role) == ("b", Role.TOOL)
    message.contents = Contents.of("c", "d")
    message.role = Role.USER
    assert message.to_json()["more"] == 1
    assert str(message) == "cd"


def test_unknown_keys_and_parts_survive():
    part = {"type": "smell", "value": 3}
    data = {"role": "user", "content": [part, TEXT], "zone": 1}
    message = Message.from_json(data)
    assert message.to_json() == data
    assert str(message) == "hi"


def test_parts_that_are_added_are_said():
    message = Message.user("a")
    message.contents.append(Content.Text("b"))
    message.contents += Contents.of("c")
    assert message_json(message)["content"] == Contents.of("a", "b", "c").to_json()
    assert message.contents is message.contents


def test_a_part_may_be_changed_in_place():
    part = {"type": "tool_response", "name": "f", "response": {"x": 1}, "id": "7"}
    message = Message.from_json({"role": "tool", "content": [part]})
    message.contents[0].response["x"] = 2
    message.contents[0].name = "g"
    assert message["content"] == [part | {"name": "g", "response": {"x": 2}}]
    message.contents.clear()
    assert message == {"role": "tool"}


def test_calls_and_channels_may_be_changed_in_place():
    message = Message.model("hi")
    message.tool_calls.append(ToolCall("f", {}))
    message.tool_calls[0].arguments["x"] = 1
    message.channels["thought"] = "t"
    said = json.loads(json.dumps(message))
    assert said["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}
    assert (said["channels"], said) == ({"thought": "t"}, {**message})


def test_parts_of_unknown_kinds_stay_among_others():
    part = {"type": "smell", "value": 3}
    message = Message.from_json({"role": "user", "content": [part, TEXT]})
    message.contents[1].text = "ho"
    assert message["content"] == [part, {"type": "text", "text": "ho"}]


def test_an_entry_that_is_set_replaces_its_object():
    message = Message.user("a")
    message.contents.append(Content.Text("b"))
    message["content"] = "c"
    assert (str(message.contents), message["content"]) == ("c", "c")


@pytest.mark.parametrize(
    "made", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_a_copy_has_parts_of_its_own(made):
    message = Message.user("a")
    other = made(message)
    other.contents.append(Content.Text("b"))
    assert (str(message), str(other)) == ("a", "ab")


def test_model_is_another_word_for_assistant():
    assert Message.from_json({"role": "model", "content": "x"}).role is Role.MODEL
    assert Role("model") is Role.MODEL


@pytest.mark.parametrize(
    ("part", "shape"),
    [
        (Content.Text("a"), {"type": "text", "text": "a"}),
        (Content.ImageBytes(b"ab"), {"type": "image", "blob": "YWI="}),
        (Content.AudioBytes(b"ab"), {"type": "audio", "blob": "YWI="}),
        (Content.ImageFile("/a"), {"type": "image", "path": "/a"}),
        (Content.AudioFile("/a"), {"type": "audio", "path": "/a"}),
        (
            Content.ToolResponse("f", {"x": 1}),
            {"type": "tool_response", "name": "f", "response": {"x": 1}},
        ),
    ],
)
def test_parts(part, shape):
    assert part.to_json() == shape
    assert isinstance(part, Content)


def test_contents_from_anything():
    assert Contents.of("a", Content.Text("b")).to_json() == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert str(Contents.of(["a", "b"])) == "ab"
    assert Contents.empty() == []
    with pytest.raises(InvalidArgumentError):
        Contents.of(3)


@pytest.mark.parametrize("wrong", [3, None, {"role": 4, "content": "x"}, [5]])
def test_what_is_no_message(wrong):
    with pytest.raises(InvalidArgumentError):
        message_json(wrong)


def test_text_and_parts_are_the_users():
    assert message_json("hi") == message_json(Contents.of("hi"))
    assert message_json({"content": "hi"})["role"] == "user"
