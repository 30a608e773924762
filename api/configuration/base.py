"""The building blocks of the Configuration."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from api import duration
from api.v1beta2.base import Model


class Section(Model):
    """A part of the Configuration. Types are taken at their word: the text "true" is no boolean."""

    model_config = ConfigDict(strict=True)


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise ValueError('must be a duration such as "30s", "5m" or "1h30m"')  # noqa: TRY004 - reported with its path
    return duration.parse(value)


Duration = Annotated[timedelta, BeforeValidator(_duration)]
"""A Go duration."""
Int32 = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
