"""Answers and channels in one text."""

from __future__ import annotations

import itertools

import pytest

from litert_lm.bundle.metadata import Channel
from litert_lm.chat.channels import (
    ChannelSplitter,
    infer_channels,
    open_channel,
    reasoning_of,
)

THINK = Channel("thought", "<think>", "</think>", is_reasoning=True)
NOTE = Channel("note", "<n>", "</n>", is_reasoning=False)


def split(chunks, channels=(THINK, NOTE), opened=None):
    splitter = ChannelSplitter(channels, opened)
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)]
    found = {}
    for channel, text in [*pieces, *splitter.finish()]:
        name = channel.name if channel else "answer"
        found[name] = found.get(name, "") + text
    return found


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ab", {"answer": "ab"}),
        ("a<think>b</think>c", {"answer": "ac", "thought": "b"}),
        ("<think>\na\n</think>\n\nb", {"thought": "\na\n", "answer": "\n\nb"}),
        ("<think>a<n>b</think>c", {"thought": "a<n>b", "answer": "c"}),
        ("<n>a</n><think>b</think><n>c</n>", {"note": "ac", "thought": "b"}),
        ("a</think>b", {"answer": "a</think>b"}),
        ("<think>a", {"thought": "a"}),
        ("a<thi", {"answer": "a<thi"}),
        ("a<<think>b", {"answer": "a<", "thought": "b"}),
    ],
)
def test_cut_anywhere_the_parts_are_the_same(text, parts):
    cuts = itertools.combinations(range(1, len(text)), 2) if len(text) > 2 else [(1, 1)]
    for first, second in cuts:
        assert split([text[:first], text[first:second], text[second:]]) == parts


def test_plain_text_is_not_held_back():
    splitter = ChannelSplitter((THINK,))
    assert [piece.text for piece in splitter.feed("a < b")] == ["a < b"]
    assert splitter.feed("<thin") == []


def test_a_reply_may_begin_in_a_channel():
    assert split(["a</think>b"], opened=THINK) == {"thought": "a", "answer": "b"}
    assert open_channel("x<think>\n", (NOTE, THINK)) is THINK
    assert open_channel("x<think>y", (NOTE, THINK)) is THINK
    assert open_channel("x<think></think>y", (THINK,)) is None
    assert open_channel("x", (THINK,)) is None


def test_a_channel_without_an_end_takes_the_rest():
    rest = Channel("rest", "<r>", "", is_reasoning=False)
    assert split(["a<r>b<think>"], (rest, THINK)) == {"answer": "a", "rest": "b<think>"}


def test_reasoning_is_what_the_channels_say_it_is():
    other = Channel("plan", "<p>", "</p>", is_reasoning=True)
    spoken = {"note": "n", "plan": "p", "thought": "t"}
    assert reasoning_of(spoken, (THINK, NOTE, other)) == "t\np"
    assert reasoning_of({"note": "n"}, (THINK, NOTE)) is None


def test_templates_show_their_channels():
    assert infer_channels("..<think>..</think>..") == (THINK,)
    assert infer_channels("no thoughts") == ()
