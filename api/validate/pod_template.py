"""The form of the parts of a pod template that quota and flavors depend on.

The CRD does not define the template (`api.v1beta2.workload`), because the API server has checked it for a job. The
template of a Workload without a job is unchecked: what Kueue's CRD would refuse in these parts is refused here, with
the API server's texts. Other parts are not checked.
"""

from typing import Final

from api.builtin import fields, pod_spec
from api.errors import FieldError
from api.quantity import PATTERN
from api.structural import Form

_FORM: Final = Form(fields(spec=pod_spec({"x-kubernetes-int-or-string": True, "pattern": PATTERN})))


def form(path: str, template: object) -> list[FieldError]:
    """Returns the parts of a template that have the wrong form."""
    return _FORM.errors(template, path)
