"""A logger whose library is imported with the first line that is logged.

``structlog`` imports the rich library with it, which is a fifth of the start of ``kubectl seiretsu explain``. The
modules of stores and work queues, which it imports for the table of resources, get their loggers here.
"""

from __future__ import annotations

from typing import Any


class _Logger:
    """Looks up each method when it is called, as the proxy of ``structlog.get_logger`` does."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog

        return getattr(structlog.get_logger(self._name), method)


def get_logger(name: str) -> Any:
    """Returns the logger of a module, as ``structlog.get_logger`` does."""
    return _Logger(name)
