"""The store: what is put in comes out, and nothing else does."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from litert_lm.errors import (
    InvalidArgumentError,
    ModelFileError,
    ModelNotFoundError,
    StorageError,
)
from litert_lm.hub.store import ModelStore, StoredModel, data_home, near_names


def put(store: ModelStore, name: str, content: bytes = b"LITERTLM") -> StoredModel:
    with store.lock(name), store.staging(name) as folder:
        bundle = folder / "any.litertlm"
        bundle.write_bytes(content)
        model = StoredModel(
            name=name,
            path=bundle,
            source="pypi:x",
            sha256=hashlib.sha256(content).hexdigest(),
            size=len(content),
            created="2026-11-30T00:00:00Z",
            licence="Apache-2.0",
        )
        return store.publish(bundle, model)


def test_a_published_model_is_found(store: ModelStore) -> None:
    put(store, "m")
    found = ModelStore(store.home).find("m")
    assert found is not None
    assert found.path.read_bytes() == b"LITERTLM"
    assert (found.source, found.licence, found.recipe) == ("pypi:x", "Apache-2.0", None)


def test_models_are_listed_by_name(store: ModelStore) -> None:
    assert store.models() == []
    put(store, "b")
    put(store, "a")
    assert [model.name for model in store.models()] == ["a", "b"]


def test_publishing_again_replaces(store: ModelStore) -> None:
    put(store, "m", b"old")
    put(store, "m", b"newer")
    assert put(store, "m", b"newest").path.read_bytes() == b"newest"
    assert os.listdir(store.home / "models") == ["m"]


def test_a_failed_pull_leaves_the_old_model(store: ModelStore) -> None:
    put(store, "m", b"old")
    with pytest.raises(ZeroDivisionError), store.staging("m") as folder:
        (folder / "half").write_bytes(b"x")
        _ = 1 / 0
    assert store.models()[0].path.read_bytes() == b"old"
    assert os.listdir(store.home / "models") == ["m"]


def test_what_a_killed_pull_left_is_cleared(store: ModelStore) -> None:
    (store.home / "models" / ".incoming-m").mkdir(parents=True)
    (store.home / "models" / ".incoming-m" / "half").touch()
    assert store.models() == []
    with store.staging("m") as folder:
        assert os.listdir(folder) == []


def test_rm_removes(store: ModelStore) -> None:
    put(store, "m")
    store.remove("m")
    assert store.find("m") is None


def test_rm_of_an_unknown_name_offers_the_nearest(store: ModelStore) -> None:
    put(store, "smollm2-135m")
    with pytest.raises(ModelNotFoundError, match="Did you mean smollm2-135m"):
        store.remove("smolm2-135")


@pytest.mark.parametrize(
    "name", ["..", "../x", "a/b", "/etc", "", ".x", "a\0", "a" * 101]
)
def test_hostile_names_are_refused(store: ModelStore, name: str) -> None:
    assert store.find(name) is None
    with pytest.raises(InvalidArgumentError):
        store.remove(name)


@pytest.mark.parametrize(
    "change",
    [
        {"path": "../../outside"},
        {"path": "missing"},
        {"size": "8"},
        {"size": 9},
        {"name": "other"},
    ],
)
def test_a_manifest_that_lies_is_damaged(
    store: ModelStore, change: dict[str, object]
) -> None:
    folder = put(store, "m").path.parent
    manifest = json.loads((folder / "model.json").read_text()) | change
    (folder / "model.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match="litert-lm rm m"):
        store.find("m")
    assert (store.models(), list(store.damaged())) == ([], ["m"])


def test_a_cut_file_is_blamed_itself(store: ModelStore) -> None:
    path = put(store, "m").path
    path.write_bytes(b"LITE")
    fault = str(store.damaged()["m"])
    assert fault.startswith(f"The model file {path} has 4 bytes instead of 8.")
    path.unlink()
    assert str(store.damaged()["m"]).startswith(f"The model file {path} is missing.")


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b"{" * 100_000])
def test_a_manifest_of_garbage_can_be_removed(store: ModelStore, text: bytes) -> None:
    folder = put(store, "m").path.parent
    (folder / "model.json").write_bytes(text)
    assert list(store.damaged()) == ["m"]
    store.remove("m")
    assert not folder.exists()


def test_check_notices_a_flipped_bit(store: ModelStore) -> None:
    model = put(store, "m")
    store.check(model)
    model.path.write_bytes(b"LITERTLN")
    with pytest.raises(ModelFileError, match="pull --force m"):
        store.check(model)


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = ModelStore(tmp_path / "file" / "home")
    with pytest.raises(StorageError):
        put(store, "m")


def _hold(home: Path, ready: object) -> None:
    with ModelStore(home).lock("m"):
        ready.set()
        time.sleep(0.3)


def test_two_pulls_of_one_name_wait_for_each_other(store: ModelStore) -> None:
    context = multiprocessing.get_context("spawn")
    ready = context.Event()
    other = context.Process(target=_hold, args=(store.home, ready))
    other.start()
    assert ready.wait(20)
    waits: list[bool] = []
    with store.lock("m", lambda: waits.append(True)):
        other.join(20)
        assert not other.is_alive()
    assert waits == [True]


def test_near_names() -> None:
    known = ["smollm2-135m-instruct", "gemma3-1b", "qwen3-0.6b"]
    assert near_names("SmolLM2-135M", known) == ["smollm2-135m-instruct"]
    assert near_names("zzz", known) == []
    assert near_names("nope", ["mine"]) == []


def test_home_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LITERT_LM_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert data_home() == Path("/data/litert_lm")
    monkeypatch.setenv("LITERT_LM_HOME", "/own")
    assert data_home() == Path("/own")


def test_a_manifest_that_is_a_pipe_is_damaged(store: ModelStore) -> None:
    put(store, "m")
    manifest = store.home / "models" / "m" / "model.json"
    manifest.unlink()
    os.mkfifo(manifest)
    assert list(store.damaged()) == ["m"]
