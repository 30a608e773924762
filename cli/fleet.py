"""A manager and its worker clusters as Scenarios, simulated together; each worker is files or a kubeconfig.

Separate from ``cli.simulator``, which simulates one cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import yaml

from api.names import Kind, Label
from api.resources import MULTIKUEUE_CONFIGS
from cli import scenario, simulator
from cli.learned import TimesOf
from cli.manifests import Mistakes, ScenarioError
from cli.scenario import Scenario
from cli.simulator import Entered, Played, enter, short
from cli.target import ChosenCluster, UnreadableError
from cli.workers import worker, workers
from cli.world import ConfiguredRules, World
from controller.kube import config
from core.jobs import meta
from core.model import Key
from core.multikueue import conditions
from core.simulation.fleet import Origin, PlayedCluster, simulate_fleet


def read(named: Iterable[str], now: float) -> dict[str, Scenario]:
    """Returns the worker clusters of ``NAME=PATH``: a kubeconfig, a file or a folder; several paths of one name are one
    cluster. ScenarioError with all mistakes in them.
    """
    paths: dict[str, list[Path]] = defaultdict(list)
    mistakes = Mistakes()
    for text in named:
        name, _, place = text.partition("=")
        if name and place:
            paths[name].append(Path(place))
        else:
            mistakes.add(f"--worker {text}", "write NAME=PATH, for example worker1=worker1.yaml")
    found = {}
    for name, files in paths.items():
        kubeconfigs = [path for path in files if _is_kubeconfig(path)]
        try:
            found[name] = scenario.read(path for path in files if path not in kubeconfigs)
        except ScenarioError as error:
            mistakes.found += error.mistakes
            found[name] = Scenario()
        for path in kubeconfigs:
            try:
                found[name] = _live(found[name], ChosenCluster(path).connection(), now)
            except UnreadableError as error:
                mistakes.add(f"--worker {name}", error)
    mistakes.raise_any()
    return found


def dispatches(manager: Scenario) -> bool:
    """Whether a cluster has an AdmissionCheck of MultiKueue."""
    checks = (each.raw for each in manager.objects if each.raw["kind"] == Kind.ADMISSION_CHECK)
    return any(map(conditions.is_ours, checks))


def used(manager: Scenario, rules: ConfiguredRules | None = None) -> frozenset[str]:
    """Returns the worker clusters that the AdmissionChecks of a manager use."""
    kinds = (Kind.ADMISSION_CHECK, MULTIKUEUE_CONFIGS.kind)
    found = (replace(each, origin=scenario.LIVE) for each in manager.objects if each.raw["kind"] in kinds)
    return frozenset(name for names in World(found, rules).dispatched.values() for name in names)


def check(names: Iterable[str], scenarios: Iterable[Scenario], rules: ConfiguredRules) -> None:
    """Raises ScenarioError for a worker of ``--worker`` that no scenario of the manager uses."""
    names = set(names)
    if names and not rules.controller.multikueue.enabled:
        raise ScenarioError("--worker: the feature gate MultiKueue is off in the Configuration")
    known = frozenset[str]().union(*(used(each, rules) for each in scenarios)) if names else frozenset[str]()
    if names and not known:
        raise ScenarioError("the manager has no AdmissionCheck of MultiKueue whose MultiKueueConfig names clusters")
    unknown, listed = sorted(names - known), ", ".join(sorted(known))
    if unknown:
        raise ScenarioError(*(f"--worker {name}: no MultiKueueConfig names it; they name {listed}" for name in unknown))


def live_workers(
    manager: Scenario, given: Mapping[str, Scenario], here: config.Connection, rules: ConfiguredRules, now: float
) -> tuple[Scenario, dict[str, Scenario]]:
    """Returns a live manager with its MultiKueueConfigs, and its worker clusters as they are by the kubeconfigs in its
    Secrets, except those that are given and those that it does not use.
    """
    configs, connections, unseen = workers(here, rules.controller.namespace)
    manager = scenario.live(manager, configs, now)
    found, needed = dict(given), used(manager, rules)
    remarks = [f"worker clusters are not read from the cluster: you may not list {name}" for name in unseen]
    for name, connection in connections.items():
        if name in given or name not in needed:
            continue
        try:
            if isinstance(connection, str):
                raise UnreadableError(connection)
            found[name] = _live(Scenario(), connection, now)
        except UnreadableError as error:
            remarks.append(f"worker cluster {name} cannot be read: {error}")
    return replace(manager, remarks=(*manager.remarks, *remarks)), found


def _live(found: Scenario, connection: config.Connection, now: float) -> Scenario:
    """The scenario of a worker cluster on top of what is there."""
    objects, unseen = worker(connection)
    remarks = (f"taken to have no {name}: its kubeconfig may not list them" for name in unseen)
    return replace(scenario.live(found, objects, now), remarks=(*found.remarks, *remarks))


def _is_kubeconfig(path: Path) -> bool:
    """Whether a file is a kubeconfig."""
    try:
        found = yaml.safe_load(path.read_text()) if path.is_file() and path.suffix != ".csv" else None
    except (yaml.YAMLError, UnicodeDecodeError):
        return False  # several documents, or a mistake that is reported where the file is read
    return isinstance(found, dict) and found.get("kind") == "Config" and "clusters" in found


def play(
    scenario: Scenario,
    workers: Mapping[str, Scenario],
    rules: ConfiguredRules | None = None,
    *,
    until: float | None = None,
    times: TimesOf = short,
) -> Played:
    """Plays the scenario of a manager with those of the worker clusters that it uses; ScenarioError where their objects
    cannot be.
    """
    needed = used(scenario, rules) if workers else frozenset()
    if not needed:
        return simulator.play(scenario, rules, until=until, times=times)
    workers = {name: each for name, each in workers.items() if name in needed}
    start = max(each.start for each in (scenario, *workers.values()))
    there = {name: World(each.objects, rules) for name, each in workers.items()}
    here = World(scenario.objects, rules, {name: world.lookup for name, world in there.items()})
    manager = enter(replace(scenario, start=start), here, times)
    entered = {name: enter(replace(each, start=start), there[name], times, name) for name, each in workers.items()}
    settings = here.rules.controller
    timelines = simulate_fleet(
        replace(_cluster(here, manager), gone=scenario.gone),
        {name: _cluster(there[name], each, manager.origins) for name, each in entered.items()},
        manager.origins,
        here.dispatched,
        settings.multikueue.policy,
        until=until,
        start=start,
        life=settings.life,
    )
    played = manager.played
    played.timeline, played.choices = timelines.manager, timelines.choices
    played.remarks += _remarks(here, workers)
    for name, each in entered.items():
        each.played.timeline = timelines.workers[name]
        each.played.copies = frozenset(timelines.workers[name].courses.keys() & manager.origins.keys())
        each.played.jobs |= {key: played.jobs[key] for key in each.played.copies}
        played.workers[name] = each.played
    return played


def _cluster(world: World, entered: Entered, manager: Mapping[Key, Origin] | None = None) -> PlayedCluster:
    """``manager`` has the Workloads of the manager, in a worker: copies of others are left out, as they are deleted."""
    origin = world.rules.controller.multikueue.policy.origin
    copies = {
        key: each.raw
        for key, each in (entered.origins.items() if manager is not None else ())
        if meta.labels(each.raw).get(Label.MULTIKUEUE_ORIGIN) == origin
    }
    gone = copies.keys() - (manager or {}).keys()
    return PlayedCluster(
        world.state,
        tuple(each for each in entered.arrivals if each.workload.key not in gone),
        world.checks,
        {key: raw for key, raw in copies.items() if key not in gone},
        world.read,
        lambda namespace: world.caches.context(namespace).rules,
    )


def _remarks(manager: World, workers: Mapping[str, Scenario]) -> list[str]:
    """The workers that are not known."""
    needed = dict.fromkeys(name for names in manager.dispatched.values() for name in names)
    missing = [name for name in needed if name not in workers]
    return [f"worker cluster {name} is not simulated and counts as lost: --worker {name}=FILES" for name in missing]
