"""Tools that the model of a conversation calls."""

from __future__ import annotations

import json
import threading
import time

import pytest

from litert_lm import Contents, Message, ToolEventHandler
from litert_lm.errors import InvalidArgumentError

#: A dialect of Qwen; a result is shown as the text that a tool gave.
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor %}<eot>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
GEMMA_3 = {
    "jinja_prompt_template": None,
    "prompt_templates": None,
    "llm_model_type": {"gemma3": {}},
}
PAD = "." * (len("<assistant>") + 1)
QWEN = {"jinja_prompt_template": TEMPLATE, "llm_model_type": {"qwen3": {}}}


def call(name, **arguments):
    body = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>{body}</tool_call>"


def shout(text: str) -> str:
    """Say it loud."""
    return text.upper()


@pytest.fixture
def ask(open_chat):
    """ask(said, ...): a chat whose model says `said` to "1" and "done" to a "Z"."""

    def make(said, then="done", **arguments):
        table = {"1": [PAD, said, "<eot>"], "Z": [PAD, then, "<eot>"]}
        arguments.setdefault("tools", [shout])
        return open_chat({"replies": table, "kv_length": 512}, QWEN, **arguments)

    return make


def test_a_tool_is_run_and_the_model_goes_on(ask, text_of):
    chat = ask("hi " + call("shout", text="z"))
    assert str(chat.send_message("1")) == "done"
    assert "</tool_call><eot><tool>Z<eot><assistant>done<eot>" in text_of(chat)
    roles = [message["role"] for message in chat.messages]
    assert roles == ["user", "assistant", "tool", "assistant"]


def test_results_keep_the_order_of_the_calls(ask, text_of):
    seen = []

    def slow(text: str) -> str:
        seen.append(threading.get_ident())
        time.sleep(0.05 if text == "y" else 0)
        return text.upper()

    said = call("slow", text="y") + call("slow", text="z")
    chat = ask(said, tools=[slow], max_parallel_tools=2)
    chat.send_message("1")
    assert "<tool>Y<eot><tool>Z<eot>" in text_of(chat)
    assert len(set(seen)) == 2


def test_what_a_tool_raises_is_told_to_the_model(ask, text_of):
    def shout(text: str) -> str:
        raise ValueError("Z")

    chat = ask(call("shout", text="z"), tools=[shout])
    assert str(chat.send_message("1")) == "done"
    assert "<tool>Error: Z<eot>" in text_of(chat)


def test_calls_can_be_left_to_the_caller(ask):
    chat = ask("hi " + call("shout", text="z"), automatic_tool_calling=False)
    reply = chat.send_message("1")
    (asked,) = reply.tool_calls
    assert (asked.name, asked.arguments) == ("shout", {"text": "z"})
    assert len(asked.id) == 9
    parts = [
        {"type": "tool_response", "name": "shout", "response": "Z", "id": asked.id}
    ]
    answer = chat.send_message({"role": "tool", "content": parts})
    assert str(answer) == "done"


def test_streams_give_calls_whole(ask):
    chat = ask("hi " + call("shout", text="z"), automatic_tool_calling=False)
    deltas = list(chat.send_message_async("1"))
    assert "".join(map(str, deltas)) == "hi "
    assert [len(d.tool_calls) for d in deltas if d.tool_calls] == [1]


def test_a_malformed_call_is_text_with_a_reason(ask):
    reply = ask("<tool_call>{oops</tool_call>").send_message("1")
    assert str(reply) == "<tool_call>{oops</tool_call>"
    assert "cannot be read" in reply.info.parse_error


def test_without_tools_a_fence_is_text(ask):
    said = call("shout", text="z")
    reply = ask(said, tools=[]).send_message("1")
    assert str(reply) == said
    assert reply.info.parse_error is None


def test_a_model_that_calls_for_ever_is_stopped(ask):
    again = call("shout", text="z")
    chat = ask(again, then=again, max_tool_rounds=3)
    reply = chat.send_message("1")
    assert reply.tool_calls
    assert sum(m["role"] == "tool" for m in chat.messages) == 3


class Handler(ToolEventHandler):
    """Approves calls of some texts."""

    def __init__(self, *texts):
        self.texts = texts

    def approve_tool_call(self, tool_call):
        return tool_call["function"]["arguments"]["text"] in self.texts

    def process_tool_response(self, tool_response):
        return "Z!" + tool_response


