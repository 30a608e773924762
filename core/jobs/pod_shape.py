"""What is computed from the spec of a pod: its role in a group, and its effective requests.

Equal specs are one object in the caches (``Share``), which keeps what was computed from it: both are needed with each
look at a group, and cost more than all the rest of it.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

import orjson

from core.jobs.pod_owners import shape
from core.model import Raw, Requests
from core.wire.pod_requests import RequestRules, effective


class _Memo:
    """What was computed from one spec; the requests with these rules."""

    __slots__ = ("requests", "role", "rules")

    def __init__(self) -> None:
        self.role = ""
        self.rules: RequestRules | None = None
        self.requests: Requests = {}


def role_hash(spec: Raw) -> str:
    """Returns Kueue's hash of a pod's spec: eight hex digits of the SHA-256 of the JSON of the fields it reads."""
    text = orjson.dumps({"spec": dict(sorted(shape(spec).items()))})
    return hashlib.sha256(text).hexdigest()[:8]


def computed_role(pod: Raw) -> str:
    """The role of a pod by its spec, whatever its annotation says."""
    spec = pod.get("spec") or {}
    memo = _memo(spec)
    if not memo.role:
        memo.role = role_hash(spec)
    return memo.role


def requests(pod: Raw, rules: RequestRules) -> Requests:
    """The effective requests of a pod, in base units; of its namespace's rules those that do not change count."""
    spec = pod.get("spec") or {}
    memo = _memo(spec)
    if memo.rules is not rules:
        memo.requests, memo.rules = effective(spec, rules).requests, rules
    return memo.requests


def _memo(spec: Any) -> _Memo:
    shared = getattr(spec, "of", spec)
    found: _Memo | None = getattr(shared, "memo", None)
    if found is None:
        found = _Memo()
        with contextlib.suppress(AttributeError):  # an object that is not of the caches keeps nothing
            shared.memo = found
    return found
