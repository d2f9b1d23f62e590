"""Official options that ask for what does not exist here yet."""

from __future__ import annotations

from collections.abc import Mapping

from litert_lm.config import Backend
from litert_lm.errors import BackendError, InvalidArgumentError, shown

__all__ = ["backend_of", "check_all_unset", "check_unset"]

_BACKENDS = (Backend.CPU, Backend.GPU, Backend.NPU)
_NOT_YET_OF_ENGINES = (
    "max_num_images",
    "vision_backend",
    "audio_backend",
    "lora_rank_config",
    "activation_data_type",
    "use_ringbuffers_local_attention",
    "enable_ynnpack",
    "enable_speculative_decoding",
)
_NOT_YET_OF_BACKENDS = ("gpu_decode_steps_per_sync", "litert_dispatch_lib_dir")


def backend_of(backend: object) -> Backend:
    """The backend; a class stands for an instance with its defaults."""
    if isinstance(backend, type) and backend in _BACKENDS:
        backend = backend()
    if not isinstance(backend, _BACKENDS):
        raise BackendError(
            f"{shown(backend)} is no backend; use Backend.CPU(), Backend.GPU() or "
            "Backend.NPU()."
        )
    for name in _NOT_YET_OF_BACKENDS:
        check_unset(name, getattr(backend, name, None))
    return backend


def check_all_unset(arguments: Mapping[str, object]) -> None:
    """Refuse those of an engine's arguments that are not there yet."""
    for name in _NOT_YET_OF_ENGINES:
        check_unset(name, arguments[name])


def check_unset(name: str, value: object) -> None:
    """Refuse an option; None and False are accepted, because that is what they mean."""
    if value is not None and value is not False:
        raise InvalidArgumentError(
            f"{name}={shown(value)} is not supported yet; leave it out."
        )
