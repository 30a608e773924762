"""Whom an edit hits, and whose start it moves, computed in a process of its own for each question.

Separate from ``controller.forecasts.forecasts``: its process may be busy with an arena for a minute, and who asks looks
at a page. This one has no more than some seconds, and is ended with the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from controller.forecasts.messages import AT_ONCE, Compare, Compared, Named, RunTimesKnown, Workloads
from controller.forecasts.process import WorkerLostError, WorkerProcess, worker_command
from core.forecast.edits import ObjectEdit
from core.forecast.learned import LearnedRunTimes, compressed
from core.forecast.situation import Situation
from core.model.effects import Effects

CPU_SECONDS: Final = 2.0
"""For the starts before the edit, and those after it."""
MOST_SECONDS: Final = 10.0
"""Then the best answer so far counts."""


async def compared(
    about: Situation,
    edit: ObjectEdit,
    learned: LearnedRunTimes | None = None,
    *,
    command: Iterable[str] | None = None,
    seconds: float = MOST_SECONDS,
) -> tuple[Effects, bool]:
    """Returns whom an edit hits, and whether it is known whose start moves, which depends on the run times that were
    ``learned``. Raises ``WorkerLostError`` if there is no answer in time.
    """
    process = await WorkerProcess.start(command if command is not None else worker_command())
    found: Compared | None = None
    try:
        async with asyncio.timeout(seconds):
            await _ask(process, about, edit, learned)
            while found is None or not found.last:
                message = await process.receive()
                if not isinstance(message, Compared):
                    raise WorkerLostError(f"another answer: {type(message).__name__}")
                found = message
    except (OSError, EOFError) as error:  # it has taken too long, or the process has ended
        if found is None:
            raise WorkerLostError(f"there was no answer within {seconds:g} s") from error
    finally:
        await process.end()
    return found.effects, found.starts


async def _ask(process: WorkerProcess, about: Situation, edit: ObjectEdit, learned: LearnedRunTimes | None) -> None:
    if learned is not None:
        plain = learned.plain()
        await process.send(RunTimesKnown(await asyncio.to_thread(compressed, plain), about.now))
    workloads = (*about.waiting, *about.holding)
    for place in range(0, len(workloads), AT_ONCE):
        await process.send(Workloads(list(workloads[place : place + AT_ONCE])))
    waiting, holding = [each.key for each in about.waiting], [each.key for each in about.holding]
    await process.send(Named(waiting, holding))
    seconds = CPU_SECONDS if learned is not None else 0.0
    await process.send(Compare(replace(about, waiting=(), holding=()), edit, seed=int(about.now), seconds=seconds))
