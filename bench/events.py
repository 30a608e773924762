"""Events of a watch, decoded to the few fields that the benches need: a tenth of the cost of the whole object.

Shared by the driver, which plays the job controller, and by the null controller. Nothing here is used by Seiretsu.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from msgspec import Struct

from api.objects import Resource
from controller.kube.client import Client
from controller.kube.errors import ApiError, Unreachable

AGAIN_SECONDS = 0.2


class Condition(Struct, frozen=True, omit_defaults=True):
    """A condition with all its fields, so that it can be written back."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: str = ""  # noqa: N815 - the API's name
    observedGeneration: int = 0  # noqa: N815


class Owner(Struct, frozen=True):
    """The job of a Workload."""

    name: str


class Metadata(Struct, frozen=True):
    """Which object, and which version of it."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    generation: int = 1
    ownerReferences: list[Owner] = []  # noqa: N815


class Assignment(Struct, frozen=True):
    """What one pod set of a Workload was assigned."""

    resourceUsage: dict[str, str] = {}  # noqa: N815


class Admission(Struct, frozen=True):
    """The quota reserved for a Workload."""

    clusterQueue: str = ""  # noqa: N815
    podSetAssignments: list[Assignment] = []  # noqa: N815


class Status(Struct, frozen=True):
    """The status of a Workload or a Job."""

    admission: Admission | None = None
    conditions: list[Condition] = []

    def holds(self, kind: str) -> bool:
        """Whether this condition is True."""
        return any(one.type == kind and one.status == "True" for one in self.conditions)


class Requests(Struct, frozen=True):
    """What a container requests."""

    requests: dict[str, str] = {}


class Container(Struct, frozen=True):
    """A container of a pod template."""

    resources: Requests = Requests()


class PodSpec(Struct, frozen=True):
    """The pod of a template."""

    containers: list[Container] = []


class Template(Struct, frozen=True):
    """A pod template."""

    spec: PodSpec = PodSpec()


class PodSet(Struct, frozen=True):
    """A pod set of a Workload."""

    name: str = ""
    count: int = 1
    template: Template = Template()


class Spec(Struct, frozen=True):
    """The specification of a Workload or a Job: fields of both."""

    queueName: str = ""  # noqa: N815
    priority: int = 0
    podSets: list[PodSet] = []  # noqa: N815
    suspend: bool = False


class Object(Struct, frozen=True):
    """A Workload or a Job."""

    metadata: Metadata
    spec: Spec = Spec()
    status: Status = Status()


class _Event(Struct, frozen=True):
    type: str
    object: msgspec.Raw


_event = msgspec.json.Decoder(_Event)
_object = msgspec.json.Decoder(Object)


class WatchLostError(Exception):
    """Events may have been missed: figures and observations of this run are worthless."""


async def follow(client: Client, resource: Resource, version: str) -> AsyncGenerator[tuple[str, Object], None]:
    """Yields each event of all namespaces after ``version``: its type (not ``BOOKMARK``) and the object. Never ends.

    An interrupted watch continues where it was, so that no event is missed; raises ``WatchLostError`` if the API server
    cannot do that.
    """
    while True:
        try:
            async with aclosing(client.watch(resource, params={"resourceVersion": version})) as lines:
                async for line in lines:
                    event = _event.decode(line)
                    if event.type == "ERROR":
                        raise WatchLostError(bytes(event.object).decode(errors="replace"))
                    found = _object.decode(event.object)
                    version = found.metadata.resourceVersion
                    if event.type != "BOOKMARK":
                        yield event.type, found
        except Unreachable:
            await asyncio.sleep(AGAIN_SECONDS)
        except ApiError as error:
            raise WatchLostError(str(error)) from error


def cpu(amount: str) -> float:
    """The cpu of a quantity, in the forms that occur here."""
    return int(amount[:-1]) / 1000 if amount.endswith("m") else float(amount)


def reserved(status: Status) -> float:
    """The cpu that a Workload has reserved."""
    given = status.admission.podSetAssignments if status.admission else []
    return sum(cpu(one.resourceUsage.get("cpu", "0")) for one in given)
