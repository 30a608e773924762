"""What is remembered of the starts of jobs, so that a stop is known to be complete (``core.jobs.stopping`` decides).

Nothing is asked about jobs that run or that have never run. Of Jobs whose controller has shown the start in its status
nothing is remembered; for other kinds it is one small object for each that runs. A new process remembers nothing: it
takes jobs that have quota and do not run for stopped ones, and asks once too often rather than once too little.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace

from api import resources
from api.objects import key_of
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube.errors import Forbidden, Unauthorized
from controller.reconcilers.departures import MOST_PODS, UNFINISHED
from core.jobs import meta
from core.jobs.actions import AwaitPods
from core.jobs.job_starter import JobStarter
from core.jobs.release import holds_quota
from core.jobs.stopping import LastStart, observed
from core.model import Key, Raw

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.5, 15.0
AT_ONCE = 500
"""Jobs that are considered without a pause when a process begins to lead."""


class Stops:
    """The latest starts of the jobs of one kind, and the pods of those that were stopped."""

    def __init__(
        self, kind: JobStarter, caches: Caches, writer: Writer, clock: Callable[[], float] = time.time
    ) -> None:
        self.kind = kind
        self.caches = caches
        self.writer = writer
        self.clock = clock
        self._starts: dict[Key, LastStart] = {}
        self._looks: dict[str, int] = {}
        self._gone: set[str] = set()

    @property
    def gone(self) -> Container[str]:
        """The uids of stopped jobs of which no pod is left."""
        return self._gone

    async def begin(self, jobs: Iterable[Raw], has_quota: Callable[[Key], bool]) -> None:
        """Takes all jobs that have quota and do not run for jobs that an earlier process started and stopped."""
        for place, raw in enumerate(jobs, start=1):
            if not place % AT_ONCE:
                await asyncio.sleep(0)
            key = self.kind.key(raw)
            if self.kind.uid_label and self.kind.held(raw) and has_quota(key):
                self._starts[key] = LastStart(meta.uid(raw))

    def started(self, key: Key, job: Raw) -> None:
        """Remembers a start that is about to be written."""
        if self.kind.uid_label:
            self._forget_pods(key)
            self._starts[key] = LastStart(meta.uid(job))

    def observe(self, key: Key, job: Raw, related: Sequence[Raw], workloads: Sequence[Raw]) -> LastStart | None:
        """Returns what is to be remembered of a job's latest start, as the job and its Workloads are now."""
        known = self._starts.get(key)
        if known is None and self.kind.held(job):
            return None
        values = (self.caches.get(key_of(raw)) for raw in workloads)
        if not any(value is not None and holds_quota(value) for value in values):
            self.forget(key)
            return None
        found = observed(self.kind, job, known, self.clock(), related)
        if found is None:
            self.forget(key)
        elif found != known:
            self._starts[key] = found
        return found

    def asked(self, key: Key) -> None:
        """The kind's controller was asked to write the status of this job again."""
        if (known := self._starts.get(key)) is not None:
            self._starts[key] = replace(known, asked=True)

    def forget(self, key: Key) -> None:
        """The job is gone, has ended or has no quota."""
        self._forget_pods(key)
        self._starts.pop(key, None)

    async def look(self, action: AwaitPods) -> float:
        """Lists the pods of a stopped job. Returns after how many seconds to decide again; 0 where no pod is left."""
        looks = self._looks[action.uid] = self._looks.get(action.uid, 0) + 1
        try:
            pods, more = await self.writer.first_of(
                resources.PODS,
                action.workload.namespace,
                labels=f"{action.label}={action.uid}",
                fields=UNFINISHED,
                limit=MOST_PODS,
            )
        except (Unauthorized, Forbidden):  # the writer has logged it and reports it as a missing right
            pods, more = [], True
        if not pods and not more:
            self._gone.add(action.uid)
            return 0.0
        return float(min(FIRST_WAIT_SECONDS * 2 ** min(looks - 1, 10), LONGEST_WAIT_SECONDS))

    def _forget_pods(self, key: Key) -> None:
        known = self._starts.get(key)
        if known is not None:
            self._looks.pop(known.uid, None)
            self._gone.discard(known.uid)
