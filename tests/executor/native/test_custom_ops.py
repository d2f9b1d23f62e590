"""Kernels of linear attention against the rule written out token by token."""

from __future__ import annotations

import numpy as np
import pytest

from litert_lm.bundle.verify import CUSTOM_OPERATORS
from litert_lm.executor.native.custom_ops import (
    KERNELS,
    gated_delta_update,
    triangular_inverse,
)


def one_by_one(q, k, v, beta, gate, state):
    repeats = v.shape[1] // q.shape[1]
    q, k = np.repeat(q, repeats, 1), np.repeat(k, repeats, 1)
    outputs = np.empty_like(v)
    for t in range(v.shape[2]):
        state = state * np.exp(gate[:, :, t])[..., None, None]
        recalled = np.einsum("bhd,bhde->bhe", k[:, :, t], state)
        written = (v[:, :, t] - recalled) * beta[:, :, t, None]
        state = state + np.einsum("bhd,bhe->bhde", k[:, :, t], written)
        outputs[:, :, t] = np.einsum("bhd,bhde->bhe", q[:, :, t], state)
    return outputs, state


@pytest.mark.parametrize("length", [1, 5, 64, 150])
def test_chunks_equal_single_tokens(length):
    rng = np.random.default_rng(length)
    shapes = (1, 2, length, 8), (1, 2, length, 8), (1, 4, length, 6)
    q, k, v = (rng.standard_normal(s).astype(np.float32) / 3 for s in shapes)
    beta = rng.random((1, 4, length)).astype(np.float32)
    gate = -rng.random((1, 4, length)).astype(np.float32)
    state = rng.standard_normal((1, 4, 8, 6)).astype(np.float32)
    wanted = one_by_one(*(x.astype(np.float64) for x in (q, k, v, beta, gate, state)))
    got = gated_delta_update(q, k, v, beta, gate, state)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_triangular_inverse():
    lower = np.tril(np.random.default_rng(0).standard_normal((2, 9, 9)), -1)
    (inverse,) = triangular_inverse(lower)
    np.testing.assert_allclose(
        inverse @ (np.eye(9) - lower), np.eye(9)[None] + 0 * lower, atol=1e-9
    )


def test_verification_lets_exactly_these_pass():
    assert KERNELS.keys() == CUSTOM_OPERATORS
