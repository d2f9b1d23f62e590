"""Kernels of custom operators that LiteRT itself does not have.

The exporter writes two for models with linear attention (Qwen3.5): the gated delta rule
and the inverse of a unit triangular matrix. Here they are numpy, called by LiteRT.
"""

from __future__ import annotations

import ctypes as c
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from litert_lm.executor.native import runtime

__all__ = ["KERNELS", "register"]

Array = npt.NDArray[Any]  # float32
_OK, _FAILED = 0, 3
_READ, _WRITE = 0, 1
_CHUNK = 64  # tokens of one matrix product; more lose precision


def gated_delta_update(
    q: Array, k: Array, v: Array, beta: Array, gate: Array, state: Array
) -> tuple[Array, Array]:
    """Gated delta rule over a chunk (Yang et al. 2024, "Gated Delta Networks").

    Per token t the state S decays by exp(gate_t), then the part of value v_t that k_t
    does not recall is written: S += k_t (beta_t (v_t - k_t S)); the output is q_t S.

    Args:
        q, k: [B, Hk, N, Dk]; heads are repeated where v has more.
        v: [B, Hv, N, Dv].
        beta, gate: [B, Hv, N].
        state: [B, Hv, Dk, Dv].

    Returns:
        outputs [B, Hv, N, Dv] and the new state.
    """
    repeats = v.shape[1] // q.shape[1]
    q, k = (np.repeat(x, repeats, axis=1) for x in (q, k))
    outputs = np.empty_like(v)
    for first in range(0, v.shape[2], _CHUNK):
        part = slice(first, first + _CHUNK)
        outputs[:, :, part], state = _delta_chunk(
            q[:, :, part],
            k[:, :, part],
            v[:, :, part],
            beta[:, :, part, None],
            np.cumsum(gate[:, :, part], axis=-1)[..., None],
            state,
        )
    return outputs, state


def _delta_chunk(
    q: Array, k: Array, v: Array, beta: Array, decay: Array, state: Array
) -> tuple[Array, Array]:
    """The rule for a chunk at once: what each token writes solves a linear system.

    `decay` is the running sum of the gates, [B, H, n, 1].
    """
    if v.shape[2] == 1:
        state = state * np.exp(decay)
        state = state + np.swapaxes(k, -1, -2) @ ((v - k @ state) * beta)
        return q @ state, state
    keys = np.swapaxes(k, -1, -2)
    between = np.tril(np.exp(np.minimum(decay - np.swapaxes(decay, -1, -2), 0)))
    from_start = np.exp(decay)
    system = np.eye(v.shape[2], dtype=v.dtype) + np.tril(k @ keys * between, -1) * beta
    written = np.linalg.solve(system, beta * (v - from_start * (k @ state)))
    outputs = from_start * (q @ state) + (q @ keys * between) @ written
    last = decay[:, :, -1:]
    new_state = np.exp(last) * state
    new_state += np.swapaxes(k * np.exp(last - decay), -1, -2) @ written
    return outputs, new_state


def triangular_inverse(matrix: Array) -> tuple[Array]:
    """Inverse of I - L for the strictly lower part L of [..., n, n] matrices.

    Forward substitution, row by row.
    """
    result = np.array(matrix)
    for row in range(1, matrix.shape[-1]):
        known = result[..., :row, :row]
        result[..., row, :row] += (result[..., row, None, :row] @ known)[..., 0, :]
    return (result + np.eye(matrix.shape[-1], dtype=matrix.dtype),)


_Init = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_size_t)
_OutputLayouts = c.CFUNCTYPE(
    c.c_int,
    c.c_void_p,
    c.c_size_t,
    c.POINTER(runtime.Layout),
    c.c_size_t,
    c.POINTER(runtime.Layout),
)
_Run = c.CFUNCTYPE(
    c.c_int,
    c.c_void_p,
    c.c_size_t,
    c.POINTER(c.c_void_p),
    c.c_size_t,
    c.POINTER(c.c_void_p),
)
_Destroy = c.CFUNCTYPE(c.c_int, c.c_void_p)


class _Kernel(c.Structure):
    _fields_ = [
        ("init", _Init),
        ("output_layouts", _OutputLayouts),
        ("run", _Run),
        ("destroy", _Destroy),
    ]


# name -> function of the inputs, and for each output the input that has its shape
KERNELS: dict[str, tuple[Callable[..., Sequence[Array]], tuple[int, ...]]] = {
    "gated_delta_update": (gated_delta_update, (2, 5)),
    "gdn_tril_inv": (triangular_inverse, (0,)),
}


def register(options: c.c_void_p, name: str) -> None:
    """Make a kernel known to a compilation."""
    kernel = _native_kernel(name)
    runtime.litert().call(
        "AddCustomOpKernelOption", options, name.encode(), 1, c.byref(kernel), None
    )


@functools.cache
def _native_kernel(name: str) -> _Kernel:
    """The kernel's C structure, kept for the process' life as LiteRT points to it."""
    function, shaped_as = KERNELS[name]

    def output_layouts(_: Any, num_in: int, ins: Any, num_out: int, outs: Any) -> int:
        for output, source in zip(range(num_out), shaped_as, strict=True):
            outs[output] = ins[source]
        return _OK

    def run(_: Any, num_in: int, ins: Any, num_out: int, outs: Any) -> int:
        try:
            results = function(*(_copied(ins[i]) for i in range(num_in)))
            for handle, result in zip(outs[:num_out], results, strict=True):
                _written(handle, result)
        except (ValueError, np.linalg.LinAlgError, ArithmeticError):
            return _FAILED
        return _OK

    return _Kernel(
        _Init(lambda *_: _OK),
        _OutputLayouts(output_layouts),
        _Run(run),
        _Destroy(lambda _: _OK),
    )


def _copied(handle: int) -> Array:
    view = _locked(handle, _READ)
    array = view.copy()
    runtime.litert().call("UnlockTensorBuffer", handle)
    return array


def _written(handle: int, values: Array) -> None:
    _locked(handle, _WRITE)[...] = values
    runtime.litert().call("UnlockTensorBuffer", handle)


def _locked(handle: int, mode: int) -> Array:
    library = runtime.litert()
    ranked, pointer = runtime.RankedType(), c.c_void_p()
    library.call("GetTensorBufferTensorType", handle, c.byref(ranked))
    dtype, shape = runtime.described(ranked)
    if dtype != "float32":
        raise ValueError(f"custom operators take float32, not {dtype}")
    library.call("LockTensorBuffer", handle, c.byref(pointer), mode)
    floats = c.cast(pointer, c.POINTER(c.c_float))
    size = int(np.prod(shape, dtype=np.int64))
    return np.ctypeslib.as_array(floats, (size,)).reshape(shape)
