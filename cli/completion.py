"""What a shell completes: names that exist in the cluster, options, and their values.

A completion that fails completes nothing, and one that takes longer than two seconds is given up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import typer

from api import resources
from api.names import Label
from api.objects import Raw, Resource
from cli.reader import Reader
from cli.target import ChosenCluster, FailedError
from cli.verbs.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, Type, type_of
from cli.verbs.printing import FORMATS
from controller.kube import config
from controller.kube.errors import ApiError
from core.jobs.kinds import ALL, BATCH_JOB
from core.jobs.pod_owners import POD_OWNERS

Completer = Callable[[Raw, str], list[str]]
"""Returns what a word may become; it is given the options before it."""
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


def of_type(given: Raw, kind: Type, incomplete: str, verb: str = "") -> list[str]:
    """Returns the objects of a type whose name begins so: for ``stop`` those that are not stopped, for ``resume`` those
    that are.
    """
    found = _objects(given, kind.resource)
    if verb in ("stop", "resume"):
        found = [each for each in found if _stopped(each) == (verb == "resume")]
    return _begin([each["metadata"]["name"] for each in found], incomplete)


def _stopped(raw: Raw) -> bool:
    spec = raw.get("spec") or {}
    return spec.get("active") is False or spec.get("stopPolicy", "None") != "None"


def _begin(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete)})


def of_kubeconfig(section: str) -> Completer:
    """Returns what completes a name of a section of the kubeconfig."""

    def found(given: Raw, incomplete: str) -> list[str]:
        names: list[str] = []
        for document in _documents(given):
            names += [str(each.get("name")) for each in document.get(section) or () if isinstance(each, dict)]
        return _begin(names, incomplete)

    return found


def _documents(given: Raw) -> Iterator[Raw]:
    """The kubeconfigs that can be read."""
    named = given.get("kubeconfig") or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    for path in str(named).split(os.pathsep):
        try:
            yield config.parsed(Path(path), Path(path).read_text())
        except (config.ConfigError, OSError, UnicodeDecodeError):
            continue


def one_of(*words: str) -> Completer:
    """Returns what completes one of some words."""
    return lambda given, incomplete: _begin(words, incomplete)


def _for(given: Raw, incomplete: str) -> list[str]:
    """TYPE/NAME of ``--for``."""
    if "/" in incomplete:
        return jobs(given, incomplete)
    return _begin([f"{each}/" for each in _kinds() if each != "workload"], incomplete)


_POLICIES = ("Never", "LowerPriority", "Any")
VALUES: dict[str, Completer] = {
    **dict.fromkeys(("--namespace", "-n"), namespaces),
    "--context": of_kubeconfig("contexts"),
    "--cluster": of_kubeconfig("clusters"),
    "--user": of_kubeconfig("users"),
    **dict.fromkeys(("--clusterqueue", "-c"), lambda given, begin: of_type(given, CLUSTER_QUEUE, begin)),
    **dict.fromkeys(("--localqueue", "-q"), lambda given, begin: of_type(given, LOCAL_QUEUE, begin)),
    "--for": _for,
    "--status": one_of("all", "pending", "quotareserved", "admitted", "finished"),
    "--active": one_of("true", "false"),
    "--dry-run": one_of("none", "client", "server"),
    "--queuing-strategy": one_of("BestEffortFIFO", "StrictFIFO"),
    "--reclaim-within-cohort": one_of(*_POLICIES),
    "--preemption-within-cluster-queue": one_of("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
}
"""What the value of an option may be. That of ``-o`` depends on the command."""
_OUTPUT = ("--output", "-o")


def of_option(before: Sequence[str], last: str) -> list[str] | None:
    """Returns what the value of an option may become; None if the last word is no value."""
    option, equals, begin = last.partition("=")
    if not equals:
        option, begin = (before[-1] if before else ""), last
    prefix = f"{option}=" if equals else ""
    if option in _OUTPUT:
        formats = ("text", "json", "yaml") if _verb(before) in ("explain", "when", "why-preempted") else FORMATS
        return [prefix + each for each in formats if each.startswith(begin)]
    if option not in VALUES:
        return None
    return [prefix + each for each in VALUES[option](_given(before), begin)]


def _verb(words: Sequence[str]) -> str:
    return next((word for word in words if not word.startswith("-")), "")


def options(command: Callable[..., None] | None, incomplete: str) -> list[str]:
    """Returns the options of a command that begin so."""
    if command is None:
        return []
    app = typer.Typer()
    app.command()(command)
    known = [word for each in typer.main.get_command(app).params for word in each.opts]
    return sorted(word for word in [*known, "--help"] if word.startswith(incomplete) and word.startswith("-"))


def names(words: Sequence[str], incomplete: str) -> list[str]:
    """Returns what a name after a command may become: a job, or an object of the type that the command names."""
    verb, *rest = words
    kind = type_of(rest[0]) if rest and verb in VERBS else None
    if verb == "create" or (verb in VERBS and kind is None):
        return []
    given = _given(rest)
    if verb == "top":
        return of_type(given, CLUSTER_QUEUE, incomplete)
    if kind is None:
        return jobs(given, incomplete)
    return [each for each in of_type(given, kind, incomplete, verb) if each not in rest]


VERBS = ("get", "describe", "edit", "patch", "delete", "stop", "resume", "create", "list")


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
    return sorted(each["metadata"]["name"] for each in _objects(given, resource, labels))


def _objects(given: Raw, resource: Resource | None, labels: str = "") -> list[Raw]:
    """The first objects of a kind; none if they cannot be read."""
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
            return reader.list(resource, namespace, labels=labels, most=MOST) or []
    except (ApiError, FailedError, OSError):
        return []
