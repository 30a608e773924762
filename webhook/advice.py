"""Feedback on Seiretsu's own kinds: settings of queues, cohorts and flavors without effect, and the effects of a change
on their workloads; and on a Workload without a job the feedback of a job.

Separate hooks from validation, which the API server may skip: a warning is no reason to block a change or a deletion
while Seiretsu is down. A rule set to ``Deny`` works only while it runs. A Workload's is given by its validating hook,
because each call of a hook costs the API server and Seiretsu as much as a small write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

from api import validate as rules
from api.convert.queue import local_queue
from api.feature_gates import Gates
from api.names import Condition, Kind, Plural
from api.validate import common
from core.feedback import Finding, news
from core.feedback.change import Change
from core.feedback.cluster_queues import of_cluster_queue
from core.feedback.jobs import of_job
from core.feedback.queues import of_cohort, of_flavor, of_local_queue, of_queue, of_topology
from core.feedback.rules import IsSpent
from core.feedback.submission import of_workload
from core.jobs import meta
from core.model import Labels, LocalQueue, Raw
from core.state.lookup import Lookup
from core.wire import decode
from webhook import expressions
from webhook.kinds import malformed
from webhook.policy import judge
from webhook.review import Request, Response, allow, bad_request
from webhook.settings import Context

_Value = TypeVar("_Value")
_Of = Callable[[Raw | None, Raw | None, Context], tuple[Finding, ...]]
"""Returns the findings about a change from the first to the second."""


def _reader(
    read: Callable[[Raw], _Value], find: Callable[[Change[_Value], Lookup, IsSpent], tuple[Finding, ...]]
) -> _Of:
    def found(old: Raw | None, new: Raw | None, context: Context) -> tuple[Finding, ...]:
        return find(Change(read(old) if old else None, read(new) if new else None), context.lookup, context.spent)

    return found


def _queue(queue: Raw) -> LocalQueue:
    """The LocalQueue that a Queue of v0.1 acts through."""
    return decode.local_queue(local_queue(queue))


_KINDS: Final[dict[str, _Of]] = {
    Kind.CLUSTER_QUEUE: _reader(decode.cluster_queue, of_cluster_queue),
    Kind.LOCAL_QUEUE: _reader(decode.local_queue, of_local_queue),
    Kind.QUEUE: _reader(_queue, of_queue),
    Kind.COHORT: _reader(decode.cohort, of_cohort),
    Kind.RESOURCE_FLAVOR: _reader(decode.resource_flavor, of_flavor),
    Kind.TOPOLOGY: _reader(decode.topology_object, of_topology),
}


def advise(request: Request, context: Context) -> Response:
    """Returns the findings of the kind's rules about a change; none about an object that validation refuses anyway."""
    old, new = request.old_object, request.object
    settings = context.settings
    for each in (old, new):
        if each is not None and (why := malformed(each) or _nameless(each)):
            return bad_request(why)
    if _spec(old) == _spec(new) or _invalid(settings.gates, old, new):
        return allow()
    labels = context.labels_of(request.namespace)
    found = _found(request, labels, context)
    if found and (before := request.before()) is not None:
        found = news(found, _found(before, labels, context))
    return judge(found, settings.feedback, labels).response()


def _found(request: Request, labels: Labels | None, context: Context) -> tuple[Finding, ...]:
    old, new = request.old_object, request.object
    resource = Plural.LOCAL_QUEUES if request.kind == Kind.QUEUE else request.resource
    own = expressions.findings(context.settings.expressions, resource, request, labels) if new is not None else ()
    return (*own, *_KINDS[request.kind](old, new, context))


def admit_class(request: Request, context: Context) -> Response:
    """Admits every edit of a WorkloadPriorityClass; ``webhook.consequences`` says whom it hits."""
    return allow()


def advise_workload(request: Request, context: Context) -> Response:
    """Returns the findings of a job for a valid Workload that no other object controls, when its spec is new or has
    changed.
    """
    new = request.new()
    if request.sub_resource or meta.controller(new) or _spec(request.old_object) == _spec(new):
        return allow()
    labels = context.labels_of(request.namespace)
    found = _of_workload(new, request, labels, context)
    if found and (before := request.before()) is not None:
        found = news(found, _of_workload(before.new(), before, labels, context))
    return judge(found, context.settings.feedback, labels).response()


def _of_workload(workload: Raw, request: Request, labels: Labels | None, context: Context) -> tuple[Finding, ...]:
    """Returns the findings of a job for a Workload without one, while it waits."""
    if common.has_reservation(workload) or common.is_true(workload, Condition.FINISHED):
        return ()
    asked = of_workload(workload, context.rules_of(request.namespace))
    asked = replace(asked, dry_run=request.dry_run and request.operation == "CREATE")
    if asked.too_large:
        return of_job(asked, context.lookup)
    own = expressions.findings(context.settings.expressions, request.resource, request, labels, asked)
    return (*own, *of_job(asked, context.lookup, context.spent))


def _invalid(gates: Gates, *found: Raw | None) -> bool:
    return any(rules.create(each, gates) for each in found if each is not None)


def _nameless(raw: Raw) -> str:
    return "" if raw["metadata"].get("name") else "metadata.name: Required value"


def _spec(raw: Raw | None) -> Any:
    """Returns the part that feedback depends on; most updates change finalizers and labels."""
    return None if raw is None else raw.get("spec", {})
