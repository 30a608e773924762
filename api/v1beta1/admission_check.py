"""AdmissionCheck as v1beta1 spells it: with a delay that has no effect."""

from typing import Any

from api.v1beta2 import admission_check
from api.v1beta2.base import Int64, Model


class AdmissionCheckSpec(admission_check.AdmissionCheckSpec):
    """The desired state of an AdmissionCheck."""

    retry_delay_minutes: Int64 | None = 15
    """Has no effect: a check that needs a retry sets the time itself."""


class AdmissionCheck(Model):
    """Something that must be ready before a workload that has quota is admitted."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: AdmissionCheckSpec | None = None
    """The desired state."""
    status: admission_check.AdmissionCheckStatus | None = None
    """The observed state."""
