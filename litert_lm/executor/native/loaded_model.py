"""A TFLite model that LiteRT has read, before anything of it is compiled."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from litert_lm.errors import ExecutionError, ModelFileError
from litert_lm.executor.native import runtime
from litert_lm.executor.native.tensors import TensorSpec, destroy_with

__all__ = ["LoadedModel", "ModelSignature"]


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """Position of a signature in the model and its tensors in LiteRT's order.

    Attributes:
        input_positions: of the inputs in that order, by name.
    """

    index: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    input_positions: Mapping[str, int]


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
        self.litert = runtime.litert(accelerator != "cpu")
        self._data = np.frombuffer(data, np.uint8)
        self.handle = self._load()
        destroy = self.litert.destroy["Model"]
        self._finalizer = destroy_with(self, destroy, self.handle)
        self.signatures = _Signatures(self.litert, self.handle)

    def close(self) -> None:
        """Free it; nothing compiled from it may be in use."""
        self._finalizer()

    def _load(self) -> c.c_void_p:
        try:
            model = self.litert.create(
                "CreateModelFromBuffer",
                self.litert.environment,
                self._data.ctypes.data,
                self._data.nbytes,
            )
        except ExecutionError as error:
            raise ModelFileError(
                f"LiteRT refuses the model: {error} Get the file again."
            ) from error
        return model


class _Signatures(Mapping[str, ModelSignature]):
    """The signatures by key; each is read when it is asked for, most never are."""

    def __init__(self, library: runtime.Library, model: c.c_void_p) -> None:
        self._library = library
        count = library.count("GetNumModelSignatures", model)
        handles = [library.create("GetModelSignature", model, i) for i in range(count)]
        self._places = {
            library.text("GetSignatureKey", handle): (index, handle)
            for index, handle in enumerate(handles)
        }
        self._read: dict[str, ModelSignature] = {}

    def __getitem__(self, key: str) -> ModelSignature:
        found = self._read.get(key)
        if found is None:
            index, handle = self._places[key]
            inputs = self._read_tensors(handle, "Input")
            outputs = self._read_tensors(handle, "Output")
            positions = {spec.name: place for place, spec in enumerate(inputs)}
            found = ModelSignature(index, inputs, outputs, positions)
            self._read[key] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _read_tensors(self, signature: c.c_void_p, kind: str) -> tuple[TensorSpec, ...]:
        def spec(index: int) -> TensorSpec:
            name = self._library.text(f"GetSignature{kind}Name", signature, index)
            tensor = self._library.create(
                f"GetSignature{kind}TensorByIndex", signature, index
            )
            ranked = runtime.RankedType()
            self._library.call("GetRankedTensorType", tensor, c.byref(ranked))
            dtype, shape = runtime.described(ranked)
            return TensorSpec(name, shape, np.dtype(dtype))

        count = self._library.count(f"GetNumSignature{kind}s", signature)
        return tuple(spec(index) for index in range(count))
