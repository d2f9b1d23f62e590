"""Chat templates for bundles that bring prompt affixes and no template of their own.

What they print is what the official runtime prints for the same kind of model; a
message's role may be spelled "assistant" or "model" in all of them.
"""

from __future__ import annotations

import json

from litert_lm.bundle.metadata import Affixes, ModelConfig

__all__ = ["chat_template"]

_TEXT = """\
{%- macro text(message) -%}
{%- if message.content is string -%}{{ message.content }}
{%- else -%}
{%- for part in message.content or [] -%}
{%- if part.type == "text" -%}{{ part.text }}{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
"""

_ALTERNATION = """\
{%- if (message.role == "user") != (loop.index0 % 2 == 0) -%}
{{- raise_exception("the roles user and assistant must take turns") -}}
{%- endif -%}
"""

_GEMMA3 = (
    _TEXT
    + """\
{%- set first = messages[0] if messages and messages[0].role == "system" else none -%}
{%- set start = 1 if first else 0 -%}
{%- for message in messages[start:] -%}
"""
    + _ALTERNATION
    + """\
{%- set role = "user" if message.role == "user" else "model" -%}
{{- "<start_of_turn>" ~ role ~ "\\n" -}}
{%- if loop.first and first -%}{{- text(first) ~ "\\n\\n" -}}{%- endif -%}
{{- text(message) | trim ~ "<end_of_turn>\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<start_of_turn>model\\n" -}}{%- endif -%}
"""
)

_GEMMA3N = (
    _TEXT
    + """\
{%- macro literal(value) -%}
{%- if value is string -%}{{ value | tojson }}
{%- elif value is boolean -%}{{ "True" if value else "False" }}
{%- elif value is none -%}None
{%- elif value is mapping -%}
{{- "{" -}}
{%- for key, item in value.items() -%}
{{- key | tojson ~ ": " ~ literal(item) ~ (", " if not loop.last else "") -}}
{%- endfor -%}
{{- "}" -}}
{%- elif value is iterable -%}
{{- "[" -}}
{%- for item in value -%}
{{- literal(item) ~ (", " if not loop.last else "") -}}
{%- endfor -%}
{{- "]" -}}
{%- else -%}{{ value }}
{%- endif -%}
{%- endmacro -%}
{%- set first = messages[0] if messages and messages[0].role == "system" else none -%}
{%- set start = 1 if first else 0 -%}
{%- if tools -%}
{{- "<start_of_turn>system\\n" -}}
{%- for tool in tools -%}{{- tool ~ "\\n" -}}{%- endfor -%}
{{- "<end_of_turn>\\n" -}}
{%- endif -%}
{%- for message in messages[start:] -%}
{%- set role = "model" if message.role in ("assistant", "model") else "user" -%}
{{- "<start_of_turn>" ~ role ~ "\\n" -}}
{%- if loop.first and first -%}{{- text(first) ~ "\\n\\n" -}}{%- endif -%}
{%- if message.role == "tool" -%}{{- "```tool_outputs\\n" -}}{%- endif -%}
{{- text(message) -}}
{%- for part in message.content if part is mapping and part.type == "tool_response" -%}
{{- literal(part.response) -}}
{%- endfor -%}
{%- if message.role == "tool" -%}{{- "\\n```" -}}{%- endif -%}
{%- for call in message.tool_calls or [] -%}
{%- if loop.first -%}{{- "```tool_code\\n" -}}{%- endif -%}
{{- call.function.name ~ "(" -}}
{%- for name, value in call.function.arguments.items() -%}
{{- name ~ "=" ~ literal(value) ~ (", " if not loop.last else "") -}}
{%- endfor -%}
{{- ")\\n" -}}
{%- if loop.last -%}{{- "```" -}}{%- endif -%}
{%- endfor -%}
{{- "<end_of_turn>\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "<start_of_turn>model\\n" -}}{%- endif -%}
"""
)

# Gemma 3 knows no tools. What they said in a history is printed as Gemma 3n has it.
_GEMMA3_AND_RESULTS = (
    """\
{%- set state = namespace(has_tools=false) -%}
{%- for message in messages if message.role == "tool" or message.tool_calls -%}
{%- set state.has_tools = true -%}
{%- endfor -%}
{%- if state.has_tools -%}
"""
    + _GEMMA3N
    + """\
{%- else -%}
"""
    + _GEMMA3
    + """\
{%- endif -%}
"""
)

