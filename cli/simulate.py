"""``seiretsu simulate``: shows which Jobs would be admitted when, without a cluster."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from api.objects import Raw
from cli import fleet, learned, live, racks, report, scenario
from cli.learned import TimesOf
from cli.manifests import ScenarioError
from cli.page import page
from cli.picture import pictures
from cli.simulator import Played, short
from cli.target import As, AsGroup, ContextOption, Kubeconfig, document, failing, target, written
from cli.world import rules, rules_of_cluster, without_variants
from core.forecast.run_times import constant
from core.model.forecast import span

Format = Literal["table", "json", "yaml"]
NO_VARIANTS = "concurrent admission is not played: each workload waits itself, for all flavors of its ClusterQueue"


def command(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Manifests (.yaml, .json), traces (.csv), or folders of them.")
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Start from what is in a live cluster, Workloads included.")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    run_for: Annotated[
        str,
        typer.Option(
            help="How much longer each Workload runs; else, with --from-cluster, as those like it that finished."
        ),
    ] = "",
    until: Annotated[str, typer.Option(help="Stop at this time, e.g. 8h.")] = "",
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print the result.")] = "table",
    plot: Annotated[Path | None, typer.Option(help="Draw it: out.html or out.svg.")] = None,
    what_if: Annotated[
        Path | None,
        typer.Option(
            help="Manifests to merge in; both outcomes are shown. With --worker they change the manager alone."
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A Configuration, as of seiretsu serve.")] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FLAVOR=2x10x64,cpu=96",
            help="Nodes of a flavor with a topology: how many at each of its levels, and what one has.",
        ),
    ] = None,
    down: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LABEL=VALUE",
            help="Also without the nodes that have this label, e.g. a rack, from the start; both outcomes are shown.",
        ),
    ] = None,
    worker: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH", help="A worker cluster of MultiKueue: its manifests, or a kubeconfig."),
    ] = None,
) -> None:
    """Play Jobs on queues with a virtual clock, with the same rules as the controller."""
    gc.disable()  # a short life, and nearly all that is made in it stays: to look for garbage is a fifth of the time
    with failing("simulate", output, ValueError):
        chosen = rules_of_cluster(config) if from_cluster else rules(config)
        if chosen.controller.policy.concurrent_admission:
            chosen = without_variants(chosen)
            typer.echo(f"seiretsu simulate: {NO_VARIANTS}", err=True)
        end = scenario.duration(until) if until else None
        given = scenario.duration(run_for) if run_for else None
        times: TimesOf = short if given is None else lambda workloads: constant(given)
        if not files and not from_cluster:
            raise ScenarioError("name files to simulate, or --from-cluster")
        base, now = scenario.read(files or []), float(int(time.time()))
        workers = fleet.read(worker or [], now)
        named, assumed, known = tuple(workers), "", learned.NOTHING
        if from_cluster:
            here = target(kubeconfig, context, as_user, as_group).connection()
            objects = live.objects(here, live.kinds(chosen.controller))
            base = scenario.live(base, objects, now)
            if given is None:
                known = learned.remembered(here, chosen.controller.namespace)
                times = known.run_times
            if fleet.dispatches(base):
                base, workers = fleet.live_workers(base, workers, here, chosen, now)
        base = scenario.with_objects(base, racks.nodes(nodes or [], base.objects))
        scenarios = {"as it is": base}
        if what_if is not None or down:
            title, other = _other(base, what_if, down or [])
            scenarios[title] = other
        fleet.check(named, scenarios.values(), chosen)
        _can_draw(plot, len(scenarios))
        played = {title: fleet.play(one, workers, chosen, until=end, times=times) for title, one in scenarios.items()}
        if from_cluster:
            assumed = _assumed(next(iter(played.values())), given, known)
            for one in played.values():
                one.remarks += [f"assumed: {assumed}"] if assumed else []
    last = max(one.timeline.end for one in played.values())
    reports = {title: report.summary(one, last) for title, one in played.items()}
    _print(reports, output)
    if plot is not None:
        sources = [*(["a live cluster"] if from_cluster else []), *(file.name for file in files or [])]
        _draw(played, reports, plot, f"Simulation of {', '.join(sources)}{assumed and f', {assumed}'}")
        typer.echo(f"Drawn: {plot}", err=True)


def _assumed(played: Played, given: float | None, known: learned.Remembered) -> str:
    """How long the Workloads of the cluster are taken to run, as a clause; '' if there are none."""
    if given is not None:
        return f"each workload runs {span(given)} more (as asked for)"
    alone = f"; learned from the finished Workloads alone: {known.unseen}" if known.unseen and played.assumed else ""
    return f"{played.assumed}{alone}"


def _other(base: scenario.Scenario, what_if: Path | None, down: list[str]) -> tuple[str, scenario.Scenario]:
    """The scenario to compare with, and its title. What runs on nodes that it does not have loses them."""
    nodes = racks.hostnames(base.objects)
    titles = [f"without {' and '.join(down)}"] if down else []
    if what_if is not None:
        base, titles = scenario.changed(base, what_if), [f"with {what_if.name}", *titles]
    left = racks.without(down, base.objects)
    return ", ".join(titles), replace(base, objects=left, gone=nodes - racks.hostnames(left))


def _print(reports: dict[str, Raw], output: Format) -> None:
    if output == "table":
        for title, one in reports.items():
            typer.echo(
                f"# {title}\n{report.table(one)}" if len(reports) > 1 else report.table(one), nl=len(reports) > 1
            )
        if len(reports) > 1:
            typer.echo(f"# {' -> '.join(reports)}\n{report.comparison(*reports.values())}", nl=False)
        return
    if len(reports) == 1:
        value = document("Simulation", next(iter(reports.values())))
    else:
        value = document(
            "SimulationComparison", {"outcomes": [{"title": title, **one} for title, one in reports.items()]}
        )
    typer.echo(written(value, output), nl=False)


def _can_draw(plot: Path | None, pictures: int) -> None:
    """Reports it before the simulation starts."""
    if plot is None:
        return
    if plot.suffix not in (".svg", ".html"):
        raise ScenarioError(f"{plot}: a picture is drawn into a file that ends in .html or .svg")
    if plot.suffix == ".svg" and pictures > 1:
        raise ScenarioError(f"{plot}: two outcomes go side by side on a page: name a file that ends in .html")
    if not plot.parent.is_dir():
        raise ScenarioError(f"{plot}: there is no folder {plot.parent}")


def _draw(played: dict[str, Played], reports: dict[str, Raw], plot: Path, title: str) -> None:
    several = list(played.values())
    if plot.suffix == ".svg":
        plot.write_text(pictures(several, [title])[0])
        return
    compared = report.comparison(*reports.values()) if len(reports) > 1 else ""
    tables = {name: report.table(one) for name, one in reports.items()}
    plot.write_text(page(pictures(several), tables, title, compared))
