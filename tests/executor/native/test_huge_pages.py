"""Weights in huge pages: other memory, the same answers and the same bytes."""

from __future__ import annotations

import errno
import mmap
import os
import sys
from pathlib import Path

import pytest

from litert_lm import Backend, Engine
from litert_lm.errors import BackendError, StorageError
from litert_lm.executor.native import huge_pages

linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="huge pages are Linux only"
)


@linux_only
def test_answers_stay_the_same(open_engine, toy_llama_bundle, cache_dir):
    plain = open_engine(toy_llama_bundle)
    wanted = plain.create_session().generate([1, 2, 3], max_new_tokens=30)
    assert ".xnnpack" in Path("/proc/self/maps").read_text()
    plain.close()
    backend = Backend.CPU(thread_count=1, huge_pages=True)
    with Engine(toy_llama_bundle, backend, cache_dir=str(cache_dir)) as engine:
        got = engine.create_session().generate([1, 2, 3], max_new_tokens=30)
        mapped = Path("/proc/self/maps").read_text()
    assert got.outputs == wanted.outputs
    assert ".xnnpack" not in mapped


@pytest.fixture
def large_file(tmp_path):
    path = tmp_path / "large.xnnpack"
    path.write_bytes(os.urandom(1 << 20) * 19 + b"the end")
    return path


@linux_only
@pytest.mark.parametrize("is_huge", [True, False])
def test_a_file_is_written_again_where_that_gains_something(
    large_file, monkeypatch, is_huge
):
    before, inode = large_file.read_bytes(), large_file.stat().st_ino
    monkeypatch.setattr(huge_pages, "_are_huge", lambda ranges: is_huge)
    huge_pages.rewrite_in_huge_pages(large_file)
    assert large_file.read_bytes() == before
    assert (large_file.stat().st_ino != inode) == is_huge
    assert list(large_file.parent.iterdir()) == [large_file]


@linux_only
def test_a_full_disk_leaves_the_file_as_it_was(large_file, monkeypatch):
    before = large_file.read_bytes()
    real, written = os.write, []

    def write(descriptor, data):
        written.append(len(data))
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(huge_pages, "_are_huge", lambda ranges: True)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(StorageError, match="No space left"):
        huge_pages.rewrite_in_huge_pages(large_file)
    assert large_file.read_bytes() == before
    assert list(large_file.parent.iterdir()) == [large_file]


@linux_only
@pytest.mark.parametrize("size", [3 << 20, 30 << 20])
def test_a_file_that_changes_meanwhile_is_left_alone(large_file, monkeypatch, size):
    def changes(ranges):
        os.truncate(large_file, size)
        return True

    monkeypatch.setattr(huge_pages, "_are_huge", changes)
    inode = large_file.stat().st_ino
    with pytest.raises(StorageError, match="changed while it was copied"):
        huge_pages.rewrite_in_huge_pages(large_file)
    assert (large_file.stat().st_ino, large_file.stat().st_size) == (inode, size)
    assert list(large_file.parent.iterdir()) == [large_file]


def test_a_file_that_is_gone_by_then(large_file):
    large_file.unlink()
    with pytest.raises(StorageError, match="No such file"):
        huge_pages.rewrite_in_huge_pages(large_file)


@linux_only
def test_a_copy_leaves_room_for_others(large_file, monkeypatch):
    usage = type("Usage", (), {"free": large_file.stat().st_size + 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    monkeypatch.setattr(huge_pages, "_are_huge", lambda ranges: True)
    inode = large_file.stat().st_ino
    with pytest.raises(StorageError, match="No room"):
        huge_pages.rewrite_in_huge_pages(large_file)
    assert large_file.stat().st_ino == inode


@linux_only
@pytest.mark.parametrize("name", ["plain", "two words", "line\u2028end", b"\xff\xfe"])
def test_mappings_are_found_whatever_the_file_is_called(tmp_path, name):
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(bytes(100_000))
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ),
    ):
        ((begin, end),) = huge_pages._mappings(str(path))
        assert end - begin >= 100_000


@linux_only
def test_a_system_that_does_not_tell_is_named(monkeypatch):
    def read(path):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))

    monkeypatch.setattr(Path, "read_bytes", read)
    huge_pages.map_pages("anything")
    with pytest.raises(BackendError, match=r"/proc/self/maps\. Leave huge_pages off"):
        huge_pages.move_to_huge_pages("anything")


@linux_only
def test_what_is_written_again_is_in_huge_pages(tmp_path):
    """Where the kernel holds a file so at all, which it says itself."""
    path, data = tmp_path / "small.xnnpack", os.urandom(1 << 20) * 19
    with path.open("wb", buffering=0) as file:
        for begin in range(0, len(data), 1 << 18):
            file.write(data[begin : begin + (1 << 18)])
    before = path.stat().st_ino
    huge_pages.rewrite_in_huge_pages(path)
    if path.stat().st_ino != before:
        # Memory in pieces may leave no more huge pages than the first ones.
        assert huge_bytes(path) >= 8 << 20
    assert path.read_bytes() == data


@linux_only
def test_what_was_evicted_comes_back_as_it_was(large_file):
    """Even where the next reader touches it here and there, as XNNPACK does."""
    huge_pages.rewrite_in_huge_pages(large_file)
    evict(large_file)
    best = huge_bytes(large_file)
    evict(large_file)
    huge_pages.read_in_huge_pages(large_file)
    touch(large_file)
    assert huge_bytes(large_file) == best


@linux_only
def test_what_lies_in_small_pages_is_read_again(large_file):
    huge_pages.rewrite_in_huge_pages(large_file)
    before = large_file.read_bytes()
    evict(large_file)
    best = huge_bytes(large_file)
    evict(large_file)
    touch(large_file)
    huge_pages.read_in_huge_pages(large_file)
    assert huge_bytes(large_file) == best
    assert large_file.read_bytes() == before
    assert list(large_file.parent.iterdir()) == [large_file]


@linux_only
def test_a_kernel_without_such_pages_reads_once_more_at_most(large_file, monkeypatch):
    dropped = []
    real = os.posix_fadvise

    def advise(descriptor, begin, size, advice):
        dropped.append(size)
        real(descriptor, begin, size, advice)

    monkeypatch.setattr(os, "posix_fadvise", advise)
    monkeypatch.setattr(huge_pages, "_huge_by_begin", dict)
    huge_pages.read_in_huge_pages(large_file)
    assert dropped == [2 << 20]


def evict(path):
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def touch(path):
    with path.open("rb") as file:
        for begin in range(0, path.stat().st_size, 1 << 20):
            os.pread(file.fileno(), 1, begin)


@pytest.mark.parametrize("data", [None, b"", b"short"])
def test_any_file_may_be_read_ahead(tmp_path, data):
    path = tmp_path / "some.xnnpack"
    if data is not None:
        path.write_bytes(data)
    huge_pages.read_in_huge_pages(path)


@linux_only
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "some.xnnpack")
    huge_pages.read_in_huge_pages(tmp_path / "some.xnnpack")


def huge_bytes(path):
    """How much of a mapping of the file is entered in huge pages."""
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ),
    ):
        huge_pages.map_pages(str(path))
        ranges = huge_pages._mappings(str(path))
        assert len(ranges) == 1
        return huge_pages._huge_bytes(ranges)


def test_other_systems_are_told(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(BackendError, match="Linux only"):
        huge_pages.move_to_huge_pages("anything")
