"""Groups of pods: the pods with one group name have one Workload, are admitted together, and may be replaced.

A group is no object of the API. It is put together from its pods (``PodGroup.whole``), with the first one's metadata
and all of them in the field ``members``; every write names the pod that it is for. A pod that has failed or is deleted
keeps its finalizer until another one of its role exists, so that the group can be compared with its Workload.

What a pod says of itself is not believed: its role is computed from its spec, and it takes a place of the Workload only
if it asks for no more than was counted for that place (``sort_out``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

from api.names import Annotation, Label
from core.actions import Delete, Write
from core.jobs import meta, template
from core.jobs.job_reader import Outcome, Slot
from core.jobs.job_starter import StopCause
from core.jobs.kinds.pod import (
    INDEX,
    POD,
    TERMINATION_TARGET,
    WORKLOAD_DELETED,
    Pod,
    ended,
    gated,
    has_condition,
    has_finalizer,
    opened,
    phase,
    ready,
    runs_in_worker,
    stopped,
    target,
    terminates_for,
    unretriable,
    uses_node,
    without_finalizer,
)
from core.jobs.pod_owners import GROUP_OWNERS, LEADER_WORKER_SET, LWS_NAME
from core.jobs.pod_shape import computed_role, requests
from core.jobs.template import Injection
from core.model import Key, Raw, Requests, Workload
from core.model.owner import GROUP
from core.wire.pod_requests import RequestRules
from core.wire.timestamps import epoch

_NO_RULES: Final = RequestRules()


class PodSetPlaces(NamedTuple):
    """What the Workload of a group has counted for a pod set: for how many pods, how many of them have given their
    quota back, and the requests of each; None where nobody asks for them. A pod with containers that the template has
    not (``containers``) may ask for ``injected`` more.
    """

    places: int
    reclaimed: int = 0
    requests: Requests | None = None
    containers: frozenset[str] = frozenset()
    injected: Requests | None = None


class Sorted(NamedTuple):
    """The pods of a group by what becomes of them: ``kept`` for comparison with the Workload, with their roles in it,
    ``excess`` ones beyond the count of their role, ``replaced`` ones that ended and are not needed, and those that the
    Workload did not count (``uncounted``). ``absent`` is how many are missing.
    """

    kept: list[Raw]
    roles: list[str]
    excess: list[Raw]
    replaced: list[Raw]
    uncounted: list[Raw]
    absent: int


class PodGroup(Pod):
    """The ``pod`` framework: pods of a group."""

    def whole(self, objects: Sequence[Raw], now: float) -> Raw:
        """Returns the group of these pods. It is being deleted if a user deletes all of its pods that have not ended;
        pods that a stop has deleted may be replaced.
        """
        pods = sorted(objects, key=lambda pod: (pod["metadata"].get("creationTimestamp", ""), pod["metadata"]["name"]))
        first = next((pod for pod in pods if runnable(pod, now)), pods[0])
        metadata = {key: value for key, value in first["metadata"].items() if key != "deletionTimestamp"}
        by_user = [pod for pod in pods if meta.deleting(pod) and not has_condition(pod, TERMINATION_TARGET)]
        over = all(meta.deleting(pod) or ended(pod) for pod in pods) and not any(alive(pod, now) for pod in pods)
        if by_user and over and not meta.serving(first):
            metadata["deletionTimestamp"] = by_user[0]["metadata"]["deletionTimestamp"]
        return {**first, "metadata": metadata, "members": pods, "now": now, "sorted": {}}

    def parts(self, job: Raw) -> Sequence[Raw]:
        """Returns the pods."""
        return [*job["members"], *job.get("strangers", ())]

    def beside(
        self,
        job: Raw,
        workload: Raw | None,
        value: Workload | None,
        rules: RequestRules,
        longest: float = float("inf"),
        injected: Requests | None = None,
    ) -> Raw:
        """Returns the group as it is beside the Workload of its name: what that has counted, by pod set, and without
        pods that name a group whose Workload belongs to the owner of others (``strangers``). Pods that terminate count
        for at most ``longest`` seconds. ``injected`` is what admission of others may add to the pods of a StatefulSet
        or LeaderWorkerSet, whose Workload has their templates without that.
        """
        found = {**job, "rules": rules, "longest": longest, "sorted": {}}
        if workload is None or value is None:
            return found
        if (by := serving_owners(workload)) and (mine := [pod for pod in job["members"] if _is_of(pod, by)]):
            others = [pod for pod in job["members"] if not _is_of(pod, by)]
            own = {"rules": rules, "longest": longest, "strangers": others}
            found = {**self.whole(mine, job["now"]), **own} if others else found
        return {**found, "counted": counted(value, workload if by else None, injected or {})}

    def settles_in(self, job: Raw) -> float | None:
        """After how many seconds a pod that is being deleted counts as gone although it is still there."""
        now, longest = job["now"], job.get("longest", float("inf"))
        ending = [pod for pod in job["members"] if meta.deleting(pod) and alive(pod, now)]
        limits = [terminates_for(pod, now, longest) if uses_node(pod) else longest for pod in ending]
        left = [min(grace_left(pod, now), limit) for pod, limit in zip(ending, limits, strict=True)]
        return min((each for each in left if each > 0), default=None)

    def slots(self, job: Raw, related: Sequence[Raw] = ()) -> list[Slot]:
        """Returns one pod set for each role, in the order of their names; with fast admission one for all pods."""
        members, now = job["members"], job["now"]
        usable = [(place, pod) for place, pod in enumerate(members) if runnable(pod, now)]
        if not usable:
            return []
        if meta.annotations(job).get(Annotation.POD_GROUP_FAST_ADMISSION) == "true":
            place, pod = usable[0]
            return [Slot(computed_role(pod), total_count(job), ("members", place), index=INDEX)]
        counts = Counter(computed_role(pod) for _, pod in usable)
        first = {computed_role(pod): place for place, pod in reversed(usable)}
        return [Slot(name, counts[name], ("members", first[name]), index=INDEX) for name in sorted(counts)]

    def active(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether a pod runs, here or in another cluster, except for pods that should have ended."""
        now, longest = job["now"], job.get("longest", float("inf"))

        def uses_quota(pod: Raw) -> bool:
            return alive(pod, now) and not (
                meta.deleting(pod) and uses_node(pod) and not terminates_for(pod, now, longest)
            )

        return any(uses_quota(pod) or runs_in_worker(pod) for pod in job["members"])

    def finished(self, job: Raw, related: Sequence[Raw] = ()) -> Outcome | None:
        """Finished when all pods have succeeded, or none is left of a group whose pods may not be replaced."""
        if meta.serving(job):
            return None
        members, total = job["members"], total_count(job)
        succeeded = sum(phase(pod) == "Succeeded" for pod in members)
        given_up = any(map(unretriable, members)) and all(map(ended, members))
        done = 0 < total <= succeeded and not self.active(job)  # the total count can be lowered while pods run
        return Outcome(True, f"Pods succeeded: {succeeded}/{total}.") if done or given_up else None

    def pods_ready(self, job: Raw, related: Sequence[Raw] = ()) -> bool:
        """Whether as many pods as the group has are ready or have succeeded."""
        return sum(ready(pod) or phase(pod) == "Succeeded" for pod in job["members"]) >= total_count(job)

    def reclaimable(self, job: Raw, related: Sequence[Raw] = ()) -> Mapping[str, int]:
        """The pods of each role that have succeeded."""
        if meta.serving(job):
            return {}
        places = job.get("counted") or {}
        found = (_role_in(job, pod, places) for pod in job["members"] if phase(pod) == "Succeeded")
        return dict(Counter(role for role in found if role))

    def held(self, job: Raw) -> bool:
        """Whether Seiretsu's gate is on a pod."""
        return any(map(gated, job["members"]))

    def suspended(self, job: Raw) -> bool:
        """Whether a pod waits behind Seiretsu's gate, or has ended."""
        return any(gated(pod) or ended(pod) for pod in job["members"])

    def start(self, job: Raw, injections: Sequence[Injection], related: Sequence[Raw] = ()) -> Sequence[Write]:
        """Removes the gates as ``Pod.start`` does, with the nodes of each pod's role; pods that the Workload does not
        count wait on.
        """
        by_role = {each.name: each for each in injections}
        found = sort_out(job, [{"name": each.name, "count": each.count} for each in injections])
        writes: list[Write] = []
        for pod, role in zip(found.kept, found.roles, strict=True):
            if gated(pod) and not meta.deleting(pod) and not ended(pod):
                after = opened(pod, template.inject(pod, by_role[role]), by_role[role])
                writes += [replace(patch, target=target(pod)) for patch in self.difference(pod, after)]
        return writes

    def stop_because(
        self, job: Raw, pod_sets: Sequence[Raw], cause: StopCause, related: Sequence[Raw] = ()
    ) -> Sequence[Write]:
        """Marks and deletes each pod that has started; if the Workload is deleted every pod, without its finalizer."""
        if cause.reason == WORKLOAD_DELETED:  # the finalizer first: its patch names the version, which a mark changes
            left = (() if meta.deleting(pod) else stopped(pod, cause) for pod in job["members"])
            return [*self.finalizer_removal(job), *chain.from_iterable(left)]
        return [write for pod in job["members"] for write in POD.stop_because(pod, (), cause)]

    def finalizer_removal(self, job: Raw) -> Sequence[Write]:
        """Removes the finalizers of all pods."""
        return [write for pod in job["members"] for write in without_finalizer(pod)]

    def for_worker(self, job: Raw, pod_sets: Sequence[Raw], related: Sequence[Raw] = ()) -> Raw:
        """Returns the group of the pods that are to run: those that have ended are not created again."""
        waiting = [pod for pod in job["members"] if gated(pod) and not ended(pod) and not meta.deleting(pod)]
        return {**job, "members": waiting, "sorted": {}}

    def idle_in_worker(self, remotes: Sequence[Raw], now: float) -> bool:
        """Whether no pod runs there. Pods that were stopped stay, with their finalizers, until others replace them."""
        return not any(alive(pod, now) for pod in remotes)

    def own(self, job: Raw, manifest: Raw) -> Raw:
        """Returns the Workload with the group's name, owned by all pods and controlled by none."""
        metadata = manifest["metadata"]
        labels = {key: value for key, value in metadata["labels"].items() if key != Label.JOB_UID}
        own = {
            "name": meta.pod_group(job),
            "labels": labels,
            "annotations": {**metadata.get("annotations", {}), Annotation.IS_GROUP_WORKLOAD: "true"},
            "ownerReferences": [owner_reference(pod) for pod in job["members"]],
        }
        return {**manifest, "metadata": {**metadata, **own}}

    def owns(self, job: Raw, workload: Raw) -> bool:
        """Whether a Workload is that of the group: it has its name and was made for a group, and if a StatefulSet or
        LeaderWorkerSet owns it, that one has the pods, too.
        """
        marked = meta.annotations(workload).get(Annotation.IS_GROUP_WORKLOAD) == "true"
        if not marked or workload["metadata"]["name"] != meta.pod_group(job):
            return False
        by = serving_owners(workload)
        return not by or any(_is_of(pod, by) for pod in job["members"])

    def shares_names(self) -> bool:
        """Whether a Workload with the name of such a job may be that of another owner: a user chooses the name."""
        return True

    def matches(self, job: Raw, workload: Raw) -> bool | None:
        """Whether a pod of the group has a place in the Workload. Pods without a place never start, or are stopped."""
        return bool(sort_out(job, (workload.get("spec") or {}).get("podSets") or []).kept)


