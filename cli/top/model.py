"""What the page knows: a short record of each queue and workload, kept up to date by the changes of a watch. Pure.

A record has the fields that are shown or sorted by, so that 50,000 workloads take tens of megabytes, not hundreds. What
is asked for again and again (the workloads of a queue, the order of a table) is kept until something changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from api.names import Condition
from api.objects import Key, Raw, key_of
from cli.verbs.printing import clean
from core.wire.timestamps import maybe_epoch

WorkloadState = Literal["running", "reserved", "waiting", "finished", "held"]
ORDER: Final[dict[WorkloadState, int]] = {"running": 0, "reserved": 1, "waiting": 2, "held": 3, "finished": 4}
MOST_WHY: Final = 400
"""So many characters of a message are kept."""


class QuotaUse(NamedTuple):
    """The use of one resource in one flavor, as quantities of Kubernetes."""

    flavor: str
    resource: str
    used: str
    nominal: str
    borrowed: str


class QueueRecord(NamedTuple):
    """A ClusterQueue, or a LocalQueue where no ClusterQueue may be read. ``why`` says why it is not active."""

    key: Key
    cluster_queue: str
    cohort: str
    active: bool
    stopped: str
    waiting: int
    running: int
    cells: tuple[QuotaUse, ...]
    why: str


class WorkloadRecord(NamedTuple):
    """A workload. ``since`` is when its state began; ``why`` is why it waits, or how it has ended."""

    key: Key
    job: str
    queue: str
    cluster_queue: str
    priority: int
    state: WorkloadState
    created: float
    since: float
    flavors: str
    why: str


class RecordChange(NamedTuple):
    """A record that is new or changed, or None if the object is gone."""

    kind: Literal["queue", "line"]
    key: Key
    record: QueueRecord | WorkloadRecord | None


def queue(raw: Raw) -> QueueRecord:
    """Returns the record of a ClusterQueue or a LocalQueue."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    nominal = {
        (flavor["name"], each["name"]): str(each.get("nominalQuota", ""))
        for group in spec.get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for each in flavor.get("resources") or ()
    }
    usage = status.get("flavorsUsage") or status.get("flavorUsage") or ()
    cells = tuple(
        QuotaUse(
            str(flavor["name"]),
            str(each["name"]),
            str(each.get("total", "0")),
            nominal.get((flavor["name"], each["name"]), ""),
            str(each.get("borrowed", "0")),
        )
        for flavor in usage
        for each in flavor.get("resources") or ()
    )
    condition = _condition(raw, Condition.ACTIVE)
    active = condition.get("status") == "True"
    stopped = str(spec.get("stopPolicy", "None"))
    return QueueRecord(
        key_of(raw),
        str(spec.get("clusterQueue", "")),
        str(spec.get("cohortName", "")),
        active,
        "" if stopped == "None" else stopped,
        int(status.get("pendingWorkloads", 0)),
        int(status.get("admittedWorkloads", 0)),
        cells,
        "" if active else clean(str(condition.get("message", "")))[:MOST_WHY],
    )


def line(raw: Raw) -> WorkloadRecord:
    """Returns the record of a Workload."""
    spec, status, metadata = raw.get("spec") or {}, raw.get("status") or {}, raw["metadata"]
    created = maybe_epoch(metadata.get("creationTimestamp")) or 0.0
    owner: Raw = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), {})
    admission = status.get("admission") or {}
    assigned = {
        str(flavor)
        for each in admission.get("podSetAssignments") or ()
        for flavor in (each.get("flavors") or {}).values()
    }
    state, since, why = _state(raw)
    return WorkloadRecord(
        key_of(raw),
        clean(str(owner.get("name", metadata["name"]))),
        str(spec.get("queueName", "")),
        str(admission.get("clusterQueue", "")),
        int(spec.get("priority") or 0),
        state,
        created,
        since if since is not None else created,
        ",".join(sorted(assigned)),
        clean(why)[:MOST_WHY],
    )


