"""The header of .litertlm files: format version, properties and section ranges."""

from __future__ import annotations

import struct
from pathlib import Path

from litert_lm.bundle.bundle import Bundle
from litert_lm.bundle.flatbuffer import Table
from litert_lm.bundle.sections import Section, Value
from litert_lm.errors import ModelFileError, UnsupportedModelError

__all__ = ["HEADER_BEGIN", "MAGIC", "read_litertlm"]

MAGIC = b"LITERTLM"
MAJOR_VERSION = 1
HEADER_BEGIN = 32

_MAX_HEADER = 1 << 20
_MAX_SECTIONS = 1024
_MAX_ITEMS = 256
_TEXT = 9
_NUMBERS = dict(zip((1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""Types of the header's value union, as characters of `struct`."""

_TEXT_ITEMS = ("model_type", "backend_constraint", "prefer_activation_type")


def read_litertlm(path: Path, data: memoryview) -> Bundle:
    """A bundle over the bytes of a .litertlm file; only its header is looked at.

    Raises ModelFileError for a damaged header or a section outside the file, and
    UnsupportedModelError for a format version this reader does not know.
    """
    what = f"header of {path}"
    if len(data) < HEADER_BEGIN:
        raise ModelFileError(
            f"{path} ends after {len(data)} bytes, inside its header; get it again."
        )
    major, minor, patch, header_end = struct.unpack_from("<III4xQ", data, len(MAGIC))
    if major != MAJOR_VERSION:
        raise UnsupportedModelError(
            f"{path} has format version {major}.{minor}.{patch}; this release reads "
            f"{MAJOR_VERSION}.x, so update it or get the model in that format."
        )
    if not HEADER_BEGIN < header_end <= min(len(data), _MAX_HEADER):
        raise ModelFileError(
            f"{what} ends at byte {header_end} of {len(data)}, which cannot be; "
            "get the file again."
        )
    root = Table.root(data[HEADER_BEGIN:header_end], None, what)
    system = root.table(0)
    entries = _items(system, 0, what) if system else {}
    sections = _sections(root, int(header_end), len(data), path)
    return Bundle(
        path,
        data,
        sections,
        format="litertlm",
        version=(major, minor, patch),
        system_metadata=entries,
    )


def _sections(root: Table, header_end: int, size: int, path: Path) -> list[Section]:
    found = []
    table = root.table(1)
    for index, entry in enumerate(
        _tables(table, 0, _MAX_SECTIONS, path) if table else []
    ):
        section = Section(
            index,
            entry.scalar(3, "B", 0),
            entry.scalar(1, "Q", 0),
            entry.scalar(2, "Q", 0),
            _items(entry, 0, f"section {index} of {path}"),
        )
        if not header_end <= section.begin <= section.end <= size:
            raise ModelFileError(
                f"{section} of {path} lies at bytes {section.begin} to {section.end}, "
                f"but sections lie between {header_end} and {size}; the file is cut "
                "or damaged, get it again."
            )
        found.append(section)
    return found


def _items(table: Table, field: int, what: str) -> dict[str, Value]:
    """A vector of key-value pairs; ModelFileError for a key that comes twice."""
    items: dict[str, Value] = {}
    seen: set[str] = set()
    for pair in _tables(table, field, _MAX_ITEMS, what):
        key = pair.string(0)
        if key is None or key.lower() in seen:
            raise ModelFileError(
                f"{what} is damaged: property {key!r} has no name or comes twice; "
                "get the file again."
            )
        seen.add(key.lower())
        items[key] = _value(pair)
        if key.lower() in _TEXT_ITEMS and not isinstance(items[key], str):
            raise ModelFileError(
                f"{what} is damaged: {key} is {items[key]!r}, not text; "
                "get the file again."
            )
    return items


def _value(pair: Table) -> Value:
    """The value of a pair, None for a type that is newer than this reader."""
    kind, holder = pair.union(1)
    if holder is None:
        return None
    if kind == _TEXT:
        return holder.string(0) or ""
    code = _NUMBERS.get(kind)
    if code is None:
        return None
    return holder.scalar(0, code, False if code == "?" else 0)


def _tables(table: Table, field: int, limit: int, what: object) -> list[Table]:
    """A vector of tables, of which a sound file has at most `limit`."""
    _, count = table.vector_range(field, 4)
    if count > limit:
        raise ModelFileError(
            f"{what} is damaged: {count} entries, more than {limit}; get the file "
            "again."
        )
    return table.tables(field)
