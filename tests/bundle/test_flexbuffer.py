"""FlexBuffers are sound exactly when the official reader can walk all of them."""

from __future__ import annotations

import contextlib
import random
from typing import Any

import pytest
from flatbuffers import flexbuffers

from litert_lm.bundle.flexbuffer import is_sound

VALUES = [
    {},
    {"scale": 0.5, "logit_cap": 2.0},
    {"epsilon": 1e-6, "axes": [2], "name": "größe", "flag": True, "none": None},
    {"nested": {"deep": [[1, 2.5, "x"], {}]}, "big": 1 << 40, "blob": b"\0\1"},
    [1, 2, 3],
    "text",
    7,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_the_official_library_writes_is_sound(value):
    assert is_sound(bytes(flexbuffers.Dumps(value)))


def test_typed_vectors_are_sound():
    builder = flexbuffers.Builder()
    with builder.Map():
        builder.TypedVectorFromElements("ints", [1, 2, 300])
        builder.TypedVectorFromElements("flags", [True, False])
        builder.FixedTypedVectorFromElements("pair", [1.5, 2.5])
        builder.FixedTypedVectorFromElements("four", [1, 2, 3, 4])
        builder.IndirectInt("far", 1 << 40)
    assert is_sound(bytes(builder.Finish()))


@pytest.mark.parametrize("data", [b"", b"\1", b"\0\0\0", b"\xff" * 7, b"\1\0\3"])
def test_garbage_is_not(data):
    assert not is_sound(data)


def walk(value: Any) -> None:
    if value.IsMap:
        for key in value.AsMap.Keys:
            _ = key.AsKey
        for part in value.AsMap.Values:
            walk(part)
    elif value.IsVector:
        for part in value.AsVector:
            walk(part)
    else:
        _ = value.Value


def test_what_is_sound_can_be_walked():
    chance = random.Random(4)
    good = bytes(flexbuffers.Dumps(VALUES[3]))
    for _ in range(1500):
        data = bytearray(good)
        for _ in range(chance.choice((1, 2))):
            data[chance.randrange(len(data))] = chance.randrange(256)
        if is_sound(bytes(data)):
            with contextlib.suppress(UnicodeDecodeError):  # text is not checked
                walk(flexbuffers.GetRoot(data))


def test_a_cycle_ends():
    # A vector of one element: itself. Length 1, offset 0 to the vector, its type.
    data = bytes([1, 0, 10 << 2, 2, 10 << 2, 1])
    assert not is_sound(data)
