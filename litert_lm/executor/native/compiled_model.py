"""A TFLite model compiled by LiteRT, and calls of its signatures.

Python checks every name, shape and dtype first, because the C API does not: an output
buffer that is too small is a heap overflow there, and a wrong dtype goes unnoticed.
"""

from __future__ import annotations

import ctypes as c
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy.typing as npt

from litert_lm.errors import (
    BackendError,
    CancelledError,
    ExecutionError,
    LiteRtLmError,
    ModelFileError,
)
from litert_lm.executor.native import custom_ops, runtime
from litert_lm.executor.native.loaded_model import LoadedModel
from litert_lm.executor.native.quiet import quiet_stderr
from litert_lm.executor.native.tensors import TensorBuffer, TensorSpec, destroy_with

__all__ = ["CompileOptions", "CompiledModel", "RunCall"]


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """What LiteRT is told about a compilation.

    Args:
        accelerator: "cpu", "gpu" or "npu".
        num_threads: threads of one run on the CPU.
        weight_cache: path of XNNPACK's packed weights, ":memory", or None.
        signatures: keys to compile; others then cannot be run. None compiles all.
        custom_ops: custom operators of the model that have a kernel here.
        accelerator_toml: options of the accelerator in LiteRT's TOML notation.
    """

    accelerator: str = "cpu"
    num_threads: int = 1
    weight_cache: str | None = None
    signatures: tuple[str, ...] | None = None
    custom_ops: tuple[str, ...] = ()
    accelerator_toml: str = ""

    def payloads(self) -> dict[str, str]:
        """LiteRT's opaque options: identifier -> TOML text."""
        cpu = f"num_threads = {self.num_threads}\n"
        if self.weight_cache is not None:
            # LiteRT's reader takes what is between the quotes as it is.
            cpu += f'weight_cache_file_path = "{self.weight_cache}"\n'
        run = "error_reporter_mode = 2\n"  # keep messages for error_text()
        if self.signatures is not None:
            run += f"selected_signature_keys = {json.dumps(list(self.signatures))}\n"
        texts = {"xnnpack": cpu, "runtime_options_string": run}
        if self.accelerator_toml:
            texts["gpu_options"] = self.accelerator_toml
        return texts


class CompiledModel:
    """Signatures of a model, compiled.

    One run at a time: the object is not re-entrant.
    """

    def __init__(self, model: LoadedModel, options: CompileOptions) -> None:
        self.options = options
        self.litert = model.litert
        self._model = model
        self.handle = self._compile()
        self.signatures = model.signatures
        self._shapes: dict[str, dict[str, tuple[int, ...]]] = {}
        self._output_shapes: dict[tuple[object, ...], dict[str, tuple[int, ...]]] = {}
        self._cancellation: Any = None
        self._raised: list[BaseException] = []

    def _compile(self) -> c.c_void_p:
        options = self._make_options()
        try:
            with quiet_stderr():
                handle = self.litert.create(
                    "CreateCompiledModel",
                    self.litert.environment,
                    self._model.handle,
                    options,
                )
        except ExecutionError as error:
            raise self._refused(error) from error
        destroy = self.litert.destroy["CompiledModel"]
        self._finalizer = destroy_with(self, destroy, handle, self._model)
        return handle

    def _refused(self, error: ExecutionError) -> LiteRtLmError:
        accelerator = self.options.accelerator
        if accelerator == "cpu":
            return ModelFileError(
                f"The model cannot be compiled: {error} Get the file again."
            )
        return BackendError(
            f"The model cannot be compiled for the {accelerator}: no usable device or "
            f"driver was found, or it lacks operators of the model. {error} Use "
            "Backend.CPU()."
        )

    def _make_options(self) -> c.c_void_p:
        options = self.litert.create("CreateOptions")
        accelerators = runtime.ACCELERATORS[self.options.accelerator]
        self.litert.call("SetOptionsHardwareAccelerators", options, accelerators)
        for identifier, text in self.options.payloads().items():
            self.litert.add_payload(options, identifier, text)
        for name in self.options.custom_ops:
            custom_ops.register(options, name)
        return options

    def input_shapes(self, key: str) -> Mapping[str, tuple[int, ...]]:
        """Current shape of every input of a signature, after resizing."""
        if key not in self._shapes:
            inputs = self.signatures[key].inputs
            self._shapes[key] = {spec.name: spec.shape for spec in inputs}
        return self._shapes[key]

    def resize_input(self, key: str, name: str, shape: tuple[int, ...]) -> None:
        """Give an input another shape; takes effect at the next run.

        A shape that the graph cannot take shows as an error of the next run, after
        which the signature is unusable.
        """
        if self.input_shapes(key)[name] == shape:
            return
        signature = self.signatures[key]
        dims = (c.c_int * len(shape))(*shape)
        self.litert.call(
            "CompiledModelResizeInputTensorNonStrict",
            self.handle,
            signature.index,
            signature.input_positions[name],
            dims,
            len(shape),
        )
        self._shapes[key][name] = shape

    def output_shapes(self, key: str) -> dict[str, tuple[int, ...]]:
        """Shape of every output with the inputs' present shapes."""
        shapes = (key, *self.input_shapes(key).values())
        if shapes not in self._output_shapes:
            self._output_shapes[shapes] = self._read_output_shapes(key)
        return self._output_shapes[shapes]

    def _read_output_shapes(self, key: str) -> dict[str, tuple[int, ...]]:
        signature = self.signatures[key]
        layouts = (runtime.Layout * max(1, len(signature.outputs)))()
        try:
            self.litert.call(
                "GetCompiledModelOutputTensorLayouts",
                self.handle,
                signature.index,
                len(signature.outputs),
                layouts,
                True,
            )
        except ExecutionError as error:
            raise ExecutionError(f"{error} {self.error_text()}".strip()) from error
        return {
            spec.name: tuple(layout.dims[: len(spec.shape)])
            for spec, layout in zip(signature.outputs, layouts, strict=False)
        }

    def set_cancellation(self, is_cancelled: Callable[[], bool] | None) -> None:
        """Ask `is_cancelled` between operators of every later run; None stops that."""
        callback: Any = None
        address = runtime.NEVER_CANCELLED
        if is_cancelled is not None:
            watch = _watch(is_cancelled, self._raised)
            next(watch)
            callback = runtime.CANCEL_CALLBACK(watch.send)
            # A cast would have the callback hold itself, and so the caller's session.
            address = c.c_void_p.from_buffer_copy(callback)
        self.litert.call(
            "SetCompiledModelCancellationFunction", self.handle, None, address
        )
        self._cancellation = callback

    def raise_status(self, status: int) -> NoReturn:
        """Raise what a failed run's status code stands for."""
        text = self.error_text()
        if self._raised:
            raise self._raised.pop()
        if status == runtime.CANCELLED or "cancel" in text.lower():
            raise CancelledError("The run was cancelled.")
        reason = runtime.STATUS.get(status, f"status {status}")
        raise ExecutionError(f"The model failed to run: {reason}. {text}".strip())

    def error_text(self) -> str:
        """LiteRT's messages since the last call, on one line."""
        try:
            text = self.litert.text("CompiledModelGetErrorMessages", self.handle)
            self.litert.call("CompiledModelClearErrors", self.handle)
        except ExecutionError:
            return ""
        return " ".join(text.split())

    def close(self) -> None:
        """Free the native model now; it cannot be run afterwards."""
        self._finalizer()


