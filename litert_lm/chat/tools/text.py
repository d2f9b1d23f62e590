"""Tools, arguments and results as text, for templates that leave the dialect to us.

The layout is that of the official runtime for Gemma 3 and FunctionGemma. It writes
strings of Python without escapes; here they have them, so that a call reads back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from litert_lm.chat.parsers.dialects import FC, PYTHON, Dialect
from litert_lm.errors import InvalidArgumentError, shown

__all__ = ["argument_texts", "declaration", "result_text"]

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_TYPES |= {"object": "dict", "null": "None"}
_PLAIN_KEY = re.compile(r"[\w.-]+")
_MAX_DEPTH = 64


def declaration(tool: Mapping[str, Any], dialect: Dialect) -> str:
    """A tool as the stub of a Python function, or as ``declaration:name{...}``."""
    body = tool.get("function", tool)
    if dialect.syntax == FC:
        rest = {key: value for key, value in body.items() if key != "name"}
        return f"declaration:{body.get('name')}{_fc(_upper_types(rest), dialect)}"
    return _stub(body)


def argument_texts(arguments: Mapping[str, Any], dialect: Dialect) -> dict[str, str]:
    """The arguments of a call, each as text of the dialect."""
    return {name: _value(value, dialect) for name, value in arguments.items()}


def result_text(name: str, response: Any, dialect: Dialect) -> str:
    """What a tool returned: a Python value, or ``name{...}``."""
    if dialect.syntax != FC:
        return _value(response, dialect)
    body = response if isinstance(response, Mapping) else {"value": response}
    return f"{name}{_fc(body, dialect)}"


def _value(value: Any, dialect: Dialect) -> str:
    if dialect.syntax == FC:
        return _fc(value, dialect)
    if dialect.syntax == PYTHON:
        return _python(value)
    return json.dumps(value, ensure_ascii=False)


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise InvalidArgumentError(
            f"A value for a tool is nested more than {_MAX_DEPTH} deep. Give a flatter"
            " one."
        )


def _scalar(value: Any) -> str:
    if isinstance(value, int | float):
        return json.dumps(value)
    raise InvalidArgumentError(
        f"A tool cannot be told the value {shown(value)}. Give values of JSON's types."
    )


def _python(value: Any, depth: int = 0) -> str:
    _check_depth(depth)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, Mapping):
        entries = (
            f"{json.dumps(str(key), ensure_ascii=False)}: {_python(entry, depth + 1)}"
            for key, entry in value.items()
        )
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_python(entry, depth + 1) for entry in value)}]"
    return _scalar(value)


def _fc(value: Any, dialect: Dialect, depth: int = 0) -> str:
    """A value of the fc syntax, which has no escapes: quotes inside a string go."""
    _check_depth(depth)
    if isinstance(value, str):
        inside = value.replace(dialect.close_quote, "").replace(dialect.open_quote, "")
        return f"{dialect.open_quote}{inside}{dialect.close_quote}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, Mapping):
        entries = (
            f"{_fc_key(str(key), dialect)}:{_fc(entry, dialect, depth + 1)}"
            for key, entry in value.items()
        )
        return f"{{{','.join(entries)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(_fc(entry, dialect, depth + 1) for entry in value)}]"
    return _scalar(value)


def _fc_key(key: str, dialect: Dialect) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else _fc(key, dialect)


def _upper_types(schema: Any, depth: int = 0) -> Any:
    """The schema with the names of its types in capitals."""
    _check_depth(depth)
    if isinstance(schema, list | tuple):
        return [_upper_types(entry, depth + 1) for entry in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: value.upper()
        if key == "type" and isinstance(value, str)
        else _upper_types(value, depth + 1)
        for key, value in schema.items()
    }


def _stub(body: Mapping[str, Any]) -> str:
    schema = body.get("parameters")
    head = f"def {body.get('name')}("
    if isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping):
        head += f"\n{_stub_parameters(schema)}\n"
    head += ") -> dict:\n"
    description = body.get("description")
    if not description:
        return head
    return f'{head}  """{description}\n{_stub_notes(schema)}  """\n'


def _stub_parameters(schema: Mapping[str, Any]) -> str:
    required = schema.get("required") or ()
    lines = []
    for name, inner in schema["properties"].items():
        default = "" if name in required else " | None = None"
        lines.append(f"    {name}: {_stub_type(inner)}{default},")
    return "\n".join(lines)


def _stub_type(schema: Any, depth: int = 0) -> str:
    _check_depth(depth)
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        return " | ".join(_TYPES.get(str(entry), "Any") for entry in kind) or "Any"
    if kind == "array":
        items = schema.get("items")
        inner = _stub_type(items, depth + 1) if items else "Any"
        return f"list[{inner}]"
    return _TYPES.get(str(kind).lower(), "Any")


def _stub_notes(schema: Any) -> str:
    """The descriptions of parameters; a parameter without one is left out."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return ""
    lines = [
        f"    {name}: {inner['description']}\n"
        for name, inner in properties.items()
        if isinstance(inner, Mapping) and inner.get("description")
    ]
    return "".join(["\n  Args:\n", *lines])
