"""What a bundle is, read from the file alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from litert_lm import LiteRtLmModality, LiteRtLmModelType, LiteRtLmNpuBrand, ModelInfo
from litert_lm.errors import InvalidArgumentError, ModelFileError, ModelNotFoundError


@pytest.fixture
def info(make_echo_bundle):
    """info(**metadata): of an echo model."""
    return lambda **metadata: ModelInfo(make_echo_bundle(metadata))


def test_a_language_model(info):
    with info(max_num_tokens=48, supports_thinking=True) as found:
        assert found.model_type is LiteRtLmModelType.LLM
        assert found.is_llm_model and not found.is_embedding_model
        assert found.input_modalities.text and not found.input_modalities.vision
        assert found.max_context_tokens == 48
        assert found.llm.supports_thinking()
        assert not found.llm.supports_function_calling()
        assert not found.llm.has_speculative_decoding_support()
        assert not found.is_dynamic_context
        assert found.embedding is None


def test_the_context_is_the_models_where_the_metadata_is_silent(info):
    assert info().max_context_tokens == 64


def test_the_sampler_is_the_bundles(info):
    params = info(
        sampler_params={"type": "TOP_P", "k": 3, "p": 0.9, "temperature": 0.5}
    )
    assert params.llm.default_sampler_params.top_k == 3
    assert params.llm.default_sampler_params.top_p == 0.9


def test_backends_and_brands(info):
    found = info()
    assert found.supported_backends_for_modality(LiteRtLmModality.TEXT) == [
        "cpu",
        "gpu",
    ]
    assert found.supported_backends_for_modality(LiteRtLmModality.VISION) == []
    brand = found.npu_brand_for_modality(LiteRtLmModality.TEXT)
    assert brand is LiteRtLmNpuBrand.UNKNOWN
    assert found.soc_name_for_modality(LiteRtLmModality.TEXT) is None
    with pytest.raises(InvalidArgumentError, match="LiteRtLmModality"):
        found.supported_backends_for_modality(9)


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelNotFoundError):
        ModelInfo(tmp_path / "none.litertlm")


def test_a_file_that_is_no_bundle(tmp_path):
    path = tmp_path / "text.litertlm"
    path.write_text("no model")
    with pytest.raises(ModelFileError):
        ModelInfo(path)


def test_no_native_runtime_is_loaded(make_echo_bundle):
    path = make_echo_bundle()
    code = (
        "import sys, litert_lm\n"
        f"litert_lm.ModelInfo({str(path)!r}).llm\n"
        "sys.exit('ai_edge_litert' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
