"""An observer outside the product: watches Workloads, Jobs and pods by plain HTTP and checks what must always hold.

It shares no code with the controller or its caches, so that a bug there cannot hide itself here. Every change of the
three resources is kept with its resource version, which orders the changes of all of them; ``verdict`` replays them.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from api.objects import Raw

Connect = Callable[[], http.client.HTTPSConnection]

PATHS = {
    "workloads": "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads",
    "jobs": "/apis/batch/v1/namespaces/{}/jobs",
    "pods": "/api/v1/namespaces/{}/pods",
}
QUEUE = "kueue.x-k8s.io/queue-name"
UID = "batch.kubernetes.io/controller-uid"
PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Change:
    """One state of one object; ``deleted`` is its last."""

    version: int
    resource: str
    deleted: bool
    raw: Raw


@dataclass
class Verdict:
    """What the changes show. ``broken`` holds a sentence for every moment at which a rule did not hold.

    ``admitted`` counts by Workload how often it was admitted, ``most`` is the most cpu that was reserved at once.
    """

    broken: list[str] = field(default_factory=list)
    admitted: Counter[str] = field(default_factory=Counter)
    most: float = 0.0


class Observer:
    """Watches one namespace of an API server, from the moment it is made until ``close``."""

    def __init__(self, connect: Connect, namespace: str) -> None:
        self.changes: list[Change] = []
        self._connect = connect
        self._paths = {resource: path.format(namespace) for resource, path in PATHS.items()}
        self._closing = False
        self._failed: list[str] = []
        self._connections: list[http.client.HTTPSConnection] = []
        self._threads: list[threading.Thread] = []
        for resource in PATHS:
            found = self._list(resource)
            for each in found["items"]:
                self._heard(resource, {"type": "ADDED", "object": each})
            connection = connect()
            query = f"?watch=1&resourceVersion={found['metadata']['resourceVersion']}"
            connection.request("GET", self._paths[resource] + query)
            connection.sock.settimeout(None)
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._watch, args=(resource, connection), daemon=True))
            self._threads[-1].start()

    def close(self) -> None:
        """Return when every change until now has been seen; fails if a watch broke."""
        end = time.monotonic() + PATIENCE_SECONDS
        for resource in PATHS:
            while not self._up_to_date(resource):
                assert not self._failed, self._failed
                assert time.monotonic() < end, f"the watch of {resource} is behind"
                time.sleep(0.05)
        self._closing = True
        for connection, thread in zip(self._connections, self._threads, strict=True):
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE_SECONDS)
            connection.close()

    def _list(self, resource: str) -> Raw:
        with contextlib.closing(self._connect()) as connection:
            connection.request("GET", self._paths[resource])
            found: Raw = json.loads(connection.getresponse().read())
        return found

    def _up_to_date(self, resource: str) -> bool:
        there = {each["metadata"]["uid"]: _version(each) for each in self._list(resource)["items"]}
        last = {each.raw["metadata"]["uid"]: each for each in list(self.changes) if each.resource == resource}
        known = {uid: each.version for uid, each in last.items() if not each.deleted}
        return known.keys() <= there.keys() and all(known.get(uid, 0) >= version for uid, version in there.items())

    def _watch(self, resource: str, connection: http.client.HTTPSConnection) -> None:
        try:
            with connection.getresponse() as lines:
                for line in lines:
                    self._heard(resource, json.loads(line))
            raise OSError("the watch ended")
        except (OSError, ValueError, http.client.HTTPException) as error:
            if not self._closing:
                self._failed.append(f"{resource}: {error}")

    def _heard(self, resource: str, event: Raw) -> None:
        if event["type"] == "ERROR":
            raise OSError(str(event["object"]))
        raw: Raw = event["object"]
        self.changes.append(Change(_version(raw), resource, event["type"] == "DELETED", raw))


@contextmanager
def observing(connect: Connect, namespace: str, *, cpu: int) -> Iterator[Verdict]:
    """Observe a namespace whose queues together have so many cpu; at the end no rule may have been broken."""
    observer, verdict = Observer(connect, namespace), Verdict()
    yield verdict
    observer.close()
    found = judge(observer.changes, cpu)
    verdict.broken, verdict.admitted, verdict.most = found.broken, found.admitted, found.most
    assert not verdict.broken, "\n".join(verdict.broken[:20])


def judge(changes: list[Change], cpu: float) -> Verdict:
    """Replay the changes in the order in which they were stored.

    At every moment: no more is reserved than there is, and pods of queued jobs use no more than that; a job has at most
    one Workload that holds quota; a job that is not suspended has a Workload that is admitted and not finished.
    """
    verdict, now = Verdict(), {resource: dict[str, Raw]() for resource in PATHS}
    for change in sorted(changes, key=lambda each: each.version):
        uid = change.raw["metadata"]["uid"]
        before = now[change.resource].get(uid)
        if change.deleted:
            now[change.resource].pop(uid, None)
        else:
            now[change.resource][uid] = change.raw
        if change.resource == "workloads" and _admitted(change.raw) and (before is None or not _admitted(before)):
            verdict.admitted[change.raw["metadata"]["name"]] += 1
        _check(verdict, now, cpu, change)
    return verdict


def _check(verdict: Verdict, now: dict[str, dict[str, Raw]], cpu: float, change: Change) -> None:
    holders = [each for each in now["workloads"].values() if _holds(each)]
    reserved = sum(map(_reserved, holders))
    verdict.most = max(verdict.most, reserved)
    at = f"at version {change.version} ({change.resource} {change.raw['metadata']['name']})"
    if reserved > cpu:
        verdict.broken.append(f"{at}: {reserved:g} cpu are reserved of {cpu:g}")
    queued = {_job_of(each) for each in now["workloads"].values()}
    pods = [each for each in now["pods"].values() if _runs(each)]
    used = sum(_asked(each) for each in pods if (each["metadata"].get("labels") or {}).get(UID) in queued)
    if used > cpu:
        verdict.broken.append(f"{at}: pods of {used:g} cpu run on a quota of {cpu:g}")
    twice = [job for job, count in Counter(map(_job_of, holders)).items() if count > 1]
    if twice:
        verdict.broken.append(f"{at}: two Workloads hold quota for the job {twice[0]}")
    runs = change.resource == "jobs" and not change.deleted and _unsuspended(change.raw)
    if runs and change.raw["metadata"]["uid"] not in {_job_of(each) for each in holders if _admitted(each)}:
        verdict.broken.append(f"{at}: the job runs, and has no admitted Workload")


def _version(raw: Raw) -> int:
    return int(raw["metadata"]["resourceVersion"])


def _condition(raw: Raw, kind: str) -> bool:
    conditions = raw.get("status", {}).get("conditions") or []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _holds(workload: Raw) -> bool:
    return _condition(workload, "QuotaReserved") and not _condition(workload, "Finished")


def _admitted(workload: Raw) -> bool:
    return _condition(workload, "Admitted") and not _condition(workload, "Finished")


def _job_of(workload: Raw) -> str:
    """The uid of its job, also when that is gone."""
    return str((workload["metadata"].get("labels") or {}).get("kueue.x-k8s.io/job-uid", ""))


def _reserved(workload: Raw) -> float:
    given = workload["status"]["admission"]["podSetAssignments"]
    return sum(_cpu((each.get("resourceUsage") or {}).get("cpu", "0")) for each in given)


def _asked(pod: Raw) -> float:
    containers = pod["spec"]["containers"]
    return sum(_cpu(((each.get("resources") or {}).get("requests") or {}).get("cpu", "0")) for each in containers)


def _cpu(amount: str) -> float:
    return int(amount[:-1]) / 1000 if amount.endswith("m") else float(amount)


def _runs(pod: Raw) -> bool:
    """Whether it has not ended and is not being deleted: as in Kueue the pods of an evicted job are not waited for."""
    ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not ended and "deletionTimestamp" not in pod["metadata"]


def _unsuspended(job: Raw) -> bool:
    queued = QUEUE in (job["metadata"].get("labels") or {})
    ended = _condition(job, "Complete") or _condition(job, "Failed")
    return queued and not job["spec"].get("suspend") and not ended and "deletionTimestamp" not in job["metadata"]
