"""Which controller a bench measures: the one of a given cluster, or ``seiretsu serve`` on a new control plane."""

import argparse
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from bench import report
from bench.measure import bare_plane
from bench.served import served
from devcluster.controlplane import ControlPlane


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose a controller."""
    parser.add_argument("--kubeconfig", type=Path, help="of a cluster where a controller runs (default: start our own)")
    parser.add_argument("--controller-pid", type=int, help="with --kubeconfig: the process of the controller")
    parser.add_argument("--plane-pids", default="", help="with --kubeconfig: API server and etcd, as PID,PID")
    parser.add_argument("--config", type=Path, help="of our own controller (default: none)")


@contextlib.contextmanager
def measured(chosen: argparse.Namespace, *, as_account: bool = False) -> Iterator[tuple[Path, dict[str, int]]]:
    """Context in which the chosen controller runs: the kubeconfig of the bench, and the processes to measure, by name.

    ``as_account``: on a new control plane the bench is a service account, like the controller, and not the
    administrator, for whom the API server has no limits.
    """
    own = {"bench": os.getpid()}
    if chosen.kubeconfig:
        pids = {_command(int(pid)): int(pid) for pid in chosen.plane_pids.split(",") if pid} | own
        if chosen.controller_pid:
            pids = {"controller": chosen.controller_pid} | pids
        yield chosen.kubeconfig, pids
        return
    with bare_plane() as (plane, scratch, note):
        token = with_token(plane, scratch)
        with served(token, scratch, *(("--config", str(chosen.config)) if chosen.config else ())) as process:
            print(f"seiretsu serve --install on {os.cpu_count()} processors; {note}", flush=True)
            pids = {"controller": process.pid} | report.pids_of(plane) | own
            yield token if as_account else plane.kubeconfig, pids


def with_token(plane: ControlPlane, scratch: Path) -> Path:
    """Returns a kubeconfig of a service account with all rights: as in a cluster a controller writes with its token."""
    binding = ("clusterrolebinding", "bench", "--clusterrole=cluster-admin", "--serviceaccount=default:default")
    plane.kubectl("create", *binding, check=True)
    return plane.kubeconfig_of("default", "default", scratch, "--duration=24h")


def _command(pid: int) -> str:
    """The name of a process's program."""
    return Path(f"/proc/{pid}/comm").read_text().strip()