def test_a_handler_sees_calls_and_results(ask, text_of):
    chat = ask(call("shout", text="y"), tool_event_handler=Handler("y"))
    chat.send_message("1", max_output_tokens=200)
    assert "<tool>Z!Y<eot>" in text_of(chat)


def test_calls_that_are_all_refused_come_back(ask):
    chat = ask(call("shout", text="z"), tool_event_handler=Handler())
    assert len(chat.send_message("1").tool_calls) == 1
    assert [m["role"] for m in chat.messages] == ["user", "assistant"]


def test_what_a_handler_raises_leaves_the_conversation_as_before(ask):
    class Broken(Handler):
        def approve_tool_call(self, tool_call):
            raise OSError("no")

    chat = ask(call("shout", text="z"), tool_event_handler=Broken())
    with pytest.raises(OSError, match="no"):
        chat.send_message("1")
    assert chat.messages == []
    assert chat.send_message("?").info is not None


def test_a_required_call_is_made_by_any_model(open_chat):
    pytest.importorskip("llguidance")
    letters = {"logits": {"x": 5.0, "<eot>": 4.0, '"': 3.0, "}": 2.0}}

    def pick(n: int) -> int:
        return n

    chat = open_chat(letters, QWEN, tools=[pick], automatic_tool_calling=False)
    reply = chat.send_message("x", tool_choice="required", max_output_tokens=200)
    assert reply.tool_calls[0].name == "pick"
    assert isinstance(reply.tool_calls[0].arguments["n"], int)


def test_calls_can_be_switched_off(ask):
    said = call("shout", text="z")
    chat = ask(said)
    reply = chat.send_message("1", tool_choice="none", max_output_tokens=8)
    assert not reply.tool_calls


@pytest.mark.parametrize("choice", ["nobody", 3, {"type": "x"}])
def test_unknown_choices_are_refused(ask, choice):
    with pytest.raises(InvalidArgumentError):
        ask("x").send_message("1", tool_choice=choice)


def test_wrong_tools_are_refused(open_chat):
    for tools in ([3], [shout, shout]):
        with pytest.raises(InvalidArgumentError):
            open_chat({}, QWEN, tools=tools)
    with pytest.raises(InvalidArgumentError, match="ToolEventHandler"):
        open_chat({}, QWEN, tools=[shout], tool_event_handler=print)


def test_dialects_whose_template_takes_text(open_chat):
    template = "{% for t in tools %}[{{ t }}]{% endfor %}" + TEMPLATE
    metadata = {"jinja_prompt_template": template, "llm_model_type": {"gemma3n": {}}}
    chat = open_chat({}, metadata, tools=[shout])
    assert chat.render_message_to_string("x").startswith("[def shout(\n    text: str,")


def test_dialects_whose_template_takes_objects(open_chat):
    template = "{% for t in tools %}[{{ t.function.name }}]{% endfor %}" + TEMPLATE
    metadata = {
        "jinja_prompt_template": template,
        "llm_model_type": {"function_gemma": {}},
    }
    chat = open_chat({}, metadata, tools=[shout])
    assert chat.render_message_to_string("x").startswith("[shout]")


def test_results_are_parts_for_templates_that_look_for_them(open_chat):
    shown = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
        "{% for p in m.content %}{{ p.name }}={{ p.response }}{% endfor %}{% endif %}"
        "{% endfor %}"
    )
    chat = open_chat({}, QWEN | {"jinja_prompt_template": shown}, tools=[shout])
    parts = [{"type": "tool_response", "name": "f", "response": "r"}]
    message = Message.from_json({"role": "tool", "content": parts})
    assert chat.render_message_to_string(message) == "f=r"
    assert chat.render_message_to_string(Contents.of("x")) == "x"


def test_gemma_3_takes_a_history_with_results_of_tools(open_chat):
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    result = {"type": "tool_response", "name": "f", "response": {"y": 2}}
    said = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": [result]},
        {"role": "assistant", "content": "hi"},
    ]
    chat = open_chat(None, GEMMA_3, messages=said)
    shown = chat.render_message_to_string("2")
    assert "```tool_code\nf(x=1)\n```" in shown
    assert '```tool_outputs\n{"y": 2}\n```' in shown
