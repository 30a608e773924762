"""The account with which this process writes: its name, what the API server knows of it, and its pod."""

from __future__ import annotations

import structlog

from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.errors import Forbidden, NotFound, Unauthorized
from controller.kube.events import ObjectReference

log = structlog.get_logger("seiretsu.install")

SELF = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
AS_CONTROLLER = {"Impersonate-User": "seiretsu:controller", "Impersonate-Group": "system:masters"}


async def take_name(client: Client) -> None:
    """Lets the controller's client use its own account name, with the rights of the account that started the process.

    The API server can then distinguish writes of the controller from those of people, and does not send them back for
    validation: two webhook calls less for each Job. In a cluster the service account has that function. If the starting
    account may not impersonate, the client uses its name, and everything is validated.
    """
    client.impersonate = AS_CONTROLLER
    try:
        await client.raw("/api")
    except (Forbidden, Unauthorized) as refusal:
        client.impersonate = {}
        log.info("Writing with the account that started this process", reason=str(refusal))


async def user_info(client: Client) -> Raw:
    """Returns what the API server knows of this client (`UserInfo`); empty if it does not report it (before Kubernetes
    1.28).
    """
    review = {"apiVersion": SELF.api_version, "kind": SELF.kind}
    try:
        answer = await client.create(SELF, review)
    except (Forbidden, NotFound) as refusal:
        log.warning("The API server does not report the account of this process", reason=str(refusal))
        return {}
    found: Raw = answer["status"]["userInfo"]
    return found


def pod_of(user: Raw, namespace: str) -> ObjectReference | None:
    """Returns the pod to which the token of a ServiceAccount was given; None outside of a cluster."""
    extra = user.get("extra") or {}
    names, uids = (extra.get(f"authentication.kubernetes.io/pod-{part}") for part in ("name", "uid"))
    return ObjectReference("v1", "Pod", namespace, names[0], uids[0]) if names and uids else None
