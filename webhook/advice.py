"""Feedback for administrators: what a change of queues, cohorts and flavors will not do, or will do to those in it.

Separate hooks from validation, and ones the API server may skip: a warning is no reason to block a change, let alone a
deletion, while we are down. A rule set to ``Deny`` so holds only while we answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from api import validate as rules
from api.feature_gates import Gates
from api.names import Kind
from core import decode
from core.feedback import Finding
from core.feedback.change import Change
from core.feedback.cluster_queues import of_cluster_queue
from core.feedback.queues import of_cohort, of_flavor, of_local_queue
from core.lookup import Lookup
from core.model import Raw
from webhook import expressions
from webhook.kinds import malformed
from webhook.policy import judge
from webhook.review import Request, Response, allow, bad_request, deny
from webhook.settings import Context

_Value = TypeVar("_Value")
_Of = Callable[[Raw | None, Raw | None, Lookup], tuple[Finding, ...]]


def _reader(read: Callable[[Raw], _Value], find: Callable[[Change[_Value], Lookup], tuple[Finding, ...]]) -> _Of:
    def found(old: Raw | None, new: Raw | None, lookup: Lookup) -> tuple[Finding, ...]:
        return find(Change(read(old) if old else None, read(new) if new else None), lookup)

    return found


_KINDS: Final[dict[str, _Of]] = {
    Kind.CLUSTER_QUEUE: _reader(decode.cluster_queue, of_cluster_queue),
    Kind.LOCAL_QUEUE: _reader(decode.local_queue, of_local_queue),
    Kind.COHORT: _reader(decode.cohort, of_cohort),
    Kind.RESOURCE_FLAVOR: _reader(decode.resource_flavor, of_flavor),
}


def advise(request: Request, context: Context) -> Response:
    """What the rules of the kind find in a change; nothing about an object that validation refuses anyway."""
    find = _KINDS.get(request.kind)
    old, new = request.old_object, request.object
    lookup, settings = context.lookup, context.settings
    for each in (old, new):
        if each is not None and (why := malformed(each) or _nameless(each)):
            return bad_request(why)
    if find is None or _spec(old) == _spec(new) or _invalid(settings.gates, old, new):
        return allow()
    labels = lookup.namespace_labels(request.namespace) if request.namespace and lookup.synced else None
    own = expressions.findings(settings.expressions, request.resource, request, labels) if new is not None else ()
    verdict = judge((*own, *find(old, new, lookup)), settings.feedback, labels)
    if verdict.refusals:
        return deny("; ".join(verdict.refusals), warnings=verdict.warnings)
    return allow(warnings=verdict.warnings)


def _invalid(gates: Gates, *found: Raw | None) -> bool:
    return any(rules.create(each, gates) for each in found if each is not None)


def _nameless(raw: Raw) -> str:
    return "" if raw["metadata"].get("name") else "metadata.name: Required value"


def _spec(raw: Raw | None) -> Any:
    """What feedback depends on; most updates are of finalizers and labels."""
    return None if raw is None else raw.get("spec", {})
