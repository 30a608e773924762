"""``seiretsu demo``: the main job, live, on a control plane of its own.

It starts a real local control plane, installs Seiretsu on it, applies ``examples/``, submits Jobs with kubectl, shows
them waiting, borrowing, starting and finishing, and then what kubectl prints for Jobs that will not work. With
``--stay`` (``make up``) it ends with everything still running and tells how to play with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from cli.board import Raw, Row, Usage, render, rows, usages
from devcluster import clusters
from devcluster.controlplane import ControlPlane, Spec
from devcluster.errors import ClusterError
from devcluster.nodes import RUN_FOR, NodeGroup

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
TEAM_A, TEAM_B = "team-a", "team-b"
NODES = NodeGroup(labels={"seiretsu.dev/pool": "standard"})
PATIENCE = 180.0  # seconds after which the demo gives up on a Job
TICK = 0.5


class DemoError(ClusterError):
    """The demo did not go as it should; the message says where."""


@dataclass
class Story:
    """What happened, for the summary."""

    submitted: int = 0
    waited: set[str] = field(default_factory=set)
    started: list[str] = field(default_factory=list)
    finished: set[str] = field(default_factory=set)
    most_borrowed: int = 0
    most_used: int = 0

    def see(self, job_rows: list[Row], queue_usages: list[Usage]) -> list[str]:
        """Take in one look at the cluster; returns a line for each Job that changed."""
        news = []
        for one in job_rows:
            if one.state == "waiting" and one.job not in self.waited:
                self.waited.add(one.job)
                news.append(f"{one.namespace}/{one.job} waits{f': {one.note}' if one.note else ''}")
            if one.state in ("running", "finished") and one.job not in self.started:
                self.started.append(one.job)
                news.append(f"{one.namespace}/{one.job} starts")
            if one.state in ("finished", "failed") and one.job not in self.finished:
                self.finished.add(one.job)
                news.append(f"{one.namespace}/{one.job} {one.state}")
        self.most_borrowed = max([self.most_borrowed, *(u.borrowed for u in queue_usages)])
        self.most_used = max(self.most_used, sum(u.used for u in queue_usages))
        return news


class Demo:
    """One run of the demo on a cluster."""

    def __init__(self, cluster: ControlPlane, console: Console, began: float) -> None:
        self.cluster = cluster
        self.console = console
        self.story = Story()
        self.began = began

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the real kubectl against the demo's cluster."""
        return self.cluster.kubectl(*args, stdin=stdin)

    def must(self, *args: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it printed; raises DemoError with its own words when it fails."""
        done = self.kubectl(*args, stdin=stdin)
        if done.returncode:
            raise DemoError(f"kubectl {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout

    def items(self, kind: str) -> list[Raw]:
        """All objects of a kind."""
        found: list[Raw] = json.loads(self.must("get", kind, "-A", "-o", "json"))["items"]
        return found

    def look(self) -> tuple[list[Row], list[Usage]]:
        """How Jobs and queues stand now."""
        mine = [j for j in self.items("jobs") if j["metadata"]["namespace"] in (TEAM_A, TEAM_B)]
        return rows(mine, self.items("workloads")), usages(self.items("clusterqueues"), "cpu")

    def submit(self, file: str, namespace: str = TEAM_A, run_for: str = "6s") -> str:
        """``kubectl create`` one of the example Jobs; its pods run for ``run_for``. Returns the Job's name."""
        manifest = (EXAMPLES / "jobs" / file).read_text().replace(f"namespace: {TEAM_A}", f"namespace: {namespace}")
        lines = f"  template:\n    metadata:\n      annotations:\n        {RUN_FOR}: {run_for}\n"
        name = self.must("create", "-f", "-", "-o", "name", stdin=manifest.replace("  template:\n", lines))
        self.story.submitted += 1
        return name.strip().partition("/")[2]

    def watch(self, title: str, until: Callable[[], bool]) -> None:
        """Show the board until something holds; on a terminal in place, elsewhere a line for each change."""
        deadline = time.monotonic() + PATIENCE
        with self.board() as show:
            while True:
                job_rows, queue_usages = self.look()
                news = self.story.see(job_rows, queue_usages)
                show(job_rows, queue_usages, title, news)
                if until():
                    return
                if time.monotonic() > deadline:
                    raise DemoError(f"{title}: not there after {PATIENCE:.0f} s")
                time.sleep(TICK)

    @contextmanager
    def board(self) -> Iterator[Callable[[list[Row], list[Usage], str, list[str]], None]]:
        """How to show a look at the cluster."""
        if not self.console.is_terminal:

            def tell(_rows: list[Row], _usages: list[Usage], _title: str, news: list[str]) -> None:
                for line in news:
                    self.line(f"  {time.monotonic() - self.began:5.1f} s  {line}")

            yield tell
            return
        with Live(console=self.console, refresh_per_second=8) as live:

            def draw(job_rows: list[Row], queue_usages: list[Usage], title: str, _news: list[str]) -> None:
                live.update(render(job_rows, queue_usages, title))

            yield draw

    def line(self, text: str, style: str = "") -> None:
        """A line, which stays whole in a file; a terminal folds it itself."""
        self.console.print(Text(text, style), soft_wrap=True)

    def say(self, text: str) -> None:
        """A heading."""
        self.line(f"\n{text}", "bold cyan")

    def queueing(self) -> None:
        """Jobs wait, borrow, start and finish."""
        self.say("team-a submits five Jobs of 4 cpu: 8 are its own, 4 more it may borrow, so two of them wait")
        first = [self.submit("train.yaml", run_for=f"{seconds}s") for seconds in (8, 11, 14, 6, 6)]
        self.watch("team-a alone", lambda: len(self.story.started) >= 3 and bool(self.story.waited))
        self.say("team-b submits two Jobs: team-a has borrowed half of its quota, so one of them waits")
        second = [self.submit("train.yaml", namespace=TEAM_B, run_for="5s") for _ in range(2)]
        self.watch("two teams", lambda: any(job in self.story.started for job in second))
        self.say("an urgent Job of team-a goes before those that wait already")
        urgent = self.submit("urgent.yaml", run_for="3s")
        everything = {*first, *second, urgent}
        self.watch("to the end", lambda: everything <= self.story.finished)
        started = {job["metadata"]["name"]: job["status"]["startTime"] for job in self.items("jobs")}
        if early := [job for job in self.story.waited & {*first} if started[job] < started[urgent]]:
            raise DemoError(f"{urgent} was to start before those that waited already, but {', '.join(early)} did first")
        if not self.story.most_borrowed:
            raise DemoError("team-a never borrowed: its ClusterQueue's status showed no borrowed cpu")

    def feedback(self) -> None:
        """What kubectl says about Jobs that will not work."""
        for heading, file, patch in (
            ("kubectl warns: this request can never fit", "too-big.yaml", None),
            ("kubectl warns: there is no such queue", "misspelt-queue.yaml", None),
            ("kubectl refuses: an annotation that cannot be", "train.yaml", "kueue.x-k8s.io/job-min-parallelism: '7'"),
        ):
            self.say(heading)
            manifest = (EXAMPLES / "jobs" / file).read_text()
            if patch:
                manifest = manifest.replace("  labels:\n", f"  annotations:\n    {patch}\n  labels:\n", 1)
            self.line(f"$ kubectl create -f {file}")
            done = self.kubectl("create", "-f", "-", stdin=manifest)
            said = (done.stderr + done.stdout).strip()
            self.line(indent(said.replace('"STDIN"', f'"{file}"'), "  "), "yellow")
            if patch is None and (done.returncode or "Warning:" not in done.stderr):
                raise DemoError(f"{file}: kubectl printed no warning: {said}")
            if patch and not done.returncode:
                raise DemoError(f"{file}: kubectl was not refused: {said}")

    def summary(self, seconds: float) -> None:
        """What happened, in a few lines."""
        story = self.story
        self.say("What happened")
        for line in (
            f"{story.submitted} Jobs submitted, none of them said `suspend: true`",
            f"{len(story.waited)} waited their turn, {len(story.finished)} finished",
            f"most cpu in use at once: {story.most_used / 1000:g} of 16; most borrowed: {story.most_borrowed / 1000:g}",
            f"{seconds:.0f} s from an empty directory to here",
        ):
            self.line(f"  {line}")


def serve(plane: ControlPlane) -> None:
    """Run ``seiretsu serve --install`` as a guest of a control plane; returns when it is ready."""
    command = [sys.executable, "-m", "cli.main", "serve", "--install", "--kubeconfig", str(plane.kubeconfig)]
    command += ["--bind", "127.0.0.1:0", "--cert-dir", str(plane.layout.directory / "certs")]
    log = plane.run("seiretsu", command, environ=os.environ | {"PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 60
    while "ready" not in log.read_text().splitlines():
        if not plane.runs("seiretsu") or time.monotonic() > deadline:
            raise DemoError(f"Seiretsu did not become ready. The end of its log:\n{log.read_text()[-2000:]}")
        time.sleep(0.05)


def play(plane: ControlPlane, console: Console, began: float) -> None:
    """The whole demo on a control plane that has just been started."""
    demo = Demo(plane, console, began)
    console.print(f"  a real control plane is up: {time.monotonic() - began:.1f} s", highlight=False)
    serve(plane)
    console.print(f"  Seiretsu is installed and ready: {time.monotonic() - began:.1f} s", highlight=False)
    demo.must("apply", "-f", str(EXAMPLES / "queues.yaml"))
    console.print("  examples/queues.yaml is applied: 2 ClusterQueues of 8 cpu each, one cohort", highlight=False)
    demo.queueing()
    demo.feedback()
    demo.summary(time.monotonic() - began)


def command(
    stay: Annotated[bool, typer.Option("--stay", help="Leave everything running, and tell how to use it.")] = False,
    name: Annotated[str, typer.Option(help="With --stay: the cluster's name.")] = "demo",
) -> None:
    """Show Jobs wait, borrow, start and finish on a real local control plane."""
    console = Console()
    console.print(Text("Seiretsu: two teams share 16 cpu of a real Kubernetes control plane", style="bold"))
    began = time.monotonic()
    if stay:
        clusters.up(name, (NODES,))
        plane = ControlPlane.attach(clusters.get(name).directory, name)
        try:
            play(plane, console, began)
        except KeyboardInterrupt:
            console.print("\nInterrupted: ending what was started.", highlight=False)
            clusters.down(name)
            raise
        console.print("\nIt stays up. To play with it:", highlight=False)
        print(f"export KUBECONFIG={plane.kubeconfig}")
        print(f"seiretsu cluster down --name {name}    # ends it")
        return
    with ControlPlane.start(spec=Spec("demo", (NODES,))) as plane:
        play(plane, console, began)
