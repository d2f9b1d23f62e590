"""An open bundle gives its parts by their meaning, and views that outlive it."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from litert_lm._proto.executor_metadata_pb2 import ExecutorMetadata
from litert_lm.bundle import SectionType, open_bundle
from litert_lm.errors import InvalidArgumentError, ModelFileError, SessionStateError
from tests.bundle.files import (
    MODEL,
    TOKENIZER_JSON,
    sentencepiece_section,
    write_sections,
    write_small,
)

METADATA = (SectionType.LLM_METADATA, {}, b"\x28\x07")
HUGGINGFACE = SectionType.HUGGINGFACE_TOKENIZER


def model(data=MODEL, **items):
    return SectionType.TFLITE_MODEL, items, data


def test_views_outlive_the_bundle(tmp_path):
    bundle = open_bundle(write_small(tmp_path / "m.litertlm"))
    view = np.frombuffer(bundle.read(bundle.models["prefill_decode"]), np.uint8)
    bundle.close()
    bundle.close()
    assert view.tobytes() == MODEL and not view.flags.writeable
    with pytest.raises(SessionStateError, match="closed"):
        bundle.read(bundle.sections[0])


def test_models_by_role(tmp_path):
    path = write_sections(
        tmp_path / "m.litertlm",
        model(b"main"),
        model(
            b"embedder", model_type="tf_lite_Embedder", backend_constraint="CPU, gpu"
        ),
        (SectionType.TFLITE_WEIGHTS, {"model_type": "tf_lite_embedder"}, b"weights"),
    )
    with open_bundle(path) as bundle:
        assert list(bundle.models) == ["prefill_decode", "embedder"]
        assert bundle.read(bundle.weights["embedder"]) == b"weights"
        assert bundle.models["embedder"].backend_constraint == ("cpu", "gpu")
        assert bundle.models["prefill_decode"].backend_constraint == ()
        assert bundle.models["prefill_decode"].prefer_activation_type is None


def test_two_models_of_one_role(tmp_path):
    path = write_sections(tmp_path / "m.litertlm", model(), model())
    with pytest.raises(ModelFileError, match=r"section 0 .* and section 1 "):
        open_bundle(path)


def test_section_of_another_bundle(tmp_path):
    with open_bundle(write_small(tmp_path / "a.litertlm")) as one:
        section = one.sections[0]
    other = write_sections(tmp_path / "b.litertlm", model())
    with open_bundle(other) as two, pytest.raises(InvalidArgumentError):
        two.read(section)


def test_metadata(tmp_path):
    executor = ExecutorMetadata()
    executor.llm_executor_metadata.max_history_size = 9
    path = write_small(tmp_path / "m.litertlm", executor_metadata=executor)
    with open_bundle(path) as bundle:
        assert bundle.llm_metadata.stop_tokens[0].token_str == "</s>"
        assert bundle.executor_metadata == executor
        assert bundle.embedding_metadata is None


def test_missing_metadata(tmp_path):
    with (
        open_bundle(write_sections(tmp_path / "m.litertlm", model())) as bundle,
        pytest.raises(ModelFileError, match="no LlmMetadata section"),
    ):
        _ = bundle.llm_metadata


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x3a\x02\xff\xff", bytes(5 << 20)])
def test_damaged_metadata(tmp_path, data):
    path = write_sections(tmp_path / "m.litertlm", (SectionType.LLM_METADATA, {}, data))
    with (
        open_bundle(path) as bundle,
        pytest.raises(ModelFileError, match=r"section 0 \(llm_metadata\) of .*m\.lit"),
    ):
        _ = bundle.llm_metadata


def test_tokenizer_is_unfolded(tmp_path):
    with open_bundle(write_small(tmp_path / "m.litertlm")) as bundle:
        assert bundle.tokenizer_section() == ("huggingface", TOKENIZER_JSON)


def test_tokenizer_of_a_role(tmp_path):
    path = write_sections(
        tmp_path / "m.litertlm",
        sentencepiece_section(b"\x0aall"),
        sentencepiece_section(b"\x0aown", model_type="tf_lite_text_encoder"),
    )
    with open_bundle(path) as bundle:
        assert bundle.tokenizer_section() == ("sentencepiece", b"\x0aall")
        assert bundle.tokenizer_section("text_encoder").data == b"\x0aown"
        assert bundle.tokenizer_section("embedder").data == b"\x0aall"


def test_no_tokenizer_or_two(tmp_path):
    for sections in [(model(),), (sentencepiece_section(), sentencepiece_section())]:
        path = write_sections(tmp_path / "m.litertlm", *sections)
        with open_bundle(path) as bundle, pytest.raises(ModelFileError):
            bundle.tokenizer_section()


@pytest.mark.parametrize(
    "data",
    [
        b"short",
        struct.pack("<Q", 10) + b"no zlib stream",
        struct.pack("<Q", 9) + zlib.compress(b"ten bytes!"),
        struct.pack("<Q", 11) + zlib.compress(b"ten bytes!"),
        struct.pack("<Q", 10) + zlib.compress(b"ten bytes!")[:-2],
        struct.pack("<Q", 1 << 62) + zlib.compress(b"ten bytes!"),
        struct.pack("<Q", 1 << 30) + zlib.compress(bytes(1 << 20), 9) * 1000,
    ],
)
def test_damaged_or_malicious_tokenizer(tmp_path, data):
    path = write_sections(tmp_path / "m.litertlm", (HUGGINGFACE, {}, data))
    with open_bundle(path) as bundle, pytest.raises(ModelFileError, match="section 0"):
        bundle.tokenizer_section()


def test_every_real_bundle(shared_dir):
    files = [p for p in (shared_dir / "bundles").iterdir() if p.suffix != ".json"]
    assert files
    for path in files:
        with open_bundle(path) as bundle:
            main = bundle.read(bundle.models["prefill_decode"])
            assert bytes(main[4:8]) == b"TFL3"
            kind, data = bundle.tokenizer_section()
            assert bytes(data[:1]) == (b"{" if kind == "huggingface" else b"\x0a")
            assert bundle.llm_metadata.stop_tokens
            assert (bundle.executor_metadata is None) == (bundle.format == "task")
