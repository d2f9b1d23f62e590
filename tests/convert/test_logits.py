"""Toy conversions of every kind against a forward pass in plain numpy."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from litert_lm.convert import convert
from litert_lm.convert.conversion import open_source
from tests.convert.player import playing
from tests.convert.toys import Toy, forward, weights, write_folder, write_gguf

IDS = np.random.default_rng(0).integers(0, 277, 45).tolist()

SHAPES = {
    "grouped heads": Toy(),
    "as many key heads": Toy(kv_heads=4),
    "one key head": Toy(kv_heads=1),
    "tied head": Toy(is_tied=True),
    "scale that is no power of two": Toy(head_dim=12),
    "heads wider than the model": Toy(head_dim=32),
    "biases": Toy(has_bias=True),
    "another base": Toy(theta=500000.0),
}


def logits_of(path):
    """Of the last 13 ids, through every kind of signature."""
    with playing(path) as player:
        player.start(128)
        player.prefill(IDS[:20])
        player.feed("prefill_32", IDS[20:32])
        rows = [player.feed("verify_8", IDS[32:40])]
        rows += [player.feed("decode", [token]) for token in IDS[40:42]]
        rows.append(player.feed("verify_16", IDS[42:]))
    return np.concatenate(rows)


def written(kind, folder, toy, **options):
    if kind == "gguf":
        return write_gguf(folder / "toy.gguf", toy, **options)
    return write_folder(folder / "toy", toy, **options)


@pytest.fixture
def converted(tmp_path):
    """A function: source to the path of its bundle with float weights."""

    def run(source, weights="f32", **options):
        output = tmp_path / f"{weights}.litertlm"
        convert(source, output, weights=weights, **options)
        return output

    return run


@pytest.mark.parametrize("kind", ["gguf", "safetensors"])
@pytest.mark.parametrize("toy", SHAPES.values(), ids=SHAPES.keys())
def test_float_logits_equal_numpy(kind, toy, tmp_path, converted):
    source = written(kind, tmp_path, toy)
    assert np.allclose(logits_of(converted(source)), forward(toy, IDS)[32:], atol=1e-4)


@pytest.mark.parametrize(("weights", "error"), [("int8", 0.1), ("int4", 0.8)])
def test_quantised_logits_are_near(weights, error, tmp_path, converted):
    toy = Toy()
    got = logits_of(converted(write_folder(tmp_path / "toy", toy), weights))
    expected = forward(toy, IDS)[32:]
    assert np.abs(got - expected).mean() < error * expected.std()


def test_prefill_128_fills_the_same_caches(tmp_path, converted):
    toy = Toy()
    path = converted(write_folder(tmp_path / "toy", toy))
    with playing(path) as player:
        player.start(256)
        player.feed("prefill_128", IDS[:44])
        last = player.feed("decode", IDS[44:])
    assert np.allclose(last[0], forward(toy, IDS)[44], atol=1e-4)


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_checkpoints(dtype, tmp_path, converted):
    toy = Toy()
    got = logits_of(converted(write_folder(tmp_path / "toy", toy, dtype=dtype)))
    assert np.abs(got - forward(toy, IDS)[32:]).max() < 0.1


def test_a_checkpoint_in_parts_is_the_same(tmp_path, converted):
    toy = Toy()
    source = write_folder(tmp_path / "toy", toy, num_parts=3)
    assert np.allclose(logits_of(converted(source)), forward(toy, IDS)[32:], atol=1e-4)


@pytest.mark.parametrize(
    "kind", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
)
def test_gguf_weight_types(kind, tmp_path):
    checkpoint = open_source(write_gguf(tmp_path / "toy.gguf", Toy(), kind=kind))
    name = "model.layers.1.self_attn.q_proj.weight"
    read = checkpoint.rows(name, 64, 32).read(3, 50)
    assert np.abs(read - weights(Toy())[name][3:50]).max() < 0.1


@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_gguf_k_quants(kind, tmp_path):
    number = gguf.GGMLQuantizationType[kind]
    _, block_bytes = gguf.GGML_QUANT_SIZES[number]
    blocks = np.full((32, block_bytes), 0x11, np.uint8)
    extra = {"blk.2.ffn_down.weight": (blocks, number)}
    source = write_gguf(tmp_path / "toy.gguf", Toy(), tensors=extra)
    rows = open_source(source).rows("model.layers.2.mlp.down_proj.weight", 32, 256)
    expected = gguf.dequantize(blocks, number)
    assert np.array_equal(rows.read(0, 32), expected)


def test_gguf_rope_factors_divide_the_frequencies(tmp_path, converted):
    toy = Toy()
    factors = np.linspace(1, 8, 8, dtype=np.float32)
    extra = {"rope_freqs.weight": (factors, gguf.GGMLQuantizationType.F32)}
    source = write_gguf(tmp_path / "toy.gguf", toy, tensors=extra)
    plain = toy.theta ** (-np.arange(8) / 8)
    expected = forward(toy, IDS, plain / factors)[32:]
    assert np.allclose(logits_of(converted(source)), expected, atol=1e-4)


def test_gguf_linear_scaling(tmp_path, converted):
    toy = Toy()
    keys = {"llama__rope__scaling__type": "linear", "llama__rope__scaling__factor": 4.0}
    source = write_gguf(tmp_path / "toy.gguf", toy, **keys)
    plain = toy.theta ** (-np.arange(8) / 8)
    expected = forward(toy, IDS, plain / 4)[32:]
    assert np.allclose(logits_of(converted(source)), expected, atol=1e-4)


def test_yarn_sharpens_attention(tmp_path, converted):
    scaling = {"rope_type": "yarn", "factor": 1.0, "attention_factor": 1.25}
    toy = Toy(scaling=scaling)
    got = logits_of(converted(write_folder(tmp_path / "toy", toy)))
    assert np.allclose(got, forward(toy, IDS, factor=1.25)[32:], atol=1e-4)


def test_context_length_is_that_of_the_checkpoint_up_to_4096(tmp_path, converted):
    long = write_folder(tmp_path / "long", Toy(max_positions=8192))
    with playing(converted(long)) as player:
        assert player.signatures["decode"].inputs[2].shape == (1, 1, 1, 4096)


def test_short_context_leaves_out_signatures_that_do_not_fit(tmp_path, converted):
    path = converted(write_folder(tmp_path / "toy", Toy()), context_length=64)
    with playing(path) as player:
        several = {"verify_8", "verify_16", "prefill_32", "decode_batch_4"}
        assert set(player.signatures) == {"decode", *several}
