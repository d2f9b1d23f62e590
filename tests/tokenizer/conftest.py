"""Fixtures over every kind of tokenizer."""

from __future__ import annotations

import pytest

from litert_lm.tokenizer import load_tokenizer
from tests.tokenizer.builders import KINDS, tokenizer_data


@pytest.fixture(params=KINDS)
def kind(request):
    """Each kind of tokenizer in turn."""
    return request.param


@pytest.fixture
def tokenizer(kind):
    """A tokenizer of each kind in turn."""
    return load_tokenizer(*tokenizer_data(kind))
