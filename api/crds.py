"""CustomResourceDefinitions of Seiretsu's kinds, generated from the models.

`python -m api.crds DIR` writes them as chart templates, one file for each kind; a test compares them with the models.
They are templates and not in Helm's `crds/`, because Helm never upgrades those.
"""

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson
import yaml
from pydantic import BaseModel

from api.kinds import KINDS, Column, KindSpec, Version
from api.names import GROUP, STORAGE_VERSION, V1ALPHA1, V1BETA1
from api.objects import Raw
from api.schema import structural

CHART_TEMPLATES: Final = "charts/seiretsu/templates/crds"
CONVERSION_PATH: Final = "/convert"
OLDER_VERSIONS: Final = (V1BETA1, V1ALPHA1)
"""Served in addition to the stored one; each costs a conversion for every write."""
_IN_CHART: Final[Raw] = {
    "service": {"name": "zz-service", "namespace": "zz-namespace", "path": CONVERSION_PATH, "port": 65001}
}
_INJECTED: Final = "    cert-manager.io/inject-ca-from: zz-certificate\n"
_KEPT: Final = "    helm.sh/resource-policy: keep\n"
_ACTIONS: Final = {
    _INJECTED: f"    {{{{- if .Values.enableCertManager }}}}\n{_INJECTED}    {{{{- end }}}}\n",
    _KEPT: f"    {{{{- if .Values.crds.keep }}}}\n{_KEPT}    {{{{- end }}}}\n",
    " zz-labels": ' {{- include "seiretsu.labels" . | nindent 4 }}',
    "zz-certificate": '{{ .Release.Namespace }}/{{ include "seiretsu.servingCertificate" . }}',
    "zz-service": '{{ include "seiretsu.webhookService" . }}',
    "zz-namespace": "{{ .Release.Namespace }}",
    "65001": '{{ include "seiretsu.webhookServicePort" . }}',
    **{
        f"zz-served-{version}": f'{{{{ has "{version}" (default (list) .Values.crds.olderVersions) }}}}'
        for version in OLDER_VERSIONS
    },
}
"""A placeholder in a definition that Helm replaces."""
_HEADER: Final = """# Generated from the models by `python -m api.crds`; do not edit.
{{- if .Values.crds.enabled }}
"""
_FOOTER: Final = "{{- end }}\n"


def definitions(conversion: Mapping[str, Any] | None = None) -> list[Raw]:
    """Returns all CRDs. `conversion` is the `clientConfig` of the conversion webhook.

    Without it only the stored version of a kind is served: the API server would only rename the others.
    """
    return [definition(kind, conversion) for kind in KINDS]


def definition(kind: KindSpec, conversion: Mapping[str, Any] | None = None) -> Raw:
    """The CRD of one kind."""
    versions = kind.versions if conversion is not None else (kind.stored,)
    spec: Raw = {
        "group": GROUP,
        "names": {
            "kind": kind.kind,
            "listKind": f"{kind.kind}List",
            "plural": kind.plural,
            "singular": kind.singular,
            **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
            **({"categories": list(kind.categories)} if kind.categories else {}),
        },
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "versions": [_version(version, stored=version is kind.stored) for version in versions],
    }
    if conversion is not None and len(versions) > 1:
        spec["conversion"] = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": dict(conversion), "conversionReviewVersions": ["v1"]},
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.crd_name},
        "spec": spec,
    }


def _version(version: Version, *, stored: bool) -> Raw:
    warning = f"This version is deprecated. Use {STORAGE_VERSION} instead."
    return {
        "name": version.name,
        "served": True,
        "storage": stored,
        **({"deprecated": True, "deprecationWarning": warning} if version.deprecated else {}),
        "schema": {"openAPIV3Schema": orjson.loads(_schema(version.model))},
        **({"additionalPrinterColumns": [_column(column) for column in version.columns]} if version.columns else {}),
        **({"selectableFields": [{"jsonPath": path} for path in version.selectable]} if version.selectable else {}),
        **({"subresources": {"status": {}}} if version.status else {}),
    }


@cache
def _schema(model: type[BaseModel]) -> bytes:
    """The schema of a model as JSON: it takes much longer to generate than to decode."""
    return orjson.dumps(structural(model))


def _column(column: Column) -> Raw:
    shown: Raw = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return shown | ({"priority": column.priority} if column.priority else {})


class _Dumper(yaml.SafeDumper):
    """Spells repeated parts out: a reader of one field need not look elsewhere."""

    def ignore_aliases(self, data: Any) -> bool:
        """No anchors."""
        return True


def templates() -> dict[str, str]:
    """Returns the files of the chart: name and text. Only Helm knows the address of the conversion webhook."""
    return {f"{kind.plural}.yaml": _template(kind) for kind in KINDS}


def _template(kind: KindSpec) -> str:
    found = definition(kind, _IN_CHART)
    # otherwise helm uninstall would delete all queues and Workloads, whose finalizers nobody removes
    annotations, annotated = {"helm.sh/resource-policy": "keep"}, ".Values.crds.keep"
    if "conversion" in found["spec"]:
        annotations["cert-manager.io/inject-ca-from"] = "zz-certificate"
        annotated = "or .Values.crds.keep .Values.enableCertManager"
    found["metadata"] |= {"labels": "zz-labels", "annotations": annotations}
    for version in found["spec"]["versions"]:
        if not version["storage"]:
            version["served"] = f"zz-served-{version['name']}"  # a version that is not served needs no conversion
    text = yaml.dump(found, Dumper=_Dumper, sort_keys=False, width=120)
    for stand_in, action in _ACTIONS.items():
        text = text.replace(stand_in, action)
    text = text.replace("  annotations:\n", f"  {{{{- if {annotated} }}}}\n  annotations:\n", 1)
    text = text.replace("\nspec:\n", "\n  {{- end }}\nspec:\n", 1)
    return _HEADER + text + _FOOTER


def main(arguments: list[str]) -> int:
    """Write the chart's templates into the directory given."""
    if len(arguments) != 1:
        print("usage: python -m api.crds DIR", file=sys.stderr)
        return 2
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in templates().items():
        (directory / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
