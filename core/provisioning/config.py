"""A ProvisioningRequestConfig as a value, and whether an AdmissionCheck that refers to one can be used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from api.names import Kind
from core.model import Raw
from core.wire.active import CHECK, Active, not_found, parameters_name
from core.workload.transitions import Backoff

NOT_SERVED = Active(
    False,
    "ProvisioningRequestNotServed",
    "The API server does not serve ProvisioningRequests (autoscaling.x-k8s.io/v1): install the "
    "CustomResourceDefinition that is part of cluster-autoscaler",
)
"""A reason that only Seiretsu has: Kueue leaves such a check without a condition."""
NOT_ENABLED = Active(
    False,
    "ProvisioningRequestNotEnabled",
    "Seiretsu does not use ProvisioningRequests: set seiretsu.provisioningRequests.enable in its Configuration, in the "
    "chart the value provisioningRequests.enabled, which also grants the rights",
)

_RETRIES, _BASE_SECONDS, _MOST_SECONDS = 3, 60, 1800
_NO_LIMIT = 2**31 - 1
"""What 0 means as the longest wait: the largest number that the field of a Workload takes."""


@dataclass(frozen=True, slots=True)
class Config:
    """``managed`` are the resources of which a pod set must ask for one; empty means that every pod set counts.
    ``node_selector`` has for each label the detail of the answer with its value. ``retries`` is how often a request is
    made again after it failed.
    """

    class_name: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    managed: frozenset[str] = frozenset()
    merge_policy: str = ""
    node_selector: tuple[tuple[str, str], ...] = ()
    retries: int = _RETRIES
    backoff: Backoff = field(default_factory=lambda: Backoff(_BASE_SECONDS, _MOST_SECONDS))


def read(raw: Raw) -> Config:
    """The object as a value."""
    spec = raw.get("spec") or {}
    strategy = spec.get("retryStrategy") or {}

    def number(name: str, default: int) -> int:
        found = strategy.get(name)
        return default if found is None else int(found)

    updates = (spec.get("podSetUpdates") or {}).get("nodeSelector") or ()
    return Config(
        class_name=spec.get("provisioningClassName") or "",
        parameters=spec.get("parameters") or {},
        managed=frozenset(spec.get("managedResources") or ()),
        merge_policy=spec.get("podSetMergePolicy") or "",
        node_selector=tuple((each["key"], each["valueFromProvisioningClassDetail"]) for each in updates),
        retries=number("backoffLimitCount", _RETRIES),
        backoff=Backoff(
            max(0, number("backoffBaseSeconds", _BASE_SECONDS)),
            max(0, number("backoffMaxSeconds", _MOST_SECONDS)) or _NO_LIMIT,
        ),
    )


def of_check(check: Raw, config: Raw | None, *, served: bool, enabled: bool = True) -> Active:
    """Whether the AdmissionCheck can be used: its config exists, the API server serves ProvisioningRequests, and they
    are ``enabled``.
    """
    if not enabled:
        return NOT_ENABLED
    name, wrong = parameters_name(check, Kind.PROVISIONING_REQUEST_CONFIG)
    if not wrong and config is None:
        wrong = not_found(Kind.PROVISIONING_REQUEST_CONFIG, name)
    if wrong:
        return Active(False, "BadParametersRef", wrong)
    return CHECK if served else NOT_SERVED
