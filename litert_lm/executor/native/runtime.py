"""LiteRT's C API, bound from the library inside the `ai-edge-litert` wheel.

The only module that knows the library's names and structures. Calls release the GIL.
"""

from __future__ import annotations

import ctypes as c
import functools
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from litert_lm.errors import BackendError, ExecutionError, UnsupportedModelError
from litert_lm.executor.native.quiet import quiet_stderr

ALIGNMENT = 64  # bytes; LiteRT refuses host memory that is aligned to less

ACCELERATORS = {"cpu": 1, "gpu": 2, "npu": 4}

STATUS = {
    1: "invalid argument",
    2: "out of memory",
    3: "runtime failure",
    4: "missing input tensor",
    5: "unsupported",
    6: "not found",
    7: "timeout",
    100: "cancelled",
    500: "file error",
    501: "invalid model",
    502: "a library could not be loaded",
    503: "serialization",
    504: "the model could not be compiled",
    1000: "index out of bounds",
}
CANCELLED = 100

_ELEMENT_TYPES = {
    "float32": 1,
    "int32": 2,
    "uint8": 3,
    "int64": 4,
    "bool": 6,
    "int16": 7,
    "int8": 9,
    "float16": 10,
    "uint32": 16,
    "uint16": 17,
}
_DTYPE_NAMES = {code: name for name, code in _ELEMENT_TYPES.items()}
MAX_RANK = 8

_RUNTIME_DIRECTORY = 22  # environment option: where accelerator plugins are searched
_MIN_LOG_SEVERITY = 25
_ANY_INT, _ANY_STRING = 2, 8
_LOG_ERRORS_ONLY = 4


class Layout(c.Structure):
    """`bits` holds the rank in its low 7 bits and has-strides in the eighth."""

    _fields_ = [
        ("bits", c.c_uint32),
        ("dims", c.c_int32 * 8),
        ("strides", c.c_uint32 * 8),
    ]


class RankedType(c.Structure):
    _fields_ = [("element_type", c.c_int), ("layout", Layout)]


class _AnyValue(c.Union):
    _fields_ = [
        ("b", c.c_bool),
        ("i", c.c_int64),
        ("r", c.c_double),
        ("s", c.c_char_p),
        ("p", c.c_void_p),
    ]


class _Any(c.Structure):
    _fields_ = [("type", c.c_int), ("value", _AnyValue)]


class _EnvironmentOption(c.Structure):
    _fields_ = [("tag", c.c_int), ("any", _Any)]


_HANDLE = c.c_void_p
_OUT = c.POINTER(c.c_void_p)
_SIZE = c.c_size_t
_STRING_OUT = c.POINTER(c.c_char_p)

# name -> argument types; all return a status code but for the Destroy functions
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "CreateEnvironment": (c.c_int, c.POINTER(_EnvironmentOption), _OUT),
    "GetNumAccelerators": (_HANDLE, c.POINTER(_SIZE)),
    "GetAccelerator": (_HANDLE, _SIZE, _OUT),
    "GetAcceleratorName": (_HANDLE, _STRING_OUT),
    "CreateOptions": (_OUT,),
    "SetOptionsHardwareAccelerators": (_HANDLE, c.c_int),
    "CreateOpaqueOptions": (c.c_char_p, _HANDLE, _HANDLE, _OUT),
    "AddOpaqueOptions": (_HANDLE, _HANDLE),
    "CreateModelFromBuffer": (_HANDLE, _HANDLE, _SIZE, _OUT),
    "CreateCompiledModel": (_HANDLE, _HANDLE, _HANDLE, _OUT),
    "GetNumModelSignatures": (_HANDLE, c.POINTER(_SIZE)),
    "GetModelSignature": (_HANDLE, _SIZE, _OUT),
    "GetSignatureKey": (_HANDLE, _STRING_OUT),
    "GetNumSignatureInputs": (_HANDLE, c.POINTER(_SIZE)),
    "GetNumSignatureOutputs": (_HANDLE, c.POINTER(_SIZE)),
    "GetSignatureInputName": (_HANDLE, _SIZE, _STRING_OUT),
    "GetSignatureOutputName": (_HANDLE, _SIZE, _STRING_OUT),
    "GetSignatureInputTensorByIndex": (_HANDLE, _SIZE, _OUT),
    "GetSignatureOutputTensorByIndex": (_HANDLE, _SIZE, _OUT),
    "GetRankedTensorType": (_HANDLE, c.POINTER(RankedType)),
    "CreateTensorBufferFromHostMemory": (
        c.POINTER(RankedType),
        _HANDLE,
        _SIZE,
        _HANDLE,
        _OUT,
    ),
    "GetTensorBufferTensorType": (_HANDLE, c.POINTER(RankedType)),
    "GetTensorBufferHostMemory": (_HANDLE, _OUT),
    "CompiledModelResizeInputTensorNonStrict": (
        _HANDLE,
        _SIZE,
        _SIZE,
        c.POINTER(c.c_int),
        _SIZE,
    ),
    "GetCompiledModelOutputTensorLayouts": (
        _HANDLE,
        _SIZE,
        _SIZE,
        c.POINTER(Layout),
        c.c_bool,
    ),
    "RunCompiledModel": (_HANDLE, _SIZE, _SIZE, _OUT, _SIZE, _OUT),
    "SetCompiledModelCancellationFunction": (_HANDLE, _HANDLE, _HANDLE),
    "AddCustomOpKernelOption": (_HANDLE, c.c_char_p, c.c_int, _HANDLE, _HANDLE),
    "LockTensorBuffer": (_HANDLE, _OUT, c.c_int),
    "UnlockTensorBuffer": (_HANDLE,),
    "CompiledModelGetErrorMessages": (_HANDLE, _STRING_OUT),
    "CompiledModelClearErrors": (_HANDLE,),
}
_DESTROYERS = ("Options", "Model", "CompiledModel", "TensorBuffer")
CANCEL_CALLBACK = c.CFUNCTYPE(c.c_bool, c.c_void_p)


