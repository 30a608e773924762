"""What would have happened with other quotas: the workloads of a recording, played forward by a simulation.

A replay cannot show it: after the first different decision nothing else that was recorded would have happened. So the
workloads come when they came and run as long as they ran, and everything else is simulated, with the quotas as they
were and as they would have been.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from api.names import Condition
from core.model import ClusterQueue, Cohort, Key, Workload
from core.model.workload import replace
from core.quota.usage import holds_quota
from core.recording.entries import (
    ClusterQueueSet,
    CohortSet,
    Opening,
    PodSetsShared,
    RecordingEntry,
    Taken,
    WorkloadSet,
)
from core.recording.replay import NoRecordingError, Replay
from core.simulation.simulation import Arrival, Timeline, simulate
from core.state.state import State


@dataclass(slots=True)
class RecordedJobs:
    """The workloads of a recording: when each came, in seconds from its begin, and how long it ran (inf: it had not
    ended), and the quotas at the end.
    """

    start: float
    end: float = 0.0
    opening: tuple[RecordingEntry, ...] = ()
    arrivals: dict[str, Arrival] = field(default_factory=dict)
    ended: int = 0


def jobs(recording: Iterable[RecordingEntry], until: float | None = None) -> RecordedJobs:
    """Returns the workloads of a recording up to a time. Raises ``NoRecordingError``."""
    found: RecordedJobs | None = None
    shapes: dict[int, Workload] = {}
    setting: list[RecordingEntry] = []
    for entry in recording:
        if isinstance(entry, Opening) and found is None:
            found = RecordedJobs(entry.at, entry.at)
            setting.append(replace(entry, workloads=(), holding=(), evicting=(), penalties=(), complete=True))
            for workload in entry.workloads:
                _note(found, workload, entry.at)
        elif found is None:
            raise NoRecordingError("the recording does not begin with an opening")
        elif isinstance(entry, PodSetsShared):
            shapes[entry.number] = Workload(Key("", ""), "", 0.0, "", 0, entry.pod_sets)
        elif isinstance(entry, WorkloadSet):
            shared = shapes.get(entry.shape)
            _note(found, entry.workload if shared is None else replace(entry.workload, pod_sets=shared.pod_sets), None)
        elif isinstance(entry, Taken):
            found.start = found.start or entry.at
            if until is not None and entry.at > until:
                break
            found.end = max(found.end, entry.at)
        elif not found.end or isinstance(entry, ClusterQueueSet | CohortSet) or _is_setting(entry):
            setting.append(entry)
    if found is None:
        raise NoRecordingError("the recording is empty")
    found.opening = tuple(setting)
    came = {uid: max(0.0, each.at - found.start) for uid, each in found.arrivals.items()}
    found.arrivals = {uid: replace(each, at=came[uid]) for uid, each in found.arrivals.items()}
    return found


def played(
    recorded: RecordedJobs, queues: Mapping[str, ClusterQueue] = {}, cohorts: Mapping[str, Cohort] = {}
) -> tuple[State, Timeline]:
    """Returns the State and what happened in it, with these ClusterQueues and Cohorts instead of the recorded ones."""
    replay = Replay()
    for _ in replay.play(recorded.opening):
        pass
    state = replay.state
    for name, cohort in cohorts.items():
        state.set_cohort(name, cohort)
    for name, queue in queues.items():
        state.set_cluster_queue(name, queue)
    arrivals = sorted(recorded.arrivals.values(), key=lambda each: (each.at, each.workload.key))
    until = max(0.0, recorded.end - recorded.start)
    return state, simulate(state, arrivals, start=recorded.start, until=until)


def _is_setting(entry: RecordingEntry) -> bool:
    return hasattr(entry, "value")


def _note(found: RecordedJobs, workload: Workload, opened: float | None) -> None:
    """Notes that a workload came, and how long it ran once that shows."""
    known = found.arrivals.get(workload.uid)
    if known is None:
        at = workload.created if opened is None else opened
        came = workload if holds_quota(workload) and opened is not None else _as_created(workload)
        known = found.arrivals[workload.uid] = Arrival(at, came, inf)
    admitted, done = workload.condition(Condition.ADMITTED), workload.condition(Condition.FINISHED)
    if done is not None and done.status:
        since = admitted.since if admitted is not None and admitted.status else done.since
        began = max(since, found.start) if holds_quota(known.workload) else since
        found.arrivals[workload.uid] = Arrival(known.at, known.workload, max(0.0, done.since - began))
        found.ended += 1


def _as_created(workload: Workload) -> Workload:
    return replace(workload, conditions=(), admission=None, checks=(), requeue_at=None, requeue_count=0, evictions=())
