"""Renders the chart with the real helm; no cluster is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from api.objects import Raw
from devcluster import build

CHART = Path(__file__).parents[2] / "charts" / "seiretsu"
VALIDATING_SERVED = "--api-versions admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
POLICIES_SERVED = f"{VALIDATING_SERVED} --api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"


def helm(*arguments: str, given: Raw | None = None, name: str = "helm") -> subprocess.CompletedProcess[str]:
    """Runs helm 4, or ``helm3``; ``given`` are values, read from its standard input."""
    words: list[str | Path] = [build.ensure(name)[name], *arguments]
    words += ["--values", "-"] if given is not None else []
    text = yaml.safe_dump(given) if given is not None else None
    return subprocess.run(words, input=text, capture_output=True, text=True, check=False)


def rendered(given: Raw | None = None, *, namespace: str = "queues", served: str = "", name: str = "helm") -> str:
    """Returns what helm renders of these values."""
    words = ("template", "seiretsu", str(CHART), "--namespace", namespace, *served.split())
    done = helm(*words, given=given or {}, name=name)
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(text: str) -> list[Raw]:
    """Returns the objects of a rendered text."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def refusal(given: Raw, name: str = "helm") -> str:
    """Returns the error with which helm refuses these values."""
    done = helm("template", "seiretsu", str(CHART), given=given, name=name)
    assert done.returncode, "helm accepts these values"
    return done.stderr


def notes(given: Raw | None = None) -> str:
    """Returns what helm prints after an installation with these values, with line breaks as spaces."""
    done = helm("install", "seiretsu", str(CHART), "--namespace", "queues", "--dry-run=client", given=given or {})
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.partition("NOTES:")[2].split())


def only(found: list[Raw], kind: str, name: str = "") -> Raw:
    """Returns the only object of a kind, or of a kind and name."""
    (one,) = [each for each in found if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    return one
