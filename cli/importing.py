"""``seiretsu import``: pods and jobs that run, and that no queue has seen, get a Workload and their quota.

Nothing is written without ``--dry-run=false`` or ``--apply``, and nothing while one of them cannot be taken in. Options
and mapping files are those of Kueue's importer. What is decided is in ``core.importing``, the writes are in
``cli.import_writes``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from api import quantity, resources, syntax
from api.objects import Raw, Resource, key_of
from cli import live, named, target
from cli.import_writes import ChangedError, ImportWriter, NotBegunError, Rate, failure
from cli.manifests import Document
from cli.scenario import LIVE
from cli.table import columns
from cli.target import As, AsGroup, ContextOption, FailedError, Kubeconfig, UnreadableError, UsageError
from cli.verbs.session import answered
from cli.world import ConfiguredRules, World, rules_of_cluster, without_variants
from cli.writer import ObjectWriter
from controller.kube.errors import ApiError
from core.importing import mapping
from core.importing.flavors import listed
from core.importing.judge import (
    ImportJudgement,
    ImportRules,
    JobImport,
    LeftAlone,
    NotPossible,
    QueueTotal,
    judge,
    queue_totals,
)
from core.importing.mapping import MappingError, MappingRule
from core.importing.running import RunningJob, abandoned, jobs_of, read_resources
from core.jobs.kinds import POD
from core.wire import decode

QPS: Final = 50.0
_UNENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_Pairs = dict[str, str]


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import does in a cluster."""

    judged: tuple[ImportJudgement, ...]
    totals: tuple[QueueTotal, ...]
    leftovers: tuple[Raw, ...]
    """Workloads of an earlier import whose jobs have ended."""

    @property
    def imports(self) -> list[JobImport]:
        """The jobs that are taken in."""
        return [each for each in self.judged if isinstance(each, JobImport)]

    @property
    def problems(self) -> list[NotPossible]:
        """The jobs that cannot be taken in."""
        return [each for each in self.judged if isinstance(each, NotPossible)]


def command(
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", metavar="NAMESPACE,...", help="In which namespaces; may be repeated."),
    ] = None,
    queue_label: Annotated[
        str, typer.Option("--queuelabel", metavar="LABEL", help="The label whose value chooses the LocalQueue.")
    ] = "",
    queue_mapping: Annotated[
        list[str] | None,
        typer.Option(
            "--queuemapping", metavar="VALUE=LOCALQUEUE,...", help="The LocalQueue of each value; may be repeated."
        ),
    ] = None,
    mapping_file: Annotated[
        Path | None, typer.Option("--queuemapping-file", help="A file with rules instead of one label.")
    ] = None,
    add_labels: Annotated[
        list[str] | None,
        typer.Option("--add-labels", metavar="LABEL=VALUE,...", help="Labels for what is imported, in addition."),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude-resource-prefixes",
            metavar="PREFIX,...",
            help="Resources without quota; else as --config has them.",
        ),
    ] = None,
    dry_run: Annotated[
        str, typer.Option("--dry-run", metavar="true|false", help="false: import. Else it is only checked.")
    ] = "true",
    apply: Annotated[bool, typer.Option("--apply", help="The same as --dry-run=false.")] = False,
    qps: Annotated[float, typer.Option("--qps", help="So many requests a second at most.")] = QPS,
    config: Annotated[Path | None, typer.Option(help="The Configuration that serve runs with.")] = None,
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    output: named.OutputOption = "text",
) -> None:
    """Take in running pods and jobs that no queue has seen; checks only, without --dry-run=false."""
    with target.failing("import", output):
        writes = apply or _is_false(dry_run)
        if qps <= 0:
            raise UsageError(f"--qps {qps:g}: a number above 0")
        where = list(dict.fromkeys(_listed(namespaces)))
        if not where:
            raise UsageError("name at least one namespace: -n team-a,team-b")
        labels, chosen = _labels(_pairs("--add-labels", add_labels)), _rules(config, exclude)
        wanted = _mapping(queue_label, _pairs("--queuemapping", queue_mapping), mapping_file)
        here = target.target(kubeconfig, context, as_user, as_group).connection()
        world = _world(live.objects(here, live.kinds(chosen.controller)), chosen)
        with ObjectWriter(here) as client, answered(here.server):
            frameworks = chosen.controller.frameworks if config is not None else None
            plan = planned(client, world, where, wanted, labels, frameworks)
            if output == "text":
                typer.echo(text(plan), nl=False)
            problems = _problems(plan)
            if not problems and writes:
                problems = _written(client, world, plan, Rate(qps), labels, reported=output == "text")
        if output != "text":
            typer.echo(target.written(plain(plan, written=writes and not plan.problems), output), nl=False)
        if problems:
            raise FailedError("\n".join(problems))
        if not writes and output == "text":
            typer.echo("Nothing was written: --dry-run=false imports")


