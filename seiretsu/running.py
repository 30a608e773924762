"""Why a job that was admitted does not run: from its pods and the events about it, in the words of who refused them.

Pure, with the standard library alone, because three programs give this answer and must give the same: ``seiretsu
explain``, ``seiretsu.client`` and the controller, which emits it as an event. What is not known is left out: objects
have the form of the API, and every field may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

Raw = dict[str, Any]

SOON: Final = 10.0
"""Seconds in which pods are normally made, looked at by the scheduler and started: nothing is wrong before."""
STARTS_SLOWLY: Final = 60.0
"""Seconds after which a container that is still created is reported, with the events about it."""
MOST: Final = 5
"""So many different causes are reported."""
LONGEST: Final = 600
"""Characters of a text that others wrote."""
JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
QUOTA_GATES: Final = frozenset({"kueue.x-k8s.io/admission", "kueue.x-k8s.io/elastic-job"})
TOPOLOGY_GATE: Final = "kueue.x-k8s.io/topology"
WATCHED: Final = ("FailedCreate", "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedScheduling")
"""The reasons of the events that are read."""
MAY_BE_FORCED: Final = "kueue.x-k8s.io/safe-to-forcefully-delete"
"""The annotation of pods that may be ended by force."""
FORCED_AFTER: Final = 60.0
"""Seconds after its grace period when a pod is ended by force."""
_POD_LABEL: Final = "kueue.x-k8s.io/pod-group-name"
_JOB_UID: Final = "kueue.x-k8s.io/job-uid"
_UID_LABELS: Final = {"Job": "batch.kubernetes.io/controller-uid", "JobSet": "jobset.sigs.k8s.io/jobset-uid"}
_NORMAL_WAITS: Final = frozenset({"ContainerCreating", "PodInitializing"})
_POD: Final = re.compile(r'pods "[^"]*" is forbidden')


class Trouble(NamedTuple):
    """Why some pods do not run: one word, which stays the same, and a sentence."""

    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class Running(NamedTuple):
    """How many pods were admitted, how many of them run or have succeeded, and why the others do not."""

    wanted: int
    running: int
    troubles: tuple[Trouble, ...] = ()

    @property
    def why(self) -> str:
        """All causes as one text, '' where nothing is wrong."""
        return "; ".join(map(str, self.troubles))


class PodSelectors(NamedTuple):
    """The pods of a job, as two selectors of a list."""

    labels: str = ""
    fields: str = ""


def pods_of(workload: Raw) -> PodSelectors | None:
    """Returns how to list the pods of a Workload; None if they are not in this cluster, or it cannot be known."""
    metadata = workload.get("metadata") or {}
    if (workload.get("status") or {}).get("clusterName"):
        return None
    if (metadata.get("annotations") or {}).get("kueue.x-k8s.io/is-group-workload") == "true":
        return PodSelectors(f"{_POD_LABEL}={metadata.get('name')}")
    owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
    if owner is None:
        return None
    if owner.get("kind") == "Pod":
        return PodSelectors(fields=f"metadata.name={owner.get('name')}")
    return PodSelectors(f"{_UID_LABELS.get(str(owner.get('kind')), _JOB_UID)}={owner.get('uid')}")


def admitted(workload: Raw) -> bool:
    """Whether its pods may run."""
    true = {each.get("type") for each in _conditions(workload) if each.get("status") == "True"}
    return "Admitted" in true and not true & {"Finished", "Evicted"}


def running(
    workload: Raw, job: Raw | None, pods: Iterable[Raw], events: Iterable[Raw], now: float, *, all_pods: bool = True
) -> Running:
    """Returns what is known of the pods of an admitted Workload.

    ``job`` is the object that was admitted, None where it is not known. ``events`` may be about anything of the
    namespace: those about the job, its pods and what controls them count. ``all_pods``: there are no others.
    """
    there = list(pods)
    living = [each for each in there if not _deleted(each)]
    wanted = _wanted(workload)
    fine = [each for each in living if _phase(each) == "Succeeded" or _runs(each)]
    since = _since(workload, "Admitted")
    recorded = list(events)
    made = [each for each in living if _phase(each) != "Failed"]
    troubles: list[Trouble] = []
    stuck = [each for each in there if _deleted(each) and now - _due(each, now) >= SOON]
    if len(made) + len(stuck) < wanted and all_pods:
        troubles += _not_made(workload, job, living, recorded, len(made), wanted, now - since if since else now)
    troubles += _of_pods([each for each in living if each not in fine], recorded, wanted, now)
    if len(fine) < wanted:
        troubles += _stuck(stuck, now)
    return Running(wanted, len(fine), tuple(dict.fromkeys(troubles))[:MOST])


def about(job: Raw | None, pods: Iterable[Raw], extra: Iterable[str] = ()) -> frozenset[str]:
    """Returns the uids of the objects whose events count: the job, its pods, what controls these, and others."""
    found = {str(((job or {}).get("metadata") or {}).get("uid") or ""), *extra}
    for pod in pods:
        metadata = pod.get("metadata") or {}
        found.add(str(metadata.get("uid") or ""))
        found |= {str(each.get("uid")) for each in metadata.get("ownerReferences") or () if each.get("controller")}
    return frozenset(found - {""})


def _not_made(
    workload: Raw, job: Raw | None, pods: Sequence[Raw], events: Sequence[Raw], made: int, wanted: int, waited: float
) -> Iterator[Trouble]:
    """Why there are fewer pods than were admitted."""
    count = f"{made} of {wanted} pods exist" if made else f"none of its {wanted} pods exists"
    spec, kind = (job or {}).get("spec") or {}, str((job or {}).get("kind") or "the job")
    since = _since(workload, "Admitted")
    known = about(job, pods)
    failed = [
        each
        for each in events
        if each.get("reason") == "FailedCreate" and _uid(each) in known and _at(each) >= since - 1
    ]
    if failed:
        message = _POD.sub("a pod is forbidden", str(max(failed, key=_at).get("message") or ""))
        message = message.removeprefix("Error creating: ")
        yield Trouble("FailedCreate", f"{count}, and the next is refused: {_short(message)}{_fix(message)}")
        return
    if waited < SOON or _condition(workload, "PodsReady").get("status") == "True":
        return  # the kind's status counts all pods, also those that lack the label by which they are listed
    if made and kind in ("Job", "the job"):
        return  # completions that have ended, or a retry after its backoff: nothing refuses the others
    manager = spec.get("managedBy")
    if manager and manager != JOB_CONTROLLER:
        yield Trouble(
            "NoController",
            f"{count}: spec.managedBy is {manager}, so only that controller makes them; it must run in this cluster",
        )
    elif spec.get("suspend") is True:
        yield Trouble("NotStarted", f"{count}: it is admitted, but still suspended; see the events of the {kind}")
    elif not made:
        maker = "kube-controller-manager" if kind == "Job" else f"the operator of {kind} objects"
        yield Trouble(
            "NoPods", f"{count} {_span(waited)} after admission: {maker} makes them; check that it runs, and its log"
        )


def _fix(message: str) -> str:
    """What to do about the refusal of a pod."""
    if "exceeded quota" in message or "failed quota" in message:
        return ". A ResourceQuota of the namespace is in the way: it needs room for all pods of the job"
    if "violates PodSecurity" in message:
        return ". Change the pod template, or the Pod Security level of the namespace"
    if re.search(r"(minimum|maximum) \S+ usage per|limit to request ratio", message):
        return ". A LimitRange of the namespace is in the way: change requests or limits of the pod"
    if "admission webhook" in message or "ValidatingAdmissionPolicy" in message:
        return ". That webhook or policy must allow the pod"
    if "serviceaccount" in message:
        return ". Create the ServiceAccount, or name another one in the pod template"
    return ""


def _of_pods(pods: Sequence[Raw], events: Sequence[Raw], wanted: int, now: float) -> Iterator[Trouble]:
    """Why pods that exist do not run; pods with the same cause together."""
    causes: dict[Trouble, int] = {}
    for pod in pods:
        found = _cause(pod, events, now)
        if found is not None:
            causes[found] = causes.get(found, 0) + 1
    for cause, count in causes.items():
        one = "1 pod" if wanted == 1 else f"{count} of {wanted} pods"
        yield Trouble(cause.reason, f"{one} {'is' if count == 1 else 'are'} {cause.message}")


def _stuck(pods: Iterable[Raw], now: float) -> Iterator[Trouble]:
    """Pods that should have terminated, and when they are ended by force; those of one node together."""
    count: dict[tuple[str, bool], int] = {}
    first: dict[tuple[str, bool], float] = {}
    for pod in pods:
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        due, marked = _due(pod, now), annotations.get(MAY_BE_FORCED) == "true"
        place = str((pod.get("spec") or {}).get("nodeName") or "no node"), marked
        count[place], first[place] = count.get(place, 0) + 1, min(due, first.get(place, due))
    for (node, marked), number in sorted(count.items()):
        late = now - first[node, marked]
        pods_are = "1 pod is" if number == 1 else f"{number} pods are"
        left = FORCED_AFTER - late
        when = f"in {_span(left)}" if left > 0 else "now"
        fix = (
            f"where FailureRecoveryPolicy is on, {'it is' if number == 1 else 'they are'} ended by force {when} if the"
            " node is unreachable"
            if marked
            else f"if the node is lost and two copies do no harm, annotate with {MAY_BE_FORCED}=true (feature gate"
            " FailureRecoveryPolicy), or delete with --force"
        )
        yield Trouble("Terminating", f"{pods_are} still on node {node} {_span(late)} after the grace period; {fix}")


def _cause(pod: Raw, events: Sequence[Raw], now: float) -> Trouble | None:
    status = pod.get("status") or {}
    if _phase(pod) == "Failed":
        return None  # the job's controller decides whether another one is made
    scheduled = _condition(pod, "PodScheduled")
    age = now - _time((pod.get("metadata") or {}).get("creationTimestamp"), now)
    if scheduled.get("status") == "False":
        return _unscheduled(pod, scheduled, age)
    if not scheduled and not (pod.get("spec") or {}).get("nodeName"):
        name = (pod.get("spec") or {}).get("schedulerName") or "default-scheduler"
        return Trouble("NotScheduled", f"Pending: scheduler {name} has not looked at it") if age >= SOON else None
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason = str(waiting.get("reason") or "")
        if reason and reason not in _NORMAL_WAITS:
            return Trouble(reason, f"not ready: container {container.get('name')} waits: {_detail(container, waiting)}")
    uid = (pod.get("metadata") or {}).get("uid")
    mine = [each for each in events if _uid(each) == uid and str(each.get("reason")) in WATCHED[1:4]]
    if mine and age >= SOON:
        last = max(mine, key=_at)
        return Trouble(str(last["reason"]), f"not ready: {_short(str(last.get('message') or ''))}")
    if _phase(pod) == "Pending" and age >= STARTS_SLOWLY:
        node = (pod.get("spec") or {}).get("nodeName")
        return Trouble("ContainerCreating", f"Pending on node {node}, where its containers are still created")
    return None


def _unscheduled(pod: Raw, scheduled: Raw, age: float) -> Trouble | None:
    """A pod that the scheduler has looked at, or may not look at yet."""
    reason, message = str(scheduled.get("reason") or "Unschedulable"), str(scheduled.get("message") or "")
    if reason != "SchedulingGated":
        return Trouble(reason, f"Pending: {_short(message) or 'the scheduler gives no reason'}")
    gates = [str(each.get("name")) for each in (pod.get("spec") or {}).get("schedulingGates") or ()]
    others = [each for each in gates if each not in QUOTA_GATES and each != TOPOLOGY_GATE]
    if others:
        return Trouble(reason, f"Pending: whoever set the scheduling gate {', '.join(others)} must remove it")
    if TOPOLOGY_GATE in gates and QUOTA_GATES.isdisjoint(gates):
        if age < SOON:
            return None
        return Trouble(
            reason,
            "Pending: it has no domain of the topology yet; it gets one when a pod that has its place has ended, unless"
            " its node selector contradicts the domains in the status of the Workload, or it is beyond the last whole"
            " slice",
        )
    return Trouble(reason, "Pending: quota for it is not admitted yet")


def _detail(container: Raw, waiting: Raw) -> str:
    """The kubelet's message, without the name of the pod, and how the container ended before."""
    message = str(waiting.get("message") or waiting.get("reason"))
    message = re.sub(r" container=\S+ pod=\S+", "", message)
    last = (container.get("lastState") or {}).get("terminated") or {}
    if last.get("exitCode") is None:
        return _short(message)
    return f"{_short(message)}; it ended before with exit code {last['exitCode']} ({last.get('reason') or 'Error'})"


