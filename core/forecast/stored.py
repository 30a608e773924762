"""Learned run times as a ConfigMap: the controller writes it, and who simulates a cluster reads it."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from api.objects import Key, Raw
from api.resources import CONFIG_MAPS
from core.forecast.learned import LearnedRunTimes, compressed

NAME: Final = "seiretsu-run-times"
FIELD: Final = "runTimes"


def manifest(key: Key) -> Raw:
    """The ConfigMap without data."""
    named = {"namespace": key.namespace, "name": key.name}
    return {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": named}


def data_of(plain: bytes) -> Raw:
    """Returns the fields of the ConfigMap that hold what was learned (``LearnedRunTimes.plain``). Takes 70 ms for 6,000
    classes; may be called in a thread.
    """
    return {"binaryData": {FIELD: base64.b64encode(compressed(plain)).decode()}}


def learned_of(raw: Raw) -> LearnedRunTimes:
    """Returns what the ConfigMap has. Raises ``ValueError`` if that was not written by Seiretsu."""
    try:
        return LearnedRunTimes.decode(base64.b64decode((raw.get("binaryData") or {})[FIELD], validate=True))
    except (KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise ValueError(f"binaryData.{FIELD}: {error!r}") from error
