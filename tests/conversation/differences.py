"""Where conversations here mean to be otherwise than the official ones, and how.

SAME stands for the official answer, ERROR for a refusal.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.fixtures.echo_tokens import SPECIALS, encode, shadow_names

__all__ = ["DIFFERENT", "ERROR", "RECORDED", "SAME"]

RECORD = Path(__file__).resolve().parents[1] / "data" / "official-chats-0.18.1.json"
RECORDED: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
ERROR = "error"
SAME = "same"

_PIECES = re.compile("|".join(map(re.escape, SPECIALS)) + "|.", re.DOTALL)
_NAMES = shadow_names("token")


def _text(*texts: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"role": "assistant", "content": content}


def _cache(before: str, told: str) -> dict[str, Any]:
    """A reply that tells what the cache holds."""
    ids = encode(_PIECES.findall(told))
    return _text(before + "".join(_NAMES[index] for index in ids))


def _calls(texts: list[str], *calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    functions = [{"name": name, "arguments": given} for name, given in calls]
    made: dict[str, Any] = _text(*texts) if texts else {"role": "assistant"}
    made["tool_calls"] = [{"type": "function", "function": each} for each in functions]
    return made


def _official(name: str) -> Any:
    """What the official runtime answers first to another case."""
    return RECORDED[name][0]


# The context says what the template would print for the conversation, as transformers
# does: its turn end follows each reply, also one that was cut, and stands for a stop
# that the template does not print. What follows the stop there is not left out.
_TURN_ENDS: dict[str, list[Any]] = {
    "cut, then another turn": [
        SAME,
        _cache("?", "<bos>user:a<eot>M~hel<eot>user:b<eot>M^?"),
    ],
    "cut twice": [
        SAME,
        SAME,
        _cache(
            "?",
            "<bos>user:a<eot>M~hel<eot>user:b<eot>M^wo<eot>user:c<eot>M$?",
        ),
    ],
    "cut before the stop": [
        SAME,
        _cache("?", "<bos>user:a<eot>M~hi<eot>user:b<eot>M^?"),
    ],
    "stop of several ids": [
        SAME,
        _cache("?", "<bos>user:a<eot>M~x<eot>user:b<eot>M^?"),
    ],
    "second stop token": [SAME, _cache("?", "<bos>user:a<eot>M~x<eot>user:b<eot>M^?")],
    "stop is not the template's turn end": [
        SAME,
        _cache("?", "<bos>user:a;M~hi;user:b;M^?"),
    ],
    "turn end goes on behind the stop": [
        SAME,
        _cache("?", "<bos>user:a<eot>\nM~hi<eot>\nuser:b<eot>\nM^?"),
        53,
    ],
    "affixes: two turns": [SAME, _cache("h?", "<bos>U:a;M>h?<bos>U:a;M>h?!U:b;M>h?")],
    "affixes: cut, then another turn": [SAME, _cache("h?", "<bos>U:a;M>h?!U:b;M>h?")],
    "affixes: gemma3, two turns": [
        SAME,
        SAME,
        "\n<start_of_turn>user\nb<end_of_turn>\n<start_of_turn>model\n",
        SAME,
        140,
    ],
    "affixes: gemma3n, two turns": [
        SAME,
        SAME,
        "\n<start_of_turn>user\nb<end_of_turn>\n<start_of_turn>model\n",
        SAME,
        140,
    ],
    "affixes: function_gemma, two turns": [
        SAME,
        SAME,
        "\n<start_of_turn>user\nb<end_of_turn>\n<start_of_turn>model\n",
        SAME,
        140,
    ],
    "affixes: gemma3n, a call and its result": [
        SAME,
        "<end_of_turn>\n<start_of_turn>user\n```tool_outputs\n"
        '{"sum": 3}\n```<end_of_turn>\n<start_of_turn>model\n',
    ],
    "affixes: function_gemma, a call and its result": [
        SAME,
        "<start_function_response>response:add{sum:3}<end_function_response>",
    ],
}

# Text that begins with the BOS token means the one that the context begins with.
_ONE_BOS: dict[str, list[Any]] = {
    "bos token begins the template": [_cache("", "<bos>user:a<eot>M~")],
}

# "model" and "assistant" are the same role, under the name that the template knows.
_ROLES: dict[str, list[Any]] = {
    "history of the role model": [
        _cache("", "<bos>user:x<eot>assistant:y<eot>user:a<eot>M^")
    ],
    "affixes: history of the role model": [_cache("", "<bos>U:x;M>y!U:a;M>")],
}

# A refused message, or a template that shows the past otherwise, leaves a conversation
# usable; a full context is an error, not an empty reply; nothing that was said is lost.
_WORKS: dict[str, list[Any]] = {
    "held at the length end": [_text("xy")],
    "no stop tokens": [_text("hel")],
    "too long, then a short one": [ERROR, _text("hi")],
    "second message too long, then a short one": [SAME, ERROR, _text("hi")],
    "context full, then another turn": [SAME, ERROR],
    "template: earlier messages change": [
        SAME,
        _cache("?", "<bos>user:past<eot>assistant:past<eot>user:b<eot>M^?"),
    ],
    "template: thoughts are stripped": [
        SAME,
        _text("<think>u</think>y"),
        _cache(
            "?",
            "<bos>user:a<eot>assistant:x<eot>user:b<eot>assistant:y<eot>user:c<eot>M$?",
        ),
    ],
    "affixes: lfm2": [_cache("", "<bos>U:a;M>")],
    "affixes: minicpm5": [_cache("", "<bos>U:a;M>")],
}

# Only what opens the model's turn opens a channel, not a marker in what someone said.
_CHANNELS: dict[str, list[Any]] = {
    "channel: start in what the user says": [[_text("x")]],
    "channel: start in the system message": [[_text("x")]],
}

# Asking for a format is enough, and it holds for the message that asks.
_FORMATS: dict[str, list[Any]] = {
    "format: not enabled": [_text("1")],
    "format: other provider": [_text("1")],
    "format: for one message of two": [SAME, _text("11")],
}

# What looks like a call is read as one if its meaning is clear, with strings unescaped,
# values of the types that the tool declares, and every call of several. Anything else
# is text: no reply is lost.
_CALLS: dict[str, list[Any]] = {
    "qwen3: fence not closed": [_calls(["hi "], ("add", {"a": 1}))],
    "qwen3: no name": [_text('<tool_call>\n{"arguments": {}}\n</tool_call>')],
    "qwen3: broken JSON": [_text('hi <tool_call>\n{"name": "add", \n</tool_call>')],
    "qwen3: two lines of calls": [
        _calls([], ("add", {"a": 1}), ("say", {"text": 'x"y\nz'}))
    ],
    "qwen3: arguments as a string": [_calls([], ("add", {"a": 1}))],
    "qwen2p5: fence not closed": [_calls(["hi "], ("add", {"a": 1}))],
    "gemma3: escapes": [_calls([], ("say", {"text": 'q"uo\nte'}))],
    "gemma3: by position": [_calls([], ("add", {"a": 1}))],
    "gemma3: broken": [_text("hi ```tool_code\nadd(a=\n```")],
    "gemma3n: fence not closed": [_calls(["hi "], ("add", {"a": 1}))],
    "lfm2: fence not closed": [_calls(["hi "], ("add", {"a": 1}))],
    "function_gemma: normal quotes": [_calls([], ("say", {"text": "x"}))],
    "function_gemma: without call:": [
        _text("hi <start_function_call>add{a:1}<end_function_call>")
    ],
    "gemma4: normal quotes": [_calls([], ("say", {"text": "x"}))],
    "gemma4: fence not closed": [_calls(["hi "], ("add", {"a": 1}))],
    "minicpm5: one call": [_calls([], ("add", {"a": 1}))],
    "minicpm5: two calls": [_calls([], ("add", {"a": 1}), ("say", {"text": "x < y"}))],
    "minicpm5: text around": [_calls(["hi ", " bye"], ("add", {"a": 1}))],
    "minicpm5: not closed": [_text('hi <function name="add"><param name="a">1')],
}

_LOOP = "<bos>tools:add,say,look,fail,;user:a<eot>M~<tool_call>\n"
_STUB = """\
def add(
    a: int,
    b: int | None = None,
) -> dict:
  \"\"\"Add two numbers.

  Args:
  \"\"\"\
"""

