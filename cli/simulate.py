"""``seiretsu simulate``: who would be admitted when, without any cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer
import yaml

from cli import live, picture, report, scenario
from cli.scenario import Scenario, ScenarioError
from cli.simulator import Played, play
from core.policy import Policy

Format = Literal["table", "json", "yaml"]


def command(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Manifests (.yaml, .json), traces (.csv), or folders of them.")
    ] = None,
    from_cluster: Annotated[
        bool, typer.Option("--from-cluster", help="Start from what is in a live cluster, Workloads included.")
    ] = False,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="With --from-cluster: which; else as kubectl finds it.")
    ] = None,
    run_for: Annotated[str, typer.Option(help="With --from-cluster: how much longer each Workload runs.")] = "1m",
    until: Annotated[str, typer.Option(help="Stop at this time, e.g. 8h.")] = "",
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print the result.")] = "table",
    plot: Annotated[Path | None, typer.Option(help="Draw it: out.html or out.svg.")] = None,
    what_if: Annotated[Path | None, typer.Option(help="Manifests to merge in; both outcomes are shown.")] = None,
    config: Annotated[Path | None, typer.Option(help="Kueue's Configuration: fair sharing, gates.")] = None,
) -> None:
    """Play Jobs on queues with a virtual clock, by the very rules of the controller."""
    try:
        policy = _policy(config)
        end = scenario.duration(until) if until else None
        if not files and not from_cluster:
            raise ScenarioError("name files to play, or --from-cluster")
        base = scenario.read(files or [])
        if from_cluster:
            base = Scenario((*live.objects(kubeconfig), *base.objects), base.submissions)
        rest = scenario.duration(run_for)
        scenarios = {"as it is": base}
        if what_if is not None:
            scenarios[f"with {what_if.name}"] = scenario.changed(base, what_if)
        played = {title: play(one, policy, until=end, run_for=rest) for title, one in scenarios.items()}
    except (ScenarioError, ValueError, live.LiveError) as error:
        typer.echo(f"seiretsu simulate: {error}", err=True)
        raise typer.Exit(1) from None
    told = {title: report.summary(one) for title, one in played.items()}
    _print(told, output)
    if plot is not None:
        _draw(played, told, plot)
        typer.echo(f"Drawn: {plot}", err=True)


def _policy(config: Path | None) -> Policy:
    """The choices of a Configuration file, Kueue's defaults without one."""
    if config is None:
        return Policy()
    from api.configuration import load
    from controller.settings import from_configuration

    return from_configuration(load(config.read_text()).configuration, elect=False).policy


def _print(told: dict[str, report.Raw], output: Format) -> None:
    if output == "table":
        for title, one in told.items():
            typer.echo(f"# {title}\n{report.table(one)}" if len(told) > 1 else report.table(one))
        if len(told) > 1:
            typer.echo(f"# {' -> '.join(told)}\n{report.comparison(*told.values())}", nl=False)
        return
    value = next(iter(told.values())) if len(told) == 1 else told
    if output == "json":
        typer.echo(json.dumps(value, indent=2))
    else:
        typer.echo(yaml.safe_dump(value, sort_keys=False), nl=False)


def _draw(played: dict[str, Played], told: dict[str, report.Raw], plot: Path) -> None:
    drawn = [picture.svg(p.timeline, p.state.holdings.cluster_queues, p.jobs, title) for title, p in played.items()]
    if plot.suffix == ".svg":
        if len(drawn) > 1:
            raise typer.BadParameter("two outcomes go side by side on a page: name a file that ends in .html")
        plot.write_text(drawn[0])
        return
    tables = [report.table(one) for one in told.values()]
    plot.write_text(picture.html(drawn, tables, "Seiretsu simulation"))
