"""Fetch one file over HTTP: resumed, retried, checked and put in place at once."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import socket
import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path
from typing import IO, Any

from litert_lm.bundle.lock import file_lock
from litert_lm.config import Progress, no_progress
from litert_lm.errors import DownloadError, StorageError
from litert_lm.hub.checksum import check_digest
from litert_lm.hub.disk import check_room
from litert_lm.hub.sources import check_url

__all__ = ["Retries", "download"]

_CHUNK_BYTES = 1 << 18
#: An attempt that brought this much counts as a success: retries start over.
_GOOD_ATTEMPT_BYTES = 1 << 20
_TRANSIENT_STATUS = {408, 425, 429, 500, 502, 503, 504}
_RANGE_REFUSED = 416


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How patient a download is.

    Args:
        count: further attempts after a failure; a good megabyte starts the count anew.
        wait_s: seconds before the first of them, doubled each time.
        timeout_s: seconds without a byte after which an attempt has failed.
    """

    count: int = 4
    wait_s: float = 1.0
    timeout_s: float = 30.0


def download(
    url: str,
    target: Path,
    *,
    parts: Path,
    sha256: str | None = None,
    progress: Progress = no_progress,
    retries: Retries | None = None,
) -> str:
    """Fetch `url` into `target` and return the SHA-256 of its bytes, in hex.

    What has arrived is kept below the folder `parts`, which must be on `target`'s
    disk; a later call goes on from there if the server still has the same file
    (Range and If-Range, RFC 9110 §13.1.5 and §14.2).

    Raises:
        InvalidArgumentError: the address is not one that may be used.
        DownloadError: the server cannot be reached, refuses, or the digest differs.
        StorageError: the disk is full or cannot be written.
    """
    check_url(url)
    key = hashlib.sha256(url.encode()).hexdigest()[:32]
    with file_lock(parts / f"{key}.lock", lambda: progress("Waiting", 0.0)):
        transfer = _Transfer(url, parts / f"{key}.part", progress, retries or Retries())
        try:
            digest = transfer.run()
            transfer.check(digest, sha256)
            os.replace(transfer.part, target)
            transfer.forget()
        except OSError as error:
            raise StorageError(
                f"Cannot write {target}: {error.strerror or error}; check the folder, "
                "its permissions and the free space."
            ) from error
    return digest


class _InterruptedTransferError(Exception):
    """An attempt broke off in a way that another attempt may mend."""


