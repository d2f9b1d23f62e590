"""Written bundles read back, appear whole or not at all, and please Google's reader."""

from __future__ import annotations

import errno
import io
import os
import stat

import numpy as np
import pytest

from litert_lm.bundle import open_bundle
from litert_lm.bundle.writer import ALIGNMENT, write_bundle
from litert_lm.errors import InvalidArgumentError, StorageError
from tests.bundle.files import MODEL, metadata, write_small


def test_sections_are_aligned_and_named(tmp_path):
    path = write_small(
        tmp_path / "m.litertlm",
        models={"prefill_decode": MODEL, "embedder": b"e"},
        weights={"embedder": b"w"},
        section_items={"embedder": {"backend_constraint": "cpu", "n": 1}},
    )
    with open_bundle(path) as bundle:
        assert all(section.begin % ALIGNMENT == 0 for section in bundle.sections)
        assert bundle.models["embedder"].items["model_type"] == "tf_lite_embedder"
        assert bundle.models["embedder"].backend_constraint == ("cpu",)
        assert bundle.weights["embedder"].items["n"] == 1
        assert bundle.sections[-1].end == path.stat().st_size


def test_sources(tmp_path):
    (tmp_path / "part").write_bytes(MODEL)
    array = np.frombuffer(MODEL, np.uint8).reshape(2, -1)
    for source in (
        bytearray(MODEL),
        array,
        str(tmp_path / "part"),
        tmp_path / "part",
        (MODEL[at : at + 7] for at in range(0, len(MODEL), 7)),
        [b"", array[0], memoryview(array[1])],
    ):
        path = write_small(tmp_path / "m.litertlm", models={"prefill_decode": source})
        with open_bundle(path) as bundle:
            assert bundle.read(bundle.models["prefill_decode"]) == MODEL


def test_same_content_gives_same_bytes(tmp_path):
    first = write_small(tmp_path / "a.litertlm").read_bytes()
    assert write_small(tmp_path / "b.litertlm").read_bytes() == first
    other = write_small(tmp_path / "c.litertlm", models={"prefill_decode": b"x"})
    with open_bundle(tmp_path / "a.litertlm") as a, open_bundle(other) as b:
        assert a.system_metadata["uuid"] != b.system_metadata["uuid"]


def test_bundle_can_replace_itself(tmp_path):
    path = write_small(tmp_path / "m.litertlm")
    with open_bundle(path) as bundle:
        changed = metadata("max_num_tokens: 5")
        models = {"prefill_decode": bundle.read(bundle.models["prefill_decode"])}
        tokenizer = bundle.tokenizer_section()
        write_bundle(path, metadata=changed, tokenizer=tokenizer, models=models)
    with open_bundle(path) as bundle:
        assert bundle.llm_metadata.max_num_tokens == 5
        assert bundle.tokenizer_section() == tokenizer


def test_failing_source_leaves_nothing(tmp_path):
    def pieces():
        yield MODEL
        raise KeyboardInterrupt

    (tmp_path / "m.litertlm").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write_small(tmp_path / "m.litertlm", models={"prefill_decode": pieces()})
    assert os.listdir(tmp_path) == ["m.litertlm"]
    assert (tmp_path / "m.litertlm").read_bytes() == b"old"


def test_full_disk(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match=r"m\.litertlm .*No space left"):
        write_small(tmp_path / "m.litertlm")
    assert os.listdir(tmp_path) == []


def test_folder_that_does_not_exist(tmp_path):
    with pytest.raises(StorageError, match="cannot be written"):
        write_small(tmp_path / "none" / "m.litertlm")


def test_source_file_that_does_not_exist(tmp_path):
    with pytest.raises(StorageError, match=r"lost\.tflite cannot be read"):
        write_small(tmp_path / "m.litertlm", models={"aux": tmp_path / "lost.tflite"})


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX")
def test_file_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    path = write_small(tmp_path / "m.litertlm")
    usual = stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == usual


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": b""},
        {"models": {}},
        {"models": {"prefill_decode": 3}},
        {"models": {"prefill_decode": ["text"]}},
        {"tokenizer": ("bpe", b"")},
        {"system_metadata": {"a": None}},
        {"system_metadata": {"a": "\ud800"}},
        {"system_metadata": {"a": "x" * 20_000}},
    ],
)
def test_wrong_arguments(tmp_path, changes):
    with pytest.raises(InvalidArgumentError):
        write_small(tmp_path / "m.litertlm", **changes)
    assert os.listdir(tmp_path) == []


def test_googles_reader_takes_it(tmp_path):
    reason = "litert-lm-builder not installed"
    pytest.importorskip("litert_lm_builder", reason=reason)
    from litert_lm_builder import litertlm_peek

    path = write_small(tmp_path / "m.litertlm", system_metadata={"Authors": "us"})
    report = io.StringIO()
    litertlm_peek.peek_litertlm_file(str(path), str(tmp_path / "dump"), report)
    assert "LiteRT-LM Version: 1.7.0" in report.getvalue()
    assert "Key: Authors, Value (String): us" in report.getvalue()
    assert "</s>" in (tmp_path / "dump" / "LlmMetadataProto.pbtext").read_text()
    dumped = tmp_path / "dump" / "Section2_TFLiteModel_tf_lite_prefill_decode.tflite"
    assert dumped.read_bytes() == MODEL
