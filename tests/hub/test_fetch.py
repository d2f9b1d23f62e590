"""pull: what becomes of each kind of source, with the converter replaced."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from litert_lm import convert as convert_package
from litert_lm.config import SamplerConfig
from litert_lm.convert import recipe as recipe_module
from litert_lm.convert.recipe import Recipe
from litert_lm.errors import (
    DownloadError,
    InvalidArgumentError,
    MissingExtraError,
    ModelFileError,
    ModelNotFoundError,
    StorageError,
)
from litert_lm.hub.fetch import pull
from litert_lm.hub.store import ModelStore

from .conftest import BUNDLE, FileServer


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    path = tmp_path / "weights.gguf"
    path.write_bytes(b"GGUF weights")
    return path


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the converter was asked for; it writes a file that names the weights."""
    asked: list[dict[str, Any]] = []

    def convert(source: Path, output: Path, **options: Any) -> None:
        options.pop("progress")
        asked.append({"source": source.name, **options})
        output.write_bytes(b"LITERTLM" + options["weights"].encode())

    monkeypatch.setattr(convert_package, "convert", convert)
    return asked


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, gguf: Path) -> Recipe:
    """The only recipe there is: `toy`, made of the GGUF file."""
    toy = Recipe(
        name="toy",
        title="Toy",
        licence="MIT",
        source=str(gguf),
        context_length=64,
        sampler=SamplerConfig(temperature=0.0),
    )
    monkeypatch.setattr(recipe_module, "recipe_names", lambda: ["toy"])
    monkeypatch.setattr(recipe_module, "load_recipe", lambda name: toy)
    return toy


def test_a_bundle_is_copied(store: ModelStore, bundle: Path) -> None:
    model = pull(str(bundle), store=store)
    assert model.name == "My-model"
    assert model.path.read_bytes() == BUNDLE
    assert model.sha256 == hashlib.sha256(BUNDLE).hexdigest()
    assert bundle.exists()


def test_a_file_url_is_a_path(store: ModelStore, bundle: Path) -> None:
    assert pull(bundle.as_uri(), store=store).path.read_bytes() == BUNDLE


def test_a_bundle_is_downloaded(store: ModelStore, server: FileServer) -> None:
    server.content = BUNDLE * 10
    model = pull(server.url, store=store)
    assert (model.name, model.source) == ("model", server.url)
    assert model.path.read_bytes() == BUNDLE * 10


def test_pulling_again_fetches_nothing(store: ModelStore, server: FileServer) -> None:
    server.content = BUNDLE
    first = pull(server.url, store=store)
    assert pull(server.url, store=store) == first
    assert len(server.ranges) == 1
    pull(server.url, store=store, force=True)
    assert len(server.ranges) == 2


def test_a_web_page_is_no_model(store: ModelStore, server: FileServer) -> None:
    server.content = b"<html>Sign in</html>"
    with pytest.raises(ModelFileError, match="neither a bundle nor weights"):
        pull(server.url, store=store)
    assert os.listdir(store.home / "models") == []


def test_weights_are_converted(
    store: ModelStore, gguf: Path, conversions: list[dict[str, Any]]
) -> None:
    model = pull(str(gguf), store=store, weights="int4", context_length=256)
    asked = {"weights": "int4", "context_length": 256, "sampler": None}
    assert conversions == [{"source": "weights.gguf", **asked}]
    assert model.name == "weights-int4"


@pytest.mark.parametrize("options", [{"weights": "int8"}, {"context_length": 64}])
def test_a_bundle_is_not_converted(
    store: ModelStore, bundle: Path, server: FileServer, options: dict[str, Any]
) -> None:
    pull(str(bundle), store=store)
    for source in (str(bundle), server.url):
        with pytest.raises(InvalidArgumentError, match=r"is a bundle.*Leave them out"):
            pull(source, store=store, **options)
    assert server.ranges == []


def test_a_recipe_says_how(
    store: ModelStore, recipe: Recipe, conversions: list[dict[str, Any]]
) -> None:
    model = pull("toy", store=store)
    assert (model.name, model.recipe, model.licence) == ("toy", "toy", "MIT")
    assert conversions[0]["sampler"] == recipe.sampler
    assert conversions[0]["context_length"] == 64


def test_the_caller_overrules_the_recipe(
    store: ModelStore, recipe: Recipe, conversions: list[dict[str, Any]]
) -> None:
    assert pull("toy", store=store, weights="f32").name == "toy-f32"
    assert conversions[0]["weights"] == "f32"


def test_an_unknown_name_offers_the_nearest(store: ModelStore, recipe: Recipe) -> None:
    with pytest.raises(ModelNotFoundError, match="Did you mean toy"):
        pull("tony", store=store)


def test_a_name_is_not_given_twice(store: ModelStore, bundle: Path, gguf: Path) -> None:
    pull(str(bundle), store=store, name="m")
    with pytest.raises(InvalidArgumentError, match="--name"):
        pull(str(gguf), store=store, name="m")


def test_force_repeats_a_pull_by_its_name(store: ModelStore, bundle: Path) -> None:
    pull(str(bundle), store=store, name="m")
    bundle.write_bytes(BUNDLE * 2)
    assert pull("m", store=store).size == len(BUNDLE)
    assert pull("m", store=store, force=True).size == len(BUNDLE) * 2


def test_a_replaced_source_is_noticed(
    store: ModelStore, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = Recipe(
        name="toy", title="T", licence="MIT", source=str(gguf), sha256="0" * 64
    )
    monkeypatch.setattr(recipe_module, "recipe_names", lambda: ["toy"])
    monkeypatch.setattr(recipe_module, "load_recipe", lambda name: toy)
    with pytest.raises(DownloadError, match="instead of 000"):
        pull("toy", store=store)


def test_a_missing_extra_is_told_before_the_download(
    store: ModelStore, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("litert_lm.hub.fetch.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pylitert-lm\[convert\]"):
        pull(server.url.replace(".litertlm", ".gguf"), store=store)
    assert server.ranges == []


def test_a_full_disk_leaves_nothing(
    store: ModelStore, gguf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def convert(source: Path, output: Path, **options: Any) -> None:
        output.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(convert_package, "convert", convert)
    with pytest.raises(StorageError, match="No space left"):
        pull(str(gguf), store=store)
    assert os.listdir(store.home / "models") == []


@pytest.mark.parametrize("name", ["../x", "a/b"])
def test_names_stay_inside_the_store(
    store: ModelStore, bundle: Path, name: str
) -> None:
    with pytest.raises(InvalidArgumentError, match="cannot name a model"):
        pull(str(bundle), store=store, name=name)
    assert store.models() == []


def test_a_path_that_is_not_there(store: ModelStore, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="no file or folder"):
        pull(str(tmp_path / "none.litertlm"), store=store)
