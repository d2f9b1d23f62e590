"""What `import litert_lm` offers."""

from __future__ import annotations

import pytest

import litert_lm


@pytest.mark.parametrize("name", litert_lm.__all__)
def test_every_public_name_loads(name: str) -> None:
    assert getattr(litert_lm, name) is not None
    assert name in dir(litert_lm)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'Motor'"):
        _ = litert_lm.Motor
