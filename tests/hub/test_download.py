"""Downloads: resume, retries, checks, and what must never happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from litert_lm.errors import DownloadError, InvalidArgumentError, StorageError
from litert_lm.hub.download import Retries, download

from .conftest import FileServer

QUICK = Retries(count=2, wait_s=0.0, timeout_s=5.0)
NONE = Retries(count=0, wait_s=0.0, timeout_s=5.0)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "got"


def parts(target: Path) -> Path:
    return target.parent / "parts"


def test_fetches_the_bytes_and_their_digest(server: FileServer, target: Path) -> None:
    digest = download(server.url, target, parts=parts(target))
    assert target.read_bytes() == server.content
    assert digest == server.sha256


def test_goes_on_after_a_cut_within_one_call(server: FileServer, target: Path) -> None:
    server.cuts = [300_000, 700_000]
    download(server.url, target, parts=parts(target), retries=QUICK)
    assert target.read_bytes() == server.content
    assert server.ranges == [None, "bytes=300000-", "bytes=700000-"]


def test_a_later_call_resumes(server: FileServer, target: Path) -> None:
    server.cuts = [300_000]
    with pytest.raises(DownloadError, match=r"300000 of 1024000.*run the same command"):
        download(server.url, target, parts=parts(target), retries=NONE)
    digest = download(server.url, target, parts=parts(target), retries=NONE)
    assert server.ranges[-1] == "bytes=300000-"
    assert (digest, target.read_bytes()) == (server.sha256, server.content)


def test_a_changed_file_is_fetched_anew(server: FileServer, target: Path) -> None:
    server.cuts = [300_000]
    with pytest.raises(DownloadError):
        download(server.url, target, parts=parts(target), retries=NONE)
    server.content, server.etag = server.content[::-1], '"v2"'
    download(server.url, target, parts=parts(target), retries=NONE)
    assert target.read_bytes() == server.content


def test_without_a_validator_nothing_is_resumed(
    server: FileServer, target: Path
) -> None:
    server.etag, server.cuts = None, [300_000]
    download(server.url, target, parts=parts(target), retries=QUICK)
    assert server.ranges == [None, None]
    assert target.read_bytes() == server.content


def test_busy_servers_are_asked_again(server: FileServer, target: Path) -> None:
    server.statuses = [503, 429]
    download(server.url, target, parts=parts(target), retries=QUICK)
    assert target.read_bytes() == server.content


def test_a_wait_for_another_try_is_told(server: FileServer, target: Path) -> None:
    server.statuses = [503, 503]
    stages: list[str] = []
    download(
        server.url,
        target,
        parts=parts(target),
        retries=Retries(count=2, wait_s=0.01),
        progress=lambda stage, fraction: stages.append(stage),
    )
    assert stages[:2] == ["Trying again in 0.01 s", "Trying again in 0.02 s"]


def test_a_missing_file_is_not_retried(server: FileServer, target: Path) -> None:
    server.statuses = [404]
    with pytest.raises(DownloadError, match="answered 404"):
        download(server.url, target, parts=parts(target), retries=QUICK)
    assert len(server.ranges) == 1


def test_a_wrong_digest_leaves_no_file(server: FileServer, target: Path) -> None:
    with pytest.raises(DownloadError, match="instead of 00"):
        download(server.url, target, parts=parts(target), sha256="00" * 32)
    assert not target.exists()
    assert not list(parts(target).glob("*.part"))


def test_a_redirect_to_a_local_file_is_refused(
    server: FileServer, target: Path
) -> None:
    server.redirect = "file:///etc/hostname"
    with pytest.raises(DownloadError, match="not allowed"):
        download(server.url, target, parts=parts(target), retries=NONE)


def test_nothing_listens(target: Path) -> None:
    with pytest.raises(DownloadError, match=r"refused.*Check the address"):
        download("http://127.0.0.1:9/x", target, parts=parts(target), retries=NONE)


def test_a_full_disk_is_told_before_writing(
    server: FileServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(StorageError, match=r"1 MB.*0 MB free"):
        download(server.url, target, parts=parts(target))
    assert not target.exists()


@pytest.mark.parametrize("url", ["ftp://host/x", "http://example.org/x", "https:///x"])
def test_addresses_that_are_not_used(url: str, target: Path) -> None:
    with pytest.raises(InvalidArgumentError):
        download(url, target, parts=parts(target))
