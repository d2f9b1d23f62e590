"""Rotary position embedding: the frequencies of a checkpoint and their scalings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from litert_lm.errors import ConversionError

__all__ = ["Rope", "make_rope"]

Scaling = Mapping[str, object]


@dataclass(frozen=True, eq=False)
class Rope:
    """Angle of position p in pair i is ``p * inv_freq[i]``.

    Args:
        inv_freq: f32[D / 2].
        attention_factor: cos and sin are multiplied by it.
    """

    inv_freq: NDArray[np.float32]
    attention_factor: float = 1.0


def make_rope(
    head_dim: int,
    theta: float,
    max_positions: int,
    scaling: Scaling | None = None,
    factors: NDArray[np.float32] | None = None,
) -> Rope:
    """Frequencies as Hugging Face transformers computes them.

    Args:
        head_dim: size of a head; every part of it rotates.
        theta: base of the frequencies.
        max_positions: context the checkpoint was made for, where `scaling` does not
            name its own.
        scaling: ``rope_scaling`` or ``rope_parameters`` of a config.json.
        factors: f32[D / 2], divisors that a GGUF file stores (``rope_freqs.weight``).
    """
    if not theta > 1:
        raise ConversionError(f"RoPE needs a base above 1, got {theta:g}.")
    with np.errstate(all="ignore"):
        rope = _scaled(head_dim, theta, max_positions, scaling, factors)
    if not np.isfinite(rope.inv_freq).all() or not math.isfinite(rope.attention_factor):
        raise ConversionError(
            f"RoPE with base {theta:g} and scaling {dict(scaling or {})} gives "
            "frequencies that are no numbers."
        )
    return rope


def _scaled(
    head_dim: int,
    theta: float,
    max_positions: int,
    scaling: Scaling | None,
    factors: NDArray[np.float32] | None,
) -> Rope:
    base = _Base(_base_frequencies(head_dim, theta), head_dim, theta, max_positions)
    if factors is not None:
        return Rope(base.inv_freq / factors)
    kind = _kind(scaling)
    if scaling is None or kind == "default":
        return Rope(base.inv_freq)
    if kind not in _SCALINGS:
        raise ConversionError(
            f"RoPE scaling {kind!r} is not supported; supported are "
            f"default, {', '.join(_SCALINGS)}."
        )
    return _SCALINGS[kind](base, scaling)


@dataclass(frozen=True, eq=False)
class _Base:
    """What a scaling starts from: frequencies f32[D / 2], and how they came about."""

    inv_freq: NDArray[np.float32]
    head_dim: int
    theta: float
    max_positions: int


def _base_frequencies(head_dim: int, theta: float) -> NDArray[np.float32]:
    """One rounding to float32 before the division, one after.

    Other spellings differ by 1-2 ulp, which int8 activations amplify into other text.
    """
    exponents = np.arange(0, head_dim, 2) / head_dim
    powers = np.float32(np.float64(theta) ** exponents)
    return np.asarray(np.float32(1) / powers, np.float32)


def _kind(scaling: Scaling | None) -> str:
    if scaling is None:
        return "default"
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    return "default" if kind in (None, "none") else str(kind)


def _number(scaling: Scaling, name: str, default: float | None = None) -> float:
    """A positive number of the scaling table."""
    value = scaling.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConversionError(f"RoPE scaling needs a number '{name}', got {value!r}.")
    if not math.isfinite(value) or value <= 0:
        raise ConversionError(f"RoPE scaling '{name}' must be positive, got {value}.")
    return float(value)


def _linear(base: _Base, scaling: Scaling) -> Rope:
    """Positions divided by one factor."""
    return Rope(base.inv_freq / np.float32(_number(scaling, "factor")))


def _llama3(base: _Base, scaling: Scaling) -> Rope:
    """Llama 3.1: long waves are stretched, short ones kept, those between blended."""
    factor = np.float32(_number(scaling, "factor"))
    low = _number(scaling, "low_freq_factor")
    high = _number(scaling, "high_freq_factor")
    original = _original(base, scaling)
    if high <= low:
        raise ConversionError(
            f"RoPE scaling needs high_freq_factor above low_freq_factor, got {high:g} "
            f"and {low:g}."
        )
    inv_freq = base.inv_freq
    waves = np.float32(2 * math.pi) / inv_freq
    blend = (np.float32(original) / waves - np.float32(low)) / np.float32(high - low)
    blended = (1 - blend) * inv_freq / factor + blend * inv_freq
    stretched = np.where(waves > original / low, inv_freq / factor, inv_freq)
    between = (waves >= original / high) & (waves <= original / low)
    return Rope(np.where(between, blended, stretched).astype(np.float32))


def _yarn(base: _Base, scaling: Scaling) -> Rope:
    """YaRN (arXiv 2309.00071): stretch by wave length, sharpen attention a little."""
    factor = _number(scaling, "factor")
    low = _pair_with_rotations(_number(scaling, "beta_fast", 32.0), base, scaling)
    high = _pair_with_rotations(_number(scaling, "beta_slow", 1.0), base, scaling)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, base.head_dim - 1)
    span = high - low or 0.001
    ramp = np.clip((np.arange(base.head_dim // 2) - low) / span, 0, 1)
    kept = (1 - ramp).astype(np.float32)
    stretched = base.inv_freq / np.float32(factor)
    inv_freq = stretched * (1 - kept) + base.inv_freq * kept
    return Rope(inv_freq.astype(np.float32), _yarn_attention_factor(factor, scaling))


def _original(base: _Base, scaling: Scaling) -> float:
    """Positions that the checkpoint was made for before it was scaled."""
    return _number(scaling, "original_max_position_embeddings", base.max_positions)


def _pair_with_rotations(rotations: float, base: _Base, scaling: Scaling) -> float:
    """The pair of dimensions that turns so often within the original positions."""
    turns = math.log(_original(base, scaling) / (rotations * 2 * math.pi))
    return base.head_dim * turns / (2 * math.log(base.theta))


def _yarn_attention_factor(factor: float, scaling: Scaling) -> float:
    if scaling.get("attention_factor") is not None:
        return _number(scaling, "attention_factor")
    if scaling.get("mscale") and scaling.get("mscale_all_dim"):
        upper = _sharpening(factor, _number(scaling, "mscale"))
        return upper / _sharpening(factor, _number(scaling, "mscale_all_dim"))
    return _sharpening(factor, 1.0)


def _sharpening(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


_SCALINGS: dict[str, Callable[[_Base, Scaling], Rope]] = {
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
