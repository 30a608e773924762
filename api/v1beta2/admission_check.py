"""AdmissionCheck: something that must be ready before a workload with quota is admitted."""

from typing import Annotated, Any

from pydantic import Field

from api.v1beta2.base import IMMUTABLE, LABEL_PATTERN, SUBDOMAIN_PATTERN, Conditions, Model, rules


class AdmissionCheckParametersReference(Model):
    """The object that holds the parameters of a check."""

    api_group: Annotated[str, Field(min_length=1, max_length=253, pattern=SUBDOMAIN_PATTERN)]
    """Its API group."""
    kind: Annotated[str, Field(min_length=1, max_length=63, pattern="^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$")]
    """Its kind."""
    name: Annotated[str, Field(min_length=1, max_length=63, pattern=LABEL_PATTERN)]
    """Its name."""


class AdmissionCheckSpec(Model):
    """The desired state of an AdmissionCheck."""

    controller_name: Annotated[str, Field(min_length=1, max_length=253, json_schema_extra=rules(IMMUTABLE))]
    """The controller that processes the check; immutable."""
    parameters: AdmissionCheckParametersReference | None = None
    """The object that holds its parameters."""


class AdmissionCheckStatus(Model):
    """The observed state of an AdmissionCheck."""

    conditions: Conditions | None = None
    """Active reports whether the check can be used."""


class AdmissionCheck(Model):
    """Something that must be ready before a workload that has quota is admitted."""

    api_version: str | None = None
    kind: str | None = None
    metadata: dict[str, Any] | None = None
    spec: AdmissionCheckSpec | None = None
    """The desired state."""
    status: AdmissionCheckStatus | None = None
    """The observed state."""
