"""Where packed weights and facts lie, and what is deleted of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from litert_lm.bundle.atomic import replacing
from litert_lm.errors import ModelFileError, StorageError
from litert_lm.executor.native import cache_dir
from litert_lm.executor.native.cache_dir import MEMORY, NO_CACHE, CacheDirectory

HASH = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A default folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "litert_lm"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "m.litertlm"
    path.parent.mkdir()
    path.write_bytes(b"weights")
    return path


def test_none_is_the_users_cache_and_empty_the_models_folder(model, home):
    for wanted, folder in ((None, home), ("", model.parent)):
        packed = CacheDirectory(wanted, model).weight_cache(HASH, "main")
        assert Path(packed).parent == folder


def test_memory_and_no_cache_write_no_weights(model):
    assert CacheDirectory(MEMORY, model).weight_cache(HASH, "main") == ":memory"
    assert CacheDirectory(NO_CACHE, model).weight_cache(HASH, "main") is None


def test_models_and_sections_have_weights_of_their_own(model, tmp_path):
    cache = CacheDirectory(str(tmp_path), model)
    names = {cache.weight_cache(h, s) for h in (HASH, HASH[1:] + "0") for s in "ab"}
    assert len(names) == 4


def test_a_folder_that_cannot_be_written_is_an_error(model):
    with pytest.raises(StorageError, match=r"cannot be written.*:memory"):
        CacheDirectory(str(model / "below a file"), model)


def test_weights_stay_in_memory_where_no_folder_can_be_written(model, home):
    home.parent.write_bytes(b"a file")
    cache = CacheDirectory(None, model)
    assert cache.weight_cache(HASH, "main") == ":memory"
    cache.save("facts", {"a": 1})
    assert cache.load("facts") is None


def test_a_file_is_hashed_again_only_when_it_changed(model):
    cache, told = CacheDirectory(None, model), []
    first = cache.content_hash(model, lambda *at: told.append(at))
    assert cache.content_hash(model, lambda *at: told.append(at)) == first
    assert len(told) == 1
    model.write_bytes(b"other weights")
    assert cache.content_hash(model) != first


def test_what_is_damaged_is_not_known(model, home):
    cache = CacheDirectory(None, model)
    cache.save("facts", {"a": 1})
    assert cache.load("facts") == {"a": 1}
    (file,) = home.glob("facts*")
    file.write_bytes(b"{")
    assert cache.load("facts") is None


def test_the_least_recently_used_weights_go_first(model, tmp_path, monkeypatch):
    monkeypatch.setattr(cache_dir, "MAX_BYTES", 250)
    cache = CacheDirectory(str(tmp_path), model)
    paths = [Path(str(cache.weight_cache(HASH, name))) for name in "abc"]
    for age, path in enumerate(paths):
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    cache.weight_cache(HASH, "c")
    cache.trim()
    assert [path.exists() for path in paths] == [True, False, True]


def test_what_killed_processes_left_goes_and_nothing_of_the_users(model, tmp_path):
    folder = tmp_path / "cache"
    cache = CacheDirectory(str(folder), model)
    with replacing(folder / "weights"):
        (written,) = folder.glob("*.part")
        left, fresh = written.name, ".0123456789abcdef.part"
    names = [left, ".film.mkv.part", "film.part", ".0123.part"]
    for name in names:
        (folder / name).touch()
        os.utime(folder / name, (1e9, 1e9))
    (folder / fresh).touch()
    cache.trim()
    assert {path.name for path in folder.glob("*.part")} == {*names[1:], fresh}


@pytest.mark.parametrize(
    "text", ["[]", "5", '["0", {"a": 2}]', "[" * 50_000, "1" * 9999]
)
def test_what_is_not_as_it_was_stored_is_not_known(model, home, text):
    cache = CacheDirectory(None, model)
    cache.save("facts", {"a": 1})
    (file,) = home.glob("facts*")
    file.write_text(text)
    assert cache.load("facts") is None


def test_a_pipe_among_the_facts_is_not_waited_for(model, home):
    cache = CacheDirectory(None, model)
    os.mkfifo(home / "facts.litert_lm.json")
    assert cache.load("facts") is None
    cache.save("facts", {"a": 1})
    assert cache.load("facts") == {"a": 1}


def test_a_user_without_home_has_weights_in_memory(model, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", lambda: Path("~nobody-such").expanduser())
    assert CacheDirectory(None, model).weights == MEMORY


def test_a_model_that_is_gone_is_an_error(model):
    cache = CacheDirectory(None, model)
    model.unlink()
    with pytest.raises(ModelFileError, match="deleted"):
        cache.content_hash(model)


def test_without_room_weights_stay_in_memory(model, monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    cache = CacheDirectory(None, model)
    cache.make_room(HASH, {"main": 2000})
    assert cache.weight_cache(HASH, "main") == MEMORY


def test_a_folder_asked_for_without_room_is_an_error(model, monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    cache = CacheDirectory(str(tmp_path), model)
    Path(str(cache.weight_cache(HASH, "main"))).touch()
    cache.make_room(HASH, {"main": 2000})
    with pytest.raises(StorageError, match="0 MB free"):
        cache.make_room(HASH, {"main": 2000, "embedder": 2000})


def test_damaged_blobs_count_as_missing(tmp_path):
    cache = CacheDirectory(str(tmp_path), tmp_path / "model")
    cache.save_blob("name", b"content")
    assert bytes(cache.load_blob("name")) == b"content"
    (path,) = tmp_path.glob("*.bin")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert cache.load_blob("name") is None
    path.unlink()
    path.mkdir()
    assert cache.load_blob("name") is None
