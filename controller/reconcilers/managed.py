"""Whether objects are managed, and what is queued instead of them: one answer for the reconcilers of all kinds."""

from __future__ import annotations

from controller.cache.caches import Caches
from controller.cache.owners import Owners
from controller.settings import ControllerSettings
from core.jobs import meta
from core.jobs.owners import Nesting, kinds_and_groups, lets_run, level_or_workload, nesting
from core.matching.namespaces import managed
from core.model import Key, Raw
from core.model.owner import Level, Reference


class Managed:
    """Answers for the objects in the caches."""

    def __init__(self, caches: Caches, settings: ControllerSettings, owners: Owners) -> None:
        self.caches = caches
        self.settings = settings
        self.owners = owners
        self._external = kinds_and_groups(settings.external_frameworks)

    def namespace(self, name: str) -> bool:
        """Whether objects of a namespace are managed."""
        namespace = self.caches.namespaces.get(Key("", name))
        if namespace is None:  # its event comes later than that of the object, and queues the object again
            return False
        labels = namespace["metadata"].get("labels") or {}
        return managed(name, labels, self.settings.managed_namespaces, own=self.settings.namespace)

    def selects(self, raw: Raw) -> bool:
        """Whether an object is managed: it has a queue name, or all objects of its namespace are managed."""
        if not self.namespace(raw["metadata"]["namespace"]):
            return False
        return bool(meta.queue_name(raw)) or self.settings.manage_jobs_without_queue_name

    def above(self, raw: Raw) -> Nesting:
        """What is queued instead of the object. Raises ``NestingError``."""
        namespace = raw["metadata"]["namespace"]
        if not self.namespace(namespace):
            return Nesting()

        def look(owner: Reference) -> Level | None:
            return level_or_workload(self.owners.look(namespace, owner), owner, namespace, self.caches.workload_of)

        without = self.settings.manage_jobs_without_queue_name
        return nesting(raw, look, self._external, without_queue_name=without)

    def admitted(self, ancestor: Reference | None, namespace: str) -> bool | None:
        """Whether the object that is queued instead of another one is admitted; None for no object."""
        if ancestor is None:
            return None
        return lets_run(self.owners.look(namespace, ancestor), ancestor, namespace, self.caches.workload_of)
