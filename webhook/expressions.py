"""The operator's rules: CEL expressions that are true for correct objects, evaluated here, because they may use values
that are not in the object (effective requests of pods).

An expression that fails on an object (a missing field) counts as false, and the message says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from api.configuration import Feedback
from api.configuration.expressions import counted, trouble, value
from core.feedback import Finding, Submission
from core.feedback.rules import fitted
from core.model import Labels
from webhook.review import Request

Variables = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled rule; the programs are ``cel.Program``, ``counted`` and ``message_counted`` the resources that are 0
    for them where a job does not ask for any.
    """

    name: str
    resources: frozenset[str]
    program: Any
    message: str
    message_program: Any = None
    counted: frozenset[str] = frozenset()
    message_counted: frozenset[str] = frozenset()


def compiled(feedback: Feedback) -> tuple[Expression, ...]:
    """The rules of a Configuration that was read without errors."""
    if not feedback.expressions:
        return ()
    import cel

    return tuple(
        Expression(
            own.name,
            frozenset(own.resources),
            cel.compile(own.expression),
            own.message,
            cel.compile(own.message_expression) if own.message_expression else None,
            counted(own.expression),
            counted(own.message_expression) if own.message_expression else frozenset(),
        )
        for own in feedback.expressions
    )


def findings(
    expressions: Iterable[Expression],
    resource: str,
    request: Request,
    labels: Labels | None,
    job: Submission | None = None,
) -> tuple[Finding, ...]:
    """Returns the findings of the rules for a resource about a request. ``labels`` are those of its namespace."""
    chosen = [each for each in expressions if resource in each.resources]
    if not chosen:
        return ()
    variables = _variables(request, labels)
    texts = ((each.name, _judged(each, variables, job)) for each in chosen)
    return tuple(Finding(name, text) for name, text in texts if text)


def _variables(request: Request, labels: Labels | None) -> Variables:
    namespace = {"metadata": {"name": request.namespace, "labels": dict(labels or {})}} if request.namespace else None
    return {
        "object": request.object,
        "oldObject": request.old_object,
        "request": {
            "operation": request.operation,
            "namespace": request.namespace,
            "name": request.name,
            "username": request.username,
            "dryRun": request.dry_run,
        },
        "namespaceObject": namespace,
    }


def _job(job: Submission | None, counted: frozenset[str]) -> Variables | None:
    if job is None:
        return None
    requests = dict.fromkeys(counted, 0)
    for pod_set in job.pod_sets:
        for resource, amount in pod_set.requests.items():
            requests[resource] = requests.get(resource, 0) + amount * pod_set.count
    return {
        "queue": job.queue,
        "priorityClass": job.priority_class,
        "pods": job.pods,
        "requests": requests,
    }


def _judged(rule: Expression, variables: Variables, job: Submission | None) -> str:
    """Returns the message of the rule; '' if the object is correct."""
    try:
        if value(rule.program, {**variables, "job": _job(job, rule.counted)}) is True:
            return ""
    except Exception as error:  # any error in the operator's rule counts as false, and is reported
        return fitted(
            f"rule {rule.name} cannot be evaluated: {trouble(error)}", f"rule {rule.name} cannot be evaluated"
        )
    if rule.message_program is not None:
        try:
            made = value(rule.message_program, {**variables, "job": _job(job, rule.message_counted)})
        except Exception:
            return rule.message
        if isinstance(made, str) and made.strip():
            return fitted(made)
    return rule.message