def planned(
    client: ObjectWriter,
    world: World,
    namespaces: Sequence[str],
    wanted: tuple[MappingRule, ...],
    labels: _Pairs,
    frameworks: Collection[str] | None,
) -> ImportPlan:
    """Returns what importing means for each job and pod of these namespaces."""
    nodes = _all(client, resources.NODES)
    asked = ImportRules(
        mapping=wanted,
        lookup=world.lookup,
        nodes={raw["metadata"]["name"]: decode.node(raw).labels for raw in nodes},
        compose=world.manifest,
        read=world.read,
        manages=world.manages,
        frameworks=frameworks,
        labels=labels,
        enabled=world.rules.admission.enabled,
    )
    kinds = asked.kinds
    judged: list[ImportJudgement] = []
    leftovers: list[Raw] = []
    for namespace in namespaces:
        objects = [raw for each in read_resources(kinds) for raw in _all(client, each, namespace)]
        pods = _all(client, POD.resource, namespace, fields=_UNENDED)
        workloads = [raw for key, raw in world.raws.items() if key.namespace == namespace]
        found = list(jobs_of(objects, pods, workloads, kinds))
        judged += [judge(job, asked) for job in found]
        leftovers += abandoned(workloads, found, world.read, kinds)
    imports = [each for each in judged if isinstance(each, JobImport)]
    return ImportPlan(tuple(judged), tuple(queue_totals(imports, world.lookup)), tuple(leftovers))


def _written(
    client: ObjectWriter, world: World, plan: ImportPlan, rate: Rate, labels: _Pairs, *, reported: bool
) -> list[str]:
    """Makes the writes of a plan; returns what failed."""
    writer = ImportWriter(client, rate, world.read, labels)
    failures: list[tuple[str, str]] = []
    for workload in plan.leftovers:
        try:
            writer.discard(workload)
        except (ApiError, ChangedError) as error:
            failures.append((f"Workload {key_of(workload)}", failure(error)))
    for each in plan.imports:
        try:
            writer.write(each)
        except (ApiError, ChangedError, NotBegunError) as error:
            failures.append((str(each.job), failure(error)))
        else:
            if reported:
                typer.echo(f"{each.job} imported into ClusterQueue {each.admission.cluster_queue}")
    return [f"{why} ({listed(jobs)})" for why, jobs in _grouped(failures)]


def _world(objects: Iterable[Raw], chosen: ConfiguredRules) -> World:
    world = World([Document(raw, LIVE) for raw in objects], chosen)
    world.enter_workloads()
    return world


def _all(client: ObjectWriter, resource: Resource, namespace: str = "", fields: str = "") -> list[Raw]:
    found = client.list(resource, namespace, fields=fields)
    if found is None:
        where = f" in namespace {namespace}" if namespace else ""
        raise UnreadableError(f"you may not list {resource.plural}{where}: ask for the right")
    return found


# What is asked for.


def _rules(config: Path | None, exclude: list[str] | None) -> ConfiguredRules:
    """The rules of the Configuration, with more resources that have no quota."""
    chosen = without_variants(rules_of_cluster(config))
    controller = chosen.controller
    prefixes = (*controller.reading.excluded_prefixes, *_listed(exclude))
    return replace(
        chosen, controller=replace(controller, reading=replace(controller.reading, excluded_prefixes=prefixes))
    )


def _mapping(label: str, queues: _Pairs, file: Path | None) -> tuple[MappingRule, ...]:
    if (not label) != (not queues):
        raise UsageError("--queuelabel and --queuemapping are used together")
    if (not label) == (file is None):
        raise UsageError("name either --queuemapping-file, or --queuelabel with --queuemapping")
    try:
        if file is None:
            return mapping.of_label(label, queues)
        return mapping.of_document(yaml.safe_load(file.read_text()))
    except MappingError as error:
        origin = file or "--queuemapping"
        raise UsageError("\n".join(f"{origin}: {mistake}" for mistake in error.mistakes)) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        message = " ".join(str(getattr(error, "strerror", None) or error).split())
        raise UsageError(f"{file}: {message}") from None


