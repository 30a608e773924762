"""``python -m bench.figures``: figures of flow control on a real API server, much smaller and much larger.

Each run has a new control plane and a new ``seiretsu serve``, and the load of ``bench.contention``: more workloads than
quota. Between the runs with a changed figure are runs with all figures as they are: how much these differ is the noise.
With a file name it writes the page docs/flow-measured.md. The results in ``--json`` are kept, so that a later call adds
to them.
"""

import argparse
import contextlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from bench import report
from bench.contention import contend
from bench.driver import STATUS_SECONDS
from bench.far import far
from bench.load import LOADS, Load
from bench.measure import bare_plane, exit_on_sigterm
from bench.measured import with_token
from bench.scenario import GROUP
from bench.served import PROGRAM, served
from controller.kube.flow import limits
from devcluster.controlplane import ControlPlane

FACTORS = (0.125, 8.0)
SHARE = 0.04
LIMIT_SECONDS = 90.0
"""A run that has not ended by then has the results of the workloads that have finished."""
AWAY_SECONDS = 0.05
SLOW = ("stopped at the limit", "have not finished")
"""What ``bench.contention`` says of such a run, and is no broken rule here."""
BETWEEN = 2
"""A run with all figures as they are comes after so many with a changed one."""
AS_IT_IS = ""

Results = dict[str, float | None]
"""By what is measured; None where nothing was."""


def _open(plane: ControlPlane) -> None:
    """Leaves the API server as it is."""


def _refusing(plane: ControlPlane) -> None:
    """The API server serves three writes of Seiretsu at once, and answers 429 to all others. ``serve`` loses the right
    to write as a member of ``system:masters``, for whom the API server has no limits; so its own writes are validated.
    """
    level = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "bench"},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 1,
                "lendablePercent": 0,
                "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Reject"},
            },
        },
    }
    everybody = {"kind": "Group", "group": {"name": "system:authenticated"}}  # the bench is exempt: an administrator
    writes = {"verbs": ["create", "update", "patch"], "apiGroups": [GROUP], "resources": ["*"]}
    schema = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "bench"},
        "spec": {
            "priorityLevelConfiguration": {"name": "bench"},
            "matchingPrecedence": 2,
            "rules": [
                {"subjects": [everybody], "resourceRules": [{**writes, "clusterScope": True, "namespaces": ["*"]}]}
            ],
        },
    }
    plane.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [level, schema]}), check=True
    )
    plane.kubectl("delete", "clusterrolebinding", "bench", check=True)
    verbs = "get,list,watch,create,update,patch,delete,escalate,bind"
    plane.kubectl("create", "clusterrole", "bench", f"--verb={verbs}", "--resource=*.*", check=True)
    bound = ("--clusterrole=bench", "--serviceaccount=default:default")
    plane.kubectl("create", "clusterrolebinding", "bench", *bound, check=True)


class Scene(NamedTuple):
    """A load, an API server, and the ``figures`` of ``limits`` that are measured with them. ``away``: seconds from
    ``serve`` to the API server.
    """

    title: str
    load: Load
    figures: tuple[str, ...]
    prepare: Callable[[ControlPlane], None] = _open
    away: float = 0.0


SCENES = {
    "refusing": Scene(
        "Workloads, while the API server serves three writes of Seiretsu at once and answers 429 to the others",
        LOADS["baseline"].share(SHARE),
        ("SLOWEST_SHARE", "HALVED_ONCE_SECONDS", "CLIMB", "REFUSED_SLOWDOWN"),
        prepare=_refusing,
    ),
    "far": Scene(
        f"Workloads, while the API server is {AWAY_SECONDS * 1000:g} ms away in each direction",
        LOADS["baseline"].share(SHARE),
        ("DECIDED_WRITES", "DEFERRED_AT_ONCE", "REASONS_AT_ONCE"),
        away=AWAY_SECONDS,
    ),
    "jobs": Scene(
        "Jobs, which 90 clients create with pauses of 0.1 to 1.2 s",
        LOADS["jobs"].share(SHARE),
        ("SPARE_SHARE", "GIVE_WAY_SECONDS"),
    ),
    "workloads": Scene(
        "Workloads, which 90 clients create with pauses of 0.1 to 1.2 s",
        LOADS["baseline"].share(SHARE),
        (
            *("CONTENDED_SECONDS", "LONGEST_WAIT_SECONDS", "QUIET_SECONDS", "RATE_SECONDS"),
            *("SMOOTHING", "RECOVERY_SECONDS", "HIGHEST_IDLE_SECONDS", "LONGEST_SECONDS"),
        ),
    ),
}
NOT_HERE = {
    "IDLE_WINDOW_SECONDS": "it is minutes, and a run is half of one",
    "SHORTEST_IDLE_SECONDS": "it only prevents a division by zero",
    "IN_A_ROW": "the statuses that it orders are those of new queues, which are written before a run",
}
"""Figures without a measurement on a real API server, and why. Those that are neither here nor in a world have one in
``limits``, by another bench."""


