"""Sessions over toy models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROMPT = ">"


@pytest.fixture
def speaker(
    open_engine: Callable[..., Any], make_echo_bundle: Callable[..., Path]
) -> Callable[..., Any]:
    """speaker(reply, metadata=None, **session): a session that answers ">" so."""

    def make(reply: Any, metadata: dict[str, Any] | None = None, **session: Any) -> Any:
        changes = {"prompt_templates": None} | (metadata or {})
        path = make_echo_bundle(changes, replies={PROMPT: reply})
        return open_engine(path).create_session(**session)

    return make


@pytest.fixture
def echoing(
    open_engine: Callable[..., Any], make_echo_bundle: Callable[..., Path]
) -> Callable[..., Any]:
    """echoing(metadata=None, **options): an engine whose model speaks its cache."""

    def make(metadata: dict[str, Any] | None = None, **options: Any) -> Any:
        return open_engine(make_echo_bundle(metadata, **options))

    return make


@pytest.fixture
def llama(open_engine: Callable[..., Any], toy_llama_bundle: Path) -> Any:
    """An engine over the toy llama."""
    return open_engine(toy_llama_bundle)
