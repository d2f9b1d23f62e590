"""The .litertlm header: everything in it is found, nothing in it is trusted."""

from __future__ import annotations

import random
import struct

import pytest

from litert_lm.bundle import SectionType, open_bundle
from litert_lm.errors import ModelFileError, UnsupportedModelError
from tests.bundle.files import (
    MODEL,
    assert_read_or_refused,
    write_sections,
    write_small,
)

BUILDER_SKIP = "litert-lm-builder not installed"


def changed(path, position, data):
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)
    return path


def test_header_is_read(tmp_path):
    path = write_small(tmp_path / "m.litertlm", system_metadata={"Authors": "us"})
    with open_bundle(path) as bundle:
        assert (bundle.format, bundle.version, bundle.path) == (
            "litertlm",
            (1, 7, 0),
            path,
        )
        assert bundle.system_metadata["Authors"] == "us"
        assert [section.data_type for section in bundle.sections] == [
            SectionType.LLM_METADATA,
            SectionType.HUGGINGFACE_TOKENIZER,
            SectionType.TFLITE_MODEL,
        ]
        assert bundle.read(bundle.models["prefill_decode"]) == MODEL


def test_every_kind_of_value(tmp_path):
    values = {"text": "é", "flag": True, "number": -(1 << 40), "real": 2.5}
    path = write_sections(tmp_path / "m.litertlm", system=values)
    with open_bundle(path) as bundle:
        assert bundle.system_metadata == values


def test_section_of_a_later_kind_is_kept(tmp_path):
    path = write_sections(tmp_path / "m.litertlm", (14, {"x": 1}, b"new"))
    with open_bundle(path) as bundle:
        (section,) = bundle.sections
        assert (section.type_name, bundle.read(section)) == ("type 14", b"new")


def test_later_major_version(tmp_path):
    path = changed(write_small(tmp_path / "m.litertlm"), 8, struct.pack("<I", 2))
    with pytest.raises(UnsupportedModelError, match=r"version 2\.7\.0"):
        open_bundle(path)


@pytest.mark.parametrize("header_end", [0, 31, 32, 1 << 40, (1 << 64) - 1])
def test_header_end(tmp_path, header_end):
    path = changed(
        write_small(tmp_path / "m.litertlm"), 24, struct.pack("<Q", header_end)
    )
    with pytest.raises(ModelFileError, match=r"header of .*m\.litertlm"):
        open_bundle(path)


def test_cut_file_names_the_lost_section(tmp_path):
    path = write_small(tmp_path / "m.litertlm")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match=r"section 2 \(tflite_model, prefill_de"):
        open_bundle(path)


def test_section_inside_the_header(tmp_path):
    path = write_sections(tmp_path / "m.litertlm", (1, {}, b"content"))
    begin = struct.pack("<Q", open_bundle(path).sections[0].begin)
    content = path.read_bytes().replace(begin, struct.pack("<Q", 40))
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="lies at bytes 40"):
        open_bundle(path)


@pytest.mark.parametrize(
    "items", [{"a": 1, "A": 2}, {"model_type": 3}, {"backend_constraint": True}]
)
def test_properties_that_contradict(tmp_path, items):
    path = write_sections(tmp_path / "m.litertlm", (1, items, b""))
    with pytest.raises(ModelFileError, match="section 0 of"):
        open_bundle(path)


def test_too_many_sections(tmp_path, monkeypatch):
    monkeypatch.setattr("litert_lm.bundle.header.MAX_SIZE", 1 << 20)
    path = write_sections(tmp_path / "m.litertlm", *[(1, {}, b"")] * 1025)
    with pytest.raises(ModelFileError, match="1025 entries"):
        open_bundle(path)


def test_damaged_headers_give_our_errors_only(tmp_path):
    path = write_small(tmp_path / "m.litertlm", system_metadata={"n": 7, "a": "b"})
    sound = path.read_bytes()
    (end,) = struct.unpack_from("<Q", sound, 24)
    rng = random.Random(5)
    for _ in range(300):
        content = bytearray(sound)
        for _ in range(rng.choice((1, 2, 8))):
            content[rng.randrange(8, end)] = rng.choice((0, 1, 255, rng.randrange(256)))
        path.write_bytes(content)
        assert_read_or_refused(path)


def test_file_of_googles_builder(tmp_path):
    builder = pytest.importorskip("litert_lm_builder", reason=BUILDER_SKIP)
    (tmp_path / "m.tflite").write_bytes(MODEL)
    role = builder.litertlm_builder.TfLiteModelType.EMBEDDER
    make = builder.litertlm_builder.LitertLmFileBuilder()
    make.add_tflite_model(str(tmp_path / "m.tflite"), role, backend_constraint="cpu")
    with open(tmp_path / "m.litertlm", "wb") as file:
        make.build(file)
    with open_bundle(tmp_path / "m.litertlm") as bundle:
        section = bundle.models["embedder"]
        assert bundle.read(section) == MODEL
        assert section.backend_constraint == ("cpu",)
        assert len(bundle.system_metadata["uuid"]) == 36
