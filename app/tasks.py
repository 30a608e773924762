"""Background tasks that must not end: a task that ends, for any reason, ends the process.

If a task ended unnoticed, the server would answer 200 and admit nothing. So every task has a name, and `Tasks.ended`
returns the first task that ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from controller.kube.errors import leaves


class TaskEndedError(Exception):
    """A background task ended, but was not stopped."""

    def __init__(self, name: str, cause: BaseException | None) -> None:
        causes = "; ".join(f"{type(one).__name__}: {one}" for one in (leaves(cause) if cause is not None else ()))
        how = f"failed: {causes}" if causes else "returned"
        super().__init__(f"the task {name!r} {how}")
        self.name = name
        self.__cause__ = cause


class Tasks:
    """Owns tasks that must run as long as the process. Used inside one running event loop."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._ended: asyncio.Future[TaskEndedError] = asyncio.get_running_loop().create_future()
        self._stopping = False

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        """Runs `work` until `stop()`. If it ends before that, `ended()` reports it."""
        if name in self._running:
            work.close()
            raise ValueError(f"there is a task {name!r} already")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[name] = task
        task.add_done_callback(self._note)

    async def ended(self) -> TaskEndedError:
        """Waits until the first task ends. Returns its name and why it ended."""
        return await asyncio.shield(self._ended)

    async def stop(self, *names: str, seconds: float = 5.0) -> list[str]:
        """Cancels the named tasks (all, without names) and waits. Returns those that still run after `seconds`."""
        self._stopping = True
        chosen = {name: task for name, task in self._running.items() if not names or name in names}
        for task in chosen.values():
            task.cancel()
        if chosen:
            await asyncio.wait(chosen.values(), timeout=seconds)
        return [name for name, task in chosen.items() if not task.done()]

    def _note(self, task: asyncio.Task[Any]) -> None:
        cause = asyncio.CancelledError() if task.cancelled() else task.exception()
        if not self._stopping and not self._ended.done():
            self._ended.set_result(TaskEndedError(task.get_name(), cause))
