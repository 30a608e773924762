"""The errors of a call, as types that a caller can distinguish.

Separate so that callers can catch them without importing the client.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson


class ApiError(Exception):
    """A call that gave no data. ``status`` is HTTP's, 0 when nothing answered; ``reason`` is Kubernetes' word.

    ``retry_after`` is in seconds, where the server asked for it. ``details`` is ``Status.details`` (causes, name, uid).
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else f"{reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after


class NotFound(ApiError):
    """The API server reported, in its own Status, that this object does not exist."""


class AlreadyExists(ApiError):
    """An object of that name exists already."""


class Conflict(ApiError):
    """The object changed since we read it, or an apply met another owner's field: read again, decide again."""


class Gone(ApiError):
    """The resource version is too old to watch or page from: list again."""


class Invalid(ApiError):
    """The object breaks its schema or a rule; ``details["causes"]`` names the fields."""


class Forbidden(ApiError):
    """The account lacks the right, or an admission check refused it."""


class Terminating(Forbidden):
    """The namespace is being deleted, so nothing can be created in it; no right is missing."""


class Unauthorized(ApiError):
    """The server does not accept the credentials, even with a new token."""


class TooManyRequests(ApiError):
    """Still throttled after every retry, or an eviction that a budget holds back."""


class Unreachable(ApiError):
    """No answer: refused, reset, cut short or out of time. A write may or may not have happened."""


class Unintelligible(ApiError):
    """An answer that is not the API server's JSON: a proxy's HTML page, an empty or a cut body. Never data."""


class TooLarge(Unintelligible):
    """More than is read: an answer, or all objects of a cluster that is not trusted, over the limit."""


class Fenced(ApiError):
    """This process may not write now (another one leads, or the lease expired). Nothing was sent."""


def may_have_happened(error: ApiError) -> bool:
    """Whether the API server may still be at a write that got this error, so that a read now does not show its end: no
    answer, or one that says that the time was over. Any other answer is the end.
    """
    if isinstance(error, Unreachable | Unintelligible) or error.status == 504:
        return True
    return error.status >= 500 and any(text in error.message for text in _AT_ETCD)


_AT_ETCD = ("etcdserver: request timed out", "etcdserver: leader changed")
"""What etcd answers about a write that it may still make."""


_BY_REASON: dict[str, type[ApiError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Gone": Gone,
    "Expired": Gone,
    "Invalid": Invalid,
    "Forbidden": Forbidden,
    "Unauthorized": Unauthorized,
    "TooManyRequests": TooManyRequests,
}
_BY_CODE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
_REASON_OF_CODE = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


LONGEST_REASON, LONGEST_MESSAGE = 256, 8192
"""In characters: messages are kept, and a worker cluster may send any."""


def from_status(answer: Mapping[str, Any], http_status: int = 0, retry_after: float | None = None) -> ApiError:
    """Returns the error of a ``kind: Status`` document, from an answer's body or from a watch's ERROR event."""
    code = answer.get("code")
    status = code if isinstance(code, int) and code else http_status
    reason = str(answer.get("reason") or _REASON_OF_CODE.get(status, "Unknown"))[:LONGEST_REASON]
    details = answer.get("details")
    details = details if isinstance(details, dict) else {}
    asked = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(asked, int | float):
        retry_after = float(asked)
    kind = _BY_REASON.get(reason) or _BY_CODE.get(status, ApiError)
    if status == 504 and "too large resource version" in str(answer.get("message", "")).lower():
        kind = Gone
    if kind is Forbidden and _terminating(details.get("causes")):
        kind = Terminating
    return kind(status, reason, str(answer.get("message") or "no message")[:LONGEST_MESSAGE], details, retry_after)


def _terminating(causes: object) -> bool:
    """Whether a cause of the refusal is that the namespace is being deleted."""
    found = causes if isinstance(causes, list) else []
    return any(isinstance(each, dict) and each.get("reason") == "NamespaceTerminating" for each in found)


def from_answer(status: int, content_type: str, body: bytes, retry_after: float | None = None) -> ApiError:
    """The error of a refused call. Only a Status document speaks for the API server: a proxy's 404 is no NotFound.

    Throttling, 410 and 401 are believed from anyone, because heeding them costs nothing.
    """
    document: object = None
    if is_json(content_type):
        try:
            document = orjson.loads(body)
        except orjson.JSONDecodeError:
            document = None
    if isinstance(document, dict) and document.get("kind") == "Status":
        return from_status(document, status, retry_after)
    kind = _BY_CODE[status] if status in (401, 410, 429) else Unintelligible
    reason = _REASON_OF_CODE.get(status, "Unknown") if kind is not Unintelligible else "Unintelligible"
    return kind(
        status, reason, f"not a Kubernetes answer ({content_type or 'no type'}): {excerpt(body)}", None, retry_after
    )


def is_json(content_type: str) -> bool:
    """Whether an answer claims to be JSON; parameters such as the charset do not matter."""
    return content_type.split(";", 1)[0].strip().lower() == "application/json"


def excerpt(body: bytes, length: int = 160) -> str:
    """Returns the start of a body, on one line and printable, for messages."""
    text = " ".join(body[: length * 4].decode("utf-8", "replace").split())
    clean = "".join(char if char.isprintable() else "?" for char in text)
    return (clean[:length] + "...") if len(clean) > length else clean or "(empty)"


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yields the errors of an exception group, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
