"""How much the package logs."""

from __future__ import annotations

import logging

from litert_lm.enums import LogSeverity
from litert_lm.errors import InvalidArgumentError, shown

__all__ = ["set_min_log_severity"]

_LEVELS = {
    LogSeverity.VERBOSE: 1,
    LogSeverity.DEBUG: logging.DEBUG,
    LogSeverity.INFO: logging.INFO,
    LogSeverity.WARNING: logging.WARNING,
    LogSeverity.ERROR: logging.ERROR,
    LogSeverity.FATAL: logging.CRITICAL,
    LogSeverity.SILENT: logging.CRITICAL + 1,
}


def set_min_log_severity(severity: LogSeverity) -> None:
    """Let the logger ``litert_lm`` pass records of this severity and above.

    From INFO on down LiteRT's own notes go to standard error, too; else they are
    dropped. Its errors become exceptions whatever is set.

    Raises:
        InvalidArgumentError: no LogSeverity.
    """
    try:
        level = _LEVELS[LogSeverity(severity)]
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(
            f"severity must be a LogSeverity, got {shown(severity)}."
        ) from error
    logging.getLogger("litert_lm").setLevel(level)