class Run(NamedTuple):
    """One run: the scene, the figure that was changed (``AS_IT_IS``: none), by which factor, and what was measured."""

    scene: str
    figure: str
    factor: float
    results: Results


def results(found: Mapping[str, Any], load: Load) -> Results:
    """Returns what the page shows of what ``bench.contention`` found; costs are those of a workload that finished."""
    finished = max(1, found["finished"])
    queues = sum(made for name, made in found["writes"].items() if name.endswith("queues/status"))
    right = found["queue statuses right after seconds"]
    large = found["admission ms"].get("large")
    return {
        "finished": found["finished"],
        "workloads a second": found["workloads a second"],
        "large ones wait s": large["p50"] / 1e3 if large else None,
        "create p99 ms": found["create ms"]["p99"],
        "evictions": found["evictions"],
        "writes": found["writes a workload"] * load.workloads / finished,
        "queue statuses": queues / finished,
        "events": found["events a workload"] * load.workloads / finished,
        "counts right after s": STATUS_SECONDS if right is None else right,
        "answers 429": sum(found["throttled"].values()),
    }


def changed(figure: str, factor: float) -> float:
    """Returns the value of a figure of ``limits``, changed: of one that counts at least 1, of a share at most 1."""
    value: float = getattr(limits, figure)
    if isinstance(value, int):
        return max(1, round(value * factor))
    return min(1.0, value * factor) if figure.endswith("_SHARE") else value * factor


def measure(name: str, figure: str, factor: float) -> Run:
    """Measures a scene once, with one figure changed; raises ``RuntimeError`` if a rule was broken."""
    scene = SCENES[name]
    program = PROGRAM
    if figure:
        change = f"from controller.kube.flow import limits; limits.{figure} = {changed(figure, factor)!r}; "
        program = change + PROGRAM
    with contextlib.ExitStack() as stack:
        plane, scratch, _ = stack.enter_context(bare_plane())
        kubeconfig = with_token(plane, scratch)
        scene.prepare(plane)
        if scene.away:
            kubeconfig = stack.enter_context(far(kubeconfig, scene.away))
        stack.enter_context(served(kubeconfig, scratch, program=program))
        found = uvloop.run(contend(plane.kubeconfig, scene.load, report.pids_of(plane), LIMIT_SECONDS))
    broken = [each for each in found["broken"] if not any(words in each for words in SLOW)]
    if broken:
        raise RuntimeError("\n".join([f"{name}, {figure} times {factor:g}: {broken[0]}", *found["trace"]]))
    return Run(name, figure, factor, results(found, scene.load))


def stands_out(result: float, usual: Sequence[float]) -> bool:
    """Whether a result is further from those of the runs as they are than these are from each other."""
    low, high = min(usual), max(usual)
    return not low - (high - low) <= result <= high + (high - low)


def _of(runs: Sequence[Run], scene: str, figure: str, factor: float) -> dict[str, list[float]]:
    """By what is measured, the results of the runs that had one."""
    found = [run.results for run in runs if run[:3] == (scene, figure, factor)]
    names = dict.fromkeys(itertools.chain.from_iterable(found))
    return {name: [result for one in found if (result := one[name]) is not None] for name in names}


def planned(names: Sequence[str], figures: Sequence[str]) -> Iterator[tuple[str, str, float]]:
    """Yields the scenes, figures and factors to measure, and before, between and after them runs with none changed."""
    for name in names:
        chosen = [each for each in SCENES[name].figures if not figures or each in figures]
        cases = list(itertools.product(chosen, FACTORS))
        for number, (figure, factor) in enumerate(cases):
            if number % BETWEEN == 0:
                yield name, AS_IT_IS, 1.0
            yield name, figure, factor
        if cases:
            yield name, AS_IT_IS, 1.0


def left(cases: Sequence[tuple[str, str, float]], runs: Sequence[Run]) -> list[tuple[str, str, float]]:
    """Returns the cases without those that were measured already, each as often as it is there."""
    done = Counter(run[:3] for run in runs)
    found = []
    for case in cases:
        if done[case]:
            done[case] -= 1
        else:
            found.append(case)
    return found