POD_GROUP: Final = PodGroup()


def sort_out(job: Raw, pod_sets: Sequence[Raw]) -> Sorted:
    """Returns what becomes of the pods of a group with a Workload of these pod sets.

    A place whose quota was given back is not taken again: of the pods that have not succeeded as many have a place as
    quota is reserved for.
    """
    counts = tuple((each["name"], each["count"]) for each in pod_sets)
    done: dict[object, Sorted] = job.get("sorted", {})
    if counts not in done:
        done[counts] = _sorted_out(job, pod_sets)
    return done[counts]


def _sorted_out(job: Raw, pod_sets: Sequence[Raw]) -> Sorted:
    now, found = job["now"], Sorted([], [], [], [], [], 0)
    fast, absent = meta.annotations(job).get(Annotation.POD_GROUP_FAST_ADMISSION) == "true", 0
    known = job.get("counted") or {}
    places = {
        each["name"]: known.get(each["name"], PodSetPlaces(0))._replace(places=each["count"]) for each in pod_sets
    }
    members: dict[str, list[Raw]] = {name: [] for name in places}
    for pod in job["members"]:
        name = _role_in(job, pod, places)
        if name:
            members[name].append(pod)
        else:
            (found.uncounted if runnable(pod, now) else found.replaced).append(pod)
    for name, place in places.items():
        mine = members[name]
        usable = sorted((pod for pod in mine if runnable(pod, now)), key=_first_to_stay)
        others = sorted((pod for pod in mine if not runnable(pod, now)), key=_last_ended(now))
        succeeded = sum(phase(pod) == "Succeeded" for pod in usable)
        left = place.places - max(0, place.reclaimed - succeeded)
        unneeded = max(0, min(len(others), len(mine) - left))
        kept = usable[: max(left, 0)] + others[: len(others) - unneeded]
        found.kept.extend(kept)
        found.roles.extend([name] * len(kept))
        found.excess.extend(usable[max(left, 0) :])
        found.replaced.extend(others[len(others) - unneeded :])
        absent += int(left > 0 and not usable) if fast else max(0, left - len(usable))
    return found._replace(absent=absent)