def _due(pod: Raw, default: float) -> float:
    """When the grace period of a deleted pod ends."""
    return _time((pod.get("metadata") or {}).get("deletionTimestamp"), default)


def _deleted(pod: Raw) -> bool:
    return bool((pod.get("metadata") or {}).get("deletionTimestamp"))


def _wanted(workload: Raw) -> int:
    """The pods that were admitted, without those that are not needed any more."""
    status = workload.get("status") or {}
    counts = {
        str(each.get("name")): int(each.get("count") or 0)
        for each in (status.get("admission") or {}).get("podSetAssignments") or ()
    }
    if not any(counts.values()):
        pod_sets = (workload.get("spec") or {}).get("podSets") or ()
        counts = {str(each.get("name")): int(each.get("count") or 0) for each in pod_sets}
    unused = sum(int(each.get("count") or 0) for each in status.get("reclaimablePods") or ())
    return max(0, sum(counts.values()) - unused)


def _runs(pod: Raw) -> bool:
    """Whether a pod is on its node and no container of it waits."""
    if _phase(pod) != "Running":
        return False
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return not any((each.get("state") or {}).get("waiting") for each in statuses)


def _phase(pod: Raw) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _conditions(raw: Raw) -> Iterable[Raw]:
    found: Iterable[Raw] = (raw.get("status") or {}).get("conditions") or ()
    return found


def _condition(raw: Raw, kind: str) -> Raw:
    return next((each for each in _conditions(raw) if each.get("type") == kind), {})


def _since(workload: Raw, kind: str) -> float:
    return _time(_condition(workload, kind).get("lastTransitionTime"), 0.0)


def _at(event: Raw) -> float:
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return _time(text or (event.get("metadata") or {}).get("creationTimestamp"), 0.0)


def _uid(event: Raw) -> str:
    return str((event.get("involvedObject") or {}).get("uid") or "")


def _time(text: object, default: float) -> float:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return default


def _short(text: str) -> str:
    flat = " ".join(text.split()).rstrip(".")
    return flat if len(flat) <= LONGEST else f"{flat[: LONGEST - 3]}..."


def _span(seconds: float) -> str:
    return f"{round(seconds)} s" if seconds < 120 else f"{round(seconds / 60)} min"
