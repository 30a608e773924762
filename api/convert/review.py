"""ConversionReview v1: the API server's request to a conversion webhook, and the answer.

Source: the Kubernetes documentation, "Versions in CustomResourceDefinitions". All objects of a review are converted or
none is: one that cannot be converted fails the call with its name, and the API server shows the message to the client.
"""

from typing import Any, Final

from api.convert import ConversionError, convert
from api.convert.kept import MALFORMED
from api.convert.topology_assignment import one_room
from api.errors import aggregate
from api.kinds import KINDS
from api.names import GROUP
from api.objects import Raw
from api.schema import structural
from api.structural import violations

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"


class BadConversionReviewError(ValueError):
    """The body is not a ConversionReview v1 that can be answered."""


def answer(review: Any) -> Raw:
    """The review with its response. Raises BadReviewError where there is no uid to answer to."""
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        raise BadConversionReviewError(f"expected a {KIND} of {API_VERSION}")
    request = review.get("request")
    uid = request.get("uid") if isinstance(request, dict) else None
    if not isinstance(request, dict) or not isinstance(uid, str) or not uid:
        raise BadConversionReviewError("request.uid: Required value")
    with one_room():
        return {"apiVersion": API_VERSION, "kind": KIND, "response": {"uid": uid, **_response(request)}}


def _response(request: Raw) -> Raw:
    group, _, version = str(request.get("desiredAPIVersion")).partition("/")
    objects = request.get("objects")
    if group != GROUP or not isinstance(objects, list):
        return _failed(f"cannot convert to {str(request.get('desiredAPIVersion'))[:100]}")
    converted = []
    for index, obj in enumerate(objects):
        try:
            converted.append(_converted(obj, version))
        except ConversionError as error:
            return _failed(f"objects[{index}]: {str(error)[:500]}")
    return {"convertedObjects": converted, "result": {"status": "Success"}}


def _converted(obj: Any, version: str) -> Raw:
    """Converts one object. Its schema was checked when it was written; if it does not match, the error names it."""
    if not isinstance(obj, dict):
        raise ConversionError("not an object")
    try:
        return convert(obj, version)
    except ConversionError:
        raise
    except MALFORMED as error:
        metadata = obj.get("metadata")
        named = metadata if isinstance(metadata, dict) else {}
        name = f"{named.get('namespace', '')}/{named.get('name', '')}".strip("/")
        raise ConversionError(f"{obj.get('kind')} {name}: {_wrong(obj) or repr(error)}") from error


def _wrong(obj: Raw) -> str:
    """Returns the errors of the object's own version. The API server would report them too, but only after the
    conversion.
    """
    version = str(obj.get("apiVersion")).removeprefix(f"{GROUP}/")
    models = (
        found.model
        for kind in KINDS
        if kind.kind == obj.get("kind")
        for found in kind.versions
        if found.name == version
    )
    errors = [error for model in models for error in violations(structural(model), obj)]
    return aggregate(errors) if errors else ""


def _failed(message: str) -> Raw:
    return {"convertedObjects": [], "result": {"status": "Failure", "message": message}}
