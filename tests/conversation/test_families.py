"""Conversations in the templates of known families, against transformers' rendering."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from litert_lm import Tool
from litert_lm.chat import reply_reader
from tests.fixtures.echo_tokens import tokenizer_json
from tests.fixtures.families import CALL_ID, FAMILIES, TOOL, exchanges, template_of

RECORD = Path(__file__).resolve().parents[1] / "data" / "renderings.json"
RENDERED = json.loads(RECORD.read_text(encoding="utf-8"))
CUES = "1239"
TOKENIZER = Tokenizer.from_str(tokenizer_json("token").decode())


class Look(Tool):
    """The tool that all families are given."""

    def get_tool_description(self):
        return TOOL

    def execute(self, param):
        return "9"


def script_of(name):
    """Echo options with which the model says what the family's does."""
    replies = {}
    family = FAMILIES[name]
    for (_, said), prompt in zip(exchanges(family), RENDERED[name], strict=True):
        cue = max(prompt.rfind(each) for each in CUES)
        behind = TOKENIZER.encode(prompt[cue + 1 :], add_special_tokens=False)
        pieces = TOKENIZER.encode(said + family.stop, add_special_tokens=False).ids
        replies[prompt[cue]] = [*("." * len(behind)), *pieces]
    return {"replies": replies, "kv_length": 4096, "prefill": (8, 256)}


@pytest.fixture
def open_family(open_chat, monkeypatch):
    """open_family(name): a conversation with a model of the family."""
    monkeypatch.setattr(reply_reader, "_new_id", lambda: CALL_ID)

    def make(name):
        family = FAMILIES[name]
        metadata = {
            "jinja_prompt_template": template_of(name),
            "start_token": {"token_str": "<bos>"} if family.bos else None,
            "stop_tokens": [{"token_str": family.stop}],
            "llm_model_type": {family.model_type: {}},
        }
        channels = None
        if family.marks is not None:
            start, end = family.marks
            channels = [{"name": "thought", "start": start, "end": end}]
        first = exchanges(family)[0][0][:-1]
        return open_chat(
            script_of(name),
            metadata,
            messages=first,
            tools=[Look()] if family.has_tools else None,
            channels=channels,
            extra_context=family.variables,
        )

    return make


def test_every_family_is_recorded():
    assert set(RENDERED) == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_three_turns_are_as_transformers_renders_them(open_family, text_of, name):
    family, chat = FAMILIES[name], open_family(name)
    last = {}
    for (messages, said), prompt in zip(exchanges(family), RENDERED[name], strict=True):
        asked = [m["content"] for m in messages if m["role"] == "user"][-1]
        last[asked] = prompt + said + family.stop
    for asked, context in last.items():
        reply = chat.send_message(asked)
        assert str(reply).strip() in ("One.", "Two.", "Three.")
        assert text_of(chat) == context


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "mistral"])
def test_a_turn_reads_little_more_than_itself(open_family, name):
    chat = open_family(name)
    chat.send_message("1")
    chat.send_message("2")
    info = chat.send_message("3").info
    assert info.num_prefill_tokens < 0.5 * info.num_context_tokens
