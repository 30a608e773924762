"""Reports what becomes of an edited Configuration while the process runs.

The Configuration is read once, at the start, because most of it (ports, kinds of jobs, leader election) cannot change
in a running process. But the kubelet changes the mounted file about a minute after its ConfigMap was edited, and an
error in it would show only when a replica restarts. So each edit is checked: the log and an event on the pod report the
errors, or that a restart is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import structlog

from controller.kube.events import EventType

log = structlog.get_logger("seiretsu.configuration")

LOOK_EVERY = 10.0


class Edit(NamedTuple):
    """An edited Configuration, as its event reports it."""

    type: EventType
    reason: str
    message: str


def judge(text: str, used: str, error: str) -> Edit:
    """Returns what to report about the text that the file has now. `used`: the text that was read at the start;
    `error`: why a start with the text would fail, empty if it would not.
    """
    if text == used:
        return Edit("Normal", "ConfigurationUnchanged", "the Configuration is again the one that is in use")
    if error:
        return Edit(
            "Warning",
            "InvalidConfiguration",
            f"the edited Configuration is not used, and a restart would fail: {error}",
        )
    return Edit(
        "Normal",
        "ConfigurationChanged",
        "the edited Configuration is valid and is used from the next start on: kubectl rollout restart deployment",
    )


class ConfigurationFile:
    """Checks a file every ten seconds and reports each new content once. `used` is its content at the start."""

    def __init__(
        self, path: Path, used: str, error_in: Callable[[str], str], report: Callable[[Edit], None] = lambda edit: None
    ) -> None:
        self._path = path
        self._used = used
        self._seen = used
        self._error_in = error_in
        self._report = report

    async def run(self) -> None:
        """Checks until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            await self.look()

    async def look(self) -> None:
        """Checks once. A file that cannot be read, e.g. while it is replaced, is read again the next time."""
        try:
            text = await asyncio.to_thread(self._path.read_text)
        except (OSError, UnicodeDecodeError) as error:
            log.warning("The Configuration cannot be read again", path=str(self._path), error=str(error))
            return
        if text == self._seen:
            return
        self._seen = text
        edit = judge(text, self._used, await asyncio.to_thread(self._checked, text))
        write = log.warning if edit.type == "Warning" else log.info
        write("The Configuration was edited", path=str(self._path), verdict=edit.reason, message=edit.message)
        self._report(edit)

    def _checked(self, text: str) -> str:
        """Returns the error in a text. One that the check does not expect must not end the process: the text is from a
        person, and all replicas read it.
        """
        try:
            return self._error_in(text)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
