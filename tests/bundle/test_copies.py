"""Writable copies of sections."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from litert_lm.bundle import open_bundle
from tests.bundle.files import MODEL, write_small, write_task


def open_in(folder: Path, kind: str):
    path = folder / "model"
    if kind == "litertlm":
        write_small(path)
    else:
        stored = kind == "stored"
        write_task(path, zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)
    bundle = open_bundle(path)
    return bundle, bundle.copies(bundle.models["prefill_decode"])


@pytest.mark.parametrize("kind", ["litertlm", "stored", "deflated"])
def test_writing_to_a_copy_changes_nothing_else(tmp_path, kind):
    bundle, copies = open_in(tmp_path, kind)
    before = bundle.path.read_bytes()
    with bundle:
        first, second = copies(), copies()
        first[:4] = b"mine"
        assert bytes(second) == bytes(bundle.read(bundle.models["prefill_decode"]))
    assert bytes(first) == b"mine" + MODEL[4:]
    assert bundle.path.read_bytes() == before


def test_copies_can_be_made_after_closing_and_replacing(tmp_path):
    bundle, copies = open_in(tmp_path, "litertlm")
    bundle.close()
    os.replace(
        write_small(tmp_path / "other", models={"prefill_decode": MODEL * 2}),
        bundle.path,
    )
    assert bytes(copies()) == MODEL
    bundle.path.unlink()
    assert bytes(copies()) == MODEL


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="Linux only")
def test_a_copy_shares_what_is_not_written(tmp_path):
    size = 32 << 20
    path = write_small(tmp_path / "m", models={"prefill_decode": MODEL + bytes(size)})
    bundle = open_bundle(path)
    copy = bundle.copies(bundle.models["prefill_decode"])()
    copy[:4] = b"mine"
    assert sum(copy[::4096]) >= 0  # all pages are looked at
    assert private_bytes(str(path)) < size // 100


def private_bytes(path: str) -> int:
    """Bytes in mappings of a file that belong to this process only."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split()[0]:
            counts = line.endswith(path)
        elif counts and line.startswith("Private_Dirty:"):
            total += int(line.split()[1]) << 10
    return total
