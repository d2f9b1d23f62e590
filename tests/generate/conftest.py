"""Generation over the model of the conformance table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def engine(
    open_engine: Callable[..., Any], make_conformance_bundle: Callable[..., Path]
) -> Any:
    """An engine over the conformance model."""
    return open_engine(make_conformance_bundle())
