"""Runs recorded scenarios on a real control plane and compares: `python -m bench.played FOLDER...` (`make oracle
SCENARIOS=FOLDER`).

A folder has scenarios (`*.yaml`), the recorded results are in `FOLDER.json` or `FOLDER.json.xz` next to it; a folder of
such folders means all of them. Scenarios of a folder whose name begins with `fair` run with fair sharing on. The last
line is `agreement: X/Y`; the exit code is 0 when all agree.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.measure import exit_on_sigterm
from bench.served import served
from devcluster.controlplane import ControlPlane, Spec

FAIR = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
fairSharing:
  preemptionStrategies: [LessThanOrEqualToFinalShare, LessThanInitialShare]
"""
CLASSIC = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
"""
ROOT = Path(__file__).parents[1]
FAST = "clientConnection: {qps: 1000, burst: 2000}\n"
PLAYER = "tests.recordings.player"


def folders(given: Path) -> Iterator[Path]:
    """Returns the folders of scenarios for a path: itself, or those in it that have recorded results."""
    if golden(given).exists():
        yield given
        return
    yield from (each for each in sorted(given.iterdir()) if each.is_dir() and golden(each).exists())


def golden(folder: Path) -> Path:
    """The file with the recorded results of a folder of scenarios; it may not exist."""
    plain = folder.with_name(f"{folder.name}.json")
    return plain if plain.exists() else folder.with_name(f"{folder.name}.json.xz")


def play(folder: Path, scratch: Path, *, only: str, parallel: int, tick: float = 2.0) -> tuple[int, int]:
    """Play one folder on a control plane of its own; how many scenarios agree, and how many there are.

    ``tick``: seconds without a change that end a step.
    """
    results, configuration = scratch / "results.json", scratch / "configuration.yaml"
    configuration.write_text((FAIR if folder.name.startswith("fair") else CLASSIC) + FAST)
    script = [sys.executable, "-B", "-m"]
    with (
        ControlPlane.start(spec=Spec(nodes=())) as plane,
        served(plane.kubeconfig, scratch, "--config", str(configuration)),
    ):
        playing = [*script, f"{PLAYER}.play", str(plane.kubeconfig), str(folder.resolve()), "--out", str(results)]
        playing += ["--parallel", str(parallel), "--tick", str(tick), *(["--only", only] if only else [])]
        playing += ["--golden", str(golden(folder).resolve())]
        subprocess.run(playing, cwd=ROOT, check=True)
    comparing = [
        *script,
        f"{PLAYER}.compare",
        str(golden(folder).resolve()),
        str(results),
        *(["--played"] if only else []),
    ]
    compared = subprocess.run(comparing, cwd=ROOT, capture_output=True, text=True, check=False)
    print(compared.stdout, compared.stderr, sep="", end="", flush=True)
    found = re.search(r"^agreement: (\d+)/(\d+)", compared.stdout, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"the comparer said nothing of agreement: exit {compared.returncode}")
    return int(found[1]), int(found[2])


def main(arguments: list[str] | None = None) -> int:
    """Play all folders, one after the other."""
    parser = argparse.ArgumentParser(description="Play recorded scenarios on a real control plane and compare.")
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--only", default="", help="scenarios with this text in their names")
    parser.add_argument("--parallel", type=int, default=8 * (os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    wanted = [each for given in options.folders if given.is_dir() for each in folders(given)]
    if not wanted:
        where = ", ".join(map(str, options.folders))
        print(f"no scenarios with golden results in {where}: give FOLDER, with FOLDER.json beside it")
        return 2
    agreed = total = 0
    for folder in wanted:
        print(f"{folder}:", flush=True)
        with tempfile.TemporaryDirectory(prefix="seiretsu-played-") as scratch:
            some, all_of_them = play(folder, Path(scratch), only=options.only, parallel=options.parallel)
        agreed, total = agreed + some, total + all_of_them
    print(f"agreement: {agreed}/{total}")
    return 0 if agreed == total else 1


if __name__ == "__main__":
    exit_on_sigterm()
    sys.exit(main())
