"""What a client is told when a call fails: the one place that picks gRPC statuses."""

from __future__ import annotations

import logging

import grpc

from litert_lm.errors import LiteRtLmError

__all__ = ["Status", "status_of"]

_MAX_DETAILS = 2000  # characters; a status travels in headers, which are bounded
_LOG = logging.getLogger(__name__)

Status = tuple[grpc.StatusCode, str]


def status_of(error: BaseException) -> Status:
    """Code and details of an error; one that is not of our tree is a fault of ours."""
    if isinstance(error, LiteRtLmError):
        return grpc.StatusCode[error.grpc_status], str(error)[:_MAX_DETAILS]
    _LOG.error("A request failed in a way that is not foreseen.", exc_info=error)
    return (
        grpc.StatusCode.INTERNAL,
        "The server failed in a way that is not foreseen; its log says more.",
    )
