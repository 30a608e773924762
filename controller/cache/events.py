"""Sends events with the names of Kueue's reporters; their texts are in ``core.model.events``."""

from __future__ import annotations

from typing import Final, Protocol

from api.objects import Key, Resource
from controller.kube.events import EventSender as EventRecorder
from controller.kube.events import ObjectReference
from core.model.events import Event

SCHEDULER: Final = "kueue-admission"
WORKLOADS: Final = "kueue-workload-controller"
PROVISIONING: Final = "kueue-provisioning-request-controller"
VARIANTS: Final = "concurrent-admission-controller"
"""The reporters of events, with Kueue's names: its scheduler, its controllers of Workloads, of ProvisioningRequests and
of variants; for jobs see ``job_component``.
"""


class Recorder(Protocol):
    """Sends events; never fails and never waits."""

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        """Emits an event on this object."""


class Events:
    """Events through the API server, reported by ``component``."""

    def __init__(self, recorder: EventRecorder, component: str) -> None:
        self._recorder = recorder
        self._component = component

    def record(self, resource: Resource, key: Key, uid: str, event: Event) -> None:
        """File the event."""
        about = ObjectReference(resource.api_version, resource.kind, key.namespace, key.name, uid)
        self._recorder.record(about, event.type, event.reason, event.message, component=self._component)


def job_component(framework: str) -> str:
    """Return the component that reports events of jobs of a kind, for example ``batch/job-kueue-controller``."""
    return f"{framework}-kueue-controller"
