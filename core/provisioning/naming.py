"""The names of ProvisioningRequests and their PodTemplates, as Kueue makes them, and the attempt in a name.

Separate because the attempt is only in the name: the rules read it from there, also after a restart.
"""

from __future__ import annotations

import hashlib

_LONGEST = 253
_HASH_LENGTH = 5
_CUT = _LONGEST - 1 - _HASH_LENGTH
"""A longer name is cut here, and gets a hash of the whole."""


def request(workload: str, check: str, attempt: int) -> str:
    """The name of the request of that attempt, which begins with 1."""
    return _limited(f"{_prefix(workload, check)}{attempt}")


def template(request: str, pod_set: str) -> str:
    """The name of the PodTemplate of a pod set in a request."""
    return _limited(f"ppt-{request}-{pod_set}")


def attempt(request_name: str, workload: str, check: str, most: int) -> int | None:
    """Which attempt a request of this name is; None if it is of another check.

    ``most``: a name that was cut is compared with those of so many attempts.
    """
    prefix = _prefix(workload, check)
    if len(request_name) <= _CUT:
        number = request_name[len(prefix) :] if request_name.startswith(prefix) else ""
        return int(number) if number.isascii() and number.isdigit() else None
    return next((each for each in range(1, most + 1) if request(workload, check, each) == request_name), None)


def _prefix(workload: str, check: str) -> str:
    return f"{workload}-{check}-"


def _limited(name: str) -> str:
    if len(name) <= _CUT:
        return name
    return f"{name[:_CUT]}-{hashlib.sha1(name.encode()).hexdigest()[:_HASH_LENGTH]}"
