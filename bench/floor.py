"""The floor of this machine: ``python -m bench.floor`` runs ``bench.contention`` with a null controller.

It uses Seiretsu's definitions without webhooks. As in ``bench.contention`` the older versions are served too, with the
conversion webhook in a process beside it; with ``--versions stored`` nothing is converted in either bench.
"""

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvloop

from api.objects import Raw
from bench import contention, report
from bench.converter import converting
from bench.load import LOADS, Load
from bench.measure import AHEAD, bare_plane, exit_on_sigterm, weigh
from bench.measured import with_token
from controller.kube import config
from controller.kube.client import Client
from devcluster.controlplane import ControlPlane
from operations.install import install_definitions


async def _installed(kubeconfig: Path, conversion: Raw | None) -> None:
    async with Client(config.load(kubeconfig)) as client:
        await install_definitions(client, conversion)


@contextlib.contextmanager
def null_controller(kubeconfig: Path, module: str = "bench.null_controller", *more: str) -> Iterator[int]:
    """Context in which the null controller of that module runs in its own process, whose id it returns."""
    command = [sys.executable, "-m", module, "--kubeconfig", str(kubeconfig), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        weigh(process.pid, AHEAD)
        assert process.stdout
        if not process.stdout.readline():
            raise RuntimeError(f"the null controller did not start: exit {process.wait()}")
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"the null controller ended by itself: exit {process.returncode}")
    finally:
        process.kill()
        process.communicate()


def measure(plane: ControlPlane, scratch: Path, load: Load, chosen: argparse.Namespace) -> dict[str, Any]:
    """Runs the load with the null controller, prints and saves the figures, and returns them."""
    with contextlib.ExitStack() as stack:
        pids: dict[str, int] = {}
        conversion: Raw | None = None
        if chosen.versions == "all":
            pids["conversion webhook"], conversion = stack.enter_context(converting())
        uvloop.run(_installed(plane.kubeconfig, conversion))
        pids = {"controller": stack.enter_context(null_controller(with_token(plane, scratch)))} | pids
        pids |= report.pids_of(plane) | {"bench": os.getpid()}
        run = contention.contend(
            plane.kubeconfig,
            load,
            pids,
            chosen.limit,
            statuses=False,
            publish=lambda figures: contention.publish(figures, chosen),
        )
        return uvloop.run(run)


def main() -> int:
    """Parses the arguments, measures, prints; returns 1 if a rule was broken."""
    parser = contention.arguments(
        "bench.floor", __doc__, [name for name, one in LOADS.items() if not (one.jobs or one.racks)]
    )
    chosen: argparse.Namespace = parser.parse_args()
    exit_on_sigterm()
    load = LOADS[chosen.load].share(chosen.share)
    print(f"{load.name}: {load.workloads} workloads over {len(load.all_queues)} ClusterQueues; share {chosen.share:g}")
    with bare_plane() as (plane, scratch, note):
        print(f"a null controller on {os.cpu_count()} processors; {note}", flush=True)
        return 1 if measure(plane, scratch, load, chosen)["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
