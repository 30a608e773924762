"""Logs: one line for each event, to stderr: JSON for machines, coloured text on a terminal. Standard logging uses the
same stream.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import Processor

LEVELS = ("debug", "info", "warning", "error")
REPEATS_SECONDS = 60.0
"""Of one warning so many seconds have one line; the next line has the number of those that were left out."""
_KINDS = ("logger", "event", "queue", "doing", "resource", "to")
"""The fields by which warnings are the same, with the type of an error: objects and texts of errors differ."""
_MANY = 1000

# Names of objects are the users': a control character in one must not write to an operator's terminal.
_UNPRINTABLE = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if code not in (0x09, 0x0A)}


class Repeats:
    """Leaves out warnings that repeat one of the last minute, and counts them: a structlog processor. ``overdue``
    returns those whose number was not logged yet.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[tuple[str, ...], tuple[float, int, dict[str, Any]]] = {}

    def __call__(self, _logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Returns the event, with the number of repetitions before it; raises ``DropEvent`` for a repetition."""
        if method != "warning":
            return event
        error = str(event.get("error", "")).partition("(")[0]
        kind = (*(str(event.get(name, "")) for name in _KINDS), error)
        now = self._clock()
        since, count, _ = self._seen.get(kind, (float("-inf"), 0, {}))
        if now - since < REPEATS_SECONDS:
            self._seen[kind] = (since, count + 1, dict(event))
            raise structlog.DropEvent
        if len(self._seen) >= _MANY:
            del self._seen[next(iter(self._seen))]
        self._seen.pop(kind, None)
        self._seen[kind] = (now, 0, {})
        return {**event, "repeated": count} if count else event

    def overdue(self) -> list[dict[str, Any]]:
        """Returns the last event of each kind that was left out, with the number of those, and forgets old kinds."""
        now, found = self._clock(), []
        for kind, (since, count, event) in list(self._seen.items()):
            if now - since >= REPEATS_SECONDS:
                del self._seen[kind]
                if count:
                    found.append({**event, "repeated": count})
        return found


async def summarize(repeats: Repeats, every_seconds: float = REPEATS_SECONDS / 2) -> None:
    """Logs the numbers of repeated warnings that nothing else logs. Never returns."""
    while True:
        await asyncio.sleep(every_seconds)
        for event in repeats.overdue():
            log = structlog.get_logger(event.pop("logger", "seiretsu"))
            for name in ("level", "timestamp"):
                event.pop(name, None)
            log.warning(f"{event.pop('event')} (again)", **event)


def change_level(level: str) -> None:
    """Logs from this level on, until it is changed again."""
    logging.getLogger().setLevel(level.upper())
    structlog.get_logger("seiretsu").warning("The log level was changed", to=level)


def configure(level: str, stream: TextIO | None = None) -> Repeats:
    """Sends structlog's and standard logging's events to `stream` (stderr), from `level` on. Returns the counter of
    repeated warnings.
    """
    target, repeats = stream or sys.stderr, Repeats()
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    terminal = target.isatty()
    rendering: list[Processor] = (
        [_escape, structlog.dev.ConsoleRenderer()]
        if terminal
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            repeats,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    return repeats


def _json(event: object, **_: object) -> str:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _escape(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = value.translate(_UNPRINTABLE)
    return event
