"""MODEL to the bundle that is opened."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from litert_lm import convert as convert_package
from litert_lm.errors import (
    InvalidArgumentError,
    ModelFileError,
    ModelNotFoundError,
    StorageError,
)
from litert_lm.hub.fetch import pull
from litert_lm.hub.resolve import resolve_model
from litert_lm.hub.store import ModelStore

from .conftest import BUNDLE, FileServer


@pytest.fixture
def num_conversions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    done: list[int] = []

    def convert(source: Path, output: Path, **options: Any) -> None:
        done.append(1)
        output.write_bytes(b"LITERTLM" + source.read_bytes())

    monkeypatch.setattr(convert_package, "convert", convert)
    return done


def test_a_bundle_is_opened_where_it_lies(store: ModelStore, bundle: Path) -> None:
    assert resolve_model(bundle, store=store) == bundle
    assert store.models() == []


def test_an_existing_path_wins_over_a_stored_name(
    store: ModelStore, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pull(str(bundle), store=store, name="m")
    monkeypatch.chdir(bundle.parent)
    stored = resolve_model("m", store=store)
    (bundle.parent / "m").write_bytes(BUNDLE)
    assert resolve_model("m", store=store) == Path("m") != stored


def test_an_address_is_fetched_once(store: ModelStore, server: FileServer) -> None:
    server.content = BUNDLE
    path = resolve_model(server.url, store=store)
    assert path.read_bytes() == BUNDLE
    assert resolve_model(server.url, store=store) == path
    assert len(server.ranges) == 1


def test_weights_are_converted_once_and_anew_when_they_change(
    store: ModelStore, tmp_path: Path, num_conversions: list[int]
) -> None:
    weights = tmp_path / "model.gguf"
    weights.write_bytes(b"GGUF1")
    os.utime(weights, (1e9, 1e9))
    path = resolve_model(weights, store=store)
    assert resolve_model(weights, store=store) == path
    assert len(num_conversions) == 1
    weights.write_bytes(b"GGUF2")
    os.utime(weights, (4e9, 4e9))
    assert resolve_model(weights, store=store).read_bytes() == b"LITERTLMGGUF2"


def test_two_files_of_one_name_are_two_models(
    store: ModelStore, tmp_path: Path, num_conversions: list[int]
) -> None:
    paths = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        weights = tmp_path / folder / "model.gguf"
        weights.write_bytes(b"GGUF" + folder.encode())
        paths.append(resolve_model(weights, store=store))
    assert paths[0] != paths[1]


@pytest.mark.parametrize("model", ["nothing-like-it", "./none.litertlm", "/none/x"])
def test_what_is_not_there(
    store: ModelStore, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITERT_LM_DIR", str(store.home))
    with pytest.raises(ModelNotFoundError, match="litert-lm list"):
        resolve_model(model, store=store)


@pytest.mark.parametrize("model", ["none.litertlm", "./none.TASK", "org/some-model"])
def test_a_path_that_leads_nowhere_is_named_as_given(
    store: ModelStore, bundle: Path, model: str
) -> None:
    pull(str(bundle), store=store, name="none.litert")
    with pytest.raises(ModelNotFoundError) as caught:
        resolve_model(model, store=store)
    assert str(caught.value).startswith(f"There is no file or folder '{model}'. Check")
    assert "Did you mean" not in str(caught.value)


def test_near_names_are_offered(store: ModelStore, bundle: Path) -> None:
    pull(str(bundle), store=store, name="gemma3-1b")
    with pytest.raises(ModelNotFoundError, match="Did you mean gemma3-1b"):
        resolve_model("gemma3_1b", store=store)


@pytest.mark.parametrize("name", ["org/some-model", "some-model"])
def test_models_of_the_official_command_line_are_found(
    store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("LITERT_LM_DIR", str(tmp_path / "official"))
    folder = tmp_path / "official" / "models" / name.replace("/", "--")
    folder.mkdir(parents=True)
    (folder / "model.litertlm").write_bytes(BUNDLE)
    assert resolve_model(name, store=store) == folder / "model.litertlm"


@pytest.mark.parametrize("model", ["", "hf:x", "pypi:-x", "ftp://h/x"])
def test_malformed_sources(store: ModelStore, model: str) -> None:
    with pytest.raises(InvalidArgumentError):
        resolve_model(model, store=store)


def test_what_cannot_be_a_model(store: ModelStore) -> None:
    with pytest.raises(InvalidArgumentError, match="names no model"):
        resolve_model(5, store=store)  # type: ignore[arg-type]


def test_a_pipe_is_not_waited_for(store: ModelStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert resolve_model(tmp_path / "pipe", store=store) == tmp_path / "pipe"
    with pytest.raises(ModelFileError, match="neither a bundle nor weights"):
        pull(str(tmp_path / "pipe"), store=store)


def test_a_model_file_needs_no_home(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LITERT_LM_HOME", "~no-such-user/models")
    assert resolve_model(bundle) == bundle
    with pytest.raises(StorageError, match="Set LITERT_LM_HOME"):
        resolve_model("some-name")


def test_a_working_directory_that_is_gone(
    store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(StorageError, match="Cannot pull"):
        pull("./model.litertlm", store=store)
