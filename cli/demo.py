"""``seiretsu demo``: shows the main function on its own real control plane.

It starts a real local control plane, installs Seiretsu on it, applies ``examples/``, submits Jobs with kubectl, shows
them waiting, borrowing, starting and finishing, and then what kubectl prints for Jobs that will not work. With
``--stay`` (``make up``) everything keeps running and it prints how to use it.

No scene depends on the speed of the machine: a Job runs until the demo ends it, so the next Job to start is known, and
a scene lasts until the cluster shows its result. The demo fails if a Job starts that must wait, if more runs than the
quota allows, or if nothing happens for ``PATIENCE``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import Annotated, NamedTuple, Protocol

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from api import names
from api.objects import Raw
from cli.board import Row, ShownUsage, render, rows, usages
from cli.cluster import program, use_line
from devcluster import build, clusters
from devcluster.controlplane import ControlPlane, Spec
from devcluster.errors import ClusterError
from devcluster.nodes import RUN_FOR, NodeGroup

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
TEAM_A, TEAM_B = "team-a", "team-b"
NODES = NodeGroup(labels={"seiretsu.dev/pool": "standard"})
UNTIL_ENDED = "24h"  # how long a Job of a scene would run by itself
BORROWED = 4000  # what team-a borrows with three of them: its quota is 8 cpu, its borrowing limit 4
MOST = {TEAM_A: 3, TEAM_B: 4}  # how many of them a team may run at the same time
MOST_OF_ALL = 4
PATIENCE = 300.0  # seconds without the expected outcome after which the demo fails
TICK = 0.5
VIEWER = "page-viewer"
CONFIGURATION = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


class DemoError(ClusterError):
    """The demo failed; the message says where."""


class Look(NamedTuple):
    """Jobs and queues at one moment."""

    jobs: list[Row]
    queues: list[ShownUsage]

    def started(self) -> set[str]:
        """The Jobs that have started, those that have ended included."""
        return {row.job for row in self.jobs if row.state != "waiting"}

    def waiting(self) -> list[Row]:
        """The Jobs that wait."""
        return [row for row in self.jobs if row.state == "waiting"]

    def explained(self, *jobs: str) -> bool:
        """Whether these Jobs wait and have a reason."""
        return {row.job for row in self.waiting() if row.note} >= {*jobs}

    def finished(self) -> set[str]:
        """The Jobs that have ended."""
        return {row.job for row in self.jobs if row.state in ("finished", "failed")}

    def shows(self, queue: str, *, borrowed: int, pending: int) -> bool:
        """Whether a ClusterQueue's status has these figures."""
        return any((u.queue, u.borrowed, u.pending) == (queue, borrowed, pending) for u in self.queues)

    def describe(self) -> str:
        """Everything on one line."""
        jobs = [f"{row.namespace}/{row.job} {row.state}{f' ({row.note})' if row.note else ''}" for row in self.jobs]
        return "; ".join(jobs) or "there are no Jobs"


def mistake(look: Look, may_start: Collection[str]) -> str:
    """Returns an error that is wrong regardless of timing: too many Jobs run, or one runs that must wait; else ''.

    ``may_start`` are the Jobs that may have started by then.
    """
    running = Counter(row.namespace for row in look.jobs if row.state == "running")
    for team, most in MOST.items():
        if running[team] > most:
            return f"{running[team]} Jobs of {team} run at once: its quota and what it may borrow are enough for {most}"
    if running.total() > MOST_OF_ALL:
        return f"{running.total()} Jobs run at once: the quota of both teams is enough for {MOST_OF_ALL}"
    early = sorted(look.started() - {*may_start})
    return f"{', '.join(early)} started before its turn" if early else ""


@dataclass
class Story:
    """The events of the demo, for the summary."""

    submitted: int = 0
    waited: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    most_borrowed: int = 0
    most_used: int = 0

    def see(self, look: Look) -> list[str]:
        """Records one reading of the cluster; returns a line for each Job that changed.

        A Job waits when it has a reason: before that it may just have been created.
        """
        news = []
        for one in look.jobs:
            name = f"{one.namespace}/{one.job}"
            if one.state == "waiting" and one.note and one.job not in self.waited:
                self.waited.add(one.job)
                news.append(f"{name} waits: {one.note}")
            if one.state != "waiting" and one.job not in self.started:
                self.started.add(one.job)
                news.append(f"{name} starts")
            if one.state in ("finished", "failed") and one.job not in self.finished:
                self.finished.add(one.job)
                news.append(f"{name} {one.state}")
        self.most_borrowed = max([self.most_borrowed, *(u.borrowed for u in look.queues)])
        self.most_used = max(self.most_used, sum(u.used for u in look.queues))
        return news