_FUNCTION_GEMMA = (
    _TEXT
    + """\
{%- macro value(item) -%}
{%- if item is string -%}{{ "<escape>" ~ item ~ "<escape>" }}
{%- elif item is boolean -%}{{ "true" if item else "false" }}
{%- elif item is none -%}null
{%- elif item is mapping -%}
{{- "{" -}}
{%- for key, entry in item.items() -%}
{{- key ~ ":" ~ value(entry) ~ ("," if not loop.last else "") -}}
{%- endfor -%}
{{- "}" -}}
{%- elif item is iterable -%}
{{- "[" -}}
{%- for entry in item -%}{{- value(entry) ~ ("," if not loop.last else "") -}}
{%- endfor -%}
{{- "]" -}}
{%- else -%}{{ item }}
{%- endif -%}
{%- endmacro -%}
{%- set heads = ("system", "developer") -%}
{%- set first = messages[0] if messages and messages[0].role in heads else none -%}
{%- set start = 1 if first else 0 -%}
{%- if first or tools -%}
{{- "<start_of_turn>developer\\n" -}}
{%- if first -%}{{- text(first) ~ ("\\n\\n" if tools else "") -}}{%- endif -%}
{%- for tool in tools or [] -%}
{{- "<start_function_declaration>" ~ tool ~ "<end_function_declaration>" -}}
{%- endfor -%}
{{- "<end_of_turn>\\n" -}}
{%- endif -%}
{%- set state = namespace(in_reply=false) -%}
{%- for message in messages[start:] -%}
{%- if message.role == "tool" -%}
{%- for part in message.content if part is mapping -%}
{%- if part.type == "tool_response" -%}
{%- set body = part.response if part.response is mapping -%}
{%- set body = body if body is mapping else {"value": part.response} -%}
{{- "<start_function_response>response:" ~ part.name ~ value(body) -}}
{{- "<end_function_response>" -}}
{%- else -%}
{{- "<start_function_response>response:" ~ part.text -}}
{{- "<end_function_response>" -}}
{%- endif -%}
{%- endfor -%}
{%- set state.in_reply = true -%}
{%- else -%}
{%- set is_model = message.role in ("assistant", "model") -%}
{%- if state.in_reply and not is_model -%}{{- "<end_of_turn>\\n" -}}{%- endif -%}
{%- if not (state.in_reply and is_model) -%}
{{- "<start_of_turn>" ~ ("model" if is_model else message.role) ~ "\\n" -}}
{%- endif -%}
{{- text(message) -}}
{%- for call in message.tool_calls or [] -%}
{{- "<start_function_call>call:" ~ call.function.name ~ "{" -}}
{%- for name, entry in call.function.arguments.items() -%}
{{- name ~ ":" ~ value(entry) ~ ("," if not loop.last else "") -}}
{%- endfor -%}
{{- "}<end_function_call>" -}}
{%- endfor -%}
{%- set state.in_reply = message.tool_calls | length > 0 -%}
{%- if not state.in_reply -%}{{- "<end_of_turn>\\n" -}}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt and not state.in_reply -%}
{{- "<start_of_turn>model\\n" -}}
{%- endif -%}
"""
)

_FIXED = {
    "gemma3": _GEMMA3_AND_RESULTS,
    "gemma3n": _GEMMA3N,
    "function_gemma": _FUNCTION_GEMMA,
}


def chat_template(
    config: ModelConfig, given: str | None = None, *, has_tools: bool = False
) -> str:
    """The Jinja source that conversations with a model are rendered with.

    Args:
        config: facts of the bundle.
        given: the caller's template, which wins over the bundle's.
        has_tools: the model may call tools. The template of Gemma 3 knows none, that of
            Gemma 3n is the same with tools.
    """
    if given is not None:
        return given
    if config.jinja_template:
        return config.jinja_template
    if config.model_type == "gemma3" and has_tools:
        return _GEMMA3N
    return _FIXED.get(config.model_type) or _affix_template(config)


def _affix_template(config: ModelConfig) -> str:
    """Prefix, text and suffix of each message's role; other roles print nothing."""
    roles = {"user": config.user, "system": config.system, "assistant": config.model}
    sides = {role: _sides(affixes) for role, affixes in roles.items()}
    return (
        _TEXT
        + f"{{%- set affixes = {json.dumps(sides)} -%}}"
        + """\
{%- for message in messages -%}
{%- set role = "assistant" if message.role == "model" else message.role -%}
{%- if role in affixes and message.role != "tool" -%}
{{- affixes[role][0] ~ text(message) ~ affixes[role][1] -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- affixes["assistant"][0] -}}{%- endif -%}
"""
    )


def _sides(affixes: Affixes) -> list[str]:
    return [affixes.prefix, affixes.suffix]
