"""AdmissionReview v1: parses the API server's request, and creates the answer.

A review that cannot be parsed is never allowed by mistake: with a known uid it is refused (code 400 in the review),
without one the call itself is a 400. Source: the Kubernetes documentation, "Dynamic Admission Control".
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

import orjson

from api.errors import MOST, FieldError, aggregate
from core.model import Raw
from webhook.patch import Operation

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
MAX_UID: Final = 253
MAX_WARNINGS: Final = 5
MAX_WARNING: Final = 120
MAX_MESSAGE: Final = 1024
"""Kueue has no limit; objects can have long lists of errors, which should not fill a terminal. ``details.causes`` has
each error with its field.
"""


class BadReviewError(ValueError):
    """Bytes that are no AdmissionReview v1. ``uid`` is there when it could be read: then the answer is a review."""

    def __init__(self, message: str, uid: str = "") -> None:
        super().__init__(message)
        self.uid = uid


@dataclass(frozen=True, slots=True)
class Request:
    """The request of the API server. ``object`` is None on DELETE, ``old_object`` on CREATE."""

    uid: str
    operation: str
    group: str
    version: str
    resource: str
    sub_resource: str
    kind: str
    namespace: str
    name: str
    object: Raw | None
    old_object: Raw | None
    dry_run: bool
    username: str
    options: Raw

    @property
    def field_manager(self) -> str:
        """The field manager of the client (not authenticated)."""
        found = self.options.get("fieldManager")
        return found if isinstance(found, str) else ""

    def new(self) -> Raw:
        """The new object; only for CREATE and UPDATE, for which ``parse`` has checked it."""
        if self.object is None:
            raise ValueError(f"{self.operation} of {self.resource} {self.name} has no object")
        return self.object

    def before(self) -> Request | None:
        """The creation of the object as it was; None where it was not there."""
        if self.old_object is None or self.object is None:
            return None
        return replace(self, operation="CREATE", object=self.old_object, old_object=None)

    def old(self) -> Raw:
        """The old object; only for UPDATE and DELETE, for which ``parse`` has checked it."""
        if self.old_object is None:
            raise ValueError(f"{self.operation} of {self.resource} {self.name} has no old object")
        return self.old_object


@dataclass(frozen=True, slots=True)
class Response:
    """The answer. ``code``, ``reason`` and ``message`` are those of a Status and shown to the user. ``rules`` are the
    rules of feedback that found something, each with its action; they are counted and not sent.
    """

    allowed: bool
    code: int = 200
    reason: str = ""
    message: str = ""
    causes: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    patch: tuple[Operation, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[tuple[str, str], ...] = ()


def allow(*, warnings: Iterable[str] = (), patch: tuple[Operation, ...] = ()) -> Response:
    """Let it pass, changed by ``patch``."""
    return Response(allowed=True, warnings=tuple(warnings), patch=patch)


def refuse(errors: Iterable[FieldError], *, warnings: Iterable[str] = ()) -> Response:
    """Refuses with all of ``errors`` together, in Kueue's form: 403 Forbidden, ``[e1, e2]``."""
    causes = tuple(islice(errors, MOST))
    return Response(
        allowed=False,
        code=403,
        reason="Forbidden",
        message=aggregate(causes),
        causes=causes,
        warnings=tuple(warnings),
    )


def deny(message: str, *, warnings: Iterable[str] = ()) -> Response:
    """Refuse for one reason that belongs to no field."""
    return Response(allowed=False, code=403, reason="Forbidden", message=message, warnings=tuple(warnings))


def bad_request(message: str) -> Response:
    """Refuses a review that could not be parsed."""
    return Response(allowed=False, code=400, reason="BadRequest", message=message)


