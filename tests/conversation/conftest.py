"""Conversations with echo models."""

from __future__ import annotations

import pytest

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<eot>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
_BEHIND_CUE = len("\n<assistant>") + 1  # tokens, <eot> is one


def replies(*scripts):
    """Echo options: after the user's text "1" the model says the first script."""
    table = {
        str(number): ["." * _BEHIND_CUE, *said, "<eot>"]
        for number, said in enumerate(scripts, 1)
    }
    return {"replies": table, "kv_length": 256}


@pytest.fixture
def open_chat(open_engine, make_echo_bundle):
    """open_chat(options, metadata, **arguments): a conversation with an echo model."""

    def make(options=None, metadata=None, **arguments):
        metadata = {"jinja_prompt_template": TEMPLATE, **(metadata or {})}
        options = {"kv_length": 256, **(options or {})}
        engine = open_engine(make_echo_bundle(metadata, **options))
        return engine.create_conversation(**arguments)

    return make


@pytest.fixture
def text_of():
    """text_of(chat): what the context says, special tokens included."""

    def read(chat):
        return chat._tokenizer.decode(chat.token_ids)

    return read