def _watch(
    is_cancelled: Callable[[], bool], raised: list[BaseException]
) -> Generator[bool, object, None]:
    """Answers for `is_cancelled`; what it raises is put aside and cancels.

    ctypes prints an exception that leaves a callback, and goes on. That of Ctrl-C comes
    up with the first step of any Python code on the main thread: in a generator that
    is already inside its try block, in a function before it.
    """
    answer = False
    try:
        while True:
            yield answer
            answer = is_cancelled()
    except GeneratorExit:
        return
    except BaseException as error:
        raised[:] = [error]
    while True:
        yield True


class RunCall:
    """One signature with its buffers bound; calling it runs the model once.

    An input and an output may be the same buffer (a KV cache updated in place).

    Attributes:
        native: runs the model and returns LiteRT's status, 0 for success. `fail`
            raises what another one stands for.
    """

    __slots__ = ("_keep", "_model", "native")

    def __init__(
        self,
        model: CompiledModel,
        key: str,
        inputs: Mapping[str, TensorBuffer],
        outputs: Mapping[str, TensorBuffer],
    ) -> None:
        signature = model.signatures[key]
        check_buffers(key, signature.inputs, inputs, model.input_shapes(key))
        check_buffers(key, signature.outputs, outputs, model.output_shapes(key))
        ins = _handles(signature.inputs, inputs)
        outs = _handles(signature.outputs, outputs)
        self.native: Callable[[], int] = partial(
            model.litert.run,
            model.handle,
            signature.index,
            len(ins),
            ins,
            len(outs),
            outs,
        )
        self._keep = (dict(inputs), dict(outputs))
        self._model = model

    def __call__(self) -> None:
        """Run; raises ExecutionError or CancelledError with LiteRT's text."""
        if status := self.native():
            self.fail(status)

    def fail(self, status: int) -> NoReturn:
        """Raise what a status code of `native` stands for."""
        self._model.raise_status(status)


def check_buffers(
    key: str,
    specs: Sequence[TensorSpec],
    buffers: Mapping[str, TensorBuffer],
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Raise ExecutionError unless each buffer has its tensor's dtype and shape.

    `shapes` holds the present shape of resized tensors.
    """
    for spec in specs:
        array: npt.NDArray[Any] = buffers[spec.name].array
        wanted = shapes.get(spec.name, spec.shape)
        if array.dtype != spec.dtype or array.shape != wanted:
            raise ExecutionError(
                f"Signature {key!r}, tensor {spec.name!r}: the model has "
                f"{spec.dtype}{list(wanted)}, the buffer {array.dtype}"
                f"{list(array.shape)}."
            )


def _handles(
    specs: Sequence[TensorSpec], buffers: Mapping[str, TensorBuffer]
) -> c.Array[c.c_void_p]:
    return (c.c_void_p * len(specs))(*(buffers[s.name].handle.value for s in specs))
