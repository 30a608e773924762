"""The objects of a cluster of which Seiretsu consists, besides its own kinds: definitions, webhook configurations,
admission policies, and Secrets. ``apply`` writes those that are not in a namespace.
"""

from __future__ import annotations

from typing import Final

from api.kinds import KINDS
from api.objects import Raw, Resource
from controller.kube.client import Client

SECRETS: Final = Resource("", "v1", "secrets", "Secret")
_ADMISSION = "admissionregistration.k8s.io"
MUTATING: Final = Resource(
    _ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False
)
VALIDATING: Final = Resource(
    _ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False
)
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
API_SERVICES: Final = Resource("apiregistration.k8s.io", "v1", "apiservices", "APIService", namespaced=False)
POLICIES: Final = tuple(
    Resource(_ADMISSION, "v1", f"{phase}admission{plural}", f"{phase.capitalize()}Admission{kind}", namespaced=False)
    for phase in ("mutating", "validating")
    for plural, kind in (("policies", "Policy"), ("policybindings", "PolicyBinding"))
)
"""Admission policies and their bindings; an older API server does not serve all of them."""
RESOURCES: Final = {resource.kind: resource for resource in (MUTATING, VALIDATING, CRDS, API_SERVICES, *POLICIES)}

CONVERTED: Final = tuple(kind.crd_name for kind in KINDS if len(kind.versions) > 1)
"""The CRDs with a conversion webhook."""


async def apply(client: Client, wanted: Raw) -> Raw:
    """Applies a cluster-scoped object on the server side, taking fields that others (kubectl, an older Seiretsu) have
    set.
    """
    return await client.patch(
        RESOURCES[wanted["kind"]], wanted["metadata"]["name"], "", wanted, type="apply", force=True
    )
