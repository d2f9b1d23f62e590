"""What a function's docstring says about it and about its parameters.

Reads the styles of Google ("Args:" and indented names), NumPy ("Parameters" underlined)
and Sphinx (":param name:").
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["Docstring", "parse_docstring"]

_Reader = Callable[[Sequence[str]], dict[str, str]] | None

_MAX_CHARS = 64 * 1024
_PARAMETERS = ("args", "arguments", "parameters", "params", "attributes")
_SECTIONS = (
    *_PARAMETERS,
    "returns",
    "return",
    "yields",
    "raises",
    "examples",
    "example",
    "note",
    "notes",
    "warning",
    "warnings",
    "see also",
    "references",
    "keyword args",
    "keyword arguments",
    "other parameters",
    "todo",
)
_GOOGLE_HEAD = re.compile(r"([A-Za-z][A-Za-z ]*):\s*\Z")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+|\Z)(.*)")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?\Z")
_SPHINX = re.compile(r":(\w+)\s*([^:]*):\s*(.*)")
_SPHINX_PARAMETERS = ("param", "parameter", "arg", "argument", "key", "keyword")


@dataclass
class Docstring:
    """A docstring in parts.

    Attributes:
        summary: what stands before any section, as one line.
        parameters: what is said about each parameter, as one line.
    """

    summary: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(text: str | None) -> Docstring:
    """`text` in parts; of a docstring that is very long only the beginning."""
    if not text:
        return Docstring()
    lines = inspect.cleandoc(text[:_MAX_CHARS]).splitlines()
    said = Docstring()
    end = len(lines)
    for start, body, read in _sections(lines):
        end = min(end, start)
        if read is not None:
            said.parameters.update(read(body))
    said.summary = _joined(lines[:end])
    return said


def _joined(lines: Sequence[str]) -> str:
    return " ".join(" ".join(lines).split())


def _sections(lines: Sequence[str]) -> Iterator[tuple[int, Sequence[str], _Reader]]:
    """First line, body and reader of each section; without reader: no parameters."""
    heads = [(i, *head) for i in range(len(lines)) if (head := _head(lines, i))]
    ends = [i for i, *_ in heads[1:]] + [len(lines)]
    for (i, length, read), end in zip(heads, ends, strict=False):
        yield i, lines[i + length : end], read


def _head(lines: Sequence[str], index: int) -> tuple[int, _Reader] | None:
    """How many lines a section's heading takes, and who reads what follows."""
    line = lines[index]
    if line.startswith(":") and _SPHINX.match(line):
        return 0, _sphinx
    following = lines[index + 1].strip() if index + 1 < len(lines) else ""
    if following and not following.strip("-=") and len(following) > 2:
        named = line.strip().lower()
        if named in _SECTIONS:
            return 2, _numpy if named.endswith(_PARAMETERS) else None
    google = _GOOGLE_HEAD.match(line)
    named = google.group(1).lower() if google else ""
    if named in _SECTIONS:
        return 1, _google if named.endswith(_PARAMETERS) else None
    return None


def _google(body: Sequence[str]) -> dict[str, str]:
    """Names at the section's own indentation, each with what is indented deeper."""
    indent = min((_indent(line) for line in body if line.strip()), default=0)
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in body:
        entry = _GOOGLE_ENTRY.match(line.strip()) if _indent(line) == indent else None
        if entry and indent:
            current = found.setdefault(entry.group(1), [])
            current.append(entry.group(2))
        elif line.strip() and not _indent(line):
            break
        elif current is not None:
            current.append(line)
    return {name: _joined(texts) for name, texts in found.items()}


def _numpy(body: Sequence[str]) -> dict[str, str]:
    """Names at the margin, with their types; what is indented below them."""
    found: dict[str, list[str]] = {}
    current: list[list[str]] = []
    for line in body:
        entry = None if _indent(line) else _NUMPY_ENTRY.match(line)
        if entry:
            names = [name.strip() for name in entry.group(1).split(",")]
            current = [found.setdefault(name, []) for name in names]
        else:
            for texts in current:
                texts.append(line)
    return {name: _joined(texts) for name, texts in found.items()}


def _sphinx(body: Sequence[str]) -> dict[str, str]:
    """One field, ":param type name: text"; what follows belongs to it."""
    found = _SPHINX.match(body[0])
    if found is None or found.group(1).lower() not in _SPHINX_PARAMETERS:
        return {}
    words = found.group(2).split()
    return {words[-1]: _joined([found.group(3), *body[1:]])} if words else {}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
