"""Requests that are wrong or hostile, as the bytes that go over the wire."""

from __future__ import annotations

import math
import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor

from litert_lm._proto import vllm_generate_pb2 as schema

__all__ = ["HostileRequests", "Request"]

_NUMBERS = (0.0, -0.0, 1e-30, 0.5, 1.0, -1.0, 2.5, 1e30, -1e30, math.nan, math.inf)
_COUNTS = (0, 1, 2, 3, 20, 63, 64, 127, 128, 1 << 16, (1 << 31) - 1, (1 << 32) - 1)
_SIGNED = (0, 1, -1, 7, -(1 << 31), (1 << 31) - 1)
_LONG = (0, -1, 1 << 62, -(1 << 63), (1 << 63) - 1)
_TEXTS = (
    "",
    " ",
    "\0",
    "abc",
    "<bos>",
    "<eos>",
    "é€\U0001f600",
    "a" * 5000,
    "{",
    "{}",
    "[" * 4000,
    '{"type": "object"}',
    '{"$ref": "http://localhost:1/x"}',
    '{"$ref": "#"}',
    '{"type": "array", "minItems": 1000000000}',
    '{"anyOf": [' + '{"type": "object"},' * 300 + "{}]}",
    "(" * 2000,
    "(a{1000}){1000}",
    "(a*)*b",
    "(?=a)b",
    "\\p{L}{1,999999}",
    "root ::= root root",
    "root ::= ",
    "start: start",
    'start: "a" | start "b"',
    "%import common.WORD\nstart: WORD",
    '{"structures": [], "triggers": []}',
    '{"structures": [{"begin": "a", "schema": {}, "end": ""}], "triggers": [""]}',
    '{"type": "structural_tag", "format": {"type": "nope"}}',
)
_DEPTHS = (1, 20, 90, 200, 3000)


@dataclass(frozen=True)
class Request:
    """One case: a kind of hostility and the request's bytes."""

    kind: str
    data: bytes


class HostileRequests:
    """Draws requests.

    Attributes:
        kinds: what can be drawn, by name.
    """

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.kinds: dict[str, Callable[[], bytes]] = {
            "fields": self._fields,
            "one field": self._one_field,
            "garbage": self._garbage,
            "mutated": self._mutated,
            "cut": self._cut,
            "deep struct": self._deep_struct,
            "deep bytes": self._deep_bytes,
            "large": self._large,
            "unknown fields": self._unknown_fields,
        }

    def draw(self, kind: str) -> Request:
        """A request of one kind."""
        return Request(kind, self.kinds[kind]())

    def _message(self, num_fields: int) -> Any:
        """A sound request with some fields set to odd values."""
        made = schema.GenerateRequest(text="abc")
        made.stopping.max_new_tokens = 5
        for _ in range(num_fields):
            self._set_some_field(made)
        return made

    def _fields(self) -> bytes:
        return self._bytes(self._message(self._chance.randint(2, 12)))

    def _one_field(self) -> bytes:
        return self._bytes(self._message(1))

    def _garbage(self) -> bytes:
        return self._chance.randbytes(self._chance.choice((1, 2, 7, 60, 3000)))

    def _mutated(self) -> bytes:
        data = bytearray(self._fields())
        for _ in range(self._chance.randint(1, 6)):
            data[self._chance.randrange(len(data))] = self._chance.randrange(256)
        return bytes(data)

    def _cut(self) -> bytes:
        data = self._fields()
        return data[: self._chance.randrange(len(data))]

    def _deep_struct(self) -> bytes:
        """kv_transfer_params around itself, as deep as a sender can make it."""
        inner = b"\x1a\x01x"  # a Value that holds a text
        for _ in range(self._chance.choice(_DEPTHS)):
            is_list = self._chance.random() < 0.5
            inner = _field(6, _field(1, inner)) if is_list else _entry(inner)
        struct = _field(1, _field(1, b"k") + _field(2, inner))
        return self._bytes(self._message(0)) + _field(10, _field(3, struct))

    def _deep_bytes(self) -> bytes:
        """Groups that were never closed, and lengths beyond the end."""
        count = self._chance.choice(_DEPTHS)
        return (
            self._chance.choice((b"\x0b", b"\x13\x0c", b"\xff\xff\xff\xff\x7f")) * count
        )

    def _large(self) -> bytes:
        made = self._message(0)
        match self._chance.randrange(4):
            case 0:
                made.text = "ab " * self._chance.choice((200_000, 3_400_000))
            case 1:
                made.token_ids.ids.extend([self._chance.choice(_COUNTS)] * 500_000)
            case 2:
                made.stopping.stop_strings.extend(["x" * 100] * 5_000)
            case 3:
                made.decoding.logit_bias.update(dict.fromkeys(range(100_000), 1.0))
        return self._bytes(made)

    def _unknown_fields(self) -> bytes:
        number = self._chance.randint(20, 5000)
        return self._bytes(self._message(0)) + _field(number, self._garbage())

    def _set_some_field(self, message: Any) -> None:
        field = self._chance.choice(message.DESCRIPTOR.fields)
        if field.name == "model" and self._chance.random() < 0.95:
            return  # else nothing but wrong names is seen
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            target = getattr(message, field.name)
            if field.name == "logit_bias":
                target[self._chance.choice(_COUNTS)] = self._chance.choice(_NUMBERS)
            else:
                target[self._text()].string_value = self._text()
        elif kind is not None and field.is_repeated:
            getattr(message, field.name).add()
        elif kind is not None:
            inner = getattr(message, field.name)
            inner.SetInParent()
            self._set_some_field(inner)
        elif field.is_repeated:
            values = [self._value(field) for _ in range(self._chance.randint(1, 4))]
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, self._value(field))

    def _value(self, field: descriptor.FieldDescriptor) -> Any:
        kinds = descriptor.FieldDescriptor
        match field.type:
            case kinds.TYPE_FLOAT | kinds.TYPE_DOUBLE:
                return self._chance.choice(_NUMBERS)
            case kinds.TYPE_BOOL:
                return self._chance.random() < 0.5
            case kinds.TYPE_INT64:
                return self._chance.choice(_LONG)
            case kinds.TYPE_INT32:
                return self._chance.choice(_SIGNED)
            case kinds.TYPE_STRING:
                return self._text()
        return 0 if field.enum_type is not None else self._chance.choice(_COUNTS)

    def _text(self) -> str:
        if self._chance.random() < 0.7:
            return self._chance.choice(_TEXTS)
        length = self._chance.randint(1, 30)
        return "".join(self._chance.choices(string.printable, k=length))

    @staticmethod
    def _bytes(message: Any) -> bytes:
        return bytes(message.SerializeToString())


def _entry(value: bytes) -> bytes:
    """A Value that holds a Struct of one field."""
    return _field(5, _field(1, _field(1, b"k") + _field(2, value)))


def _field(number: int, data: bytes) -> bytes:
    """A length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
