"""The form of those parts of a pod template that decide about quota and flavors.

The CRD leaves the template open (`api.v1beta2.workload`), as the API server has checked it where a job was made. A
Workload that somebody makes without a job comes unchecked: what Kueue's CRD would refuse of these parts is refused
here, in the API server's words. What nobody here reads is not looked at.
"""

from typing import Final

from api.builtin import fields, pod_spec
from api.errors import FieldError
from api.structural import Form
from api.v1beta2.base import QUANTITY_PATTERN

_FORM: Final = Form(fields(spec=pod_spec({"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN})))


def form(path: str, template: object) -> list[FieldError]:
    """What of a template has not the form it should have."""
    return _FORM.errors(template, path)
