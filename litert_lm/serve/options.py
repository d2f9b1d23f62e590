"""How a server is set up: frozen, checked when made."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from litert_lm.config import check_count, check_number
from litert_lm.errors import InvalidArgumentError, StorageError, shown

__all__ = ["ServerOptions"]

_MAX_PORT = 65535
_MAX_PEM_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Addresses, names, keys.

    Attributes:
        host: address to listen at.
        grpc_port, http_port: 0 lets the system choose.
        model_names: what clients may call the model, at least one.
        api_key: what gRPC clients must send, or None.
        tls_cert, tls_key: PEM files, both or neither; both ports use them.
        grace_seconds: what running requests may still take once the server ends.

    Raises:
        InvalidArgumentError: a wrong value, or files that make no key pair.
        StorageError: a file that cannot be read.
    """

    host: str = "127.0.0.1"
    grpc_port: int = 50051
    http_port: int = 8000
    model_names: tuple[str, ...]
    api_key: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    grace_seconds: float = 30.0

    def __post_init__(self) -> None:
        check_count("grpc_port", self.grpc_port, 0, _MAX_PORT)
        check_count("http_port", self.http_port, 0, _MAX_PORT)
        check_number("grace_seconds", self.grace_seconds, 0.0, float("inf"))
        if not self.host:
            raise InvalidArgumentError("host is empty; give an address or a name.")
        if not all(self.model_names) or not self.model_names:
            raise InvalidArgumentError("A served model name is empty; give it one.")
        key = self.api_key
        if key is not None and not (key and key.isascii() and key.isprintable()):
            raise InvalidArgumentError(
                "api_key is empty or holds what a header cannot; use printable ASCII, "
                "or leave it out for none."
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = ("tls_cert", "tls_key")[:: 1 if self.tls_cert else -1]
            raise InvalidArgumentError(f"{given} needs {missing} too; give both.")

    def tls_context(self) -> ssl.SSLContext | None:
        """The certificate and its key for the HTTP port; None without TLS."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        self.tls_pair()  # an unreadable file has a message of its own
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            # Without a password here, OpenSSL would ask at the terminal.
            context.load_cert_chain(self.tls_cert, self.tls_key, password="")
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(
                f"{shown(self.tls_cert)} and {shown(self.tls_key)} are no certificate "
                f"and its unencrypted key in PEM form: {error}."
            ) from error
        return context

    def tls_pair(self) -> tuple[bytes, bytes] | None:
        """Contents of the key and the certificate file; None without TLS."""
        if self.tls_cert is None or self.tls_key is None:
            return None
        return _read("tls_key", self.tls_key), _read("tls_cert", self.tls_cert)


def _read(name: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return file.read(_MAX_PEM_BYTES)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StorageError(f"{name} {shown(path)} cannot be read: {reason}.") from error
