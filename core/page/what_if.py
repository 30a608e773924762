"""What if a quota were another one: the specification with the change, the patch that makes it, and whom it hits."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

from api import quantity
from core.explain.sight import Sight
from core.model import FlavorResource, Key, Raw
from core.model.effects import Effects, MovedStart, StoppedWorkload
from core.model.forecast import span
from core.page.queue import JobOf

FIELDS = {"nominal": "nominalQuota", "borrowing": "borrowingLimit", "lending": "lendingLimit"}


def changed(cluster_queue: Raw, amounts: Mapping[FlavorResource, Mapping[str, str]]) -> Raw:
    """Returns the object of a ClusterQueue with other quotas: quantities by field, '' for no limit. Raises ValueError
    for a flavor-resource that it does not have, or for what is no quantity.
    """
    found = copy.deepcopy(cluster_queue)
    left = dict(amounts)
    for group in found["spec"].get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for each in flavor.get("resources") or ():
                for field, text in left.pop(FlavorResource(flavor["name"], each["name"]), {}).items():
                    _set(each, FIELDS[field], text)
    if left:
        missing = next(iter(left))
        raise ValueError(f"the ClusterQueue has no quota of {missing.resource} in flavor {missing.flavor}")
    return found


def _set(quota: Raw, field: str, text: str) -> None:
    if not text and field != "nominalQuota":
        quota.pop(field, None)
        return
    if quantity.amount(quota["name"], text) < 0:
        raise ValueError(f"{field}: {text} is negative")
    quota[field] = text


def patch(name: str, spec: Raw) -> str:
    """Returns a command that makes the change. The list of groups is replaced as a whole: that is what a merge does."""
    groups = _json({"spec": {"resourceGroups": spec.get("resourceGroups") or []}})
    return f"kubectl patch clusterqueue {name} --type merge --patch '{groups}'"


def _json(value: object) -> str:
    """Returns compact JSON, in which an apostrophe cannot end the shell's text."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_json(str(name))}:{_json(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | float):
        return str(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("'", "\\u0027")
    return f'"{escaped}"'


def _span(seconds: float | None) -> str:
    return "not known" if seconds is None else span(seconds)


def written(found: Effects, sight: Sight, job_of: JobOf) -> Raw:
    """Returns the effects as the page shows them: workloads that may be named, and how many others."""

    def named(keys: Iterable[Key]) -> Raw:
        known = list(keys)
        shown = [key for key in known if sight.names(key)][:50]
        rows = [{"namespace": key.namespace, "name": key.name, "job": job_of(key)} for key in shown]
        return {"rows": rows, "total": len(known)}

    def stopped(each: StoppedWorkload) -> Raw:
        by = each.preemptor
        why = each.reason if by is None else f"preempted by {sight.named(by)}"
        return {"namespace": each.key.namespace, "name": each.key.name, "job": job_of(each.key), "why": why}

    def moved(several: tuple[MovedStart, ...]) -> Raw:
        shown = [each for each in several if sight.names(each.key)][:50]
        return {
            "rows": [
                {
                    "namespace": each.key.namespace,
                    "name": each.key.name,
                    "job": job_of(each.key),
                    "why": f"{span(each.before)} before, {_span(each.after)} after",
                }
                for each in shown
            ],
            "total": len(several),
        }

    return {
        "stopped": {
            "rows": [stopped(each) for each in found.stopped if sight.names(each.key)][:50],
            "total": len(found.stopped),
        },
        "exposed": named(found.exposed),
        "covered": named(found.covered),
        "starting": named(found.starting),
        "never": named(found.never),
        "possible": named(found.possible),
        "later": moved(found.later),
        "sooner": moved(found.sooner),
        "running": found.running,
        "waiting": found.waiting,
        "uncounted": found.uncounted,
    }
