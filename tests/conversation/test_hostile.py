"""Templates, messages, replies and tool outputs made to hurt."""

from __future__ import annotations

import random
import time

import pytest

from litert_lm.bundle.metadata import Channel
from litert_lm.chat.parsers.dialects import DIALECTS
from litert_lm.chat.reply_reader import ReplyReader
from litert_lm.errors import LiteRtLmError
from tests.conversation.conftest import TEMPLATE

LIMIT_S = 5.0
PIECES = (
    "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "{{ 'x' * 10**9 }}",
    "{{ messages[0].content * 999999999 }}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% set l = [messages] %}{% set l = [l, l, l] %}{% set l = [l, l, l] %}{{ l }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.append(1) }}",
    "{{ raise_exception('x' * 100000) }}",
    "{{ strftime_now('%999999d') }}",
    "{{ messages | tojson(indent=999999) }}",
    "{{ '%999999999d' % 1 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{% include 'x' %}",
    "{{ messages[99].content.x.y }}",
    "{{ tools[0].function.nothing.more }}",
    "{{ cycler(*range(99999)) }}",
    "{{ namespace(a=messages) }}",
    "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
    "{{ undefined_function() }}",
    "{% break %}",
    "{{ messages[0].content.replace('', 'x' * 9999) }}",
    "{%",
    "{{ x|default(messages)|string }}",
)
VALUES = (
    None,
    True,
    -1,
    1e308,
    float("nan"),
    "",
    "\0\ud800",
    "{{ 1 }}",
    "x" * 20_000,
    [],
    {},
    [[[[]]]],
    {"type": "text"},
    {"type": "text", "text": 3},
    {"type": "tool_response", "response": float("inf")},
    [{"type": "text", "text": "a"}, 3, None],
)
KEYS = ("role", "content", "tool_calls", "channels", "reasoning_content", "type", "x")
MARKS = (
    "<think>",
    "</think>",
    "<n>",
    "<tool_call>",
    "</tool_call>",
    '{"name": "f"',
    "[",
)


def nested(depth):
    value = "end"
    for _ in range(depth):
        value = [value]
    return value


def timed(action):
    """Run it; only errors of the package may come, and soon."""
    begin = time.monotonic()
    try:
        action()
    except LiteRtLmError as error:
        assert str(error)
    assert time.monotonic() - begin < LIMIT_S


@pytest.mark.parametrize("seed", range(20))
def test_hostile_messages(open_chat, seed):
    chance, chat = random.Random(seed), open_chat()
    for _ in range(10):
        message = {chance.choice(KEYS): chance.choice(VALUES) for _ in range(4)}
        message.setdefault("role", chance.choice(("user", "tool", "assistant", "x")))
        timed(lambda message=message: chat.render_message_to_string(message))
        timed(lambda message=message: chat.send_message(message, max_output_tokens=1))
    assert chat.render_message_to_string("fine")


@pytest.mark.parametrize("seed", range(12))
def test_hostile_templates(open_chat, seed):
    chance = random.Random(seed)
    for _ in range(5):
        source = "".join(chance.choice((*PIECES, TEMPLATE)) for _ in range(3))
        timed(
            lambda source=source: open_chat(
                chat_template=source, channels="infer"
            ).render_message_to_string("a")
        )


@pytest.mark.parametrize("name", [None, *DIALECTS])
def test_hostile_replies(name):
    chance = random.Random(str(name))
    dialect = None if name is None else DIALECTS[name]
    channels = [
        Channel("thought", "<think>", "</think>", is_reasoning=True),
        Channel("n", "<n>", "", is_reasoning=False),
    ]
    fences = () if dialect is None else (dialect.fence_start, dialect.fence_end)
    for _ in range(25):
        reader = ReplyReader(channels, None, dialect)
        begin = time.monotonic()
        for _ in range(300):
            reader.feed(chance.choice((*MARKS, *fences, "x" * 50, "\\", '"', "'")))
        reader.finish()
        assert reader.message()["role"] == "assistant"
        assert time.monotonic() - begin < LIMIT_S


def test_deep_values_are_one_clear_error(open_chat):
    chat = open_chat()
    for depth in (100, 5000, 100_000):
        message = {"role": "user", "content": nested(depth)}
        timed(lambda message=message: chat.send_message(message, max_output_tokens=1))
    assert chat.render_message_to_string("fine")


def test_a_tool_may_give_anything_back(open_chat):
    results = [nested(5000), {"a": float("nan")}, object(), b"\xff", "\ud800", {1: {2}}]
    chat = open_chat()
    for result in results:
        parts = [{"type": "tool_response", "name": "f", "response": result}]
        message = {"role": "tool", "content": parts}
        timed(lambda message=message: chat.send_message(message, max_output_tokens=1))
    assert chat.render_message_to_string("fine")
