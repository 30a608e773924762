"""The chart's table of the Configuration: helm refuses the fields, types and names that `serve` refuses at its start.

Made from the same model as `api.configuration.load` reads with, by its JSON schema. The template that compares is
``seiretsu.checkConfiguration`` in the chart. ``python -m webhook.configuration_table FILE`` writes the table; a test
compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from api.configuration.model import Configuration
from api.names import CONFIG_GROUP, V1BETA1, V1BETA2
from core.feedback.catalog import NAMES
from core.jobs.kinds import supported
from core.model import Raw

OLDER: Final = {
    "Configuration": {"queueVisibility": "any"},
    "Integrations": {"podOptions": "any"},
    "WaitForPodsReady": {"enable": "boolean"},
    "FairSharing": {"enable": "boolean"},
}
"""Fields that only v1beta1 has, by section."""


def table() -> Raw:
    """Returns the sections by name, each with the type of each field; what only v1beta1 has; and the names that exist.

    A type is a word, ``section NAME``, ``list of NAME`` (sections) or ``list of string``, or the list of the values.
    """
    schema = Configuration.model_json_schema(by_alias=True)
    sections = {"Configuration": schema, **schema["$defs"]}
    return {
        "sections": {name: _fields(each) for name, each in sections.items()},
        "older": OLDER,
        "versions": [f"{CONFIG_GROUP}/{version}" for version in (V1BETA2, V1BETA1)],
        "frameworks": sorted(supported()),
        "rules": sorted(NAMES),
    }


def _fields(section: Raw) -> Raw:
    return {name: _type(found) for name, found in section.get("properties", {}).items()}


def _type(found: Raw) -> str | list[Any]:
    choices = [each for each in found.get("anyOf", [found]) if each.get("type") != "null"]
    if len(choices) != 1:
        return "any"
    (one,) = choices
    if "$ref" in one:
        return f"section {_name(one)}"
    if "enum" in one or "const" in one:
        values = [each for each in one.get("enum", [one.get("const")]) if each is not None]
        return values if all(isinstance(each, str) for each in values) else "any"
    if one.get("type") == "array":
        items = one.get("items", {})
        return f"list of {_name(items)}" if "$ref" in items else _strings(items)
    return str(one.get("type", "any"))


def _strings(items: Raw) -> str:
    return "list of string" if items.get("type") == "string" and "enum" not in items else "list"


def _name(reference: Raw) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def template() -> str:
    """The whole template file."""
    lines: Iterable[str] = (
        f"{name}: {yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False).strip()}\n"
        for name, value in table().items()
    )
    return f"""{{{{- /* Made by `make generate` from webhook/configuration_table.py. */ -}}}}
{{{{- define "seiretsu.configurationTable" -}}}}
{"".join(lines)}{{{{- end -}}}}
"""


def main(arguments: list[str]) -> int:
    """Write the template to the file that is named."""
    Path(arguments[0]).write_text(template())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
