"""The rules for a manager and its worker clusters together: each Job of the manager runs once, and in one worker.

Each cluster is judged by the rules for one cluster, too (``rules``). The clusters have no common order of changes, so
these rules count what has ever run, which depends on no order.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection, Iterator

from observer.decode import Job, Pod, Workload
from observer.rules import Change

MANAGER = "the manager"


class Fleet:
    """Takes the changes of all clusters, from several threads. ``broken`` has a sentence for each broken rule."""

    def __init__(self, namespaces: Collection[str] = ()) -> None:
        self.broken: list[str] = []
        self._namespaces = namespaces
        self._lock = threading.Lock()
        self._wanted: dict[str, Job] = {}
        self._jobs: dict[tuple[str, str], Job] = {}
        """The Jobs of the workers, by cluster and uid; also those that were deleted."""
        self._pods: defaultdict[str, dict[tuple[str, str], set[str]]] = defaultdict(dict)
        """By the name of a Job the uids of the pods that it ever had, for each cluster and uid of a Job there."""
        self._left: dict[tuple[str, str], str] = {}

    @property
    def ran(self) -> int:
        """How many Jobs have had pods in a worker."""
        with self._lock:
            return len(self._pods)

    def see(self, cluster: str, change: Change) -> None:
        """Judges one change of a cluster."""
        if self._namespaces and change.key.split("/")[-2] not in self._namespaces:
            return
        with self._lock:
            match change.value:
                case Job() if cluster == MANAGER:
                    if not change.value.ended or change.value.name in self._wanted:  # else it ended before
                        self._wanted[change.value.name] = change.value
                case Job():
                    self._jobs[cluster, change.value.uid] = change.value
                case Pod():
                    self._see_pod(cluster, change.value)
            if cluster != MANAGER and change.kind in ("Job", "Workload"):
                if isinstance(change.value, Job | Workload):
                    self._left[cluster, change.key] = f"{change.kind} {change.value.name} is left in {cluster}"
                else:
                    self._left.pop((cluster, change.key), None)

    def _see_pod(self, cluster: str, pod: Pod) -> None:
        if not pod.job:
            return
        if cluster == MANAGER:
            self.broken.append(f"pod {pod.name} runs in {MANAGER}")
            return
        job = self._jobs[cluster, pod.job]
        runs = self._pods[job.name]
        pods = runs.setdefault((cluster, job.uid), set())
        if pod.uid in pods:
            return
        pods.add(pod.uid)
        if len(pods) == 1 and len(runs) > 1:
            self.broken.append(f"Job {job.name} runs again: {', then '.join(where for where, _ in runs)}")
        if len(pods) > job.pods:
            self.broken.append(f"Job {job.name} has {len(pods)} pods in {cluster}, and asks for {job.pods}")

    def at_rest(self) -> list[str]:
        """Returns a sentence for each rule that does not hold when all Jobs have ended and nothing changes any more."""
        with self._lock:
            return [*self._lost(), *self._left.values()]

    def _lost(self) -> Iterator[str]:
        for job in self._wanted.values():
            if job.queued and not job.ended:
                yield f"Job {job.name} has not ended in {MANAGER}"
            elif job.queued and not self._pods.get(job.name):
                yield f"Job {job.name} has run in no worker"
