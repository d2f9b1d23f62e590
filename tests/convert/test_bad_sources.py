"""Sources that are damaged, incomplete or hostile: one clear error, nothing left."""

from __future__ import annotations

import builtins
import json
import os
import random
import struct
import subprocess
import sys

import gguf
import numpy as np
import pytest

from litert_lm.convert import convert
from litert_lm.convert.conversion import open_source
from litert_lm.errors import (
    ConversionError,
    InvalidArgumentError,
    LiteRtLmError,
    MissingExtraError,
    ModelFileError,
    ModelNotFoundError,
    StorageError,
)
from tests.convert.toys import Toy, weights, write_folder, write_gguf

F32 = gguf.GGMLQuantizationType.F32


def converted(source, output, **options):
    """Convert; nothing but the source may be there after a failure."""
    before = sorted(output.parent.iterdir())
    try:
        convert(source, output, **options)
    except LiteRtLmError:
        assert sorted(output.parent.iterdir()) == before
        raise


@pytest.fixture
def toy_folder(tmp_path):
    return write_folder(tmp_path / "toy", Toy())


@pytest.fixture
def output(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "toy.litertlm"


def test_a_source_that_does_not_exist(output):
    with pytest.raises(ModelNotFoundError, match="nothing here"):
        converted(output.parent / "nothing here", output)


def test_an_empty_folder(tmp_path, output):
    with pytest.raises(ConversionError, match=r"no config\.json and no GGUF file"):
        converted(output.parent, output)


def test_a_folder_with_several_gguf_files(tmp_path, output):
    for name in "ab":
        (tmp_path / f"{name}.gguf").write_bytes(b"GGUF")
    with pytest.raises(ConversionError, match="2 GGUF files"):
        converted(tmp_path, output)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(toy_folder, output, name):
    (toy_folder / name).unlink()
    with pytest.raises(ConversionError, match=r"config\.json|tokenizer|safetensors"):
        converted(toy_folder, output)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer.json", "generation_config.json"]
)
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_json_file_is_named(toy_folder, output, name, data):
    (toy_folder / name).write_bytes(data)
    with pytest.raises(ModelFileError, match=name.replace(".", r"\.")):
        converted(toy_folder, output)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "mamba"}, "'mamba'"),
        ({"model_type": None}, "None"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_size": "32"}, "hidden_size"),
        ({"hidden_size": 48}, "shape"),
        ({"num_hidden_layers": 3}, "model.layers.2"),
        ({"num_hidden_layers": 1}, "model.layers.1"),
        ({"num_hidden_layers": 10**15}, "model.layers.2"),
        ({"num_attention_heads": 3}, "multiple"),
        ({"head_dim": 15}, "even"),
        ({"vocab_size": 10**12}, "shape"),
        ({"rms_norm_eps": -1}, "rms_norm_eps"),
        ({"rope_theta": float("nan")}, "rope_theta"),
        ({"rope_scaling": {"rope_type": "magic"}}, "magic"),
        ({"rope_scaling": 3}, "rope_scaling"),
        ({"rope_interleaved": True}, "rope_interleaved"),
        ({"attention_bias": True}, "bias"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ({"tie_word_embeddings": 7}, "tie_word_embeddings"),
    ],
)
def test_a_config_that_cannot_be_converted(tmp_path, output, changes, message):
    folder = write_folder(tmp_path / "toy", Toy(changes=changes))
    with pytest.raises(ConversionError, match=message):
        converted(folder, output)


def test_weights_that_are_no_numbers(tmp_path, output):
    broken = np.full((32, 64), np.nan, np.float32)
    extra = {"blk.0.ffn_down.weight": (broken, F32)}
    toy = Toy()
    source = tmp_path / "toy.gguf"
    write_gguf(source, Toy(layers=0), tensors=extra | gguf_tensors(toy, extra))
    patch_value(source, "llama.block_count", toy.layers)
    for kind in ("int8", "f32"):
        with pytest.raises(ConversionError, match="NaN"):
            converted(source, output, weights=kind)


