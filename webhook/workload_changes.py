"""CEL: which writes of a Workload are sent to the validating webhook. Each call costs the API server and Seiretsu about
1.5 ms of CPU.

Most writes of other clients finish a Workload, release its quota or change finalizers and labels: nothing that a rule
of ``api.validate`` reads. They are left out here; ``tests/webhook/test_workload_changes.py`` proves for generated
changes that the rules accept each of them.
"""

from typing import Final

from api.names import Condition
from api.validate.workload_status import NO_TIME

SHORT_TYPE: Final = 63
"""Condition types of this length or less need no further check after the schema: only longer parts of a type can be
wrong.
"""


def _annotations(variable: str) -> str:
    held = f"{variable}.metadata.annotations"
    return f"(has({held}) ? {held} : {{}})"


def _reserved(variable: str) -> str:
    held = f"{variable}.status.conditions"
    return f"(has({held}) && {held}.exists(c, c.type == '{Condition.QUOTA_RESERVED}' && c.status == 'True'))"


_NOTHING_TO_CHECK: Final = " && ".join(
    (
        "has(object.spec) && has(oldObject.spec) && object.spec == oldObject.spec",
        f"{_annotations('object')} == {_annotations('oldObject')}",
        "has(object.status) && has(oldObject.status)",
        # All of the status but its conditions is as before, or quota is released and the admission removed.
        "object.status.all(k, k == 'conditions' || (k in oldObject.status && object.status[k] == oldObject.status[k]))",
        f"oldObject.status.all(k, k in object.status || (k == 'admission' && !{_reserved('object')}))",
        f"(!{_reserved('object')} || {_reserved('oldObject')})",
        "(!has(object.status.conditions) || object.status.conditions.all(c,"
        f" size(c.type) <= {SHORT_TYPE} && c.lastTransitionTime != '{NO_TIME}'))",
    )
)

TO_BE_CHECKED: Final = f"request.operation != 'UPDATE' || !({_NOTHING_TO_CHECK})"
"""CEL: a rule may refuse the write. Creates are always sent, because they also get advice."""
