"""Control planes by name, stored in the user's cache directory until they are deleted: used by the command line."""

from __future__ import annotations

import contextlib
import fcntl
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devcluster import processes
from devcluster.components import Layout
from devcluster.controlplane import ControlPlane, Spec, stop_and_remove
from devcluster.errors import ClusterError
from devcluster.nodes import NodeGroup
from devcluster.tools import Report, cache_directory

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A control plane by name. `processes` counts those that run now, of the `started` ones."""

    name: str
    directory: Path
    processes: int
    started: int

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return Layout(self.directory).kubeconfig

    @property
    def running(self) -> bool:
        """Whether all that was started still runs."""
        return 0 < self.started == self.processes


def root() -> Path:
    """The directory of all named control planes."""
    return cache_directory() / "clusters"


def every() -> tuple[Cluster, ...]:
    """All control planes there are, broken ones included, by name."""
    return tuple(_look(path) for path in sorted(root().glob("*")) if path.is_dir())


def up(name: str, nodes: tuple[NodeGroup, ...], *, report: Report | None = None) -> Cluster:
    """Starts a control plane that outlives this process; the rest of a crashed one with that name is removed first.

    `ClusterError` when it runs already.
    """
    with starting(name, nodes, report=report) as plane:
        return _look(plane.layout.directory)


@contextlib.contextmanager
def starting(name: str, nodes: tuple[NodeGroup, ...], *, report: Report | None = None) -> Iterator[ControlPlane]:
    """Starts a control plane for a block of code; it outlives this process when the block has ended.

    If the block raises, or this process is ended in it, even by `kill -9`, nothing is left. The rest of a crashed one
    with that name is removed first; `ClusterError` when it runs already.
    """
    with _locked(name) as directory:
        before = _look(directory)
        if before.running:
            raise ClusterError(
                f"Cluster {name} is running already: use it with export KUBECONFIG={before.kubeconfig}, "
                f"or end it first with seiretsu cluster down --name {name}."
            )
        stop_and_remove(directory)
        plane = ControlPlane.start(directory, Spec(name=name, nodes=nodes), report=report)
    try:
        yield plane
    except BaseException:
        plane.stop()
        raise
    plane.keep()


def down(name: str) -> None:
    """Stops a control plane, or its rest, and removes all its data; `ClusterError` when there is none."""
    with _locked(name) as directory:
        if not directory.is_dir():
            raise ClusterError(_unknown(name))
        stop_and_remove(directory)


def get(name: str) -> Cluster:
    """Returns the control plane of a name; `ClusterError`, which lists the existing ones, when there is none."""
    directory = _directory(name)
    if not directory.is_dir():
        raise ClusterError(_unknown(name))
    return _look(directory)


def _look(directory: Path) -> Cluster:
    records = processes.recorded(Layout(directory).records)
    return Cluster(directory.name, directory, sum(record.alive() for record in records), len(records))


def _directory(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"{name!r} cannot be the name of a cluster: use up to 52 lower-case letters, digits and hyphens, "
            "beginning and ending with a letter or digit."
        )
    return root() / name


def _unknown(name: str) -> str:
    names = ", ".join(cluster.name for cluster in every())
    known = f"available: {names}" if names else "there is none at all"
    return f"No cluster is named {name} ({known}). Start it with seiretsu cluster up --name {name}."


@contextlib.contextmanager
def _locked(name: str) -> Iterator[Path]:
    """One starter or stopper of a name at a time; others wait."""
    directory = _directory(name)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with (directory.parent / f".{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield directory
