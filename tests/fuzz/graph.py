"""Damage aimed at the fields of a TFLite graph.

A patch is (position, bytes) inside the model's bytes; sizes never change.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

from litert_lm.bundle.flatbuffer import Table
from litert_lm.bundle.tflite import read_tflite

Patch = tuple[int, bytes]

# Field kinds: a struct character for a scalar, "[x]" for a vector of scalars, "*" for
# an offset to a table or text.
FIELDS: dict[str, dict[int, str]] = {
    "model": {0: "I", 1: "*", 2: "*", 4: "*", 7: "*"},
    "code": {0: "b", 1: "*", 2: "i", 3: "i"},
    "graph": {1: "[i]", 2: "[i]", 0: "*", 3: "*"},
    "tensor": {0: "[i]", 1: "b", 2: "I", 4: "*", 5: "b", 6: "*", 7: "[i]", 8: "b"},
    "quantization": {2: "[f]", 3: "[q]", 4: "B", 5: "*", 6: "i"},
    "blocks": {0: "i", 1: "i", 2: "i"},
    "operator": {0: "I", 1: "[i]", 2: "[i]", 3: "B", 4: "*", 11: "B", 12: "*"},
    "buffer": {0: "[B]", 1: "Q", 2: "Q"},
    "signature": {0: "*", 1: "*", 2: "*", 4: "I"},
    "map": {0: "*", 1: "I"},
    "metadata": {0: "*", 1: "I"},
}
WEIGHTS = {"operator": 8, "tensor": 8, "quantization": 2, "signature": 2, "map": 2}
WEIGHTS |= {"graph": 2, "code": 2, "options": 4, "constant": 4, "input": 6, "type": 2}
WEIGHTS |= {"operation": 2}
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 127, 255, 1 << 15, 1 << 20, 1 << 30)
NUMBERS += (-1, -2, -3, -127, (1 << 31) - 1, -(1 << 31), 1 << 40, (1 << 63) - 1)


@dataclass(frozen=True)
class Damage:
    """What was changed, in words, and the bytes to write."""

    text: str
    patches: tuple[Patch, ...]


class GraphDamage:
    """Draws damage for one sound model."""

    def __init__(self, data: memoryview, chance: random.Random) -> None:
        self._data = data
        self._model = read_tflite(data, "model")
        self._chance = chance

    def draw(self) -> Damage:
        """One or two changed fields."""
        parts: list[Damage] = []
        while not parts or self._chance.random() < 0.2:
            part = self._draw_one()
            if part is not None:
                parts.append(part)
        text = "; ".join(part.text for part in parts)
        return Damage(text, tuple(patch for part in parts for patch in part.patches))

    def _draw_one(self) -> Damage | None:
        kinds = [
            *FIELDS,
            "options",
            "constant",
            "input",
            "type",
            "operation",
            "attributes",
        ]
        weights = [WEIGHTS.get(kind, 1) for kind in kinds]
        kind = self._chance.choices(kinds, weights)[0]
        aimed = {
            "constant": self._constant,
            "input": self._input,
            "type": self._type,
            "operation": self._operation,
            "attributes": self._attributes,
        }
        if kind in aimed:
            return aimed[kind]()
        table = self._table("operator" if kind == "options" else kind)
        if table is None:
            return None
        if kind == "options":
            return self._options(table)
        field, code = self._chance.choice(list(FIELDS[kind].items()))
        return self._field(f"{kind}.{field}", table, field, code)

    def _table(self, kind: str) -> Table | None:
        model, chance = self._model, self._chance
        if kind == "model":
            return model.root
        if kind in ("operator", "tensor"):
            is_operator = kind == "operator"
            columns = model.operator_columns if is_operator else model.tensor_columns
            return model.table(int(chance.choice(columns.column.positions)))
        if kind in ("quantization", "blocks"):
            return self._quantization(is_blocked=kind == "blocks")
        if kind == "map":
            signature = self._table("signature")
            assert signature is not None
            return chance.choice(signature.tables(chance.choice((0, 1))) or [None])
        fields = {"code": 1, "graph": 2, "buffer": 4, "metadata": 6, "signature": 7}
        return chance.choice(model.root.tables(fields[kind]) or [None])

    def _quantization(self, is_blocked: bool) -> Table | None:
        """How some quantised tensor is quantised; its blocks' own table."""
        for _ in range(200):
            tensor = self._table("tensor")
            found = tensor.table(4) if tensor is not None else None
            if found is not None and found.has(5 if is_blocked else 2):
                return found.table(5) if is_blocked else found
        return None

    def _field(self, text: str, table: Table, field: int, code: str) -> Damage | None:
        at = table.field_position(field)
        if not at:
            return None
        if self._chance.random() < 0.05:
            (back,) = struct.unpack_from("<i", self._data, table.position)
            slot = table.position - back + 4 + 2 * field
            return Damage(f"{text} dropped", ((slot, b"\0\0"),))
        if code == "*":
            return self._number(f"{text} offset", at, "I")
        if not code.startswith("["):
            return self._number(text, at, code)
        size = struct.calcsize("<" + code[1])
        first, count = table.vector_range(field, size)
        if not count or self._chance.random() < 0.25:
            return self._number(f"{text} length", first - 4, "I", count)
        which = self._chance.randrange(count)
        return self._number(f"{text}[{which}]", first + size * which, code[1])

    def _options(self, operator: Table) -> Damage | None:
        field = self._chance.choice((4, 12))
        options = operator.table(field)
        if options is None:
            return None
        number = self._chance.randrange(6)
        at = options.field_position(number)
        code = self._chance.choice("bii")
        if not at or at + struct.calcsize(code) > len(self._data):
            return None
        kind = operator.scalar(field - 1, "B", 0)
        return self._number(f"options {kind}.{number}", at, code)

    def _constant(self) -> Damage | None:
        """An element of a small int32 constant: shapes, axes, positions."""
        model, chance = self._model, self._chance
        for _ in range(100):
            graph = chance.choice(model.subgraphs)
            if not graph.tensors:
                continue
            tensor = chance.choice(graph.tensors)
            data = model.constant(tensor)
            if data is None or tensor.type_code != 2 or len(data) > 64:
                continue
            at = int(model.buffers.first[tensor.buffer])
            which = chance.randrange(max(1, len(data) // 4))
            return self._number(f"constant {tensor.name}[{which}]", at + 4 * which, "i")
        return None

    def _input(self) -> Damage | None:
        """An operator that takes another tensor, one that is there by then."""
        columns = self._model.operator_columns
        row = self._chance.randrange(len(columns))
        count = int(columns.inputs.counts[row])
        if not count:
            return None
        slot = self._chance.randrange(count)
        at = int(columns.inputs.positions[row]) + 4 * slot
        highest = int(columns.outputs.values[columns.outputs.starts[row]])
        value = self._chance.randrange(max(1, highest))
        text = f"operator {row} input {slot} -> {value}"
        return Damage(text, ((at, struct.pack("<i", value)),))

    def _type(self) -> Damage | None:
        """A tensor with another element type of the schema."""
        table = self._table("tensor")
        assert table is not None
        at = table.field_position(1)
        value = self._chance.randrange(23)
        return Damage(f"type -> {value}", ((at, bytes([value])),)) if at else None

    def _operation(self) -> Damage | None:
        """All operators of one kind do something else."""
        table = self._table("code")
        assert table is not None
        value = self._chance.randrange(210)
        patches = [
            (table.field_position(field), struct.pack("<" + code, number))
            for field, code, number in ((3, "i", value), (0, "b", min(value, 127)))
        ]
        return Damage(f"code -> {value}", tuple(patch for patch in patches if patch[0]))

    def _attributes(self) -> Damage | None:
        """A byte of the attributes of a composite."""
        positions = self._model.operator_columns.options2
        composites = positions[positions != 0]
        if not len(composites):
            return None
        table = self._model.table(int(self._chance.choice(composites)))
        first, count = table.vector_range(2, 1)
        if not count:
            return None
        at = first + self._chance.randrange(count)
        value = self._chance.choice((0, 1, 4, 8, 36, 255, self._chance.randrange(256)))
        return Damage(f"attribute byte at {at} -> {value}", ((at, bytes([value])),))

    def _number(self, text: str, at: int, code: str, old: int = 0) -> Damage:
        chance = self._chance
        size = struct.calcsize("<" + code)
        if code == "f":
            value = chance.choice((0.0, -1.0, float("nan"), float("inf"), 1e-45, 1e38))
            return Damage(f"{text} = {value}", ((at, struct.pack("<f", value)),))
        was = old or int.from_bytes(self._data[at : at + size], "little")
        near = (was - 1, was + 1, was * 2, was // 2, chance.randrange(was + 2))
        value = chance.choice((chance.choice(near), chance.choice(NUMBERS)))
        bits = value % (1 << 8 * size)
        written = bits.to_bytes(size, "little")
        return Damage(f"{text}: {was} -> {value}", ((at, written),))
