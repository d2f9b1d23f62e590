"""MediaPipe's .task files, with new metadata, with old, and damaged."""

from __future__ import annotations

import random
import zipfile

import pytest

from litert_lm._proto.llm_parameters_pb2 import LlmParameters
from litert_lm.bundle import open_bundle
from litert_lm.errors import ModelFileError, UnsupportedModelError
from tests.bundle.files import MODEL, assert_read_or_refused, write_task

DEFLATED = zipfile.ZIP_DEFLATED


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, DEFLATED])
def test_members_become_sections(tmp_path, compression):
    path = write_task(
        tmp_path / "m.task", compression, TF_LITE_EMBEDDER=b"e", more=b"m"
    )
    with open_bundle(path) as bundle:
        assert (bundle.format, bundle.version) == ("task", None)
        assert list(bundle.models) == ["prefill_decode", "embedder"]
        assert bundle.read(bundle.models["prefill_decode"]) == MODEL
        assert bundle.tokenizer_section() == ("sentencepiece", b"\x0apieces")
        assert bundle.llm_metadata.stop_tokens[0].token_str == "</s>"
        assert bundle.sections[-1].type_name == "generic_binary"


def test_deflated_content_outlives_the_bundle(tmp_path):
    bundle = open_bundle(write_task(tmp_path / "m.task", DEFLATED))
    section = bundle.models["prefill_decode"]
    view = bundle.read(section)
    assert bundle.read(section) is view
    bundle.close()
    assert view == MODEL and view.readonly


def test_json_tokenizer(tmp_path):
    path = write_task(tmp_path / "m.task", TOKENIZER_MODEL=b'{"a": 1}')
    with open_bundle(path) as bundle:
        assert bundle.tokenizer_section() == ("huggingface", b'{"a": 1}')


def old(**fields):
    return LlmParameters(**fields).SerializeToString()


def test_old_metadata_is_translated(tmp_path):
    template = {"session_prefix": "p", "prompt_prefix": "<u>", "prompt_suffix": "<m>"}
    data = old(start_token="<s>", stop_tokens=["</s>", "<e>"], prompt_template=template)
    with open_bundle(write_task(tmp_path / "m.task", METADATA=data)) as bundle:
        metadata = bundle.llm_metadata
        assert bundle.tokenizer_section().kind == "sentencepiece"
    assert metadata.start_token.token_str == "<s>"
    assert [stop.token_str for stop in metadata.stop_tokens] == ["</s>", "<e>"]
    user = metadata.prompt_templates.user
    assert (user.prefix, user.suffix) == ("<u>", "<m>")


def test_old_metadata_with_ids_and_roles(tmp_path):
    model = {"prompt_prefix": "<m>"}
    data = old(
        vocab_size=9,
        start_token_id=1,
        prompt_templates={"model_template": model},
        prompt_template={"prompt_prefix": "unused"},
        input_output_normalizations=[1],
    )
    with open_bundle(write_task(tmp_path / "m.task", METADATA=data)) as bundle:
        metadata = bundle.llm_metadata
        assert bundle.tokenizer_section().kind == "sentencepiece_bytes"
    assert metadata.start_token.token_ids.ids == [1]
    assert metadata.prompt_templates.model.prefix == "<m>"
    assert not metadata.prompt_templates.HasField("user")


def test_metadata_that_is_neither(tmp_path):
    path = write_task(tmp_path / "m.task", METADATA=b"\xff\xff")
    with (
        open_bundle(path) as bundle,
        pytest.raises(ModelFileError, match=r"neither LlmMetadata nor"),
    ):
        _ = bundle.llm_metadata


def test_missing_members(tmp_path):
    path = write_task(tmp_path / "m.task", METADATA=None, TOKENIZER_MODEL=None)
    with open_bundle(path) as bundle:
        with pytest.raises(ModelFileError, match="no LlmMetadata"):
            _ = bundle.llm_metadata
        with pytest.raises(ModelFileError, match="no tokenizer"):
            bundle.tokenizer_section()