@dataclass
class _Transfer:
    """One file on its way: the part on disk and what is known of the whole."""

    url: str
    part: Path
    progress: Progress
    retries: Retries
    total: int | None = None
    hasher: Any = field(default_factory=hashlib.sha256)
    num_done: int = 0

    @property
    def state(self) -> Path:
        """Where the file's validator is remembered between processes."""
        return self.part.with_suffix(".json")

    def run(self) -> str:
        """Fetch all bytes into `part` and return their digest."""
        self._take_up_part()
        tries_left = self.retries.count
        wait_s = self.retries.wait_s
        while True:
            num_before = self.num_done
            try:
                self._attempt()
                return str(self.hasher.hexdigest())
            except _InterruptedTransferError as error:
                if self.num_done - num_before >= _GOOD_ATTEMPT_BYTES:
                    tries_left, wait_s = self.retries.count, self.retries.wait_s
                if not tries_left:
                    raise DownloadError(
                        f"Cannot fetch {self.url}: {error}. {self._next_step()}"
                    ) from error
                tries_left -= 1
                self.progress(f"Trying again in {wait_s:g} s", 0.0)
                time.sleep(wait_s)
                wait_s *= 2

    def _next_step(self) -> str:
        if self.num_done and self._validator() is not None:
            return "What arrived is kept; run the same command again to go on."
        return "Check the address and the connection, and run the same command again."

    def check(self, digest: str, wanted: str | None) -> None:
        """Raise DownloadError, and drop the part, unless the digest is the wanted."""
        try:
            check_digest(digest, wanted, self.url)
        except DownloadError:
            self.forget()
            raise

    def forget(self) -> None:
        """Drop the part and what is known of it."""
        self.part.unlink(missing_ok=True)
        self.state.unlink(missing_ok=True)
        self.num_done, self.hasher = 0, hashlib.sha256()

    def _take_up_part(self) -> None:
        """Count and hash what an earlier process left, if it can be gone on with."""
        if self._validator() is None or not self.part.exists():
            self.forget()
            return
        with self.part.open("rb") as file:
            while block := file.read(_CHUNK_BYTES):
                self.hasher.update(block)
                self.num_done += len(block)

    def _validator(self) -> str | None:
        try:
            known = json.loads(self.state.read_bytes())
            return str(known["validator"]) if known["url"] == self.url else None
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _attempt(self) -> None:
        headers = {"User-Agent": "litert-lm", "Accept-Encoding": "identity"}
        validator = self._validator()
        if self.num_done and validator is not None:
            headers |= {"Range": f"bytes={self.num_done}-", "If-Range": validator}
        elif self.num_done:
            self.forget()
        request = urllib.request.Request(self.url, headers=headers)
        try:
            with _opener().open(request, timeout=self.retries.timeout_s) as response:
                self._receive(response)
        except urllib.error.HTTPError as error:
            self._refused(error)
        except urllib.error.URLError as error:
            raise _as_failure(self.url, error.reason) from error
        except (TimeoutError, ConnectionError, ssl.SSLError) as error:
            raise _InterruptedTransferError(str(error) or "timed out") from error
        except http.client.HTTPException as error:
            raise _InterruptedTransferError(f"{type(error).__name__} {error}") from (
                error
            )

    def _refused(self, error: urllib.error.HTTPError) -> None:
        error.close()
        if error.code == _RANGE_REFUSED and self.num_done:
            self.forget()
            raise _InterruptedTransferError("the file changed at its source")
        if error.code in _TRANSIENT_STATUS:
            raise _InterruptedTransferError(f"the server answered {error.code}")
        raise DownloadError(
            f"{self.url} answered {error.code} {error.reason}. Check the address, and"
            " whether it can be read without signing in."
        )

    def _receive(self, response: Any) -> None:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            self.forget()
        elif _range_start(response.headers) != self.num_done:
            self.forget()
            raise _InterruptedTransferError("the server sent another range")
        self.total = _whole_size(response.headers, self.num_done)
        if self.total is not None:
            check_room(self.part.parent, self.total - self.num_done, self.url)
        self._remember(response.headers)
        with self.part.open("ab") as file:
            self._copy(response, file)
            file.flush()
            os.fsync(file.fileno())
        if self.total is not None and self.num_done != self.total:
            raise _InterruptedTransferError(
                f"the connection ended after {self.num_done} of {self.total} bytes"
            )

    def _copy(self, response: Any, file: IO[bytes]) -> None:
        stage = f"Downloading {self.url.rsplit('/', 1)[-1]}"
        while block := response.read(_CHUNK_BYTES):
            file.write(block)
            self.hasher.update(block)
            self.num_done += len(block)
            if self.total is not None and self.num_done > self.total:
                self.forget()
                raise DownloadError(f"{self.url} sends more bytes than it announced.")
            self.progress(stage, self.num_done / self.total if self.total else 0.0)

    def _remember(self, headers: Message) -> None:
        etag = headers.get("ETag")
        strong = etag if etag and not etag.startswith("W/") else None
        validator = strong or headers.get("Last-Modified")
        if validator:
            self.state.write_text(json.dumps({"url": self.url, "validator": validator}))


def _as_failure(url: str, reason: object) -> Exception:
    """The error for a connection that could not be made: final, or worth a retry."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return DownloadError(f"The certificate of {url} is not trusted: {reason}.")
    if isinstance(reason, socket.gaierror):
        return DownloadError(
            f"Cannot reach {url}: {reason.strerror}. Check the name and the network."
        )
    return _InterruptedTransferError(str(reason))


def _range_start(headers: Message) -> int | None:
    unit, _, rest = (headers.get("Content-Range") or "").partition(" ")
    start = rest.partition("-")[0]
    return int(start) if unit == "bytes" and _is_number(start) else None


def _whole_size(headers: Message, num_done: int) -> int | None:
    length = headers.get("Content-Length") or ""
    return num_done + int(length) if _is_number(length) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


class _CheckedRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to an address that could have been given itself."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Any,
        newurl: str,
    ) -> urllib.request.Request | None:
        check_url(newurl)
        stays_on_host = req.type == "http" and newurl.startswith("http:")
        if not newurl.startswith("https:") and not stays_on_host:
            raise DownloadError(f"{req.full_url} redirects to {newurl}: refused.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_CheckedRedirects)
