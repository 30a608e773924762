"""What counts of a living pod changes only by its controllers: in CEL, for a policy in the API server or as the match
condition of a hook where policies are not served.

The condition is true only for a change that is to be refused, so no other pod reaches Seiretsu. Changes of ``status``
are the kubelet's; the subresources ``resize`` and ``ephemeralcontainers`` change neither metadata nor gates.
"""

from __future__ import annotations

from collections.abc import Sequence

from api.names import Label
from core.jobs.admission import counted
from core.model import Raw
from webhook.review import Request, Response, allow, refuse
from webhook.settings import Context
from webhook.trust import Trust


def refused(trust: Trust) -> str:
    """CEL: something that counts of a living pod is changed by somebody who is none of its controllers."""
    changes = " || ".join(f"!({expression})" for expression in kept().values())
    return f"!({trust.fixed}) && {COUNTS} && ({changes}) && !({_trusted(trust)})"


def kept() -> dict[str, str]:
    """CEL by the message for a change that it does not hold for."""
    return {
        counted.GATED: _same_gates(),
        f"labels of a pod: {counted.KEPT}": _same("labels", counted.LABELS),
        f"annotations of a pod: {counted.KEPT}": _same("annotations", counted.ANNOTATIONS),
        counted.MOVED: f"{_GATED} || !{_MANAGED} || {_same('labels', (Label.QUEUE_NAME,))}",
        counted.HELD: f"!{_has('oldObject')} || {_has('object')}",
    }


def which() -> str:
    """CEL: the names of the labels and annotations that are changed."""
    parts = [
        f"{_list(keys)}.filter(k, {_value('oldObject', field)} != {_value('object', field)})"
        for field, keys in (("labels", counted.LABELS), ("annotations", counted.ANNOTATIONS))
    ]
    return f"({' + '.join(parts)}).join(', ')"


def validate(request: Request, context: Context) -> Response:
    """Refuses a change that the match condition found; while Seiretsu's account is not known it may be its own."""
    account = context.account()
    if request.operation != "UPDATE" or not account.name or account.wrote(request):
        return allow()
    errors = counted.errors(request.old(), request.new())
    return refuse(errors) if errors else allow()


def validations(trust: Trust) -> list[Raw]:
    """Returns the validations of the policy, which is asked about pods that count, and not of requests that are
    ``fixed``.
    """
    found = []
    for message, expression in kept().items():
        validation = {"expression": f"({expression}) || {_trusted(trust)}", "message": message, "reason": "Forbidden"}
        if counted.KEPT in message:
            validation["messageExpression"] = f"{which()} + ': {counted.KEPT}'"
        found.append(validation)
    return found


def _trusted(trust: Trust) -> str:
    """CEL: the request is from the controller of the pod's owner, or from an account that decides about quota."""
    references = "oldObject.metadata.ownerReferences"
    owner = f"{references}.exists(o, has(o.controller) && o.controller && {trust.controls})"
    return f"(has({references}) && {owner}) || {trust.administers}"


def _same_gates() -> str:
    old, new = ("oldObject.spec.schedulingGates", "object.spec.schedulingGates")
    there = f"has({new}) && {new}.exists(n, n.name == g.name)"
    return f"!has({old}) || {old}.all(g, !(g.name in {_list(counted.GATES)}) || ({there}))"


def _same(field: str, keys: Sequence[str]) -> str:
    return f"{_list(keys)}.all(k, {_value('oldObject', field)} == {_value('object', field)})"


def _value(variable: str, field: str) -> str:
    values = f"{variable}.metadata.{field}"
    return f"(has({values}) && k in {values} ? {values}[k] : '')"


def _has(variable: str) -> str:
    finalizers = f"{variable}.metadata.finalizers"
    return f"(has({finalizers}) && '{counted.FINALIZER}' in {finalizers})"


def _list(values: Sequence[str]) -> str:
    names = ", ".join(f"'{each}'" for each in values)
    return f"[{names}]"


_GATED = (
    "(has(oldObject.spec.schedulingGates) &&"
    f" oldObject.spec.schedulingGates.exists(g, g.name in {_list(counted.GATES)}))"
)
_MANAGED = (
    f"(has(oldObject.metadata.labels) && '{Label.MANAGED}' in oldObject.metadata.labels &&"
    f" oldObject.metadata.labels['{Label.MANAGED}'] == 'true')"
)
COUNTS = (
    "(!has(oldObject.status) || !has(oldObject.status.phase) ||"
    f" !(oldObject.status.phase in {_list(counted.ENDED)}) || {_has('oldObject')})"
)
"""CEL: ``core.jobs.admission.counted.counts`` of the pod before."""
