"""A LocalQueue to submit jobs to, and a job that was submitted."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import get_close_matches
from http.client import HTTPException
from typing import Any

from seiretsu import running
from seiretsu.client.estimate import Estimate, Forecast, epoch, estimate, waits
from seiretsu.client.http import Api, ApiError, Configuration, UnreachableError
from seiretsu.client.standing import PATH, JobStanding, QueueStanding, job_standing, queue_standing
from seiretsu.client.state import Phase, State, state_of
from seiretsu.running import Running

Raw = dict[str, Any]

QUEUE_NAME = "kueue.x-k8s.io/queue-name"
JOB_UID = "kueue.x-k8s.io/job-uid"
POD_GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
_MANY_WORKLOADS = ("CronJob", "Deployment", "LeaderWorkerSet")
"""Kinds without one Workload: their Jobs, pods or groups have one each."""
_WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
_LOCAL_QUEUES = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/localqueues"
_MOST_EVENTS = "500"
_MOST_PARTS = 5
_FORBIDDEN = 403
_WATCH_SECONDS = 300.0
_UNREACHABLE_SECONDS = 300.0
_PAUSE_SECONDS = 2.0
_GONE = 410
"""The HTTP code for a version that is too old to be watched from."""


class WaitTimeoutError(TimeoutError):
    """The job did not get there in time; ``state`` is its last one, and the text says why it waits."""

    def __init__(self, state: State) -> None:
        super().__init__(str(state))
        self.state = state


@dataclass
class Queue:
    """A LocalQueue in a namespace."""

    api: Api
    name: str
    namespace: str = "default"
    _plurals: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, configuration: Configuration, name: str, namespace: str = "default") -> Queue:
        """With the configuration of the official ``kubernetes`` package."""
        return cls(Api.of(configuration), name, namespace)

    @classmethod
    def in_cluster(cls, name: str, namespace: str) -> Queue:
        """With the service account of the pod that this runs in."""
        return cls(Api.in_cluster(), name, namespace)

    def submit(self, manifest: Raw) -> Job:
        """Create a job of any kind in this queue; ``ApiError`` where it is refused.

        The answer's ``warnings`` are what kubectl would print about it, for example that it can never start.
        """
        body = deepcopy(manifest)
        metadata = body.setdefault("metadata", {})
        metadata["namespace"] = self.namespace
        metadata["labels"] = {**(metadata.get("labels") or {}), QUEUE_NAME: self.name}
        answer = self.api.create(self._path(body["apiVersion"], body["kind"]), body)
        return Job(self, answer.body, answer.warnings)

    def find(self, name: str, *, api_version: str = "batch/v1", kind: str = "Job") -> Job:
        """The job of that name which is in the cluster already."""
        return Job(self, self.api.get(f"{self._path(api_version, kind)}/{name}"))

    def standing(self) -> QueueStanding | None:
        """What the queue may use and what is free now, and what its workloads wait for; None if the server does not
        serve the visibility API, or you may not ask it.
        """
        found = self._stands("localqueues", self.name)
        return queue_standing(found) if found is not None else None

    def _stands(self, resource: str, name: str) -> Raw | None:
        try:
            return self.api.get(PATH.format(self.namespace, resource, name))
        except UnreachableError:
            raise
        except ApiError:
            return None

    def _path(self, api_version: str, kind: str) -> str:
        """The URL path of the objects of a kind in the namespace."""
        root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        if (api_version, kind) not in self._plurals:
            served = self.api.get(root)["resources"]
            found = [each["name"] for each in served if each["kind"] == kind and "/" not in each["name"]]
            if not found:
                raise ApiError(404, "NotFound", f"the cluster has no kind {kind} in {api_version}")
            self._plurals[api_version, kind] = found[0]
        return f"{root}/namespaces/{self.namespace}/{self._plurals[api_version, kind]}"


@dataclass
class Job:
    """A job in a queue. ``manifest`` is as it was stored, ``warnings`` are what the API server said about it."""

    queue: Queue
    manifest: Raw
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the job."""
        return str(self.manifest["metadata"]["name"])

    @property
    def uid(self) -> str:
        """The uid of the job."""
        return str(self.manifest["metadata"]["uid"])

    def state(self) -> State:
        """Where it stands now, and why."""
        found = self._workloads()["items"]
        return state_of(_newest(found), () if found else self._events())

    def why(self) -> str:
        """The sentence that says where it stands: why it waits, and why pods of a job that was admitted do not run."""
        workload = _newest(self._workloads()["items"])
        state = state_of(workload, () if workload else self._events())
        if state.phase is Phase.RUNNING:
            pods = self._pods(workload)
            if pods is not None and pods.troubles:
                return f"{state}; {pods.running} of {pods.wanted} pods run or have succeeded: {pods.why}"
        if workload is not None and state.phase is Phase.WAITING and "LocalQueue" in state.message:
            return f"{state}{self._meant(str(workload['spec'].get('queueName') or ''))}"
        return str(state)

    def running(self) -> Running | None:
        """How many of its pods run, and why the others do not; None if it is not admitted, or its pods are in another
        cluster. Needs the right to list pods and events.
        """
        workload = _newest(self._workloads()["items"])
        return self._running(workload) if workload is not None and running.admitted(workload) else None

    def _pods(self, workload: Raw | None) -> Running | None:
        """The same without the right: None."""
        try:
            return self._running(workload) if workload is not None else None
        except ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            return None

    def _running(self, workload: Raw) -> Running | None:
        selector = running.pods_of(workload)
        if selector is None:
            return None
        namespace = f"/api/v1/namespaces/{self.queue.namespace}"
        wanted = {"labelSelector": selector.labels, "fieldSelector": selector.fields}
        found = self.queue.api.get(f"{namespace}/pods", **{name: text for name, text in wanted.items() if text})
        warnings = self.queue.api.get(f"{namespace}/events", fieldSelector="type=Warning", limit=_MOST_EVENTS)["items"]
        known = running.about(self.manifest, found["items"])
        parts = self._parts(each for each in warnings if (each.get("involvedObject") or {}).get("uid") not in known)
        events = [{**each, "involvedObject": self._whole(each, parts)} for each in warnings]
        return running.running(workload, self.manifest, found["items"], events, time.time())

    def _whole(self, event: Raw, parts: frozenset[str]) -> Raw:
        """The object of an event; the job where that is a part of it."""
        about: Raw = event.get("involvedObject") or {}
        return {**about, "uid": self.uid} if about.get("uid") in parts else about

    def _parts(self, events: Iterable[Raw]) -> frozenset[str]:
        """The uids of objects that the job owns and whose pods could not be created: a JobSet's Jobs, for example."""
        about = [each.get("involvedObject") or {} for each in events if each.get("reason") == "FailedCreate"]
        mine = {
            (str(each.get("apiVersion")), str(each.get("kind")), str(each["name"]), str(each.get("uid")))
            for each in about
            if str(each.get("name", "")).startswith(f"{self.name}-")
        }
        found = set()
        for version, kind, name, uid in sorted(mine)[:_MOST_PARTS]:
            try:
                part = self.queue.api.get(f"{self.queue._path(version, kind)}/{name}")
            except ApiError:
                continue  # it is gone, or may not be read
            owners = part["metadata"].get("ownerReferences") or ()
            if any(each.get("uid") == self.uid for each in owners):
                found.add(uid)
        return frozenset(found)

    def _meant(self, queue: str) -> str:
        """Which LocalQueues there are instead of one that does not exist; '' if it exists or they may not be listed."""
        try:
            listed = self.queue.api.get(_LOCAL_QUEUES.format(self.queue.namespace))["items"]
        except ApiError:
            return ""
        names = sorted(each["metadata"]["name"] for each in listed)
        if queue in names:
            return ""
        close = get_close_matches(queue, names, n=1)
        if close:
            return f': did you mean "{close[0]}"?'
        return f"; available: {', '.join(names)}" if names else "; the namespace has none"

    def changes(self, timeout: float | None = None) -> Iterator[State]:
        """Its state now, then each change of it, until it has ended or that many seconds have passed."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        last: State | None = None
        for state in self._states(end):
            if state != last:
                yield state
            last = state
            if state.phase.ended:
                return

    def _states(self, end: float) -> Iterator[State]:
        """Its state whenever something about its Workload may have changed, until that time."""
        while True:
            listed = self._listed(end)
            found = {each["metadata"]["uid"]: each for each in listed["items"]}
            yield state_of(_newest(found.values()), () if found else self._events())
            left = min(_WATCH_SECONDS, end - time.monotonic())
            if left <= 0:
                return
            for event in self._watched(left, listed["metadata"]["resourceVersion"]):
                workload = event["object"]
                found.pop(workload["metadata"]["uid"], None)
                if event["type"] != "DELETED":
                    found[workload["metadata"]["uid"]] = workload
                yield state_of(_newest(found.values()))

    def _listed(self, end: float) -> Raw:
        """Its Workloads; an API server that cannot be reached is asked again, for as long as the caller waits, but not
        longer than some minutes.
        """
        given_up = min(end, time.monotonic() + _UNREACHABLE_SECONDS)
        while True:
            try:
                return self._workloads()
            except OSError:
                if time.monotonic() >= given_up:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _watched(self, left: float, version: str) -> Iterator[Raw]:
        """The changes of its Workloads since a version; ends early where the list has to be read anew."""
        path = _WORKLOADS.format(self.queue.namespace)
        try:
            for event in self.queue.api.watch(path, left, resourceVersion=version, **self._selector()):
                if event["type"] == "ERROR":
                    return  # the version is too old by now
                yield event
        except (OSError, HTTPException):
            return  # the connection broke
        except ApiError as error:
            if error.status != _GONE:
                raise

    def wait(
        self,
        until: Phase | None = None,
        *,
        timeout: float | None = None,
        progress: Callable[[State], object] | None = None,
    ) -> State:
        """Wait at most ``timeout`` seconds until the job has ended, or has got to a phase; ``progress`` is called with
        each change.

        Returns its state then; one that has ended does not get to another phase. Raises ``WaitTimeoutError``.
        """
        state = State(Phase.SUBMITTED)
        for state in self.changes(timeout):
            if progress is not None:
                progress(state)
            if state.phase.ended or state.phase is until:
                return state
        raise WaitTimeoutError(state)

    def estimate(self) -> Forecast | Estimate | None:
        """How long it will probably wait from now: the server's forecast, or, where the server has none or may not be
        asked, an estimate from the waits of other jobs in its queue. None where too few are known, or where it does not
        wait.
        """
        mine = self._workloads()["items"]
        if not mine or state_of(_newest(mine)).phase is not Phase.WAITING:
            return None
        stands = self.standing()
        if stands is not None and stands.forecast is not None:
            return stands.forecast
        everybody = self.queue.api.get(_WORKLOADS.format(self.queue.namespace))["items"]
        waited = time.time() - min(epoch(each["metadata"]["creationTimestamp"]) for each in mine)
        return estimate(waited, waits(everybody, self.queue.name))

    def standing(self) -> JobStanding | None:
        """Its queue position, why it waits, what is free and what would let it start, as the server decides it; None if
        it has no Workload yet, the server does not serve the visibility API, or you may not ask it.
        """
        workload = _newest(self._workloads()["items"])
        found = self.queue._stands("workloads", workload["metadata"]["name"]) if workload is not None else None
        return job_standing(found) if found is not None else None

    def delete(self) -> None:
        """Delete the job, and with it what it owns."""
        path = self.queue._path(self.manifest["apiVersion"], self.manifest["kind"])
        self.queue.api.delete(f"{path}/{self.name}")

    def _workloads(self) -> Raw:
        path = _WORKLOADS.format(self.queue.namespace)
        return self.queue.api.get(path, **self._selector())

    def _selector(self) -> dict[str, str]:
        """The query for its Workload: that of its group for a pod in a group."""
        kind = self.manifest["kind"]
        if kind in _MANY_WORKLOADS:
            raise ValueError(f"a {kind} has no Workload of its own: look at the jobs or pods that it makes")
        group = (self.manifest["metadata"].get("labels") or {}).get(POD_GROUP_NAME) if kind == "Pod" else None
        return {"fieldSelector": f"metadata.name={group}"} if group else {"labelSelector": f"{JOB_UID}={self.uid}"}

    def _events(self) -> list[Raw]:
        path = f"/api/v1/namespaces/{self.queue.namespace}/events"
        found: list[Raw] = self.queue.api.get(path, fieldSelector=f"involvedObject.uid={self.uid}")["items"]
        return found


def _newest(workloads: Iterable[Raw]) -> Raw | None:
    return max(workloads, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)
