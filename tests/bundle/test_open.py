"""Opening: what is no bundle gets one clear error."""

from __future__ import annotations

import os
import time

import pytest

from litert_lm.bundle import open_bundle
from litert_lm.errors import (
    InvalidArgumentError,
    ModelFileError,
    ModelNotFoundError,
    StorageError,
)
from tests.bundle.files import write_small


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        (b"", "empty"),
        (b"x", "begins with"),
        (b"GGUF\x03\x00\x00\x00", "convert"),
        (b"\x1c\x00\x00\x00TFL3", "bare TFLite"),
        (b"version https://git-lfs.github.com/spec/v1\n", "LFS pointer"),
        (b"<!DOCTYPE html>", "web page"),
        (b"LITERTLM", "inside its header"),
        (b"PK\x03\x04", "end of the zip archive"),
    ],
)
def test_other_files(tmp_path, content, hint):
    path = tmp_path / "model.litertlm"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=hint) as caught:
        open_bundle(path)
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path):
    for path in (tmp_path / "none.litertlm", tmp_path / "none" / "x"):
        with pytest.raises(ModelNotFoundError, match="does not exist"):
            open_bundle(path)


def test_folder(tmp_path):
    with pytest.raises(ModelFileError, match="is a folder"):
        open_bundle(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a regular file"):
        open_bundle(tmp_path / "pipe")


def test_unreadable_file(tmp_path, monkeypatch):
    path = write_small(tmp_path / "m.litertlm")

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(StorageError, match="Permission denied"):
        open_bundle(path)


@pytest.mark.parametrize("path", [None, 3, "a\0b"])
def test_no_path(path):
    with pytest.raises(InvalidArgumentError):
        open_bundle(path)


def test_name_does_not_matter(tmp_path):
    with open_bundle(str(write_small(tmp_path / "m.task"))) as bundle:
        assert bundle.format == "litertlm"


def test_real_bundle_opens_in_milliseconds(shared_dir):
    path = shared_dir / "bundles" / "smollm2-135m-int8.litertlm"
    best = min(timed(path) for _ in range(5))
    assert best < 0.02


def timed(path):
    start = time.perf_counter()
    with open_bundle(path) as bundle:
        assert bundle.llm_metadata.max_num_tokens == 1280
    return time.perf_counter() - start
