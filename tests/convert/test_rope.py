"""RoPE scalings against their formulas written out for one frequency."""

from __future__ import annotations

import math

import numpy as np
import pytest

from litert_lm.convert.rope import make_rope
from litert_lm.errors import ConversionError

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def plain(i, dim=64, theta=500000.0):
    return theta ** (-2 * i / dim)


def llama3(frequency, factor=8.0, low=1.0, high=4.0, original=8192):
    wave = 2 * math.pi / frequency
    if wave < original / high:
        return frequency
    if wave > original / low:
        return frequency / factor
    smooth = (original / wave - low) / (high - low)
    return (1 - smooth) * frequency / factor + smooth * frequency


def yarn(i, factor, original, dim=64, theta=500000.0):
    def pair(turns):
        return dim * math.log(original / (turns * 2 * math.pi)) / 2 / math.log(theta)

    low, high = math.floor(pair(32)), math.ceil(pair(1))
    kept = 1 - min(max((i - low) / (high - low), 0), 1)
    return plain(i) / factor * (1 - kept) + plain(i) * kept


def test_no_scaling_is_the_plain_formula():
    rope = make_rope(64, 500000.0, 8192)
    assert rope.inv_freq.dtype == np.float32
    assert np.allclose(rope.inv_freq, [plain(i) for i in range(32)], rtol=1e-6)


@pytest.mark.parametrize("scaling", [{"rope_type": "default"}, {"type": None}, {}])
def test_default_scaling_changes_nothing(scaling):
    unscaled = make_rope(64, 500000.0, 8192)
    scaled = make_rope(64, 500000.0, 8192, scaling)
    assert scaled.inv_freq.tobytes() == unscaled.inv_freq.tobytes()


def test_linear_divides_all_frequencies():
    rope = make_rope(64, 500000.0, 8192, {"type": "linear", "factor": 2.0})
    assert np.allclose(rope.inv_freq, [plain(i) / 2 for i in range(32)], rtol=1e-6)


def test_llama3_stretches_long_waves():
    rope = make_rope(64, 500000.0, 131072, LLAMA3)
    expected = [llama3(plain(i)) for i in range(32)]
    assert np.allclose(rope.inv_freq, expected, rtol=1e-5)
    assert not np.allclose(rope.inv_freq, [plain(i) for i in range(32)], rtol=1e-2)


def test_yarn_blends_and_sharpens():
    scaling = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    rope = make_rope(64, 500000.0, 16384, scaling)
    expected = [yarn(i, 4.0, 4096) for i in range(32)]
    assert np.allclose(rope.inv_freq, expected, rtol=1e-5)
    assert rope.attention_factor == pytest.approx(0.1 * math.log(4) + 1)


def test_yarn_with_both_mscales_divides_them():
    scaling = {"type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5}
    expected = (0.1 * math.log(4) + 1) / (0.05 * math.log(4) + 1)
    rope = make_rope(64, 500000.0, 16384, scaling)
    assert rope.attention_factor == pytest.approx(expected)


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "longrope", "factor": 4.0},
        {"rope_type": "dynamic", "factor": 4.0},
        {"rope_type": "linear"},
        {"rope_type": "linear", "factor": 0},
        {"rope_type": "linear", "factor": "2"},
        {"rope_type": "yarn", "factor": math.nan},
        LLAMA3 | {"high_freq_factor": 1.0},
        LLAMA3 | {"low_freq_factor": None},
        {"rope_type": "linear", "factor": 1e-300},
    ],
)
def test_unknown_or_broken_scaling_is_refused(scaling):
    with pytest.raises(ConversionError, match="RoPE"):
        make_rope(64, 500000.0, 8192, scaling)


@pytest.mark.parametrize("theta", [1.0, 0.5])
def test_a_base_of_one_or_less_is_refused(theta):
    with pytest.raises(ConversionError, match="base"):
        make_rope(64, theta, 8192, {"rope_type": "yarn", "factor": 2.0})
