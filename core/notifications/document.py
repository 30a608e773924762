"""A notification on the wire: a CloudEvent 1.0 in structured JSON, or the body that an administrator wrote for a chat
system.

Messages of a Workload's conditions may have been written by its owner, so all texts are cut, and those in a body of the
administrator have no characters by which chat systems name people or hide links.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from api.configuration.notifications import PLACEHOLDERS
from api.objects import Raw
from core.model.forecast import span
from core.notifications.model import Notification, NotificationKind
from core.wire.timestamps import stamp

CONTENT_TYPE: Final = "application/cloudevents+json; charset=utf-8"
LONGEST_MESSAGE: Final = 1024
_PLACEHOLDER: Final = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_HARMLESS: Final = str.maketrans(
    {
        "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
        ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
        "@": "\N{FULLWIDTH COMMERCIAL AT}",
        "[": "(",
        "]": ")",
        "`": "'",
    }
    | {chr(code): " " for code in range(32)}
)


def document(notification: Notification, source: str, *, dropped: int = 0) -> Raw:
    """Returns the CloudEvent. ``dropped``: so many notifications before it were never delivered to this receiver."""
    job = notification.job
    data: Raw = {
        "namespace": notification.key.namespace,
        "workload": notification.key.name,
        "uid": notification.uid,
        "localQueue": notification.local_queue,
        "clusterQueue": notification.cluster_queue,
        "priority": notification.priority,
        "reason": notification.reason,
        "message": _cut(notification.message),
        "text": text(notification),
    }
    if job is not None:
        data["job"] = {"group": job.group, "kind": job.kind, "name": job.name}
    if notification.seconds is not None:
        data["waitedSeconds"] = notification.seconds
    if notification.times is not None:
        data["times"] = notification.times
    if dropped:
        data["droppedBefore"] = dropped
    return {
        "specversion": "1.0",
        "id": notification.id,
        "source": source,
        "type": f"io.seiretsu.workload.{notification.kind}.v1",
        "subject": f"{notification.key.namespace}/{notification.key.name}",
        "time": stamp(notification.at),
        "datacontenttype": "application/json",
        "data": data,
    }


def filled(body: Mapping[str, Any], notification: Notification) -> Raw:
    """Returns the body of the administrator with its placeholders replaced."""
    values = {name: value.translate(_HARMLESS) for name, value in _values(notification).items()}
    return {key: _filled(child, values) for key, child in body.items()}


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: values[found[1]], value)
    if isinstance(value, Mapping):
        return {key: _filled(child, values) for key, child in value.items()}
    return [_filled(child, values) for child in value] if isinstance(value, list) else value


def _values(notification: Notification) -> dict[str, str]:
    return {
        "clusterQueue": notification.cluster_queue,
        "job": _name(notification),
        "localQueue": notification.local_queue,
        "message": _cut(notification.message),
        "name": notification.key.name,
        "namespace": notification.key.namespace,
        "priority": str(notification.priority),
        "reason": notification.reason,
        "text": text(notification),
        "time": stamp(notification.at),
        "type": notification.kind.value,
    }


def text(notification: Notification) -> str:
    """Returns the notification as one sentence."""
    subject = f"{_name(notification)} in namespace {notification.key.namespace}"
    queue, message = notification.cluster_queue, _cut(notification.message)
    seconds, times = notification.seconds or 0, notification.times or 0
    match notification.kind:
        case NotificationKind.ADMITTED:
            return f'{subject} was admitted by ClusterQueue "{queue}" after waiting {span(seconds)}'
        case NotificationKind.PREEMPTED:
            return f'{subject} was preempted in ClusterQueue "{queue}": {message}'
        case NotificationKind.FAILED:
            return f"{subject} failed: {message or notification.reason}"
        case NotificationKind.WAITING:
            why = f": {message}" if message else ""
            return f'{subject} has waited for {span(seconds)} in ClusterQueue "{queue}"{why}'
        case NotificationKind.STARVING:
            return (
                f"{subject} starves: in {span(seconds)}, {times} younger workloads with at most its priority got"
                f' quota of ClusterQueue "{queue}" before it'
            )
        case NotificationKind.LOOP:
            return f"{subject} was evicted {times} times for the same reason, {notification.reason}: {message}"


def _name(notification: Notification) -> str:
    job = notification.job
    return f"{job.kind} {job.name}" if job is not None else f"Workload {notification.key.name}"


def _cut(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else message[: LONGEST_MESSAGE - 3] + "..."