# The model is told what it did wrong, that a call was refused, a dict in its own order,
# a result that is no dict without the part around it, defaults of parameters, and no
# parameter without a description as if it were one. Gemma 3 is shown tools as Gemma 3n.
_TOOLS: dict[str, list[Any]] = {
    "tool loop: order of a dict": [
        _cache(
            "?",
            "<bos>tools:shop,;user:a<eot>M~<tool_call>\n"
            '{"name": "shop", "arguments": {"item": "x"}}\n</tool_call><eot>'
            'tool:shop/{"price": 3, "item": "x"}<eot>M^?',
        ),
        SAME,
    ],
    "tool loop: unknown tool": [
        _cache(
            "?",
            _LOOP + '{"name": "nothing", "arguments": {}}\n</tool_call><eot>'
            "tool:nothing/\"Error: There is no tool 'nothing'. The tools are: add, say,"
            ' look, fail."<eot>M^?',
        ),
        375,
    ],
    "tool loop: arguments that do not fit": [
        _cache(
            "?",
            _LOOP + '{"name": "add", "arguments": {"z": 1}}\n</tool_call><eot>'
            "tool:add/\"Error: add has no parameter 'z'. Its parameters are a, b.\""
            "<eot>M^?",
        ),
        343,
    ],
    "tool loop: one of two refused": [
        _cache(
            "?",
            _LOOP + '{"name": "add", "arguments": {"a": 1}}\n</tool_call><tool_call>\n'
            '{"name": "say", "arguments": {"text": "x\\"y\\nz"}}\n</tool_call><eot>'
            'tool:add/"Error: the call was not approved."<eot>'
            'tool:say/"X\\"Y\\nZ"<eot>M$?',
        ),
        481,
    ],
    "tool loop: python tools without notes": [
        _cache("?", f"<bos>tools:{_STUB}\n,;user:a<eot>M~?"),
        229,
    ],
    "template: a tool's schema": [
        '{"type": "function", "function": {"name": "add", "description": "Add two'
        ' numbers.", "parameters": {"type": "object", "properties": {"a": {"type":'
        ' "integer"}, "b": {"type": "integer", "default": 2}}, "required": ["a"]}}}'
        "|a B"
    ],
    "affixes: gemma3, tools": [_official("affixes: gemma3n, tools")],
    "affixes: gemma3, answered tools": [_official("affixes: gemma3n, answered tools")],
    "affixes: gemma3n, tools without notes": [
        f"<start_of_turn>system\n{_STUB}\n\n<end_of_turn>\n"
        "<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\n"
    ],
    "affixes: function_gemma, a result of text": [
        "<start_of_turn>user\nx<end_of_turn>\n<start_of_turn>model\n"
        "<start_function_call>call:say{text:<escape>z<escape>}<end_function_call>"
        "<start_function_response>response:add{value:<escape>x<escape>}"
        "<end_function_response>y<end_of_turn>\n"
        "<start_of_turn>user\na<end_of_turn>\n<start_of_turn>model\n"
    ],
}

