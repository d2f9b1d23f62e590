"""Kinds of damage to a whole bundle file."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from litert_lm.bundle import Bundle, Section, SectionType, open_bundle
from litert_lm.bundle.flatbuffer import Table
from tests.fuzz.graph import GraphDamage, Patch

PAGE = 4096
METADATA = (SectionType.LLM_METADATA, SectionType.EXECUTOR_METADATA)
TOKENIZERS = (
    SectionType.SENTENCEPIECE_TOKENIZER,
    SectionType.HUGGINGFACE_TOKENIZER,
)
HEADER = 32  # where the FlatBuffer of a .litertlm file begins


@dataclass(frozen=True)
class Case:
    """One damaged file: what was done to it, and how to do it.

    ``patches`` are written over the sound file; ``size`` cuts it, None leaves it whole.
    """

    kind: str
    text: str
    patches: tuple[Patch, ...] = ()
    size: int | None = None


class BundleDamage:
    """Draws damage of any kind for one sound bundle."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self._chance = chance
        self._bundle: Bundle = open_bundle(path)
        self._size = path.stat().st_size
        self.kinds: dict[str, Callable[[], Case]] = {
            "cut": self._cut,
            "header": self._header,
            "metadata": lambda: self._section("metadata", METADATA),
            "tokenizer": lambda: self._section("tokenizer", TOKENIZERS),
            "vocabulary": self._vocabulary,
            "anywhere": lambda: self._flips("anywhere", 0, self._size),
            "page": self._page,
            "graph": self._graph,
        }

    def draw(self, kind: str) -> Case:
        """A case of one of ``kinds``."""
        return self.kinds[kind]()

    def _cut(self) -> Case:
        ends = [end for part in self._bundle.sections for end in (part.begin, part.end)]
        at = self._chance.choice((self._chance.choice(ends), self._below(self._size)))
        size = max(0, min(self._size - 1, at + self._chance.choice((0, 0, -1, 1))))
        return Case("cut", f"cut to {size} bytes", size=size)

    def _header(self) -> Case:
        """The header, or a zip file's directory of members."""
        begin = min(section.begin for section in self._bundle.sections)
        end = max(section.end for section in self._bundle.sections)
        if self._bundle.format == "task" and self._chance.random() < 0.7:
            return self._flips("header", end, self._size)
        return self._flips("header", 0, min(begin, 2048))

    def _section(self, kind: str, types: tuple[SectionType, ...]) -> Case:
        sections = [part for part in self._bundle.sections if part.data_type in types]
        section = self._chance.choice(sections)
        return self._flips(kind, section.begin, section.end)

    def _vocabulary(self) -> Case:
        """Text inside the compressed tokenizer.json, compressed again."""
        kind = SectionType.HUGGINGFACE_TOKENIZER
        found = [part for part in self._bundle.sections if part.data_type == kind]
        if not found or self._bundle.format != "litertlm":
            return self._section("vocabulary", TOKENIZERS)
        begin = found[0].begin
        room = min(
            (part.begin for part in self._bundle.sections if part.begin > begin),
            default=found[0].end,
        )
        text, damaged = self._damaged_text(bytes(self._bundle.read(found[0])[8:]))
        packed = len(damaged).to_bytes(8, "little") + zlib.compress(damaged, 9)
        if begin + len(packed) > room:
            return self._section("vocabulary", TOKENIZERS)
        end = (begin + len(packed)).to_bytes(8, "little")
        return Case("vocabulary", text, ((begin, packed), (self._end_of(begin), end)))

    def _damaged_text(self, packed: bytes) -> tuple[str, bytes]:
        data = bytearray(zlib.decompress(packed))
        numbers = [match.span() for match in re.finditer(rb"\d+", data)]
        words = [match.span() for match in re.finditer(rb'"[^"]*"', data)]
        first, last = self._chance.choice(self._chance.choice((numbers, words)))
        others = (b"-1", b"0", b"99999999999", b"null", b'""', b"[]", b"{}", b'"\xff"')
        new = self._chance.choice((*others, b"", bytes([self._below(256)])))
        text = f"{bytes(data[first:last])!r} -> {new!r} at {first}"
        data[first:last] = new
        return text, bytes(data)

    def _end_of(self, begin: int) -> int:
        """Where the header keeps the end of the section that begins at ``begin``."""
        with self.path.open("rb") as file:
            start = file.read(HEADER)
            header = file.read(int.from_bytes(start[24:32], "little") - HEADER)
        listed = Table.root(header, None, "header").table(1)
        assert listed is not None
        places = {part.scalar(1, "Q", 0): part for part in listed.tables(0)}
        return HEADER + places[begin].field_position(2)

    def _flips(self, kind: str, begin: int, end: int) -> Case:
        """A few bits or bytes, scattered or in a row."""
        count = self._chance.choice((1, 1, 2, 4, 8))
        first = begin + self._below(end - begin)
        together = self._chance.random() < 0.4
        patches: list[Patch] = []
        for number in range(count):
            at = first + number if together else begin + self._below(end - begin)
            if at < end:
                patches.append((at, self._other_byte(at)))
        places = ", ".join(f"{at}={byte[0]}" for at, byte in patches)
        return Case(kind, places, tuple(patches))

    def _other_byte(self, at: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(at)
            was = file.read(1)[0]
        flipped = was ^ (1 << self._below(8))
        return bytes([self._chance.choice((flipped, self._below(256), 0, 255))])

    def _page(self) -> Case:
        at = self._below(max(1, self._size // PAGE)) * PAGE
        length = min(PAGE * self._chance.choice((1, 4)), self._size - at)
        return Case("page", f"{length} zeros at {at}", ((at, bytes(length)),))

    def _graph(self) -> Case:
        section, damage = self._chance.choice(self._graphs)
        drawn = damage.draw()
        patches = tuple((section.begin + at, data) for at, data in drawn.patches)
        return Case("graph", f"section {section.index}: {drawn.text}", patches)

    @cached_property
    def _graphs(self) -> list[tuple[Section, GraphDamage]]:
        models = [self._bundle.models[role] for role in self._bundle.models]
        return [
            (section, GraphDamage(self._bundle.read(section), self._chance))
            for section in models
        ]

    def _below(self, bound: int) -> int:
        return self._chance.randrange(max(1, bound))
