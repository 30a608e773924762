"""Runs the command that a kubeconfig names for its credentials (``exec``), as kubectl does.

Our own, because the ``kubernetes`` package does not give the command the cluster that it is for.
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from api.objects import Raw

SECONDS = 60.0
"""How long a command may run: it may wait for a login in a browser."""
EXTENSION = "client.authentication.k8s.io/exec"
_OF_CLUSTER = (
    *("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url"),
    "disable-compression",
)


class CommandError(Exception):
    """A command gave no credentials."""


def cluster_info(cluster: Raw, directory: Path) -> Raw:
    """Returns what a command gets of its cluster; paths in the kubeconfig are relative to ``directory``."""
    found = {name: cluster[name] for name in _OF_CLUSTER if cluster.get(name)}
    if cluster.get("certificate-authority") and "certificate-authority-data" not in found:
        data = (directory / cluster["certificate-authority"]).read_bytes()
        found["certificate-authority-data"] = base64.b64encode(data).decode()
    extensions = {each.get("name"): each.get("extension") for each in cluster.get("extensions") or ()}
    return found | ({"config": extensions[EXTENSION]} if EXTENSION in extensions else {})


async def credential(command: Raw, cluster: Raw, directory: Path, seconds: float = SECONDS) -> Raw:
    """Returns the ``status`` of the ExecCredential that a command prints."""
    interactive = command.get("interactiveMode") != "Never" and sys.stdin.isatty()
    spec = {"interactive": interactive, **({"cluster": cluster} if command.get("provideClusterInfo") else {})}
    exec_info = {"apiVersion": command["apiVersion"], "kind": "ExecCredential", "spec": spec}
    given = {str(each["name"]): str(each["value"]) for each in command.get("env") or ()}
    name = str(command["command"])
    process = await asyncio.create_subprocess_exec(
        str(directory / name) if "/" in name else name,
        *map(str, command.get("args") or ()),
        env={**os.environ, **given, "KUBERNETES_EXEC_INFO": json.dumps(exec_info)},
        stdin=None if interactive else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=not interactive,  # so that what the command starts is stopped with it
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate()
    except TimeoutError:
        raise CommandError(f"{name}: no answer within {seconds:.0f} seconds") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill() if interactive else os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):  # something that left its session may keep the pipes open
                async with asyncio.timeout(1.0):
                    await process.communicate()
    if process.returncode:
        raise CommandError(f"{name}: exit code {process.returncode}: {err.decode(errors='replace').strip()[-500:]}")
    answer = json.loads(out)
    status = answer.get("status") if isinstance(answer, dict) else None
    if not isinstance(status, dict) or answer.get("apiVersion") != command["apiVersion"]:
        raise CommandError(f"{name}: printed no ExecCredential of {command['apiVersion']}")
    return status
