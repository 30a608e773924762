"""Kubernetes manifests in files: each document with its position, and all mistakes reported together.

Separate from ``cli.scenario``, which interprets the documents for a simulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from api.manifests import stored
from api.names import GROUP
from api.objects import Raw
from cli.target import FailedError


class ScenarioError(FailedError):
    """Files cannot be simulated; a line for each mistake names the file, the position and the fix."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(mistakes))


@dataclass(slots=True)
class Mistakes:
    """Collects the mistakes in the input, so that all of them are reported."""

    found: list[str] = field(default_factory=list)

    def add(self, place: object, *texts: object) -> None:
        """Adds a mistake at a position."""
        self.found += [f"{place}: {text}" for text in texts]

    def raise_any(self) -> None:
        """ScenarioError if there is a mistake."""
        if self.found:
            raise ScenarioError(*dict.fromkeys(self.found))


@dataclass(frozen=True, slots=True)
class Document:
    """An object and where it is from: ``queues.yaml:12``."""

    raw: Raw
    origin: str

    @property
    def label(self) -> str:
        """The object as messages name it."""
        meta = self.raw.get("metadata") or {}
        name = meta.get("name") or f"{meta.get('generateName', '')}*"
        return f"{self.raw['kind']} {'/'.join(filter(None, (meta.get('namespace'), name)))}"

    @property
    def place(self) -> str:
        """A document and its position."""
        return f"{self.origin}: {self.label}"


def documents(path: Path, mistakes: Mistakes) -> Iterator[Document]:
    """Returns the objects of a file, those of a List one by one; anything else is a mistake."""
    try:
        loader = yaml.CSafeLoader(path.read_text())
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            origin = f"{path}:{node.start_mark.line + 1}"
            _look_for_doubles(node, path, mistakes)
            yield from _objects(loader.construct_document(node), origin, mistakes)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else str(path)
        mistakes.add(place, f"is no YAML: {getattr(error, 'problem', None) or error}")
    except (OSError, UnicodeDecodeError) as error:
        mistakes.add(path, getattr(error, "strerror", None) or error)


def ours(document: Document, mistakes: Mistakes) -> Document:
    """Returns an object of Seiretsu's kinds in the stored version with its defaults, from any version; others
    unchanged.
    """
    if not str(document.raw.get("apiVersion")).startswith(f"{GROUP}/"):
        return document
    raw, errors = stored(document.raw)
    if errors:
        mistakes.add(document.place, *errors)
    return Document(raw, document.origin)


def _objects(found: Any, origin: str, mistakes: Mistakes) -> Iterable[Document]:
    """A document, or those of a List."""
    if found is None:
        return
    if not isinstance(found, dict) or not isinstance(found.get("kind"), str):
        mistakes.add(origin, "a document without a kind: is this a Kubernetes manifest?")
        return
    if found["kind"].endswith("List") and isinstance(found.get("items"), list):
        for index, item in enumerate(found["items"]):
            yield from _objects(item, f"{origin} items[{index}]", mistakes)
        return
    meta = found.get("metadata")
    if not isinstance(meta, dict) or not any(isinstance(meta.get(key), str) for key in ("name", "generateName")):
        mistakes.add(f"{origin}: {found['kind']}", "metadata.name: Required value")
        return
    yield Document(found, origin)


def _look_for_doubles(node: yaml.Node, path: Path, mistakes: Mistakes) -> None:
    """A duplicate key would silently lose the first value; kubectl refuses it, too."""
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _look_for_doubles(each, path, mistakes)
    if not isinstance(node, yaml.MappingNode):
        return
    seen: set[str] = set()
    for key, value in node.value:
        if isinstance(key, yaml.ScalarNode) and key.value != "<<":
            if key.value in seen:
                mistakes.add(f"{path}:{key.start_mark.line + 1}", f'key "{key.value}" already set in map')
            seen.add(key.value)
        _look_for_doubles(value, path, mistakes)
