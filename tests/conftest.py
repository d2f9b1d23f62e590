"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of real bundles beside the checkout; absent outside development."""
    if not (SHARED / "bundles").is_dir():
        pytest.skip("no shared/ folder with real bundles beside the checkout")
    return SHARED