class DemoCluster(Protocol):
    """What the demo needs of a cluster."""

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl against it."""


@dataclass(frozen=True, slots=True)
class DemoInstallation:
    """A cluster in which Seiretsu is installed, as a kubeconfig names it. Its nodes are those of `seiretsu cluster`:
    pods end when the demo says so.
    """

    kubeconfig: Path

    def kubectl(
        self, *arguments: str, stdin: str | None = None, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl against it."""
        words = [str(build.ensure("kubectl")["kubectl"]), "--kubeconfig", str(self.kubeconfig), *arguments]
        given = subprocess.DEVNULL if stdin is None else None
        return subprocess.run(
            words, input=stdin, stdin=given, capture_output=True, text=True, timeout=timeout, check=False
        )


class Demo:
    """One run of the demo on a cluster."""

    def __init__(self, cluster: DemoCluster, console: Console, began: float) -> None:
        self.cluster = cluster
        self.console = console
        self.story = Story()
        self.began = began
        self.ending: dict[str, str] = {}
        """The namespaces of Jobs that are to end, by name."""

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl against the demo's cluster."""
        try:
            return self.cluster.kubectl(*args, stdin=stdin, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise DemoError(f"kubectl {' '.join(args)}: no answer in {PATIENCE:.0f} s") from None

    def must(self, *args: str, stdin: str | None = None) -> str:
        """Runs kubectl and returns its output; raises DemoError with its error when it fails."""
        done = self.kubectl(*args, stdin=stdin)
        if done.returncode:
            raise DemoError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def look(self) -> Look:
        """Returns the present state of Jobs and queues."""
        kinds = f"jobs,workloads.{names.GROUP},clusterqueues.{names.GROUP},events"
        found: dict[str, list[Raw]] = defaultdict(list)
        for item in json.loads(self.must("get", kinds, "-A", "-o", "json"))["items"]:
            found[item["kind"]].append(item)
        mine = [job for job in found["Job"] if job["metadata"]["namespace"] in (TEAM_A, TEAM_B)]
        return Look(rows(mine, found["Workload"], found["Event"]), usages(found["ClusterQueue"], "cpu"))

    def submit(self, file: str, namespace: str = TEAM_A) -> str:
        """``kubectl create`` one of the example Jobs, to run until the demo ends it. Returns the Job's name."""
        manifest = (EXAMPLES / "jobs" / file).read_text().replace(f"namespace: {TEAM_A}", f"namespace: {namespace}")
        lines = f"  template:\n    metadata:\n      annotations:\n        {RUN_FOR}: {UNTIL_ENDED}\n"
        name = self.must("create", "-f", "-", "-o", "name", stdin=manifest.replace("  template:\n", lines))
        self.story.submitted += 1
        return name.strip().partition("/")[2]

    def end(self, look: Look) -> None:
        """Let the pods of the Jobs that are to end succeed now, where there are any yet."""
        for row in look.jobs:
            if row.state == "running" and self.ending.get(row.job) == row.namespace:
                mine = ("-n", row.namespace, "-l", f"batch.kubernetes.io/job-name={row.job}")
                self.must("annotate", "pods", *mine, f"{RUN_FOR}=0s", "--overwrite")

    def watch(self, title: str, may_start: Collection[str], until: Callable[[Look], bool]) -> Look:
        """Shows the board until a condition is true; on a terminal in place, elsewhere a line for each change.

        Raises DemoError as soon as something is wrong regardless of timing: see ``mistake``.
        """
        deadline = time.monotonic() + PATIENCE
        with self.board() as show:
            while True:
                look = self.look()
                over = until(look)
                show(look, self.story.see(look))
                if wrong := mistake(look, may_start):
                    raise DemoError(f"{title}: {wrong}. All Jobs: {look.describe()}")
                if over:
                    return look
                if time.monotonic() > deadline:
                    raise DemoError(f"{title}: not reached within {PATIENCE:.0f} s. All Jobs: {look.describe()}")
                self.end(look)
                time.sleep(TICK)

    @contextmanager
    def board(self) -> Iterator[Callable[[Look, list[str]], None]]:
        """Shows one reading of the cluster."""
        if not self.console.is_terminal:

            def report(_look: Look, news: list[str]) -> None:
                for line in news:
                    self.line(f"  {time.monotonic() - self.began:5.1f} s  {line}")

            yield report
            return
        with Live(console=self.console, refresh_per_second=8) as live:

            def draw(look: Look, _news: list[str]) -> None:
                live.update(render(look.jobs, look.queues))

            yield draw

    def line(self, text: str, style: str = "") -> None:
        """Prints a line, which is not wrapped in a file; a terminal wraps it itself."""
        self.console.print(Text(text, style), soft_wrap=True)

    def heading(self, text: str) -> None:
        """A heading."""
        self.line(f"\n{text}", "bold cyan")

    def queueing(self) -> None:
        """Jobs wait, borrow, start and finish."""
        self.heading("team-a submits five Jobs of 4 cpu: it has 8 cpu of its own and may borrow 4, so two Jobs wait")
        first = {self.submit("train.yaml") for _ in range(5)}
        look = self.watch("team-a alone", first, lambda look: _three_run_on_borrowed_quota(look, first))
        running = sorted(first & look.started())
        self.heading("team-b submits two Jobs: team-a has borrowed half of its quota, so one of them waits")
        second = {self.submit("train.yaml", namespace=TEAM_B) for _ in range(2)}
        may_start = {*running, *second}
        look = self.watch("two teams", may_start, lambda look: _one_runs_and_one_waits(look, second))
        lent = second - look.started()
        may_start -= lent
        self.heading("team-a submits an urgent Job last: all 16 cpu are in use, so it waits")
        urgent = self.submit("urgent.yaml")
        self.watch("an urgent Job", may_start, lambda look: look.explained(urgent))
        self.heading("a Job of team-a ends: team-b gets its quota back, although the urgent Job has a higher priority")
        self.ending[running[0]] = TEAM_A
        may_start |= lent
        self.watch("borrowed quota goes back", may_start, lambda look: look.started() >= lent)
        self.heading("another Job ends: the urgent Job starts before the two Jobs that have waited longer")
        self.ending[running[1]] = TEAM_A
        may_start |= {urgent}
        self.watch("the urgent one first", may_start, lambda look: urgent in look.started())
        self.heading("the other Jobs end one after the other, and the waiting Jobs start")
        everything = {*first, *second, urgent}
        self.ending |= dict.fromkeys(first | {urgent}, TEAM_A) | dict.fromkeys(second, TEAM_B)
        self.watch("to the end", everything, lambda look: look.finished() >= everything)

    def feedback(self) -> None:
        """Shows kubectl's answers to Jobs that will not work."""
        for heading, file, patch in (
            ("kubectl warns: this request can never fit", "too-big.yaml", None),
            ("kubectl warns: there is no such queue", "misspelt-queue.yaml", None),
            ("kubectl refuses: an invalid annotation", "train.yaml", "kueue.x-k8s.io/job-min-parallelism: '7'"),
        ):
            self.heading(heading)
            manifest = (EXAMPLES / "jobs" / file).read_text()
            if patch:
                manifest = manifest.replace("  labels:\n", f"  annotations:\n    {patch}\n  labels:\n", 1)
            self.line(f"$ kubectl create -f {file}")
            done = self.kubectl("create", "-f", "-", stdin=manifest)
            output = (done.stderr + done.stdout).strip()
            self.line(indent(output.replace('"STDIN"', f'"{file}"'), "  "), "yellow")
            if patch is None and (done.returncode or "Warning:" not in done.stderr):
                raise DemoError(f"{file}: kubectl printed no warning: {output}")
            if patch and not done.returncode:
                raise DemoError(f"{file}: kubectl was not refused: {output}")

    def summary(self, seconds: float) -> None:
        """Returns the summary."""
        story = self.story
        self.heading("What happened")
        for line in (
            f"{story.submitted} Jobs submitted, none of them with `suspend: true`",
            f"{len(story.waited)} waited in the queue, {len(story.finished)} finished",
            f"most cpu in use at once: {story.most_used / 1000:g} of 16; most borrowed: {story.most_borrowed / 1000:g}",
            f"{seconds:.0f} s from the start to here",
        ):
            self.line(f"  {line}")


def _three_run_on_borrowed_quota(look: Look, jobs: set[str]) -> bool:
    """Whether three of these five Jobs run, one on borrowed quota, and the others wait with a reason."""
    waiting = jobs - look.started()
    return look.shows(TEAM_A, borrowed=BORROWED, pending=2) and len(waiting) == 2 and look.explained(*waiting)


def _one_runs_and_one_waits(look: Look, jobs: set[str]) -> bool:
    """Whether one of these two Jobs of team-b runs and the other one waits with a reason."""
    waiting = jobs - look.started()
    return look.shows(TEAM_B, borrowed=0, pending=1) and len(waiting) == 1 and look.explained(*waiting)


def serve(plane: ControlPlane, *, paged: bool = False) -> str:
    """Run ``seiretsu serve --install`` as a guest of a control plane. Returns, when it is ready, the address of its
    page, or '' if there is none.
    """
    command = [sys.executable, "-m", "cli.main", "serve", "--install", "--kubeconfig", str(plane.kubeconfig)]
    command += ["--bind", "127.0.0.1:0", "--cert-dir", str(plane.layout.directory / "certs")]
    if paged:
        config = plane.layout.directory / "configuration.yaml"
        config.write_text(f"{CONFIGURATION}seiretsu: {{ui: {{enable: true}}}}\n")
        command += ["--config", str(config)]
    log = plane.run("seiretsu", command, environ=os.environ | {"PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + PATIENCE
    while "ready" not in log.read_text().splitlines():
        if not plane.runs("seiretsu") or time.monotonic() > deadline:
            raise DemoError(f"Seiretsu did not become ready. The end of its log:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)
    return next((line.removeprefix("page ") for line in log.read_text().splitlines() if line.startswith("page ")), "")


def login(demo: Demo, address: str) -> str:
    """Returns the address of the page with a token that shows everything."""
    demo.must("create", "serviceaccount", VIEWER, "--namespace", "default")
    who = ("--clusterrole", "cluster-admin", "--serviceaccount", f"default:{VIEWER}")
    demo.must("create", "clusterrolebinding", VIEWER, *who)
    token = demo.must("create", "token", VIEWER, "--namespace", "default", "--duration", "24h").strip()
    return f"{address}#token={token}"


def play(plane: ControlPlane, console: Console, began: float, *, paged: bool = False) -> str:
    """The whole demo on a control plane that has just been started; returns the address of the page."""
    console.print(f"  a real control plane is up: {time.monotonic() - began:.1f} s", highlight=False)
    address = serve(plane, paged=paged)
    console.print(f"  Seiretsu is installed and ready: {time.monotonic() - began:.1f} s", highlight=False)
    demo = Demo(plane, console, began)
    show(demo)
    return login(demo, address) if address else ""


def show(demo: Demo) -> None:
    """All scenes, on a cluster in which Seiretsu is installed."""
    console, began = demo.console, demo.began
    demo.must("apply", "-f", str(EXAMPLES / "queues.yaml"))
    console.print("  examples/queues.yaml is applied: 2 ClusterQueues of 8 cpu each, one cohort", highlight=False)
    demo.queueing()
    demo.feedback()
    demo.summary(time.monotonic() - began)


def command(
    stay: Annotated[bool, typer.Option("--stay", help="Leave everything running, and print how to use it.")] = False,
    name: Annotated[str, typer.Option(help="With --stay: the cluster's name.")] = "demo",
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Use this cluster of seiretsu cluster up, where Seiretsu is installed, and leave it there."),
    ] = None,
) -> None:
    """Show Jobs wait, borrow, start and finish on a real local control plane."""
    console = Console()
    if stay and kubeconfig is not None:
        raise DemoError("--stay is for a new cluster: that of --kubeconfig stays anyway")
    console.print(Text("Seiretsu: two teams share 16 cpu of a real Kubernetes control plane", style="bold"))
    began = time.monotonic()
    if kubeconfig is not None:
        show(Demo(DemoInstallation(kubeconfig), console, began))
        return
    if stay:
        with clusters.starting(name, (NODES,)) as plane, _announced_end(console):
            address = play(plane, console, began, paged=True)
        console.print("\nThe page of its queues, for a browser on this machine; the token is valid for a day:")
        print(address)
        console.print(
            "\nThe cluster keeps running. To use it from this shell, with kubectl and seiretsu on PATH:",
            highlight=False,
        )
        print(use_line(name))
        console.print("To end it:", highlight=False)
        print(f"{program()} cluster down --name {name}")
        return
    with ControlPlane.start(spec=Spec("demo", (NODES,))) as plane:
        play(plane, console, began)


@contextmanager
def _announced_end(console: Console) -> Iterator[None]:
    """Prints, when the demo does not complete, that everything is stopped."""
    try:
        yield
    except BaseException as error:
        what = "Interrupted" if isinstance(error, KeyboardInterrupt) else "Failed"
        console.print(f"\n{what}: stopping what was started.", highlight=False)
        raise