def counted(workload: Workload, made_of_templates: Raw | None, injected: Requests) -> dict[str, PodSetPlaces]:
    """Returns what a Workload has counted, by pod set. Of requests by its spec and by its admission the larger ones:
    defaults of the namespace may have changed since.
    """
    pod_sets = made_of_templates["spec"].get("podSets") or () if made_of_templates is not None else ()
    templates = {each["name"]: _containers(each["template"]) for each in pod_sets}
    given = {each.name: each for each in workload.admission.pod_sets} if workload.admission is not None else {}
    found = {}
    for each in workload.pod_sets:
        asked, assigned = dict(each.requests), given.get(each.name)
        if assigned is not None and assigned.count:
            for resource, amount in assigned.usage.items():
                asked[resource] = max(asked.get(resource, 0), amount // assigned.count)
        known = templates.get(each.name)
        found[each.name] = PodSetPlaces(
            each.count,
            workload.reclaimable.get(each.name, 0),
            asked,
            containers=known or frozenset(),
            injected=injected if known else None,
        )
    return found


def _containers(pod: Raw) -> frozenset[str]:
    """The names of the containers of a pod or of a template."""
    spec = pod.get("spec") or {}
    return frozenset(
        str(each.get("name")) for kind in ("containers", "initContainers") for each in spec.get(kind) or ()
    )


def exceeds(job: Raw, pod: Raw, place: PodSetPlaces) -> list[tuple[str, int, int]]:
    """Returns the resources of which a pod asks for more than was counted for a place: what it asks and what was
    counted, in base units.
    """
    if place.requests is None:
        return []
    asked, counted = requests(pod, job.get("rules") or _NO_RULES), place.requests
    over = [(name, amount, counted.get(name, 0)) for name, amount in asked.items() if amount > counted.get(name, 0)]
    if not over or not place.injected or _containers(pod) <= place.containers:
        return over
    return [(name, amount, has) for name, amount, has in over if amount - place.injected.get(name, 0) > has]


def roles_of(pod: Raw) -> Iterator[str]:
    """The names that a pod set of this pod may have: its role by its spec, and those that it was given when it was
    created and started (the start changes its spec).
    """
    yield computed_role(pod)
    for given in (meta.annotations(pod).get(Annotation.ROLE_HASH), meta.labels(pod).get(Label.POD_SET)):
        if given:
            yield str(given)


def _role_in(job: Raw, pod: Raw, places: Mapping[str, PodSetPlaces]) -> str:
    """The pod set in which the pod has a place, '' for none: not more is asked than was counted for it."""
    named = (name for name in roles_of(pod) if name in places)
    return next((name for name in named if not exceeds(job, pod, places[name])), "")


def serving_owners(workload: Raw) -> list[Raw]:
    """The references to StatefulSets and LeaderWorkerSets that own the Workload of a group."""
    kinds = {(each.resource.group, each.resource.kind) for each in GROUP_OWNERS}
    references = workload["metadata"].get("ownerReferences") or ()
    return [each for each in references if (str(each["apiVersion"]).rpartition("/")[0], each["kind"]) in kinds]


def _is_of(pod: Raw, owners: Sequence[Raw]) -> bool:
    """Whether one of these owners of a Workload has the pod: it controls it, or is the set that its label names."""
    uid, of_set = meta.controller_uid(pod), meta.labels(pod).get(LWS_NAME)
    return any(
        each["uid"] == uid or (each["kind"] == LEADER_WORKER_SET.resource.kind and each["name"] == of_set)
        for each in owners
    )


def grouped(key: Key) -> bool:
    """Whether this is the key of a group."""
    return key.name.startswith(GROUP)


def total_count(pod: Raw) -> int:
    """The number of pods of the group, 0 if its annotation is no number."""
    text = str(meta.annotations(pod).get(Annotation.POD_GROUP_TOTAL_COUNT) or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def runnable(pod: Raw, now: float) -> bool:
    """Whether the pod can still run, runs or has succeeded. A deleted pod cannot, if it has no node or its time to
    terminate is over.
    """
    scheduled = bool((pod.get("spec") or {}).get("nodeName"))
    going = meta.deleting(pod) and (not scheduled or grace_left(pod, now) <= 0) and phase(pod) != "Succeeded"
    return phase(pod) != "Failed" and not going


def alive(pod: Raw, now: float) -> bool:
    """Whether the pod runs, or is on a node and starts: its init containers run while it is Pending. Not when its time
    to terminate is over, as on a node that is lost.
    """
    on_node = phase(pod) == "Running" or uses_node(pod)
    return on_node and not (meta.deleting(pod) and grace_left(pod, now) <= 0)


def grace_left(pod: Raw, now: float) -> float:
    """How many seconds a pod that is being deleted has left to terminate: until its deletion timestamp."""
    return epoch(pod["metadata"]["deletionTimestamp"]) - now


def deletion(pod: Raw) -> list[Write]:
    """Returns the writes that remove a pod from its group: its finalizer, and the pod unless it is deleted already."""
    deleted = [] if meta.deleting(pod) else [Delete(pod["metadata"]["uid"], target(pod))]
    return [*without_finalizer(pod), *deleted]


def owner_reference(pod: Raw) -> Raw:
    """The owner reference by which a pod owns the Workload of its group; it does not control it."""
    metadata = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}


def last_to_go(pod: Raw) -> tuple[bool, bool, str, str]:
    """Pods without finalizer are removed first, then those that wait, then the newest."""
    metadata = pod["metadata"]
    return not has_finalizer(pod), gated(pod), metadata.get("creationTimestamp", ""), metadata["name"]


def _first_to_stay(pod: Raw) -> tuple[bool, tuple[bool, bool, str, str]]:
    """Pods that have succeeded come first: they stay, and use nothing."""
    return phase(pod) != "Succeeded", last_to_go(pod)


def _last_ended(now: float) -> Callable[[Raw], tuple[bool, float, str]]:
    """Pods without finalizer lose their place first, then those that ended first."""

    def key(pod: Raw) -> tuple[bool, float, str]:
        return not has_finalizer(pod), -_ended_at(pod, now), pod["metadata"]["name"]

    return key


def _ended_at(pod: Raw, now: float) -> float:
    """When the pod was last active: when it failed, or when it was deleted."""
    times = [now]
    for each in (pod.get("status") or {}).get("conditions") or ():
        if each.get("type") == "ContainersReady" and each.get("lastTransitionTime"):
            times.append(epoch(each["lastTransitionTime"]))
    if meta.deleting(pod):
        times.append(epoch(pod["metadata"]["deletionTimestamp"]))
    return min(times)
