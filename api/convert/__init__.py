"""Converts one object into another version of its kind, without loss.

Every version is converted to and from the stored one. Fields that the other version does not have are kept in an
annotation of the converted object and restored on the way back (`api.convert.kept`), so that an old client's update
loses nothing, and an object written in an old version is read back unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from api.convert import kept, v1alpha1, v1beta1
from api.errors import ErrorType
from api.names import GROUP, STORAGE_VERSION, V1ALPHA1, V1BETA1, V1BETA2
from api.objects import Raw
from api.validate import form

Conversion = Callable[[Raw], Raw]
Both = tuple[Conversion, Conversion]
"""To the stored version, and from it."""

_CONVERSIONS: Final[dict[str, Mapping[str, Both]]] = {
    V1BETA1: v1beta1.CONVERSIONS,
    V1ALPHA1: v1alpha1.CONVERSIONS,
}
"""By version and kind."""
_SAME: Final[Both] = (lambda obj: obj, lambda obj: obj)
_KINDS: Final = {
    V1BETA2: frozenset(v1beta1.KINDS),
    V1BETA1: frozenset(v1beta1.KINDS),
    V1ALPHA1: frozenset(v1alpha1.KINDS),
}


class ConversionError(ValueError):
    """The object is of a kind or version that cannot be converted; the message names it."""


def convert(obj: Raw, version: str) -> Raw:
    """The object in `version` (such as `v1beta1`). The given one is left as it is. Raises ConversionError."""
    group, _, given = str(obj.get("apiVersion")).partition("/")
    kind = obj.get("kind")
    for asked in (given, version):
        if group != GROUP or kind not in _KINDS.get(asked, ()):
            raise ConversionError(f"cannot convert {kind} of {obj.get('apiVersion')} to {GROUP}/{version}")
    if given == version:
        return obj
    stored = obj if given == STORAGE_VERSION else _up(obj, str(kind), given)
    return stored if version == STORAGE_VERSION else _down(stored, str(kind), version)


def _up(obj: Raw, kind: str, version: str) -> Raw:
    """Converts to the stored version. The result is stored unchecked: the API server checked only the older version.

    Any user can write the annotation, so what it adds must match the schema.
    """
    to_stored, from_stored = _CONVERSIONS[version].get(kind, _SAME)
    bare, held = kept.taken(obj, STORAGE_VERSION)
    plain = to_stored(bare)
    stored = _restored(plain, held, lambda candidate: to_stored(from_stored(candidate)))
    if stored is not plain and not _well_formed(stored, plain):
        stored = plain
    stored = {**stored, "apiVersion": f"{GROUP}/{STORAGE_VERSION}"}
    return kept.put(stored, version, kept.difference(from_stored(stored), bare))


def _down(stored: Raw, kind: str, version: str) -> Raw:
    """From the stored version."""
    to_stored, from_stored = _CONVERSIONS[version].get(kind, _SAME)
    bare, held = kept.taken(stored, version)
    obj = _restored(from_stored(bare), held, lambda candidate: from_stored(to_stored(candidate)))
    obj = {**obj, "apiVersion": f"{GROUP}/{version}"}
    return kept.put(obj, STORAGE_VERSION, kept.difference(to_stored(obj), bare))


_HARMLESS: Final = frozenset({ErrorType.DUPLICATE, ErrorType.TOO_LONG, ErrorType.TOO_MANY})
"""Errors that an older version may allow and that may be stored: lengths and duplicates."""


def _well_formed(restored: Raw, plain: Raw) -> bool:
    """Whether the restored parts add no errors to the object."""
    found, before = (
        {
            str(error)
            for error in form({**obj, "apiVersion": f"{GROUP}/{STORAGE_VERSION}"})
            if error.type not in _HARMLESS
        }
        for obj in (restored, plain)
    )
    return found <= before


def _restored(converted: Raw, held: Any, there_and_back: Conversion) -> Raw:
    """Returns the converted object, with the kept parts that still agree with it.

    All of them if nothing was edited meanwhile; otherwise only additions.
    """
    if held is None:
        return converted
    for part in (held, kept.additions(held)):
        candidate = kept.applied(converted, part)
        if candidate is not None and _agrees(candidate, converted, there_and_back):
            return candidate
    return converted


def _agrees(candidate: Raw, converted: Raw, there_and_back: Conversion) -> bool:
    """Whether the restored object has the same content as the converted one; False if it cannot be converted.

    Any user can write the annotation, and one object that cannot be converted would break every list of its kind.
    """
    try:
        return kept.same(there_and_back(candidate), converted)
    except kept.MALFORMED:
        return False
