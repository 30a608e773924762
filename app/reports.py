"""Answers what `seiretsu report` asks: use, waits and preemptions of a time, as the history has them.

Separate from ``app.visibility``, which knows who asks and has checked that he may: a report of a namespace has nothing
of others; one of the whole cluster needs the right for all namespaces.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

from api import visibility
from api.objects import Raw
from api.visibility import VisibilityRequest
from app.limits import RefusedCallError
from controller.history import document, queries
from controller.history.database import Database, DatabaseFailedError
from controller.history.history import HistoryReader
from controller.history.queries import GroupedBy
from controller.history.recorder import LARGEST_FILE, last
from controller.settings import RecorderSettings
from core.explain.sight import EVERYTHING, of_namespace
from core.history.report import window

LONGEST_SECONDS: Final = 2 * 366 * 86400.0
MOST_BYTES: Final = 3 * LARGEST_FILE
"""Of a recording that is sent: the newest file, and the one before it."""


class Reports:
    """``reader`` is None if there is no history, ``recorder`` if cycles are not recorded. ``clock`` is in epoch
    seconds.
    """

    def __init__(
        self,
        reader: HistoryReader | None,
        recorder: RecorderSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._recorder = recorder
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()

    async def recording(self, about: VisibilityRequest) -> Raw:
        """Returns the last minutes of the recording, if this replica has one. Raises `RefusedCallError`."""
        if self._recorder is None:
            raise RefusedCallError(404, "there is no recording: an administrator must set recorder.enabled")
        directory = Path(self._recorder.directory)
        async with self._one_at_a_time:
            try:
                data = await asyncio.to_thread(lambda: base64.b64encode(last(directory, MOST_BYTES)).decode())
            except OSError as error:
                raise RefusedCallError(503, f"the recording cannot be read: {error}") from None
        if not data:
            raise RefusedCallError(503, "this replica has no recording: only the leader records; ask again")
        return visibility.standing(about.version, visibility.RECORDING, {"name": about.name}, {"data": data})

    async def answer(self, about: VisibilityRequest, query: str) -> Raw:
        """Returns the document that a user may have. Raises `RefusedCallError`."""
        if self._reader is None:
            raise RefusedCallError(404, "there is no history: an administrator must set history.enabled")
        try:
            asked = self._question(about, query)
        except ValueError as error:
            raise RefusedCallError(400, str(error)) from None
        try:
            fields = await self._reader.ask(asked)
        except DatabaseFailedError as error:
            raise RefusedCallError(503, str(error)) from None
        return visibility.standing(about.version, visibility.REPORT, {"name": about.name}, fields)

    def _question(self, about: VisibilityRequest, query: str) -> Callable[[Database], Raw]:
        """Raises ``ValueError`` with a sentence."""
        given = {name: values[0] for name, values in parse_qs(query).items()}
        now = self._clock()
        since, until = (_time(given, name, usual) for name, usual in (("since", now - 7 * 86400.0), ("until", now)))
        if not 0 < until - since <= LONGEST_SECONDS:
            raise ValueError("since must be before until, and the time between them at most two years")
        over = window(since, until)
        sight = of_namespace(about.namespace) if about.namespace else EVERYTHING
        if about.name == visibility.FINISHED:
            offset = int(_time(given, "offset", 0.0))
            return lambda database: {
                "workloads": document.workloads_written(queries.finished(database, over, sight, offset=offset))
            }
        by = GroupedBy(about.name)
        return lambda database: document.written(queries.report(database, over, by, sight))


def _time(given: dict[str, str], name: str, usual: float) -> float:
    try:
        found = float(given.get(name, usual))
    except ValueError:
        raise ValueError(f"{name}: {given[name][:50]!r} is not a number") from None
    if not 0 <= found < 1e11:
        raise ValueError(f"{name} is out of range: seconds since 1970 are expected")
    return found