# Templates are read as transformers reads them: by jinja2, text as a string where the
# template wants one, the tokens by their spelling. A template that fails says so.
_TEMPLATES: dict[str, list[Any]] = {
    "template: true": ["True|a B"],
    "template: none": ["None|a B"],
    "template: a dict": ["{'k': 1, 'l': 'm'}|a B"],
    "template: a list": ["['x', 'y']|a B"],
    "template: attribute of undefined": [ERROR],
    "template: tests": ["True,True,True|a B"],
    "template: is none": ["y|a B"],
    "template: tojson with indent": ['{\n  "a": 1\n}|a B'],
    "template: loops": ["0False1False2True|a B"],
    "template: break": ["01|a B"],
    "template: starts and ends": ["True,False|a B"],
    "template: upper of a string": ["X|a B"],
    "template: get": ["1|a B"],
    "template: keys": ["k|a B"],
    "template: raised": [ERROR],
    "template: broken": [ERROR],
    "template: tokens": ["<bos>,<eot>|a B"],
    "template: no tools": ["False|a B"],
    "template: text by plus": [_cache("", "<bos>user:a<eot>M~")],
    "template: text by tilde": [_cache("", "<bos>user:a<eot>M~")],
}

DIFFERENT = {
    **_TURN_ENDS,
    **_ONE_BOS,
    **_ROLES,
    **_WORKS,
    **_CHANNELS,
    **_FORMATS,
    **_CALLS,
    **_TOOLS,
    **_TEMPLATES,
}
