"""Renders a conversation with the Jinja chat template that a model brings along."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from jinja2 import Template
from jinja2.exceptions import TemplateError, TemplateSyntaxError

from litert_lm.chat.sandbox.budget import check_given, limited
from litert_lm.chat.sandbox.environment import TemplateEnvironment
from litert_lm.errors import InvalidArgumentError, LiteRtLmError, ModelFileError

__all__ = ["PROBE", "fill", "render"]

PROBE = "7081625394"
"""Text with which templates are tried; changes of case leave it as it is."""

_MAX_SOURCE_CHARS = 512 * 1024


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    add_generation_prompt: bool = True,
    bos_token: str = "",
    eos_token: str = "",
    **context: Any,
) -> str:
    """The prompt for `messages`, in the dialect of Hugging Face's chat templates.

    Some templates take a message's content as a string, others as a list of parts
    ``{"type": "text", "text": ...}``. The template is tried with both once, and text
    is then given in the shape it takes. Work and output are bounded, because a
    template is as little to be trusted as the file it comes in.

    Args:
        template: Jinja source.
        messages: each with "role" and "content".
        add_generation_prompt: end with the opening of the model's turn.
        bos_token: text of the variable of that name; empty where a session adds the
            start token itself.
        eos_token: text of the variable of that name.
        context: further variables, such as `tools` or `enable_thinking`.

    Raises:
        InvalidArgumentError: the template refuses this conversation.
        ModelFileError: the template is broken, or does too much.
    """
    variables = context | {
        "add_generation_prompt": add_generation_prompt,
        "bos_token": bos_token,
        "eos_token": eos_token,
        "messages": messages,
    }
    return fill(template, variables)


def fill(template: str, variables: Mapping[str, Any]) -> str:
    """The same for variables of any name, "messages" among them."""
    compiled = _compile(template)
    given = variables.get("messages")
    messages = given if isinstance(given, Sequence) else ()
    check_given(messages)
    shaped = [
        _shaped(message, template) if isinstance(message, Mapping) else message
        for message in messages
    ]
    return _run(compiled, {**variables, "messages": shaped})


class _RefusedByTemplateError(TemplateError):
    """The template called raise_exception."""


@lru_cache(maxsize=8)
def _compile(source: str) -> Template:
    if len(source) > _MAX_SOURCE_CHARS:
        raise ModelFileError(
            f"The chat template has {len(source)} characters; at most"
            f" {_MAX_SOURCE_CHARS} are read."
        )
    functions: dict[str, Any] = {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
    }
    try:
        return TemplateEnvironment(functions).from_string(source)
    except TemplateSyntaxError as error:
        raise ModelFileError(
            f"The chat template is broken in line {error.lineno}: {error.message}"
        ) from error
    except Exception as error:  # a hostile template reaches odd corners of a compiler
        raise ModelFileError(f"The chat template cannot be read: {error}") from error


def _run(template: Template, variables: Mapping[str, Any]) -> str:
    try:
        with limited():
            return template.render(variables)
    except _RefusedByTemplateError as error:
        raise InvalidArgumentError(
            f"The model's chat template refuses this conversation: {error}"
        ) from error
    except Exception as error:  # the template decides which operation fails
        raise ModelFileError(
            f"The model's chat template failed: {error or type(error).__name__}."
            " Try without it (--no-template, apply_prompt_template=False)."
        ) from error


def _raise_exception(message: object = "") -> NoReturn:
    raise _RefusedByTemplateError(str(message)[:500])


def _strftime_now(layout: str) -> str:
    """The current local time; a width such as ``%999999d`` is refused."""
    if len(layout) > 100 or re.search(r"%[-_0^#+]*\d", layout):
        raise TemplateError(f"strftime_now cannot use {layout[:100]!r}")
    return datetime.now().strftime(layout)


def _shaped(message: Mapping[str, Any], template: str) -> Mapping[str, Any]:
    """The message with its text as a string or as parts, as the template takes it."""
    content = message.get("content")
    texts = _texts(content)
    if texts is None:
        return message
    takes_parts = _takes_parts(template)
    if takes_parts and isinstance(content, str):
        return {**message, "content": [{"type": "text", "text": content}]}
    if takes_parts is False and not isinstance(content, str):
        return {**message, "content": "".join(texts)}
    return message


def _texts(content: Any) -> list[str] | None:
    """The texts of a content that is text only, else None."""
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list) or not content:
        return None
    texts = [part.get("text") for part in content if isinstance(part, Mapping)]
    only = [text for text in texts if isinstance(text, str)]
    return only if len(only) == len(content) else None


@lru_cache(maxsize=8)
def _takes_parts(source: str) -> bool | None:
    """Whether the template shows text only when it is given as parts; None if never."""
    for takes_parts, content in (
        (False, PROBE),
        (True, [{"type": "text", "text": PROBE}]),
    ):
        message = {"role": "user", "content": content}
        try:
            shown = _run(_compile(source), {"messages": [message]})
        except LiteRtLmError:
            continue
        if PROBE in shown and "'text'" not in shown and '"text"' not in shown:
            return takes_parts
    return None
