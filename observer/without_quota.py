"""The rule that no pod runs without quota, by Workload: a pod that is on a node, has not ended and does not terminate
is one of those that a Workload of its job, or of its group, was admitted with.

Sums of a tree of queues would hide such a pod while others do not use what they have. Revisions of etcd have no clock:
the time is that at which the observer reads a change, and all changes come in one stream. A moment without quota is no
fault: pods and Workloads are written by different controllers. ``patience`` is how long it may last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from observer.decode import Job, Pod, Workload


class _Over(NamedTuple):
    since: float
    pods: str
    admitted: int


class WithoutQuota:
    """Takes the states of jobs, Workloads and pods, with the time. ``longest`` is the longest time, in seconds, that
    more pods of a job ran than were admitted.
    """

    def __init__(self, patience: float) -> None:
        self.longest = 0.0
        self._patience = patience
        self._owner_of: dict[str, str] = {}
        self._queued: set[str] = set()
        self._workloads: dict[str, Workload] = {}
        self._of: defaultdict[str, set[str]] = defaultdict(set)
        self._running: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._counted: dict[str, str] = {}
        self._over: dict[str, _Over] = {}
        self._reported: set[str] = set()

    def see_job(self, job: Job | None) -> None:
        """A Job is as it is now."""
        if job is not None:
            self._owner_of[job.uid] = job.owner
            if job.queued:
                self._queued.add(job.uid)

    def see_workload(self, before: Workload | None, now: Workload | None, at: float) -> None:
        """A Workload changed."""
        for state in (before, now):
            if state is not None:
                account = _account_of(state)
                if state is now:
                    self._workloads[state.uid] = state
                    self._of[account].add(state.uid)
                elif now is None or now.uid != state.uid:
                    self._workloads.pop(state.uid, None)
                    self._of[account].discard(state.uid)
                self._judge(account, at)

    def see_pod(self, before: Pod | None, now: Pod | None, at: float) -> None:
        """A pod changed."""
        if before is not None and (account := self._counted.pop(before.uid, "")):
            self._running[account].pop(before.uid, None)
            if not self._running[account]:
                del self._running[account]
            self._judge(account, at)
        if now is not None and now.runs and (account := self._account(now)):
            self._counted[now.uid] = account
            self._running[account][now.uid] = now.name
            self._judge(account, at)

    def broken(self, at: float) -> Iterator[str]:
        """Yields a sentence for each job whose pods have run without quota for too long, once."""
        for account, over in self._over.items():
            self.longest = max(self.longest, at - over.since)
            if at - over.since > self._patience and account not in self._reported:
                self._reported.add(account)
                text = f"more pods run than the {over.admitted} that are admitted: {over.pods}"
                yield f"for {at - over.since:.1f} s {text}"

    def owners(self, pod: Pod) -> list[str]:
        """The uids of a pod, of its controller, of the controller of this, and so on as far as it is a Job."""
        uids, uid = [pod.uid], pod.owner
        while uid and uid not in uids:
            uids.append(uid)
            uid = self._owner_of.get(uid, "")
        return uids

    def _account(self, pod: Pod) -> str:
        """The uid of the job that a pod is one of, or the name of its group; '' where nothing of it is queued."""
        uids = self.owners(pod)
        known = next((each for each in uids if self._of.get(each)), "")
        queued = next((each for each in uids if each in self._queued), pod.uid if pod.managed else "")
        return known or pod.group or queued

    def _admitted(self, account: str) -> int:
        return max((each.pods for uid in self._of.get(account, ()) if (each := self._workloads[uid]).holds), default=0)

    def _judge(self, account: str, at: float) -> None:
        running = self._running.get(account, {})
        admitted = self._admitted(account)
        before = self._over.pop(account, None)
        if len(running) > admitted:
            since = before.since if before is not None else at
            self._over[account] = _Over(since, ", ".join(sorted(running.values())[:3]), admitted)
        elif before is not None:
            self.longest = max(self.longest, at - before.since)
            self._reported.discard(account)


def _account_of(workload: Workload) -> str:
    return workload.name if workload.group or not workload.job else workload.job