def gguf_tensors(toy, without):
    from tests.convert.toys import gguf_name

    named = {gguf_name(name): value for name, value in weights(toy).items()}
    return {
        name: (value, F32)
        for name, value in named.items()
        if name.startswith("blk.") and name not in without
    }


def patch_value(path, key, number):
    data = bytearray(path.read_bytes())
    at = data.index(key.encode()) + len(key)
    struct.pack_into("<II", data, at, 4, number)
    path.write_bytes(data)


def test_a_tokenizer_larger_than_the_embedding(tmp_path, output):
    folder = write_folder(tmp_path / "toy", Toy(vocab_size=100))
    with pytest.raises(ConversionError, match="embeds only 100"):
        converted(folder, output)


def test_an_index_cannot_reach_outside_the_folder(toy_folder, output):
    (output.parent / "secret.safetensors").write_bytes(b"")
    index = {"weight_map": {"x": "../out/secret.safetensors"}}
    (toy_folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ConversionError, match="lacks the weight file"):
        converted(toy_folder, output)


@pytest.mark.parametrize(
    "header",
    [
        b"\xff" * 8,
        struct.pack("<Q", 2) + b"{]",
        struct.pack("<Q", 2) + b"[]",
        struct.pack("<Q", 7) + b'{"a":1}',
    ],
)
def test_a_broken_safetensors_header(toy_folder, output, header):
    (toy_folder / "model.safetensors").write_bytes(header)
    with pytest.raises(ModelFileError, match=r"model\.safetensors"):
        converted(toy_folder, output)


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2**62], "data_offsets": [0, 2**64]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": "4", "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [1]},
        {"dtype": "F8_E4M3", "shape": [1], "data_offsets": [0, 1]},
    ],
)
def test_a_safetensors_entry_that_does_not_fit(toy_folder, output, entry):
    header = json.dumps({"w": entry}).encode()
    path = toy_folder / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 16)
    with pytest.raises((ModelFileError, ConversionError), match="'w'"):
        converted(toy_folder, output)


def test_a_gguf_of_another_architecture(tmp_path, output):
    source = tmp_path / "toy.gguf"
    writer = gguf.GGUFWriter(source, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ConversionError, match="'mamba'"):
        converted(source, output)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"llama__expert_count": 8}, "mixture of experts"),
        ({"split__count": 3}, "split GGUF"),
        ({"llama__rope__dimension_count": 8}, "rotates 8 of 16"),
        ({"llama__attention__head_count": 0}, "head_count"),
        ({"llama__rope__scaling__type": "longrope"}, "longrope"),
    ],
)
def test_gguf_variants_that_compute_something_else(tmp_path, output, keys, message):
    source = tmp_path / "toy.gguf"
    write_gguf(source, Toy(), **keys)
    with pytest.raises(ConversionError, match=message):
        converted(source, output)


def test_a_gguf_tensor_that_no_llama_has(tmp_path, output):
    extra = {"blk.0.attn_q_norm.weight": (np.zeros(16, np.float32), F32)}
    source = write_gguf(tmp_path / "toy.gguf", Toy(), tensors=extra)
    with pytest.raises(ConversionError, match="attn_q_norm"):
        converted(source, output)


@pytest.mark.parametrize(
    ("position", "value"),
    [(4, 1), (4, 0x03000000), (8, 2**40), (16, 2**40)],
    ids=["version 1", "big-endian", "tensor count", "key-value count"],
)
def test_gguf_numbers_that_make_no_sense(tmp_path, output, position, value):
    source = write_gguf(tmp_path / "toy.gguf", Toy())
    data = bytearray(source.read_bytes())
    struct.pack_into("<I" if position == 4 else "<Q", data, position, value)
    source.write_bytes(data)
    with pytest.raises(ModelFileError, match=r"toy\.gguf"):
        converted(source, output)


