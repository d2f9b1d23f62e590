"""The members of .task files, MediaPipe's zip container, stored or deflated.

The archive is read by its own rules here: each range is checked against the file before
it is used, and nothing is read or unfolded to learn it.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from pathlib import Path

from litert_lm.bundle.bundle import Bundle
from litert_lm.bundle.sections import Deflated, Section, SectionType, Value
from litert_lm.errors import ModelFileError, UnsupportedModelError

__all__ = ["MAGIC", "read_task"]

MAGIC = b"PK\x03\x04"

_STORED, _DEFLATED = 0, 8
_ENCRYPTED = 1
_UTF8 = 1 << 11
_MAX_MEMBERS = 256
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF

_END = struct.Struct("<4s4HIIH")
_END_MAGIC = b"PK\x05\x06"
_END64_LOCATOR = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQHHII4Q")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")

_TYPES = {
    "TOKENIZER_MODEL": SectionType.SENTENCEPIECE_TOKENIZER,
    "METADATA": SectionType.LLM_METADATA,
    "EXECUTOR_METADATA": SectionType.EXECUTOR_METADATA,
    "EMBEDDING_METADATA": SectionType.EMBEDDING_METADATA,
}
_MODEL = "TF_LITE_"


@dataclass(frozen=True)
class _Member:
    """What the archive's directory says about one member."""

    name: str
    flags: int
    method: int
    crc: int
    stored: int
    size: int
    offset: int


def read_task(path: Path, data: memoryview) -> Bundle:
    """A bundle over the bytes of a .task file.

    Raises ModelFileError for a damaged archive or a member outside it, and
    UnsupportedModelError for encryption and methods other than DEFLATE.
    """
    begin, members = _directory(path, data)
    sections: list[Section] = []
    names: set[str] = set()
    for member in members:
        if member.name.endswith("/"):
            continue
        if member.name in names:
            raise _damaged(path, f"member {member.name!r} comes twice")
        names.add(member.name)
        sections.append(_section(path, data, len(sections), member, begin))
    ranges = sorted((s.begin, s.end) for s in sections)
    for (_, end), (start, _) in itertools.pairwise(ranges):
        if start < end:
            raise _damaged(path, f"members overlap at byte {start}")
    return Bundle(path, data, sections, format="task")


def _section(
    path: Path, data: memoryview, index: int, member: _Member, limit: int
) -> Section:
    name = member.name
    if member.flags & _ENCRYPTED or member.method not in (_STORED, _DEFLATED):
        raise UnsupportedModelError(
            f"member {name!r} of {path} is encrypted or packed by method "
            f"{member.method}; pack it again, stored or deflated."
        )
    if member.method == _STORED and member.stored != member.size:
        raise _damaged(path, f"member {name!r} has two sizes")
    if member.offset > limit - _LOCAL.size:
        raise _damaged(path, f"member {name!r} begins outside the archive")
    local = _LOCAL.unpack_from(data, member.offset)
    begin = member.offset + _LOCAL.size + local[9] + local[10]
    if local[0] != MAGIC or begin + member.stored > limit:
        raise _damaged(path, f"member {name!r} lies outside the archive")
    packed = member.method == _DEFLATED
    kind, items = _meaning(name)
    return Section(
        index,
        kind,
        begin,
        begin + member.stored,
        items,
        Deflated(member.size, member.crc) if packed else None,
    )


def _meaning(name: str) -> tuple[SectionType, dict[str, Value]]:
    if name.startswith(_MODEL):
        return SectionType.TFLITE_MODEL, {"name": name, "model_type": name.lower()}
    return _TYPES.get(name, SectionType.GENERIC_BINARY), {"name": name}


def _directory(path: Path, data: memoryview) -> tuple[int, list[_Member]]:
    """Where the archive's directory begins, and its entries."""
    count, size, begin, limit = _end_record(path, data)
    if count > _MAX_MEMBERS:
        raise _damaged(path, f"{count} members are more than a bundle has")
    if begin + size > limit:
        raise _damaged(path, "its directory lies outside the file")
    members = []
    position = begin
    for _ in range(count):
        if position > begin + size - _ENTRY.size:
            raise _damaged(path, "its directory is cut")
        member, position = _entry(path, data, position, begin + size)
        members.append(member)
    return begin, members


def _end_record(path: Path, data: memoryview) -> tuple[int, int, int, int]:
    """Number of members, size and offset of the directory, and where it must end."""
    tail = max(0, len(data) - _END.size - _FULL16)
    found = bytes(data[tail:]).rfind(_END_MAGIC)
    if found < 0 or tail + found > len(data) - _END.size:
        raise _damaged(path, "the end of the zip archive is missing")
    position = tail + found
    _, _, _, _, count, size, begin, _ = _END.unpack_from(data, position)
    if count != _FULL16 and size != _FULL32 and begin != _FULL32:
        return count, size, begin, position
    locator = position - _END64_LOCATOR.size
    magic, _, record, _ = (
        _END64_LOCATOR.unpack_from(data, locator) if locator >= 0 else (b"", 0, 0, 0)
    )
    if magic != b"PK\x06\x07" or record > locator - _END64.size:
        raise _damaged(path, "its 64-bit end record is missing")
    magic, *_, count, size, begin = _END64.unpack_from(data, record)
    if magic != b"PK\x06\x06":
        raise _damaged(path, "its 64-bit end record is missing")
    return count, size, begin, record


def _entry(
    path: Path, data: memoryview, position: int, limit: int
) -> tuple[_Member, int]:
    """One entry of the directory, and the position after it."""
    fields = _ENTRY.unpack_from(data, position)
    magic, _, _, flags, method, _, _, crc, stored, size = fields[:10]
    name_size, extra_size, comment_size = fields[10:13]
    offset = fields[16]
    name_at = position + _ENTRY.size
    extra_at = name_at + name_size
    after = extra_at + extra_size + comment_size
    if magic != b"PK\x01\x02" or after > limit:
        raise _damaged(path, "its directory is cut")
    encoding = "utf-8" if flags & _UTF8 else "cp437"
    name = bytes(data[name_at:extra_at]).decode(encoding, "replace")
    extra = bytes(data[extra_at : extra_at + extra_size])
    size, stored, offset = _wide(extra, size, stored, offset)
    return _Member(name, flags, method, crc, stored, size, offset), after


def _wide(extra: bytes, *values: int) -> list[int]:
    """`values`, each that is all ones replaced from the zip64 field of `extra`."""
    wide: list[int] = []
    position = 0
    while position + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, position)
        body = extra[position + 4 : position + 4 + size]
        if kind == 1:
            wide = list(struct.unpack_from(f"<{len(body) // 8}Q", body))
            break
        position += 4 + size
    return [wide.pop(0) if v == _FULL32 and wide else v for v in values]


def _damaged(path: Path, problem: str) -> ModelFileError:
    return ModelFileError(f"{path} is damaged: {problem}; get the file again.")
