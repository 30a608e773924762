"""Whom an edit hits, and whose start it moves, computed in a process of its own for each question.

Separate from ``controller.forecasts.forecasts``: its process may be busy with an arena for a minute, and who asks looks
at a page. This one has no more than some seconds, and is ended with the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from controller.forecasts.messages import Compare, Compared, NodeRecord, Nodes, Workloads
from controller.forecasts.process import WorkerLostError, WorkerProcess, alone, worker_command
from core.forecast.edits import ObjectEdit
from core.forecast.learned import LearnedRunTimes
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
        await process.send_run_times(learned, about.now)
    await process.send_in_parts(Workloads, (*about.waiting, *about.holding))
    nodes: list[NodeRecord] = [(name, node, about.others.get(name)) for name, node in about.nodes.items()]
    await process.send_in_parts(Nodes, nodes)
    await process.send_names(about)
    seconds = CPU_SECONDS if learned is not None else 0.0
    await process.send(Compare(alone(about), edit, seed=int(about.now), seconds=seconds))