def _is_false(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise UsageError(f"--dry-run {word}: true or false")
    return word.lower() == "false"


def _listed(values: Iterable[str] | None) -> list[str]:
    return [part for value in values or () for part in value.split(",") if part]


def _pairs(option: str, values: Iterable[str] | None) -> _Pairs:
    found = {}
    for each in _listed(values):
        key, equals, value = each.partition("=")
        if not equals:
            raise UsageError(f"{option} {each}: KEY=VALUE")
        found[key] = value
    return found


def _labels(labels: _Pairs) -> _Pairs:
    mistakes = [
        f"--add-labels {key}={value}: {mistake}"
        for key, value in labels.items()
        for mistake in (*syntax.qualified_name(key), *syntax.label_value(value))
    ]
    if mistakes:
        raise UsageError("\n".join(mistakes))
    return labels


# What people and programs read.


def text(plan: ImportPlan) -> str:
    """Returns a plan for a terminal: each job that is taken in, what is to be known, and what the queues get."""
    lines = [""]
    if plan.imports:
        head = ("NAMESPACE", "KIND", "NAME", "LOCALQUEUE", "CLUSTERQUEUE", "FLAVORS", "NEXT")
        lines[0] = columns([head, *map(_row, plan.imports)])
    for note, jobs in _grouped((str(each.job), note) for each in plan.imports for note in each.notes):
        lines.append(f"Note: {note} ({listed(jobs)})\n")
    for total in plan.totals:
        lines.append(f"{_sentence(total)}\n")
    if plan.leftovers:
        lines.append(f"{len(plan.leftovers)} Workloads of an earlier import, whose jobs have ended, are deleted\n")
    for why, jobs in _grouped((str(each.job), each.text) for each in plan.judged if isinstance(each, LeftAlone)):
        lines.append(f"Left alone: {why} ({listed(jobs)})\n")
    if not plan.imports and not plan.problems:
        lines.append("Nothing is to be imported\n")
    return "".join(lines)


def _row(each: JobImport) -> tuple[str, ...]:
    flavors = sorted({flavor for pod_set in each.admission.pod_sets for flavor in pod_set.flavors.values()})
    queue = each.admission.cluster_queue
    return (
        each.job.key.namespace,
        each.job.kind.kind,
        each.job.key.name,
        each.queue,
        queue,
        ",".join(flavors),
        each.step.value,
    )


def _sentence(total: QueueTotal) -> str:
    before, after, nominal = (
        quantity.text(total.resource, amount) for amount in (total.before, total.before + total.added, total.nominal)
    )
    more = ": until less is used it starts no other job, and other queues may reclaim what it borrows"
    return (
        f"ClusterQueue {total.cluster_queue} uses {after} {total.resource} of flavor {total.flavor} after it, {before}"
        f" before; its nominal quota is {nominal}{more if total.exceeds else ''}"
    )


def _problems(plan: ImportPlan) -> list[str]:
    found = list(_grouped((str(each.job), each.text) for each in plan.problems))
    if not found:
        return []
    count = len(plan.problems)
    return [*(f"{why} ({listed(jobs)})" for why, jobs in found), f"{count} cannot be imported: nothing was written"]


def _grouped(found: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """The sentences, each with the jobs that it is about."""
    groups: dict[str, list[str]] = {}
    for job, why in found:
        groups.setdefault(why, []).append(job)
    yield from groups.items()


def plain(plan: ImportPlan, *, written: bool) -> Raw:
    """Returns a plan as an object with a version."""
    value = {
        "written": written,
        "imports": [
            {
                **_named(each.job),
                "localQueue": each.queue,
                "clusterQueue": each.admission.cluster_queue,
                "workload": each.manifest["metadata"]["name"],
                "podSets": [
                    {"name": given.name, "count": given.count, "flavors": dict(given.flavors)}
                    for given in each.admission.pod_sets
                ],
                "next": each.step.value,
                "notes": list(each.notes),
            }
            for each in plan.imports
        ],
        "problems": [{**_named(each.job), "message": each.text} for each in plan.problems],
        "leftAlone": [{**_named(each.job), "reason": each.text} for each in plan.judged if isinstance(each, LeftAlone)],
        "discarded": [str(key_of(raw)) for raw in plan.leftovers],
        "queues": [
            {
                "clusterQueue": total.cluster_queue,
                "flavor": total.flavor,
                "resource": total.resource,
                "before": quantity.text(total.resource, total.before),
                "after": quantity.text(total.resource, total.before + total.added),
                "nominal": quantity.text(total.resource, total.nominal),
            }
            for total in plan.totals
        ],
    }
    return target.document("Import", value)


def _named(job: RunningJob) -> dict[str, Any]:
    return {"namespace": job.key.namespace, "kind": job.kind.kind, "name": job.key.name}
