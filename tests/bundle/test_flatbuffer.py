"""The checked FlatBuffer reader, on buffers that the official library wrote."""

from __future__ import annotations

import random
import struct

import flatbuffers
import pytest

from litert_lm.bundle import flatbuffer
from litert_lm.bundle.flatbuffer import Table
from litert_lm.errors import LiteRtLmError, ModelFileError


def example(identifier: bytes | None = b"TEST") -> bytes:
    """{0: i32 7, 1: "name", 2: [1, 2, 3] i32, 3: union type 2, 4: table, 5: tables}."""
    builder = flatbuffers.Builder(64)
    name = builder.CreateString("größe")
    builder.StartVector(4, 3, 4)
    for value in (3, 2, 1):
        builder.PrependInt32(value)
    numbers = builder.EndVector()
    children = []
    for value in (10, 20):
        builder.StartObject(1)
        builder.PrependInt64Slot(0, value, 0)
        children.append(builder.EndObject())
    builder.StartVector(4, 2, 4)
    for child in reversed(children):
        builder.PrependUOffsetTRelative(child)
    vector = builder.EndVector()
    builder.StartObject(7)
    builder.PrependInt32Slot(0, 7, 0)
    builder.PrependUOffsetTRelativeSlot(1, name, 0)
    builder.PrependUOffsetTRelativeSlot(2, numbers, 0)
    builder.PrependUint8Slot(3, 2, 0)
    builder.PrependUOffsetTRelativeSlot(4, children[0], 0)
    builder.PrependUOffsetTRelativeSlot(5, vector, 0)
    builder.Finish(builder.EndObject(), file_identifier=identifier)
    return bytes(builder.Output())


def read_everything(data: bytes) -> None:
    root = Table.root(data, b"TEST", "example")
    root.scalar(0, "i", 0)
    root.string(1)
    root.array(2, "<i4")
    root.union(3)
    for child in root.tables(5):
        child.scalar(0, "q", 0)


def test_scalars_strings_and_defaults():
    root = Table.root(example(), b"TEST", "example")
    assert root.scalar(0, "i", 0) == 7
    assert root.string(1) == "größe"
    assert root.string(6) is None
    assert root.scalar(6, "i", -1) == -1
    assert root.scalar(100, "i", -1) == -1
    assert root.has(1)
    assert not root.has(6)


def test_vectors_are_read_only_views_of_the_buffer():
    data = bytearray(example())
    root = Table.root(data, b"TEST", "example")
    numbers = root.array(2, "<i4")
    first, count = root.vector_range(2, 4)
    assert numbers.tolist() == [1, 2, 3]
    assert struct.unpack_from("<3i", data, first) == (1, 2, 3)
    assert count == 3
    with pytest.raises(ValueError, match="read-only"):
        numbers[0] = 5
    assert root.array(6, "<i4").tolist() == []
    assert bytes(root.bytes(6)) == b""


def test_nested_tables_and_unions():
    root = Table.root(example(), b"TEST", "example")
    kind, table = root.union(3)
    assert kind == 2
    assert table is not None
    assert table.scalar(0, "q", 0) == 10
    assert [child.scalar(0, "q", 0) for child in root.tables(5)] == [10, 20]
    assert root.table(6) is None
    assert root.tables(6) == []


def test_a_wrong_identifier_is_named():
    with pytest.raises(ModelFileError, match="example is not a TEST file"):
        Table.root(example(b"OTHR"), b"TEST", "example")
    Table.root(example(None), None, "example")


@pytest.mark.parametrize("size", [0, 3, 7, 8, 40])
def test_a_cut_buffer_is_a_model_file_error(size):
    with pytest.raises(ModelFileError, match="example is"):
        read_everything(example()[:size])


def test_every_single_byte_may_be_damaged():
    sound = example()
    for position in range(len(sound)):
        for value in (0, 1, 127, 128, 255):
            data = bytearray(sound)
            data[position] = value
            try:
                read_everything(bytes(data))
            except LiteRtLmError as error:
                assert isinstance(error, ModelFileError)


def test_random_bytes_never_escape_as_another_error():
    chance = random.Random(5)
    for _ in range(2000):
        data = bytearray(example())
        for _ in range(4):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            read_everything(bytes(data))
        except ModelFileError as error:
            assert "example" in str(error)


def test_shared_elements_cannot_unfold_without_end(monkeypatch):
    monkeypatch.setattr(flatbuffer, "MAX_TABLES", 10)
    root = Table.root(example(), b"TEST", "example")
    with pytest.raises(ModelFileError, match="more than 10 tables"):
        for _ in range(10):
            root.tables(5)
