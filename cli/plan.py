"""``seiretsu plan``: what files would change in a cluster, and whom that hits, before they are applied.

Nothing is written: the objects are read once, the files are entered into a second copy, and ``core.forecast`` compares
the two. Without ``--from-cluster`` the files are compared with others (``--base``): a pipeline needs no cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from api.names import Kind
from api.objects import Raw
from cli import learned, live, named, scenario, target
from cli.learned import NOTHING, Remembered
from cli.manifests import Document
from cli.scenario import Scenario
from cli.target import As, AsGroup, ContextOption, Kubeconfig
from cli.world import ConfiguredRules, World, rules, rules_of_cluster, without_variants
from core.feedback.affected import facts
from core.forecast.edits import ObjectEdit, PriorityClass, edited
from core.forecast.effects import effects, with_forecasts
from core.forecast.forecast import forecast
from core.forecast.run_times import RunTimes, constant
from core.forecast.situation import Situation, around
from core.model.effects import Effects, MovedStart
from core.model.forecast import span
from core.workload.priority import value_of

CHANGES: Final = 2
"""The exit code where somebody is hit, as terraform's ``plan -detailed-exitcode``."""
BUDGET: Final = 20_000
"""The moments that each of the two forecasts plays."""
_OWN: Final = ("metadata", "status", "apiVersion", "kind")
_CLASS: Final = Kind.WORKLOAD_PRIORITY_CLASS
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """An object that the files add or change; ``fields`` are path, old and new value."""

    what: str
    label: str
    origin: str
    fields: tuple[tuple[str, Any, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """All that the files change, whom that hits, and what admission says of the files."""

    changes: tuple[PlannedChange, ...]
    effects: Effects
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


def command(
    files: Annotated[
        list[Path], typer.Option("--filename", "-f", help="Manifests to apply, or folders of them; may be repeated.")
    ],
    base: Annotated[
        list[Path] | None, typer.Option(help="Manifests to compare with; without --from-cluster. May be repeated.")
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Compare with a live cluster, Workloads included.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    run_for: Annotated[
        str, typer.Option(help="How much longer each workload runs; else as long as those like it that finished.")
    ] = "",
    config: Annotated[Path | None, typer.Option(help="The Configuration that serve runs with.")] = None,
    output: named.OutputOption = "text",
) -> None:
    """Show what manifests would change, and whom that hits; nothing is written."""
    with target.failing("plan", output, ValueError):
        chosen = without_variants(rules_of_cluster(config) if from_cluster else rules(config))
        given = constant(scenario.duration(run_for)) if run_for else None
        if from_cluster and base:
            raise target.UsageError("--base and --from-cluster exclude each other: both are what to compare with")
        now = float(int(time.time()))
        there = scenario.read(base or [])
        before = NOTHING
        if from_cluster:
            here = target.target(kubeconfig, context, as_user, as_group).connection()
            there = scenario.live(there, live.objects(here, live.kinds(chosen.controller)), now)
            before = learned.remembered(here, chosen.controller.namespace)
        found = plan(there, scenario.read(files), chosen, now, given, before)
    typer.echo(text(found) if output == "text" else target.written(plain(found), output).rstrip())
    raise typer.Exit(CHANGES if found.effects.harmful else target.DONE)


def plan(
    before: Scenario,
    files: Scenario,
    chosen: ConfiguredRules,
    now: float,
    run_times: RunTimes | None = None,
    known: Remembered = NOTHING,
) -> Planned:
    """Returns what the files change in a cluster with these objects; ``known`` is what the controller remembers of run
    times. Raises ScenarioError for mistakes in them.
    """
    after = scenario.live(files, [document.raw for document in before.objects], now)
    made = changes(before.objects, files.objects)
    was, learned_times = _situation(before.objects, chosen, now, known)
    world = World(after.objects, chosen)
    world.enter_workloads()
    then = _with_classes(_about(world, now), before.objects, files.objects)
    found = effects(was, then)
    times = run_times or learned_times
    if was.waiting and made:
        found = with_forecasts(found, [forecast(was, times, budget=BUDGET)], [forecast(then, times, budget=BUDGET)])
    jobs = [f"{len(files.submissions)} jobs in the files are not compared: see seiretsu simulate"]
    return Planned(made, found, tuple(world.warnings), (*files.remarks, *(jobs if files.submissions else ())))


def _situation(
    objects: Iterable[Document], chosen: ConfiguredRules, now: float, known: Remembered
) -> tuple[Situation, RunTimes]:
    world = World([Document(each.raw, scenario.LIVE) for each in objects], chosen)
    world.enter_workloads()
    return _about(world, now), known.run_times(world.workloads)


def _about(world: World, now: float) -> Situation:
    state = world.state
    return around(state, state.reservations.arenas, state.pending.local_queues, now, world.settings.life)


def _with_classes(about: Situation, before: Iterable[Document], files: Iterable[Document]) -> Situation:
    """The situation in which workloads follow the new values of their WorkloadPriorityClasses."""
    old = {each.raw["metadata"]["name"]: each.raw for each in before if each.raw["kind"] == _CLASS}
    for raw in (each.raw for each in files if each.raw["kind"] == _CLASS and each.raw["metadata"]["name"] in old):
        name = raw["metadata"]["name"]
        was, then = (PriorityClass(name, value_of(each)) for each in (old[name], raw))
        about = edited(about, ObjectEdit(was, then))
    return about


def changes(before: Sequence[Document], files: Iterable[Document]) -> tuple[PlannedChange, ...]:
    """Returns what each object of the files adds or changes, in their order."""
    there = {scenario.identity_of(each.raw): each.raw for each in before}
    found = []
    for document in files:
        old, new = there.get(scenario.identity_of(document.raw)), document.raw
        if old is None:
            found.append(PlannedChange("add", document.label, document.origin))
        elif fields := tuple(_differences(_body(old), _body(new), ())):
            found.append(PlannedChange("change", document.label, document.origin, fields))
    return tuple(found)


def _body(raw: Raw) -> Raw:
    """The part of an object that people write."""
    return {key: value for key, value in raw.items() if key not in _OWN}


def _differences(old: Any, new: Any, path: _Path) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            yield from _differences(old.get(key), new.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, (*path, place))
    elif old != new:
        yield _dotted(path), old, new


def _dotted(path: _Path) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path).lstrip(".")


# What people and programs read.


def text(found: Planned) -> str:
    """Returns the plan for a terminal."""
    lines = []
    for change in found.changes:
        lines.append(f"{'+' if change.what == 'add' else '~'} {change.label}  ({change.origin})")
        lines += [f"    {path}: {_value(old)} -> {_value(new)}" for path, old, new in change.fields]
    if not found.changes:
        lines.append("Nothing changes: the objects are there already.")
    lines += ["", *_hits(found.effects)]
    for title, texts in (("Warnings", found.warnings), ("Notes", found.remarks)):
        if texts:
            lines += ["", title, *(f"  {each}" for each in texts)]
    return "\n".join(lines)


def _value(value: Any) -> str:
    return "(none)" if value is None else value if isinstance(value, str) else json.dumps(value)


def _hits(found: Effects) -> Iterator[str]:
    looked = f"{found.running} running and {found.waiting} waiting workloads"
    if not found.any:
        yield f"It hits nobody: {looked} go on as before."
        return
    yield f"Whom it hits, of {looked}:"
    stops = {each.key: each for each in found.stopped}
    for sentence, keys in facts(found):
        yield f"  {sentence}"
        for key in keys:
            stop = stops.get(key) if "stop" in sentence else None
            by = f" for {stop.preemptor.namespace}/{stop.preemptor.name}" if stop and stop.preemptor else ""
            yield f"    {key.namespace}/{key.name}" + (f": {stop.reason}{by}" if stop else "")
    for word, moves in (("later", found.later), ("sooner", found.sooner)):
        if moves:
            yield f"  {len(moves)} waiting {'starts' if len(moves) == 1 else 'start'} {word}"
            yield from (f"    {_moved(move)}" for move in moves)


def _moved(move: MovedStart) -> str:
    then = "not known" if move.after is None else f"about {span(move.after)}"
    return f"{move.key.namespace}/{move.key.name}: about {span(move.before)} -> {then}"


def plain(found: Planned) -> Raw:
    """Returns the plan as an object with a version."""
    hits = found.effects
    value = {
        "changes": [
            {
                "action": change.what,
                "object": change.label,
                "origin": change.origin,
                "fields": [{"path": path, "old": old, "new": new} for path, old, new in change.fields],
            }
            for change in found.changes
        ],
        "worseForAnybody": hits.harmful,
        "running": hits.running,
        "waiting": hits.waiting,
        "stopped": [
            {"workload": _name(stop.key), "reason": stop.reason, "preemptor": stop.preemptor and _name(stop.preemptor)}
            for stop in hits.stopped
        ],
        "loseGuarantee": [*map(_name, hits.exposed)],
        "getGuarantee": [*map(_name, hits.covered)],
        "start": [*map(_name, hits.starting)],
        "neverStart": [*map(_name, hits.never)],
        "canStartLater": [*map(_name, hits.possible)],
        "startLater": [*map(_move, hits.later)],
        "startSooner": [*map(_move, hits.sooner)],
        "warnings": list(found.warnings),
        "notes": list(found.remarks),
    }
    return target.document("Plan", value)


def _name(key: Any) -> str:
    return f"{key.namespace}/{key.name}"


def _move(move: MovedStart) -> Raw:
    return {"workload": _name(move.key), "beforeSeconds": move.before, "afterSeconds": move.after}
