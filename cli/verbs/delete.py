"""``kubectl seiretsu delete workload``: deletes the jobs of Workloads, which deletes the Workloads.

The jobs are named and confirmed first. A Workload without a job is deleted itself. Deletion of other types is kubectl's
(``cli.verbs.passthrough``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

import typer

from api import resources
from api.objects import Raw, Resource, key_of
from cli.target import FailedError, UsageError
from cli.verbs.group import group
from cli.verbs.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from cli.verbs.printing import clean
from cli.verbs.session import Session, listed, not_found, verb
from controller.kube.errors import ApiError, Conflict

MOST_NAMED: Final = 20
"""So many workloads are named before the confirmation."""


class OwnedJob(NamedTuple):
    """A job that a Workload belongs to."""

    resource: Resource
    name: str
    uid: str

    def __str__(self) -> str:
        """Returns it as kubectl prints it: jobs.batch/train."""
        return clean(f"{self.resource.plural}{f'.{self.resource.group}' if self.resource.group else ''}/{self.name}")


@verb("delete", namespaced=True, everywhere=True, writes=True, prints=False)
def workload(
    opened: Session,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Their names.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    every: Annotated[bool, typer.Option("--all", help="All Workloads of the namespace.")] = False,
) -> None:
    """Delete Workloads and their jobs."""
    wanted = names or []
    if not every and not wanted:
        raise UsageError("name a Workload, or use --all")
    if every and wanted:
        raise UsageError("name cannot be provided when a selector is specified: leave out either --all or the names")
    if not opened.where and wanted:
        raise UsageError("a resource cannot be retrieved by name across all namespaces: use -n instead of -A")
    missing: list[str] = []
    found = listed(opened.client, resources.WORKLOADS, opened.where)[0] if every else _named(opened, wanted, missing)
    jobs = [(raw, owned) for raw in found if (owned := _jobs(raw, missing)) is not None]
    if any(owned for _, owned in jobs) and not yes and opened.dry_run == "none":
        typer.echo(confirmation(jobs), nl=False)
        if not _confirmed():
            typer.echo("Deletion is canceled")
            return
    for raw, owned in jobs:
        _delete(opened, raw, owned)
    if missing:
        raise FailedError("\n".join(missing))


def _passed() -> None:
    """Pass it to kubectl."""


app = group([(WORKLOAD, workload), (CLUSTER_QUEUE, _passed), (LOCAL_QUEUE, _passed), (RESOURCE_FLAVOR, _passed)])


def _named(opened: Session, wanted: Iterable[str], missing: list[str]) -> list[Raw]:
    """The Workloads of some names; a sentence about each that does not exist goes to ``missing``."""
    found = []
    for name in dict.fromkeys(wanted):
        try:
            found.append(opened.client.get(resources.WORKLOADS.path(opened.namespace, name)))
        except ApiError as error:
            if error.status != 404:
                raise
            missing.append(not_found(opened.client, resources.WORKLOADS, opened.namespace, name))
    return found


def _jobs(raw: Raw, unknown: list[str]) -> list[OwnedJob] | None:
    """The owners of a Workload. Who may write a Workload writes its owners, too, so an owner of a kind that is no job
    is not deleted: then None, and a sentence goes to ``unknown``.
    """
    from core.jobs.owners import KNOWN

    found = []
    for each in raw["metadata"].get("ownerReferences") or ():
        group_name, _, version = str(each["apiVersion"]).rpartition("/")
        known = KNOWN.get((group_name, str(each["kind"])))
        if known is None:
            owner = clean(f"{each['kind']} {each['name']} of {each['apiVersion']}")
            unknown.append(
                f"Workload {key_of(raw)} belongs to {owner}, which is no job that is known: use kubectl delete"
            )
            return None
        found.append(OwnedJob(known._replace(version=version), str(each["name"]), str(each["uid"])))
    return found


def confirmation(jobs: Sequence[tuple[Raw, Sequence[OwnedJob]]]) -> str:
    """Returns what is deleted beside the Workloads."""
    lines = [
        f"  - {', '.join(map(str, owned))} associated with the {key_of(raw)} workload" for raw, owned in jobs if owned
    ]
    more = [f"  - and the jobs of {len(lines) - MOST_NAMED} other workloads"] if len(lines) > MOST_NAMED else []
    return "\n".join(["This operation will also delete:", *lines[:MOST_NAMED], *more]) + "\n"


def _confirmed() -> bool:
    typer.echo("Do you want to proceed (y/n)? ", nl=False)
    try:
        return input().strip().lower() == "y"
    except EOFError:
        typer.echo()
        return False


def _delete(opened: Session, raw: Raw, owned: Sequence[OwnedJob]) -> None:
    """Deletes the jobs of a Workload, or the Workload that has none. One that has gone meanwhile is deleted; another
    object that has its name since then is kept.
    """
    namespace, name, uid = (raw["metadata"][key] for key in ("namespace", "name", "uid"))
    own = OwnedJob(resources.WORKLOADS, name, uid)
    for each in owned or [own]:
        if opened.dry_run != "client":
            try:
                opened.client.delete(each.resource, namespace, each.name, each.uid)
            except Conflict:
                raise FailedError(f"{each} was created again meanwhile: it is kept") from None
            except ApiError as error:
                if error.status != 404:
                    raise
        shown = f"workload.{resources.WORKLOADS.group}/{name}" if each is own else str(each)
        done = "" if opened.dry_run == "none" else f" ({opened.dry_run} dry run)"
        typer.echo(f"{shown} deleted{done}")