# Option payloads live in C memory with C's free(), so that LiteRT may drop them even
# while the interpreter shuts down.
_LIBC = c.CDLL("msvcrt" if sys.platform == "win32" else None)
_LIBC.malloc.argtypes, _LIBC.malloc.restype = (c.c_size_t,), c.c_void_p

# A cancellation function that never cancels: LiteRT takes no NULL for one, and calling
# back into Python would cost more. abs() of the NULL argument is 0, which means no.
NEVER_CANCELLED = c.cast(_LIBC.abs, c.c_void_p)


class Library:
    """The loaded shared library with typed functions and one environment."""

    def __init__(self, with_plugins: bool) -> None:
        self.path = _library_path()
        try:
            self._dll = c.CDLL(str(self.path))
        except OSError as error:
            raise BackendError(
                f"LiteRT cannot be loaded: {error}. Install ai-edge-litert again."
            ) from error
        self._functions = {name: self._bind(name) for name in _FUNCTIONS}
        self.destroy = {name: self._bind_destroy(name) for name in _DESTROYERS}
        self.run = self._functions["RunCompiledModel"]
        self.environment = self._make_environment(with_plugins)
        self._self_test()

    def _symbol(self, name: str) -> Any:
        try:
            return getattr(self._dll, "LiteRt" + name)
        except AttributeError as error:
            raise BackendError(
                f"{self.path.name} has no function LiteRt{name}; "
                "install ai-edge-litert>=2.3,<2.4."
            ) from error

    def _bind(self, name: str) -> Any:
        function = self._symbol(name)
        function.argtypes = _FUNCTIONS[name]
        function.restype = c.c_int
        return function

    def _bind_destroy(self, name: str) -> Any:
        function = self._symbol("Destroy" + name)
        function.argtypes = (_HANDLE,)
        function.restype = None
        return function

    def call(self, name: str, *arguments: Any) -> None:
        """Call and raise ExecutionError on any status but success."""
        status = self._functions[name](*arguments)
        if status:
            raise ExecutionError(f"LiteRT {name}: {STATUS.get(status, status)}.")

    def create(self, name: str, *arguments: Any) -> c.c_void_p:
        """Call a function whose last argument receives a handle."""
        handle = c.c_void_p()
        self.call(name, *arguments, c.byref(handle))
        return handle

    def text(self, name: str, *arguments: Any) -> str:
        """Call a function whose last argument receives a string."""
        value = c.c_char_p()
        self.call(name, *arguments, c.byref(value))
        return (value.value or b"").decode("utf-8", "replace")

    def count(self, name: str, *arguments: Any) -> int:
        """Call a function whose last argument receives a size."""
        value = _SIZE()
        self.call(name, *arguments, c.byref(value))
        return value.value

    def add_payload(self, options: c.c_void_p, identifier: str, text: str) -> None:
        """Attach TOML `text` to compile options; LiteRT frees its copy by itself."""
        data = os.fsencode(text) + b"\0"  # it may hold a path in any encoding
        memory = _LIBC.malloc(len(data))
        c.memmove(memory, data, len(data))
        free = c.cast(_LIBC.free, c.c_void_p)
        payload = self.create("CreateOpaqueOptions", identifier.encode(), memory, free)
        self.call("AddOpaqueOptions", options, payload)

    def _make_environment(self, with_plugins: bool) -> c.c_void_p:
        options = [_option(_MIN_LOG_SEVERITY, _LOG_ERRORS_ONLY)]
        if with_plugins:
            # Loading the GPU plugin kills processes on ARM cores without LSE atomics,
            # so plugins are searched for only when a caller asks for a GPU or NPU.
            options.append(_option(_RUNTIME_DIRECTORY, str(self.path.parent)))
        array = (_EnvironmentOption * len(options))(*options)
        with quiet_stderr():
            return self.create("CreateEnvironment", len(options), array)

    def accelerators(self) -> list[str]:
        """Names of the registered accelerators."""
        count = self.count("GetNumAccelerators", self.environment)
        handles = [
            self.create("GetAccelerator", self.environment, i) for i in range(count)
        ]
        return [self.text("GetAcceleratorName", handle) for handle in handles]

    def _self_test(self) -> None:
        """Fail early when the structures here are not those of the library."""
        memory = c.create_string_buffer(2 * ALIGNMENT)
        address = c.addressof(memory) + -c.addressof(memory) % ALIGNMENT
        sent = ranked_type(np.dtype(np.float32), (2, 3))
        buffer = self.create(
            "CreateTensorBufferFromHostMemory", c.byref(sent), address, 24, None
        )
        got, pointer = RankedType(), c.c_void_p()
        self.call("GetTensorBufferTensorType", buffer, c.byref(got))
        self.call("GetTensorBufferHostMemory", buffer, c.byref(pointer))
        self.destroy["TensorBuffer"](buffer)
        if described(got) != ("float32", (2, 3)) or pointer.value != address:
            raise BackendError(
                f"{self.path.name} is not laid out as in ai-edge-litert 2.3; "
                "install ai-edge-litert>=2.3,<2.4."
            )
        if not any("cpu" in name.lower() for name in self.accelerators()):
            raise BackendError(f"{self.path.name} offers no CPU accelerator.")


