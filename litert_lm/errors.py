"""The exception tree. Every error a caller sees is one of these.

LiteRtLmError(RuntimeError)
├── InvalidArgumentError(ValueError)   a value the caller gave is wrong
│   ├── PromptTooLongError             the prompt does not fit into the context
│   └── MissingExtraError(ImportError) an optional dependency is not installed
├── ModelNotFoundError                 no such file, model name or source
├── ModelFileError                     the file is damaged or is no model bundle
├── UnsupportedModelError              a sound file that this runtime cannot run
├── BackendError                       the backend is missing or does not work here
├── ContextFullError                   the KV cache has no room for another token
├── SessionStateError                  the call does not fit the object's state
├── SavedStateError                    a saved or exported state cannot be used here
├── CancelledError                     the work was cancelled on request
├── DeadlineExceededError              the time that the caller gave is over
├── QueueFullError                     too many requests wait already
├── ServerUnavailableError             the server does not take requests now
├── AccessDeniedError                  the server's API key is missing or wrong
├── MessageTooLargeError               an answer is too large to be sent
├── ExecutionError                     the model failed while it ran
│   └── NoTokenLeftError               constraints left no token to generate
├── ConversionError                    weights could not be turned into a bundle
├── DownloadError                      a source could not be fetched
└── StorageError                       a disk or cache directory cannot be used

Messages say what is wrong, name the value, and give the next step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

_MAX_SHOWN = 100  # characters


class LiteRtLmError(RuntimeError):
    """Base class; catches everything this package raises on purpose.

    ``grpc_status`` is the name of the gRPC status code and ``http_status`` the HTTP
    status that the servers answer with.
    """

    grpc_status: ClassVar[str] = "INTERNAL"
    http_status: ClassVar[int] = 500


class InvalidArgumentError(LiteRtLmError, ValueError):
    """An argument has a wrong type or a value out of range."""

    grpc_status = "INVALID_ARGUMENT"
    http_status = 400


class PromptTooLongError(InvalidArgumentError):
    """The prompt needs more tokens than the context has left."""


class MissingExtraError(InvalidArgumentError, ImportError):
    """A feature needs an optional dependency; the message holds the pip line."""

    grpc_status = "FAILED_PRECONDITION"
    http_status = 501

    @classmethod
    def of(cls, what: str, package: str, extra: str) -> MissingExtraError:
        """The error for `what`, which needs a package of one of our extras."""
        return cls(
            f"{what} needs the package {package}. Run:"
            f' pip install "pylitert-lm[{extra}]", or in a clone'
            f' pip install ".[{extra}]".'
        )


class ModelNotFoundError(LiteRtLmError):
    """No file, stored model or source has the given name."""

    grpc_status = "NOT_FOUND"
    http_status = 404


class ModelFileError(LiteRtLmError):
    """The file is not a model bundle, or is damaged."""

    grpc_status = "FAILED_PRECONDITION"
    http_status = 422


class UnsupportedModelError(LiteRtLmError):
    """The file is sound, but needs something this runtime does not have."""

    grpc_status = "UNIMPLEMENTED"
    http_status = 501


class BackendError(LiteRtLmError):
    """The requested backend is unknown, missing or does not work on this machine."""

    grpc_status = "UNAVAILABLE"
    http_status = 503


class ContextFullError(LiteRtLmError):
    """The context is full: no further token can be stored."""

    grpc_status = "FAILED_PRECONDITION"
    http_status = 409


class SessionStateError(LiteRtLmError):
    """The call does not fit the state: closed, busy elsewhere, not prefilled."""

    grpc_status = "FAILED_PRECONDITION"
    http_status = 409


class SavedStateError(LiteRtLmError):
    """A saved session or an exported KV state is damaged, or of another model."""

    grpc_status = "FAILED_PRECONDITION"
    http_status = 409


class CancelledError(LiteRtLmError):
    """The work was cancelled by the caller."""

    grpc_status = "CANCELLED"
    http_status = 499


class DeadlineExceededError(LiteRtLmError):
    """The caller's deadline passed before the work was done."""

    grpc_status = "DEADLINE_EXCEEDED"
    http_status = 504


class QueueFullError(LiteRtLmError):
    """As many requests as allowed wait already; the same may succeed later."""

    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 429


class ServerUnavailableError(LiteRtLmError):
    """The server does not take requests: its model still loads, or it is ending."""

    grpc_status = "UNAVAILABLE"
    http_status = 503


class AccessDeniedError(LiteRtLmError):
    """The API key that the server asks for is missing or wrong."""

    grpc_status = "UNAUTHENTICATED"
    http_status = 401


class MessageTooLargeError(LiteRtLmError):
    """An answer is larger than what one message may hold."""

    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 413


class ExecutionError(LiteRtLmError):
    """The model failed while it ran, or gave logits that are not numbers."""


class NoTokenLeftError(ExecutionError):
    """Masks, grammar and minimum together forbid every token at a step."""

    grpc_status = "FAILED_PRECONDITION"
    http_status = 409


class ConversionError(LiteRtLmError):
    """Weights, tokenizer or template could not be turned into a bundle."""

    grpc_status = "FAILED_PRECONDITION"
    http_status = 422


class DownloadError(LiteRtLmError):
    """A source could not be reached or did not give what was asked for."""

    grpc_status = "UNAVAILABLE"
    http_status = 502


class StorageError(LiteRtLmError):
    """A directory or disk cannot be read or written."""

    grpc_status = "RESOURCE_EXHAUSTED"
    http_status = 507


def shown(value: object) -> str:
    """`value` as messages name it: on one short line, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # numbers with too many digits, and classes of the caller's
        return f"a {type(value).__name__} that cannot be shown"
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


@contextmanager
def read_errors(path: object) -> Iterator[None]:
    """Turn the block's OSErrors into a StorageError about a file that it reads."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"Cannot read '{path}': {error.strerror or error}; check its permissions "
            "and the disk."
        ) from error


@contextmanager
def os_errors(action: str) -> Iterator[None]:
    """Turn the block's OSErrors into a StorageError: "Cannot `action`: ..."."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"Cannot {action}: {error}.") from error
