"""What the recorder costs, and whether this version decides again what it has recorded: ``python -m bench.recorder``.

On one control plane ``seiretsu serve`` runs the load of ``bench.contention`` in turns with a recorder and without. The
recordings of all turns are played as ``seiretsu replay`` does: a cycle that is decided differently ends the bench with
exit 1. ``bench.kinds --record`` records jobs of all kinds.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop

from api.objects import Raw
from bench import report
from bench.contention import contend
from bench.load import LOADS, Load
from bench.measure import bare_plane, exit_on_sigterm
from bench.measured import with_token
from bench.served import hooks_at, metrics, served
from controller.history.recorder import recordings
from controller.kube import config
from controller.kube.client import Client
from core.recording.encoding import decoded
from core.recording.replay import Replay, ReplayedCycle
from devcluster.controlplane import ControlPlane

MOST_SHARE: Final = 0.02
"""Of the CPU of a run."""


def section(directory: Path) -> Raw:
    """Returns the section of a Configuration with which ``serve`` records into a directory."""
    return {"recorder": {"enable": True, "directory": str(directory), "maxSize": "4Gi"}}


class Replayed(NamedTuple):
    """How many cycles were played, and which of them are decided differently now, each with its file."""

    files: int
    cycles: int
    decisions: int
    bytes: int
    different: tuple[tuple[str, ReplayedCycle], ...]

    def __str__(self) -> str:
        found = f"{self.cycles} cycles with {self.decisions} decisions in {self.files} recordings, {self.bytes} bytes"
        return f"{found}; {len(self.different)} are decided differently"


def replayed(directory: Path) -> Replayed:
    """Plays the recordings of a directory, each alone: another process may have written the next one."""
    files = recordings(directory)
    played = [(path.name, cycle) for path in files for cycle in _cycles(path)]
    return Replayed(
        len(files),
        len(played),
        sum(len(cycle.recorded) for _, cycle in played),
        sum(path.stat().st_size for path in files),
        tuple(each for each in played if each[1].differs),
    )


def _cycles(path: Path) -> Iterator[ReplayedCycle]:
    return Replay().play(decoded(path.read_bytes()))


def turn(plane: ControlPlane, token: Path, scratch: Path, load: Load, directory: Path, *, on: bool) -> dict[str, Any]:
    """Runs the load once, with the recorder or with a Configuration without it; returns its figures."""
    configuration = scratch / "recorder.json"
    kind = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
    configuration.write_text(json.dumps({**kind, "seiretsu": section(directory) if on else {}}))
    with served(token, scratch, "--config", str(configuration)) as process:
        figures = uvloop.run(contend(plane.kubeconfig, load, {"controller": process.pid}, 1800.0))
        return {**figures, "thread": thread_seconds(plane, scratch)}


def thread_seconds(plane: ControlPlane, scratch: Path) -> float:
    """Returns the CPU time of the recorder's thread, as ``serve`` counts it; 0 without a recorder."""

    async def address() -> str:
        async with Client(config.load(plane.kubeconfig)) as client:
            return await hooks_at(client)

    base = uvloop.run(address())
    text = metrics(base, scratch / "certificates" / "ca.crt")
    found = re.search(r"^seiretsu_recorder_cpu_seconds_total (\S+)$", text, re.M)
    return float(found[1]) if found is not None else 0.0


def main() -> int:
    """Measures and prints; returns 1 if a cycle was decided differently or a rule was broken."""
    parser = argparse.ArgumentParser(prog="bench.recorder", description=__doc__)
    parser.add_argument("--load", choices=list(LOADS), default="baseline", help="which scenario (default baseline)")
    parser.add_argument("--share", type=float, default=0.1, help="the share of its workloads (default 0.1)")
    parser.add_argument("--turns", type=int, default=3, help="with the recorder, and without (default 3)")
    parser.add_argument("--keep", type=Path, help="keep the recordings in this directory")
    chosen = parser.parse_args()
    exit_on_sigterm()
    load = LOADS[chosen.load].share(chosen.share)
    used: dict[bool, list[float]] = {True: [], False: []}
    broken: list[str] = []
    with bare_plane() as (plane, scratch, note):
        directory = chosen.keep or scratch / "recordings"
        print(f"{load.name}, {load.workloads} workloads; {note}", flush=True)
        token = with_token(plane, scratch)
        for number in range(2 * chosen.turns):
            on = number % 2 == 0
            figures = turn(plane, token, scratch, load, directory, on=on)
            broken += figures["broken"]
            used[on].append(figures["cpu seconds"]["controller"])
            part = f", {figures['thread']:.3f} of them in its thread" if on else ""
            print(f"{'with' if on else 'without'} the recorder: CPU {used[on][-1]:.2f} s{part}", flush=True)
        found = replayed(directory)
    middle = {on: statistics.median(several) for on, several in used.items()}
    rows = [(f"{'with' if on else 'without'} the recorder", min(used[on]), middle[on], max(used[on])) for on in used]
    report.table("CPU seconds of serve", ("", "least", "median", "most"), rows)
    print(f"ratio of the medians {middle[True] / middle[False]:.3f} (at most {1 + MOST_SHARE:g} is the aim)")
    print(found)
    for name, cycle in found.different[:20]:
        print(f"BROKEN: {name}, cycle {cycle.cycle} at {cycle.at}")
    for sentence in broken[:20]:
        print(f"BROKEN: {sentence}")
    return 1 if found.different or broken else 0


if __name__ == "__main__":
    sys.exit(main())
