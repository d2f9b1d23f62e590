"""What reaches standard error while native code runs."""

from __future__ import annotations

import logging
import os

import pytest

from litert_lm import LogSeverity, set_min_log_severity
from litert_lm.executor.native.quiet import quiet_stderr


@pytest.fixture(autouse=True)
def restored_level():
    logger = logging.getLogger("litert_lm")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.mark.parametrize(
    ("severity", "shown"),
    [(None, "else\n"), ("WARNING", "else\n"), ("INFO", "INFO: hi\nelse\n")],
)
def test_notes_are_for_those_who_ask(capfd, severity, shown):
    if severity is not None:
        set_min_log_severity(LogSeverity[severity])
    with quiet_stderr():
        os.write(2, b"INFO: hi\nelse\n")
    assert capfd.readouterr().err == shown
