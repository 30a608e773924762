"""The docstring of an attribute is the description of its field, and is read only for a schema."""

import inspect

import pytest

from api.schema import structural
from api.v1beta2.base import Model


class Shared(Model):
    size: int
    """How large
    it is."""


class Described(Shared):
    first_name: str
    """Its name."""
    other: int = 0
    inner: Shared
    """The inner one."""


def test_a_description_is_the_docstring_of_the_attribute_also_of_an_inherited_one() -> None:
    properties = structural(Described)["properties"]
    found = {name: each.get("description") for name, each in properties.items() if name not in ("kind", "apiVersion")}
    assert found == {
        "size": "How large\nit is.",
        "firstName": "Its name.",
        "other": None,
        "inner": "The inner one.",
        "metadata": None,
    }


def test_to_define_a_model_reads_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read it took a third of the time of all imports."""

    def read(*_: object) -> None:
        raise AssertionError("source was read")

    for name in ("findsource", "getsource", "getsourcelines"):
        monkeypatch.setattr(inspect, name, read)

    class Late(Model):
        size: int
        """How large it is."""

    assert Late(size=1).size == 1