def _state(raw: Raw) -> tuple[WorkloadState, float | None, str]:
    reserved = _condition(raw, Condition.QUOTA_RESERVED)
    for kind, state in ((Condition.FINISHED, "finished"), (Condition.ADMITTED, "running")):
        condition = _condition(raw, kind)
        if condition.get("status") == "True":
            why = str(condition.get("message", "")) if state == "finished" else ""
            return state, maybe_epoch(condition.get("lastTransitionTime")), why  # type: ignore[return-value]
    at, why = maybe_epoch(reserved.get("lastTransitionTime")), str(reserved.get("message", ""))
    if reserved.get("status") == "True":
        checks = [str(each.get("name")) for each in _checks(raw) if each.get("state") != "Ready"]
        return "reserved", at, f"waits for the admission checks {', '.join(checks)}" if checks else ""
    if (raw.get("spec") or {}).get("active") is False:
        condition = _condition(raw, Condition.EVICTED)
        return "held", at, str(condition.get("message", "")) or "stopped: it is not active"
    return "waiting", None, why


def _condition(raw: Raw, kind: str) -> Raw:
    found = ((raw.get("status") or {}).get("conditions")) or ()
    return next((each for each in found if each.get("type") == kind), {})


def _checks(raw: Raw) -> Iterable[Raw]:
    return (raw.get("status") or {}).get("admissionChecks") or ()


class Board:
    """All records. ``version`` grows with each change; ``local_queues`` has the ClusterQueue of each LocalQueue."""

    def __init__(self) -> None:
        self.queues: dict[Key, QueueRecord] = {}
        self.lines: dict[Key, WorkloadRecord] = {}
        self.local_queues: dict[Key, str] = {}
        self.positions: dict[Key, int] = {}
        self.version = 0
        self._of_queue: dict[Key, dict[Key, None]] = {}

    def apply(self, changes: Iterable[RecordChange]) -> None:
        """Enters changes."""
        for each in changes:
            self.version += 1
            if each.kind == "queue":
                self._enter_queue(each.key, each.record)
            else:
                self._enter_line(each.key, each.record)

    def _enter_queue(self, key: Key, record: QueueRecord | WorkloadRecord | None) -> None:
        if record is None:
            self.queues.pop(key, None)
            self.local_queues.pop(key, None)
        elif isinstance(record, QueueRecord):
            self.queues[key] = record
            if record.cluster_queue:
                self.local_queues[key] = record.cluster_queue

    def _enter_line(self, key: Key, record: QueueRecord | WorkloadRecord | None) -> None:
        old = self.lines.pop(key, None)
        if old is not None:
            members = self._of_queue.get(self.place(old))
            if members is not None:
                members.pop(key, None)
        if isinstance(record, WorkloadRecord):
            self.lines[key] = record
            self._of_queue.setdefault(self.place(record), {})[key] = None

    def place(self, record: WorkloadRecord) -> Key:
        """The LocalQueue of a workload."""
        return Key(record.key.namespace, record.queue)

    def cluster_queue(self, record: WorkloadRecord) -> str:
        """The ClusterQueue of a workload."""
        return record.cluster_queue or self.local_queues.get(self.place(record), "")

    def of_queue(self, key: Key) -> list[WorkloadRecord]:
        """The workloads of a ClusterQueue (a key without namespace) or of a LocalQueue."""
        places = [key] if key.namespace else [each for each, name in self.local_queues.items() if name == key.name]
        found = [self.lines[each] for place in places for each in self._of_queue.get(place, ())]
        # what was admitted before its LocalQueue was changed or deleted is still there
        if not key.namespace:
            known = set(places)
            found += [
                each
                for place, members in self._of_queue.items()
                if place not in known
                for each in (self.lines[member] for member in members)
                if each.cluster_queue == key.name
            ]
        return [each for each in found if key.namespace or self.cluster_queue(each) == key.name]

    def shown_queues(self) -> list[QueueRecord]:
        """The ClusterQueues, or the LocalQueues if there are none."""
        found = [each for each in self.queues.values() if not each.key.namespace]
        return found or list(self.queues.values())

    def _check(self) -> None:
        """Raises AssertionError if the index is not that of the records."""
        found = {key: self.place(record) for key, record in self.lines.items()}
        indexed = {key: place for place, members in self._of_queue.items() for key in members}
        assert found == indexed, "each workload is indexed by its LocalQueue, once"


Sort = Callable[[WorkloadRecord], tuple[Any, ...]]


def by_line(positions: Mapping[Key, int]) -> Sort:
    """Returns the order of a queue: what runs, then what waits, by position, else by priority and age."""
    far = len(positions) + 1
    return lambda each: (
        ORDER[each.state],
        positions.get(each.key, far) if each.state == "waiting" else 0,
        -each.priority,
        each.created,
        each.key,
    )