def test_what_is_neither_gguf_nor_safetensors(tmp_path, output):
    (tmp_path / "x.bin").write_bytes(bytes(100))
    with pytest.raises(ModelFileError, match="not a GGUF file"):
        converted(tmp_path / "x.bin", output)


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_a_file_cut_anywhere(tmp_path, output, kind, toy_folder):
    source = toy_folder / "model.safetensors"
    if kind == "gguf":
        source = write_gguf(tmp_path / "toy.gguf", Toy())
    data = source.read_bytes()
    for size in [*range(0, 64, 9), *range(0, len(data), len(data) // 25), -1]:
        source.write_bytes(data[:size])
        with pytest.raises(LiteRtLmError):
            converted(source, output)


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
def test_damaged_headers_give_errors_of_ours_only(tmp_path, output, kind, toy_folder):
    source = toy_folder / "model.safetensors"
    if kind == "gguf":
        source = write_gguf(tmp_path / "toy.gguf", Toy())
    data = source.read_bytes()
    chance = random.Random(5)
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 4))):
            damaged[chance.randrange(min(len(data), 9000))] = chance.randrange(256)
        source.write_bytes(damaged)
        try:
            open_source(source)
        except LiteRtLmError as error:
            assert str(error)


@pytest.mark.parametrize("length", [0, 31, 257, -5])
def test_a_context_that_the_model_cannot_have(toy_folder, output, length):
    with pytest.raises(InvalidArgumentError, match=r"32\.\.256"):
        converted(toy_folder, output, context_length=length)


def test_unknown_weights(toy_folder, output):
    with pytest.raises(InvalidArgumentError, match="int8, int4, f32"):
        converted(toy_folder, output, weights="int3")


def test_int4_needs_whole_blocks(tmp_path, output):
    folder = write_folder(tmp_path / "toy", Toy(ffn=72))
    with pytest.raises(InvalidArgumentError, match="use int8"):
        converted(folder, output, weights="int4")


def test_an_output_folder_that_does_not_exist(toy_folder, tmp_path):
    with pytest.raises(StorageError, match="missing"):
        convert(toy_folder, tmp_path / "missing" / "toy.litertlm")


def test_an_output_that_is_a_folder(toy_folder, output):
    with pytest.raises(InvalidArgumentError, match="is a folder"):
        convert(toy_folder, output.parent)


def test_an_output_that_is_a_pipe(toy_folder, output):
    os.mkfifo(output)
    with pytest.raises(InvalidArgumentError, match="is a device or a pipe"):
        convert(toy_folder, output)
    assert output.is_fifo()


def test_a_source_is_not_overwritten(tmp_path):
    source = tmp_path / "model.gguf"
    write_gguf(source, Toy())
    before = source.read_bytes()
    with pytest.raises(InvalidArgumentError, match="is what is to be converted"):
        convert(source, source)
    assert source.read_bytes() == before


def test_a_failed_conversion_keeps_the_older_file(toy_folder, output):
    output.write_bytes(b"older")
    (toy_folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(LiteRtLmError):
        converted(toy_folder, output)
    assert output.read_bytes() == b"older"


def test_a_missing_extra_names_its_pip_line(tmp_path, output, monkeypatch):
    source = write_gguf(tmp_path / "toy.gguf", Toy())
    real = builtins.__import__

    def without_gguf(name, *args):
        if name.partition(".")[0] == "gguf":
            raise ModuleNotFoundError(name)
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", without_gguf)
    with pytest.raises(
        MissingExtraError, match=r'pip install "pylitert-lm\[convert\]"'
    ):
        converted(source, output)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from litert_lm.convert import convert
from litert_lm.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    convert(Path(sys.argv[1]), Path(sys.argv[2]), weights=sys.argv[4])
except StorageError as error:
    sys.exit(3)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on file sizes")
@pytest.mark.parametrize(("weights", "limit"), [("int8", 8192), ("f32", 100_000)])
def test_a_full_disk_leaves_nothing(toy_folder, output, weights, limit):
    arguments = [str(toy_folder), str(output), str(limit), weights]
    done = subprocess.run([sys.executable, "-c", FULL_DISK, *arguments], check=False)
    assert done.returncode == 3
    assert not list(output.parent.iterdir())
