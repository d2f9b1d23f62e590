"""hf: sources against a small server that answers like the Hub."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from .conftest import serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SCRIPT = """
import sys
from litert_lm.errors import LiteRtLmError
from litert_lm.hub.huggingface import fetch_from_hub
from litert_lm.hub.sources import parse_source
try:
    files = fetch_from_hub(parse_source(sys.argv[1]))
except LiteRtLmError as error:
    print(type(error).__name__, error)
else:
    print(files.licence, files.path)
"""


@dataclass
class Hub:
    """One repository, org/repo."""

    files: dict[str, bytes]
    token: str | None = None
    seen: list[str] = field(default_factory=list)
    port: int = 0

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.seen.append(f"{request.command} {request.path}")
        wanted = f"Bearer {self.token}" if self.token else None
        if wanted and request.headers.get("Authorization") != wanted:
            self._send(request, 401, b"", {"X-Error-Code": "RepoNotFound"})
        elif request.path.startswith("/api/models/org/repo"):
            siblings = [{"rfilename": name} for name in self.files]
            info = {"id": "org/repo", "sha": COMMIT, "siblings": siblings}
            body = json.dumps(info | {"cardData": {"license": "apache-2.0"}})
            self._send(request, 200, body.encode(), {})
        else:
            self._file(request)

    def _file(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.rpartition("/")[2]
        if not request.path.startswith("/org/repo/resolve/"):
            self._send(request, 404, b"", {"X-Error-Code": "RepoNotFound"})
        elif name not in self.files:
            self._send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
        else:
            content = self.files[name]
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            extra = {"ETag": etag, "X-Repo-Commit": COMMIT}
            self._send(request, 200, content, extra)

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        headers: dict[str, str],
    ) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)


@pytest.fixture
def hub() -> Iterator[Hub]:
    site = Hub({"README.md": b"x", "m.litertlm": b"LITERTLM"})
    with serving(site):
        yield site


def fetch(hub: Hub, source: str, home: Path, **environment: str) -> str:
    """What the fetch prints; in a process of its own, which reads its environment."""
    settings = {
        "HF_ENDPOINT": f"http://127.0.0.1:{hub.port}",
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, source],
        env={**os.environ, **settings, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(autouse=True)
def _needs_the_extra() -> None:
    pytest.importorskip("huggingface_hub", reason="the extra `hub` is not installed")


def test_the_only_bundle_is_taken_into_hf_home(hub: Hub, tmp_path: Path) -> None:
    licence, path = fetch(hub, "hf:org/repo", tmp_path).split()
    assert licence == "apache-2.0"
    assert Path(path).is_relative_to(tmp_path)
    assert Path(path).read_bytes() == b"LITERTLM"


def test_one_file_by_name_with_a_token(hub: Hub, tmp_path: Path) -> None:
    hub.token = "secret"
    assert "ModelNotFoundError" in fetch(hub, "hf:org/repo", tmp_path)
    path = fetch(hub, "hf:org/repo/README.md", tmp_path, HF_TOKEN="secret").split()[1]
    assert Path(path).read_bytes() == b"x"


def test_offline_needs_the_cache(hub: Hub, tmp_path: Path) -> None:
    source = "hf:org/repo/m.litertlm"
    first = fetch(hub, source, tmp_path, HF_HUB_OFFLINE="1")
    assert first.startswith("DownloadError")
    online = fetch(hub, source, tmp_path)
    assert fetch(hub, source, tmp_path, HF_HUB_OFFLINE="1") == online


def test_several_bundles_are_offered(hub: Hub, tmp_path: Path) -> None:
    hub.files["n.litertlm"] = b""
    said = fetch(hub, "hf:org/repo", tmp_path)
    assert "hf:org/repo/m.litertlm, hf:org/repo/n.litertlm" in said


def test_a_safetensors_repository_is_a_folder(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"config.json": b"{}", "model.safetensors": b"s", "pytorch.bin": b"p"}
    folder = Path(fetch(hub, "hf:org/repo", tmp_path).split()[1])
    assert sorted(os.listdir(folder)) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("source", ["hf:org/repo/none", "hf:no/where"])
def test_what_is_not_there(hub: Hub, tmp_path: Path, source: str) -> None:
    assert fetch(hub, source, tmp_path).startswith("ModelNotFoundError The Hub has no")


def test_a_repository_without_models(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"README.md": b"x"}
    assert fetch(hub, "hf:org/repo", tmp_path).startswith("ModelFileError")