def damage(path, old_bytes, new_bytes, count=-1):
    path.write_bytes(path.read_bytes().replace(old_bytes, new_bytes, count))
    return path


def test_wrong_checksum(tmp_path):
    path = write_task(tmp_path / "m.task", DEFLATED)
    with zipfile.ZipFile(path) as archive:
        crc = archive.getinfo("TF_LITE_PREFILL_DECODE").CRC.to_bytes(4, "little")
    with (
        open_bundle(damage(path, crc, b"\1\2\3\4")) as bundle,
        pytest.raises(ModelFileError, match="CRC"),
    ):
        bundle.read(bundle.models["prefill_decode"])


def test_bomb(tmp_path):
    path = write_task(tmp_path / "m.task", DEFLATED, TOKENIZER_MODEL=bytes(9 << 20))
    size = (9 << 20).to_bytes(4, "little")
    for claim in (5, 3 << 30):
        changed = damage(path, size, claim.to_bytes(4, "little"))
        size = claim.to_bytes(4, "little")
        with open_bundle(changed) as bundle, pytest.raises(ModelFileError):
            bundle.tokenizer_section()


def test_member_outside_the_archive(tmp_path):
    path = write_task(tmp_path / "m.task")
    with zipfile.ZipFile(path) as archive:
        offset = archive.getinfo("METADATA").header_offset.to_bytes(4, "little")
    for place in (1 << 31, 7):
        copy = tmp_path / f"{place}.task"
        copy.write_bytes(path.read_bytes())
        with pytest.raises(ModelFileError, match="outside the archive"):
            open_bundle(damage(copy, offset, place.to_bytes(4, "little")))


def test_encrypted_or_otherwise_packed(tmp_path):
    path = write_task(tmp_path / "m.task", zipfile.ZIP_BZIP2)
    with pytest.raises(UnsupportedModelError, match="method 12"):
        open_bundle(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_member_twice(tmp_path):
    path = write_task(tmp_path / "m.task")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("METADATA", b"")
    with pytest.raises(ModelFileError, match="'METADATA' comes twice"):
        open_bundle(path)


def test_overlapping_members(tmp_path):
    path = write_task(tmp_path / "m.task")
    with zipfile.ZipFile(path) as archive:
        names = ("METADATA", "TOKENIZER_MODEL")
        own, other = (
            archive.getinfo(n).header_offset.to_bytes(4, "little") for n in names
        )
    damage(path, own + b"METADATA", other + b"METADATA")
    with pytest.raises(ModelFileError, match="members overlap"):
        open_bundle(path)


def test_large_archive_with_64_bit_records(tmp_path, monkeypatch):
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    with open_bundle(write_task(tmp_path / "m.task")) as bundle:
        assert bundle.read(bundle.models["prefill_decode"]) == MODEL


def test_too_many_members(tmp_path):
    many = {f"member_{index}": b"" for index in range(300)}
    with pytest.raises(ModelFileError, match="303 members"):
        open_bundle(write_task(tmp_path / "m.task", **many))


def test_damaged_archives_give_our_errors_only(tmp_path):
    path = write_task(tmp_path / "m.task", DEFLATED)
    sound = path.read_bytes()
    rng = random.Random(7)
    for _ in range(300):
        content = bytearray(sound)
        for _ in range(rng.choice((1, 2, 8))):
            content[rng.randrange(4, len(sound))] = rng.choice((0, 255, 80))
        path.write_bytes(content[: rng.choice((len(sound), rng.randrange(len(sound))))])
        assert_read_or_refused(path)


def test_real_task(shared_dir):
    with open_bundle(shared_dir / "bundles" / "gemma3_tiny.task") as bundle:
        user = bundle.llm_metadata.prompt_templates.user
        assert user.suffix == "<end_of_turn>\n<start_of_turn>model\n"
        assert bundle.tokenizer_section().kind == "sentencepiece"
