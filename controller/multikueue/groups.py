"""Gathers what is known of a Workload here and in its workers, for the rules of ``core.multikueue``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from api import resources
from api.objects import Key, Raw, key_of
from controller.cache.caches import Caches
from controller.multikueue.choices import Choices
from controller.multikueue.clusters import Clusters
from controller.multikueue.kinds import MirroredKinds
from controller.multikueue.remote import Remote
from controller.multikueue.siblings import SiblingIndex
from core.feedback.rules import plain
from core.feedback.submission import of_workload
from core.feedback.workers import why_never
from core.jobs import meta
from core.jobs.mirrored_owners import several_of
from core.model import Workload
from core.multikueue import conditions
from core.multikueue.group import Group, Policy, Worker
from core.state.lookup import Lookup


class Groups:
    """Reads caches and the stores of the workers; writes nothing."""

    def __init__(
        self,
        caches: Caches,
        clusters: Clusters,
        kinds: MirroredKinds,
        siblings: SiblingIndex,
        choices: Choices,
        policy: Policy,
        clock: Callable[[], float],
    ) -> None:
        self._caches = caches
        self._clusters = clusters
        self._kinds = kinds
        self._siblings = siblings
        self._choices = choices
        self._policy = policy
        self._clock = clock

    def group(self, key: Key) -> Group:
        """Returns what is known of a Workload here and in its workers. None of these is configured while its
        MultiKueueConfig is missing.
        """
        now, policy, choices = self._clock(), self._policy, self._choices
        raw, local = self._caches.workloads.get(key), self._caches.get(key)
        if raw is None or local is None:
            return Group(now, policy=policy)
        check = self.check_of(raw)
        config = self._caches.parameters(check, resources.MULTIKUEUE_CONFIGS) if check is not None else None
        state = next((each for each in local.checks if check and each.name == check["metadata"]["name"]), None)
        kind, owner, job, related = self._kinds.job_of(raw, local)
        ran, admission, caches = choices.ran.get(key, ""), local.admission, self._caches
        return Group(
            now=now,
            local=local,
            raw=raw,
            check=state,
            kind=kind,
            owner=owner,
            job=job,
            related=related,
            workers=self._workers(raw, conditions.clusters_of(config), local.cluster_name or ran),
            ran=ran,
            policy=policy,
            replaced=self._replaced(local),
            successor=caches.state.kinship.replacement(local),
            siblings=self._siblings.of(raw),
            round_began=choices.rounds.get(key),
            required=tuple(caches.state.required_checks(admission) if admission is not None else ()),
        )

    def with_former(self, key: Key, group: Group, remote: Remote) -> Worker:
        """What a worker has of a Workload; of a slice of an elastic job also the job that names an earlier one."""
        seen = group.worker(remote.name)
        found = seen or replace(self._siblings.shared(remote.seen(key), key), configured=False)
        kind, job = group.kind, group.job
        if not group.elastic or found.jobs or kind is None or job is None or not found.connected:
            return found
        former = remote.stores[kind.resource].get(key_of(job))
        made = former is not None and meta.controller(former) is None and kind.made_for(job, former)
        return replace(found, former=former) if made else found

    def taken_over(self, remote: Raw, cluster: str) -> bool:
        """Whether a slice of the same job that was admitted in this worker will take over an object there, which still
        names a slice that was deleted here.
        """
        return any(self.group(key_of(each)).runs_in(cluster) for each in self._kinds.slices_of(remote))

    def with_never(self, group: Group) -> Group:
        """The group, with why its workers could never admit it. Separate from ``group``, because it costs much."""
        assert group.raw is not None
        job = of_workload(group.raw, self._caches.context(key_of(group.raw).namespace).rules)
        remotes = ((each, self._clusters.remote(each.name)) for each in group.workers)
        workers = tuple(
            replace(each, never=plain(why_never(job, remote.survey.lookup))) if remote is not None else each
            for each, remote in remotes
        )
        return replace(group, workers=workers)

    def concerns(self, raw: Raw) -> bool:
        """Whether a Workload has a check of MultiKueue, or runs in a worker since it had one."""
        ran = key_of(raw) in self._choices.ran or bool((raw.get("status") or {}).get("clusterName"))
        return ran or self.check_of(raw) is not None

    def check_of(self, raw: Raw) -> Raw | None:
        """The AdmissionCheck of MultiKueue that a Workload has, None if it has none."""
        store = self._caches.stores[resources.ADMISSION_CHECKS]
        for state in (raw.get("status") or {}).get("admissionChecks") or ():
            check: Raw | None = store.get(("", state["name"]))
            if check is not None and conditions.is_ours(check):
                return check
        return None

    def surveys(self, check: str) -> dict[str, Lookup | None]:
        """Returns the queues of the workers of an AdmissionCheck by name, None for one of which nothing is known; empty
        for a check that is not of MultiKueue.
        """
        raw: Raw | None = self._caches.stores[resources.ADMISSION_CHECKS].get(("", check))
        if raw is None or not conditions.is_ours(raw):
            return {}
        config = self._caches.parameters(raw, resources.MULTIKUEUE_CONFIGS)
        remotes = {name: self._clusters.remote(name) for name in conditions.clusters_of(config)}
        return {name: remote.survey.lookup if remote is not None else None for name, remote in remotes.items()}

    def _replaced(self, local: Workload) -> Workload | None:
        """The slice of the same job that this one replaces."""
        found = self._caches.get(local.replaces) if local.replaces is not None else None
        return found if found is not None and found.owner == local.owner else None

    def _workers(self, raw: Raw, configured: tuple[str, ...], chosen: str) -> tuple[Worker, ...]:
        """The configured workers, then others that were chosen or have something of the Workload."""
        named = [each.name for each in self._clusters.remotes()]
        others = [self._seen(name, raw) for name in sorted({*named, chosen} - {*configured, ""})]
        return (
            *(self._seen(name, raw) for name in configured),
            *(replace(each, configured=False) for each in others if each.name == chosen or each.workload or each.jobs),
        )

    def _seen(self, name: str, raw: Raw) -> Worker:
        """What a worker has of a Workload, and whether other groups of its object need that there."""
        several = several_of(raw)
        if several is None:
            return self._clusters.seen(name, key_of(raw))
        return self._siblings.shared(self._clusters.seen(name, key_of(raw), several[1]), key_of(raw))
