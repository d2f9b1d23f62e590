"""Packed weights that are damaged, another model's or half written are not used."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from litert_lm import Engine
from litert_lm.errors import ModelFileError, StorageError
from litert_lm.executor.native import packed_weights
from litert_lm.executor.probe import examine


@pytest.fixture
def answer(
    open_engine: Callable[..., Any], toy_llama_bundle: Path, tmp_path: Path
) -> Callable[[], tuple[int, ...]]:
    """answer(): token ids that the model says with its cache in `tmp_path`."""

    def say() -> tuple[int, ...]:
        engine = open_engine(toy_llama_bundle, cache_dir=str(tmp_path))
        session = engine.create_session()
        ids: tuple[int, ...] = session.generate([3, 4, 5]).outputs[0].token_ids
        engine.close()
        return ids

    return say


def _packed(folder: Path) -> Path:
    (path,) = folder.glob("*.xnnpack")
    return path


def test_they_are_made_once(answer: Callable[[], Any], tmp_path: Path) -> None:
    answer()
    before = os.stat(_packed(tmp_path))
    answer()
    after = os.stat(_packed(tmp_path))
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_they_are_written_again_once(
    answer: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As XNNPACK writes them, the kernel holds them in small pages."""
    written: list[Path] = []

    def rewrite(path: Path) -> None:
        written.append(path)
        os.replace(shutil.copy(path, tmp_path / "copy"), path)

    monkeypatch.setattr(packed_weights, "rewrite_in_huge_pages", rewrite)
    monkeypatch.setattr("litert_lm.engine.first_load", examine)
    expected = answer()
    data = _packed(tmp_path).read_bytes()
    assert [answer(), answer()] == [expected, expected]
    assert written == [_packed(tmp_path)]
    assert _packed(tmp_path).read_bytes() == data


@pytest.mark.parametrize("error", [StorageError("No space."), None])
def test_a_failed_copy_is_tried_again(
    answer: Callable[[], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: StorageError | None,
) -> None:
    tries: list[Path] = []

    def rewrite(path: Path) -> None:
        tries.append(path)
        if error is not None:
            raise error

    monkeypatch.setattr(packed_weights, "rewrite_in_huge_pages", rewrite)
    monkeypatch.setattr("litert_lm.engine.first_load", examine)
    expected = answer()
    tries.clear()
    assert [answer(), answer()] == [expected, expected]
    assert bool(tries) == (error is not None)


@pytest.mark.parametrize("kind", ["cut", "flipped", "of another model", "appended"])
def test_changed_ones_are_made_anew(
    answer: Callable[[], Any],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    expected, packed = answer(), _packed(tmp_path)
    data = packed.read_bytes()
    flipped = bytes(byte ^ 0x55 for byte in data[-600:])
    changed = {
        "cut": data[: len(data) // 2],
        "flipped": data[:-600] + flipped,
        "of another model": data[:64] + data[128:192] + data[64:128] + data[192:],
        "appended": data + bytes(64),
    }
    packed.write_bytes(changed[kind])
    assert answer() == expected
    assert packed.read_bytes() == data
    assert not capfd.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_something_else_in_their_place(
    answer: Callable[[], Any], tmp_path: Path, kind: str
) -> None:
    expected, packed = answer(), _packed(tmp_path)
    packed.unlink()
    if kind == "pipe":
        os.mkfifo(packed)
    elif kind == "link":
        packed.symlink_to("/dev/full")
    else:
        packed.mkdir()
    assert answer() == expected


def test_engines_that_open_at_once_pack_one_after_the_other(
    answer: Callable[[], Any], tmp_path: Path
) -> None:
    told: list[Any] = []
    threads = [threading.Thread(target=lambda: told.append(answer())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 4
    assert len(set(told)) == 1


def test_a_file_that_is_replaced_while_it_is_opened(
    toy_llama_bundle: Path,
    make_echo_bundle: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the old model's weights would be packed under the new one's name."""
    model, cache = tmp_path / "m.litertlm", tmp_path / "cache"
    model.write_bytes(toy_llama_bundle.read_bytes())
    other = tmp_path / "other"
    other.write_bytes(make_echo_bundle().read_bytes())

    def replace_meanwhile(*arguments: Any) -> Any:
        from litert_lm.executor.probe import examine

        facts = examine(*arguments)
        os.replace(other, model)
        return facts

    monkeypatch.setattr("litert_lm.engine.first_load", replace_meanwhile)
    with pytest.raises(ModelFileError, match="was replaced"):
        Engine(model, cache_dir=str(cache))
    assert not list(cache.glob("model-*.json"))