def parse(body: bytes | bytearray) -> Request:
    """The request in ``body``. Raises BadReviewError with a sentence for everything that is no such request."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReviewError(f"the body is not JSON: {error}") from None
    if not isinstance(review, dict):
        raise BadReviewError(f"the body is a JSON {_kind_of(review)}, not an AdmissionReview")
    request = _request(review)
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= MAX_UID:
        raise BadReviewError(f"request.uid must be a text of 1 to {MAX_UID} characters")
    return _read(request, uid)


def _request(review: Raw) -> Raw:
    if review.get("apiVersion") != API_VERSION or review.get("kind") != KIND:
        found = f"{_brief(review.get('apiVersion'))} {_brief(review.get('kind'))}"
        raise BadReviewError(f"expected {API_VERSION} {KIND}, found {found}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise BadReviewError("the review has no request")
    return request


def _read(request: Raw, uid: str) -> Request:
    operation = request.get("operation")
    if operation not in OPERATIONS:
        raise BadReviewError(f"request.operation is {_brief(operation)}, not one of {', '.join(OPERATIONS)}", uid)
    resource, kind = _part(request, "resource", uid), _part(request, "kind", uid)
    new, old = _part_or_none(request, "object", uid), _part_or_none(request, "oldObject", uid)
    if operation in ("CREATE", "UPDATE") and new is None:
        raise BadReviewError(f"request.object is null on {operation}", uid)
    if operation in ("UPDATE", "DELETE") and old is None:
        raise BadReviewError(f"request.oldObject is null on {operation}", uid)
    return Request(
        uid=uid,
        operation=operation,
        group=_text(resource, "group", uid),
        version=_text(resource, "version", uid),
        resource=_text(resource, "resource", uid),
        sub_resource=_text(request, "subResource", uid),
        kind=_text(kind, "kind", uid),
        namespace=_text(request, "namespace", uid),
        name=_text(request, "name", uid),
        object=new,
        old_object=old,
        dry_run=request.get("dryRun") is True,
        username=_text(_part_or_none(request, "userInfo", uid) or {}, "username", uid),
        options=_part_or_none(request, "options", uid) or {},
    )


def _part(holder: Raw, key: str, uid: str) -> Raw:
    found = _part_or_none(holder, key, uid)
    if found is None:
        raise BadReviewError(f"request.{key} is missing", uid)
    return found


def _part_or_none(holder: Raw, key: str, uid: str) -> Raw | None:
    found = holder.get(key)
    if found is not None and not isinstance(found, dict):
        raise BadReviewError(f"request.{key} is a {_kind_of(found)}, not an object", uid)
    return found


def _text(holder: Raw, key: str, uid: str) -> str:
    found = holder.get(key)
    if found is None:
        return ""
    if not isinstance(found, str):
        raise BadReviewError(f"{key} is a {_kind_of(found)}, not a text", uid)
    return found


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
    return "object"


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else _kind_of(value)
    return repr(text[:60])


def encode(uid: str, response: Response) -> bytes:
    """The AdmissionReview that answers ``uid``."""
    answer: Raw = {"uid": uid, "allowed": response.allowed}
    if not response.allowed:
        answer["status"] = _status(response)
    elif response.patch:
        answer["patchType"] = "JSONPatch"
        operations = orjson.dumps([operation.wire() for operation in response.patch])
        answer["patch"] = base64.b64encode(operations).decode()
    if response.warnings:
        answer["warnings"] = shortened(response.warnings)
    if response.audit:
        answer["auditAnnotations"] = dict(response.audit)
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": answer})


def _status(response: Response) -> Raw:
    status: Raw = {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": response.code,
        "reason": response.reason,
        "message": clipped(response.message, MAX_MESSAGE),
    }
    if response.causes:
        status["details"] = {"causes": [error.cause() for error in response.causes]}
    return status


def shortened(warnings: Iterable[str]) -> list[str]:
    """Returns at most five warnings of at most 120 characters each, in order, each once."""
    unique = [clipped(text, MAX_WARNING) for text in dict.fromkeys(warnings)]
    if len(unique) <= MAX_WARNINGS:
        return unique
    return [*unique[: MAX_WARNINGS - 1], f"... and {len(unique) - MAX_WARNINGS + 1} more warnings"]


def clipped(text: str, limit: int) -> str:
    """The text without control characters (a header carries it), cut at ``limit`` where it is longer."""
    plain = text if text.isprintable() else "".join(each if each.isprintable() else " " for each in text)
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."