def page(runs: Sequence[Run]) -> str:
    """Returns the page docs/flow-measured.md."""
    return HEAD + "".join(_table(runs, name) for name in SCENES if any(run.scene == name for run in runs))


def _table(runs: Sequence[Run], name: str) -> str:
    usual = _of(runs, name, AS_IT_IS, 1.0)
    count = sum(run[:2] == (name, AS_IT_IS) for run in runs)
    head = ["figure", "value", *usual]
    spans = (f"{_short(min(each))} to {_short(max(each))}" for each in usual.values())
    rows = [[f"all, {count} runs", "as it is", *spans]]
    order = {figure: place for place, figure in enumerate(SCENES[name].figures)}
    changes = [run for run in runs if run.scene == name and run.figure in order]
    for run in sorted(changes, key=lambda one: (order[one.figure], one.factor)):
        cells = (_cell(result, usual[key]) for key, result in run.results.items())
        rows.append([f"`{run.figure}` {getattr(limits, run.figure):.4g}", f"{changed(*run[1:3]):.4g}", *cells])
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return f"\n## {SCENES[name].title}\n\n" + "\n".join(lines) + "\n"


def _cell(result: float | None, usual: Sequence[float]) -> str:
    if result is None:
        return "none"
    return f"**{_short(result)}**" if stands_out(result, usual) else _short(result)


def _short(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


MEASURED = tuple(dict.fromkeys(figure for scene in SCENES.values() for figure in scene.figures))
ELSEWHERE = tuple(name for name in vars(limits) if name.isupper() and name not in {*MEASURED, *NOT_HERE})
HEAD = f"""# Flow control: what its figures do on a real API server

Made by `python -m bench.figures --json FILE docs/flow-measured.md`: API server, etcd, clients and `seiretsu serve` on
the same processors, two when this page was made. Each run has a control plane of its own, 30 ClusterQueues in 5 cohorts
and 600 workloads that want more than the quota, as `bench.contention` has. Each figure gets an eighth of its value, and
eight times as much (what is counted at least 1, a share at most 1), in one run each: [flow.md](flow.md) plays half and
twice on a model, whose results have no noise.

The first row of a table has the lowest and the highest result of the runs with all figures as they are. A result in
**bold** is further from these than they are from each other; where these are few, chance marks some, too. All others
show no effect, and do not prove that there is none. Writes, queue statuses and events are those of a workload that
finished; a run ends after {LIMIT_SECONDS:g} s. "Counts right" is when the statuses of all queues are right after the
last workload; {STATUS_SECONDS:g} s if they are not by then.

The measurements that set {_listed(ELSEWHERE)} are in `controller/kube/flow/limits.py`.
{" ".join(f"`{name}` has none: {why}." for name, why in NOT_HERE.items())}
"""


def main() -> None:
    """Parses the arguments, measures, prints, writes the page; ends with 0."""
    parser = argparse.ArgumentParser(prog="bench.figures", description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, help="the page to write")
    parser.add_argument("--scenes", nargs="+", choices=list(SCENES), default=list(SCENES), help="(default all)")
    parser.add_argument("--figures", nargs="+", choices=MEASURED, default=[], help="only these (default all)")
    parser.add_argument("--json", type=Path, required=True, help="the file of all results; what it has is kept")
    chosen = parser.parse_args()
    exit_on_sigterm()
    figures = {name: value for name, value in vars(limits).items() if name.isupper()}
    kept = json.loads(chosen.json.read_text()) if chosen.json.exists() else {"figures": figures, "runs": []}
    if kept["figures"] != figures:
        parser.error(f"{chosen.json} has results of other figures than those of today: name a new file")
    runs = [Run(*each) for each in kept["runs"]]
    cases = left(list(planned(chosen.scenes, chosen.figures)), runs)
    for number, case in enumerate(cases):
        runs.append(measure(*case))
        chosen.json.write_text(json.dumps({"figures": figures, "runs": runs}, indent=2) + "\n")
        shown = ", ".join(f"{name} {_short(result)}" for name, result in runs[-1].results.items() if result is not None)
        print(f"{number + 1} of {len(cases)}: {case[0]} {case[1]} times {case[2]:g}: {shown}", flush=True)
    print(f"{len(runs)} runs on {os.cpu_count()} processors")
    if chosen.page:
        chosen.page.write_text(page(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
