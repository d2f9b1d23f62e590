"""Addresses to listen at, and what is said when one cannot be had."""

from __future__ import annotations

import socket

from litert_lm.errors import InvalidArgumentError, shown

__all__ = ["check_free", "port_error"]


def check_free(name: str, host: str, port: int) -> None:
    """Raise InvalidArgumentError, with the system's reason, unless one can listen."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        socket.create_server(address[:2], family=family).close()
    except (OSError, ValueError) as error:
        raise port_error(name, host, port, error) from error


def port_error(
    name: str, host: str, port: int, error: Exception
) -> InvalidArgumentError:
    """The error for an address that cannot be listened at."""
    reason = (error.strerror if isinstance(error, OSError) else None) or error
    return InvalidArgumentError(
        f"{name} {port} at {shown(host)} cannot be opened: {reason}; choose another, "
        "or 0 for any that is free."
    )
