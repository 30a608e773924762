"""The observer (``python -m observer``) beside a test: started before, asked at the end, and nothing may be broken."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devcluster.controlplane import ControlPlane
from tests.eventually import PATIENCE

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Observed:
    """What the observer saw; complete when its block ends. Its fields are those of the report of ``observer``."""

    broken: list[str] = field(default_factory=list)
    changes: int = 0
    admissions: int = 0
    admitted_again: list[str] = field(default_factory=list)
    evictions: int = 0
    finished: int = 0
    most: dict[str, float] = field(default_factory=dict)
    workloads: list[str] = field(default_factory=list)
    ran: int = 0
    without_quota: float = 0.0


class Observer:
    """The process. ``look`` and ``end`` return its report; it has followed etcd since it was made.

    With ``workers`` the control plane is a manager's, and theirs are observed, too.
    """

    def __init__(
        self,
        plane: ControlPlane,
        *namespaces: str,
        drained: bool = False,
        patience: float = PATIENCE,
        workers: Sequence[ControlPlane] = (),
        without_quota: float | None = None,
    ) -> None:
        options = [option for name in namespaces for option in ("--namespace", name)]
        for each in workers:
            options += ["--worker", f"{each.spec.name}=http://127.0.0.1:{each.ports.etcd}"]
        options += ["--patience", str(patience), *(["--drained"] if drained else [])]
        if without_quota is not None:
            options += ["--without-quota", str(without_quota)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "observer", "--etcd", f"http://127.0.0.1:{plane.ports.etcd}", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._answer() == "observing", "the observer did not start"

    def look(self) -> Observed:
        """What it has seen until now."""
        return self._asked("look")

    def end(self) -> Observed:
        """Wait until the cluster is quiet and its statuses are right, or the patience ends; then the last report."""
        found = self._asked("end")
        self.process.wait()
        return found

    def close(self) -> None:
        """End the process, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _asked(self, question: str) -> Observed:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self._answer())
        return Observed(**found)

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the observer ended with {self.process.wait()}"
        return line.strip()


@contextmanager
def observing(plane: ControlPlane, *namespaces: str, drained: bool = False) -> Iterator[Observed]:
    """Observe some namespaces (none given: all) during the block; fails if any rule did not hold."""
    observer, observed = Observer(plane, *namespaces, drained=drained), Observed()
    try:
        yield observed
        observed.__dict__.update(observer.end().__dict__)
    finally:
        observer.close()
    assert observed.broken == [], "\n".join(observed.broken[:20])
