"""What the commands print: kubectl's tables, names of objects, JSON, YAML and JSONPath. Pure, but for the file of
``jsonpath-file``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from api.objects import Raw, Resource
from cli.jsonpath import JsonPathError, found, rendered
from cli.target import UsageError

FORMATS: Final = ("wide", "json", "yaml", "name", "jsonpath", "jsonpath-as-json", "jsonpath-file")
"""What ``-o`` may be. The last three have ``=TEMPLATE``."""
_LEAST_WIDTH, _PADDING = 6, 3


class Output(NamedTuple):
    """A format, and the template of one that has a template."""

    format: str = ""
    template: str = ""

    @property
    def wide(self) -> bool:
        """Whether a table has all its columns."""
        return self.format == "wide"

    @property
    def is_table(self) -> bool:
        """Whether people read it."""
        return self.format in ("", "wide")

    @property
    def error_format(self) -> str:
        """How a failure is printed beside the sentence on stderr."""
        return self.format if self.format in ("json", "yaml") else "text"


def output(text: str, template: str = "") -> Output:
    """Returns what ``-o`` and ``--template`` ask for. Raises UsageError."""
    word, equals, rest = text.partition("=")
    asked = Output(word, rest if equals else template)
    if word in ("go-template", "go-template-file", "template", "templatefile"):
        raise UsageError(f"-o {word}: Go templates are not known here: use jsonpath, or kubectl get -o {word}")
    if word and word not in FORMATS:
        raise UsageError(f"-o {text}: it must be one of {', '.join(FORMATS)}")
    if word.startswith("jsonpath") and not asked.template:
        raise UsageError(f"-o {word}: a template is needed: -o {word}={{.metadata.name}}")
    if equals and not word.startswith("jsonpath"):
        raise UsageError(f"-o {text}: {word} has no template")
    return asked


class PrintedTable(NamedTuple):
    """Rows under headers, which are written as kubectl writes column names."""

    headers: tuple[str, ...]
    rows: list[tuple[str, ...]]


def table(made: PrintedTable) -> str:
    """Returns a table as kubectl prints it."""
    rows = [tuple(header.upper() for header in made.headers), *(tuple(map(clean, row)) for row in made.rows)]
    widths = [max(_LEAST_WIDTH, _PADDING + max(len(row[i]) for row in rows)) for i in range(len(made.headers) - 1)]
    lines = ("".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]]) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def clean(text: str) -> str:
    """Returns a text without what a terminal would obey: others may have written it."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def name_of(raw: Raw) -> str:
    """Returns an object as ``-o name`` prints it: job.batch/train."""
    group = str(raw.get("apiVersion", "")).rpartition("/")[0]
    return f"{str(raw.get('kind', '')).lower()}{f'.{group}' if group else ''}/{raw['metadata']['name']}"


def written(value: Raw, asked: Output, *, managed_fields: bool = False) -> str:
    """Returns an object, or a list with ``items``, in any format but a table. Raises UsageError for a template."""
    shown = value if managed_fields else without_managed_fields(value)
    items = shown.get("items")
    match asked.format:
        case "name":
            return "".join(f"{name_of(each)}\n" for each in (items if items is not None else [shown]))
        case "yaml":
            import yaml

            return str(yaml.safe_dump(shown, sort_keys=True, allow_unicode=True))
        case "json":
            return json.dumps(shown, indent=4, sort_keys=True, ensure_ascii=False) + "\n"
    try:
        if asked.format == "jsonpath-as-json":
            return json.dumps(found(asked.template, shown), indent=4, ensure_ascii=False) + "\n"
        text = Path(asked.template).read_text() if asked.format == "jsonpath-file" else asked.template
        return rendered(text, shown)
    except (JsonPathError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"-o {asked.format}: {error}") from None


def without_managed_fields(value: Raw) -> Raw:
    """Returns an object or a list of objects without ``metadata.managedFields``."""
    shown = dict(value)
    if "items" in value:
        shown["items"] = [without_managed_fields(each) for each in value["items"]]
    if isinstance(value.get("metadata"), dict) and "managedFields" in value["metadata"]:
        shown["metadata"] = {key: each for key, each in value["metadata"].items() if key != "managedFields"}
    return shown


def list_of(resource: Resource, items: Sequence[Raw], version: str = "") -> Raw:
    """Returns objects as the list of their kind, as the API server answers it."""
    metadata = {"resourceVersion": version}
    return {"apiVersion": resource.api_version, "kind": f"{resource.kind}List", "metadata": metadata, "items": [*items]}


def done(raw: Raw, verb: str, dry_run: Literal["none", "client", "server"] = "none") -> str:
    """Returns the line about an object that was written: clusterqueue.kueue.x-k8s.io/main created."""
    return f"{name_of(raw)} {verb}{'' if dry_run == 'none' else f' ({dry_run} dry run)'}\n"


def age(seconds: float) -> str:
    """Returns a duration as kubectl prints ages: 45s, 3m12s, 5h7m, 2d3h, 1y20d."""
    if seconds < 0:
        return "0s" if seconds >= -1 else "<invalid>"
    whole = int(seconds)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _both(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _both(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _both(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _both(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _both(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{f'{small}{small_unit}' if small else ''}"
