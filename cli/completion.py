"""Names that exist in the cluster, for the completion of a shell: jobs, Workloads, namespaces and contexts.

A completion that fails completes nothing, and one that takes longer than two seconds is given up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from api import resources
from api.names import Label
from api.objects import Raw, Resource
from cli.reader import Reader
from cli.target import ChosenCluster, FailedError
from controller.kube import config
from controller.kube.errors import ApiError
from core.jobs.kinds import ALL, BATCH_JOB
from core.jobs.pod_owners import POD_OWNERS

SECONDS = 2.0
MOST = 200
"""So many names are read."""


def jobs(given: Raw, incomplete: str) -> list[str]:
    """Returns the jobs in queues whose name begins so, and the prefixes of the other kinds; ``given`` are the options
    before it.
    """
    kind, slash, begin = incomplete.rpartition("/")
    if slash:
        found = _kinds().get(kind)
        names = _names(given, found, _labels(kind)) if found is not None else []
        return [f"{kind}/{name}" for name in names if name.startswith(begin)]
    kinds = [f"{each}/" for each in sorted(_kinds()) if each.startswith(incomplete) and incomplete]
    return [name for name in _names(given, BATCH_JOB.resource, Label.QUEUE_NAME) if name.startswith(incomplete)] + kinds


def namespaces(given: Raw, incomplete: str) -> list[str]:
    """Returns the namespaces whose name begins so."""
    return [name for name in _names(given, resources.NAMESPACES) if name.startswith(incomplete)]


def contexts(given: Raw, incomplete: str) -> list[str]:
    """Returns the contexts of the kubeconfig whose name begins so."""
    named = given.get("kubeconfig") or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    found: list[str] = []
    for path in str(named).split(os.pathsep):
        try:
            document = config.parsed(Path(path), Path(path).read_text())
        except (config.ConfigError, OSError, UnicodeDecodeError):
            continue
        found += [str(each.get("name")) for each in document.get("contexts") or () if isinstance(each, dict)]
    return sorted({name for name in found if name.startswith(incomplete)})


VALUES: dict[str, Callable[[Raw, str], list[str]]] = {
    "--namespace": namespaces,
    "-n": namespaces,
    "--context": contexts,
    "--output": lambda given, begin: [each for each in ("text", "json", "yaml") if each.startswith(begin)],
    "-o": lambda given, begin: [each for each in ("text", "json", "yaml") if each.startswith(begin)],
}
"""What the value of an option may be."""


def of_words(before: Sequence[str], last: str) -> list[str]:
    """Returns what the last word of a command may become, after its name and these words."""
    given = _given(before)
    option, equals, begin = last.partition("=")
    if equals and option in VALUES:
        return [f"{option}={each}" for each in VALUES[option](given, begin)]
    if before and before[-1] in VALUES:
        return VALUES[before[-1]](given, last)
    return jobs(given, last)


def _given(words: Sequence[str]) -> Raw:
    """The options that choose the cluster, in a command line that may be unfinished."""
    names = {"-n": "namespace"} | {f"--{each}": each for each in ("namespace", "kubeconfig", "context")}
    names |= {"--as": "as_user", "--as-group": "as_group"}
    found: Raw = {}
    for place, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in names and (equals or place + 1 < len(words)):
            found[names[option]] = value if equals else words[place + 1]
    return found


def _kinds() -> dict[str, Resource]:
    known = [*(each.resource for each in ALL), *(each.resource for each in POD_OWNERS)]
    return {**{each.kind.lower(): each for each in known}, "workload": resources.WORKLOADS}


def _labels(kind: str) -> str:
    return "" if kind == "workload" else Label.QUEUE_NAME


def _names(given: Raw, resource: Resource | None, labels: str = "") -> Iterable[str]:
    if resource is None:
        return []
    groups = given.get("as_group") or ()
    kubeconfig = Path(given["kubeconfig"]) if given.get("kubeconfig") else None
    target = ChosenCluster(
        kubeconfig,
        given.get("context") or "",
        given.get("as_user") or "",
        tuple([groups] if isinstance(groups, str) else groups),
    )
    try:
        here = target.connection()
        namespace = (given.get("namespace") or here.namespace) if resource.namespaced else ""
        with Reader(here, SECONDS) as reader:
            found = reader.list(resource, namespace, labels=labels, most=MOST) or ()
    except (ApiError, FailedError, OSError):
        return []
    return sorted(each["metadata"]["name"] for each in found)
