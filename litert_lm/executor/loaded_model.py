"""A TFLite model that LiteRT has read, before anything of it is compiled."""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass

import numpy as np

from litert_lm.errors import ExecutionError, ModelFileError
from litert_lm.executor import runtime
from litert_lm.executor.tensors import TensorSpec, destroy_with

__all__ = ["LoadedModel", "ModelSignature"]


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """Position of a signature in the model and its tensors in LiteRT's order."""

    index: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class LoadedModel:
    """A model in memory that must hold verified TFLite bytes, and stays in use.

    Reading takes as long as compiling does, so one reading serves all compilations.

    Args:
        data: the bytes; nothing is copied.
        accelerator: what it will be compiled for.

    Raises:
        ModelFileError: LiteRT refuses the bytes.
    """

    def __init__(self, data: memoryview, accelerator: str = "cpu") -> None:
        self.library = runtime.library(accelerator != "cpu")
        self._data = np.frombuffer(data, np.uint8)
        self.handle = self._load()
        destroy = self.library.destroy["Model"]
        self._finalizer = destroy_with(self, destroy, self.handle)
        self.signatures = dict(self._read_signatures())

    def close(self) -> None:
        """Free it; nothing compiled from it may be in use."""
        self._finalizer()

    def _load(self) -> c.c_void_p:
        try:
            model = self.library.create(
                "CreateModelFromBuffer",
                self.library.environment,
                self._data.ctypes.data,
                self._data.nbytes,
            )
        except ExecutionError as error:
            raise ModelFileError(f"LiteRT refuses the model: {error}") from error
        return model

    def _read_signatures(self) -> list[tuple[str, ModelSignature]]:
        count = self.library.count("GetNumModelSignatures", self.handle)
        return [self._read_signature(index) for index in range(count)]

    def _read_signature(self, index: int) -> tuple[str, ModelSignature]:
        handle = self.library.create("GetModelSignature", self.handle, index)
        key = self.library.text("GetSignatureKey", handle)
        inputs, outputs = (
            self._read_tensors(handle, kind) for kind in ("Input", "Output")
        )
        return key, ModelSignature(index, inputs, outputs)

    def _read_tensors(self, signature: c.c_void_p, kind: str) -> tuple[TensorSpec, ...]:
        def spec(index: int) -> TensorSpec:
            name = self.library.text(f"GetSignature{kind}Name", signature, index)
            tensor = self.library.create(
                f"GetSignature{kind}TensorByIndex", signature, index
            )
            ranked = runtime.RankedType()
            self.library.call("GetRankedTensorType", tensor, c.byref(ranked))
            dtype, shape = runtime.described(ranked)
            return TensorSpec(name, shape, np.dtype(dtype))

        count = self.library.count(f"GetNumSignature{kind}s", signature)
        return tuple(spec(index) for index in range(count))