def litert(with_plugins: bool = False) -> Library:
    """The library with an environment; with accelerator plugins only on request."""
    return _library(with_plugins)


@functools.cache
def _library(with_plugins: bool) -> Library:
    return Library(with_plugins)


def _library_path() -> Path:
    spec = importlib.util.find_spec("ai_edge_litert")
    if spec is None or not spec.submodule_search_locations:
        raise BackendError("ai-edge-litert is missing: pip install 'ai-edge-litert'.")
    names = {"darwin": "libLiteRt.dylib", "win32": "libLiteRt.dll"}
    folder = Path(spec.submodule_search_locations[0])
    return folder / names.get(sys.platform, "libLiteRt.so")


def _option(tag: int, value: int | str) -> _EnvironmentOption:
    option = _EnvironmentOption(tag=tag)
    if isinstance(value, str):
        option.any.type, option.any.value.s = _ANY_STRING, os.fsencode(value)
    else:
        option.any.type, option.any.value.i = _ANY_INT, value
    return option


@functools.lru_cache(maxsize=1024)
def ranked_type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> RankedType:
    """LiteRT's description of a dense tensor, which is not to be changed."""
    ranked = RankedType(element_type=_ELEMENT_TYPES[dtype.name])
    ranked.layout.bits = len(shape)
    ranked.layout.dims[: len(shape)] = shape
    return ranked


def described(ranked: RankedType) -> tuple[str, tuple[int, ...]]:
    """dtype name and shape of a tensor; UnsupportedModelError for exotic ones."""
    rank = ranked.layout.bits & 0x7F
    if rank > MAX_RANK or ranked.element_type not in _DTYPE_NAMES:
        raise UnsupportedModelError(
            f"A tensor of rank {rank} and LiteRT element type {ranked.element_type} "
            f"cannot be used; plain numbers up to rank {MAX_RANK} can."
        )
    return _DTYPE_NAMES[ranked.element_type], tuple(ranked.layout.dims[:rank])
