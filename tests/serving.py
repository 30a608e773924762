"""`seiretsu serve` as a separate process, for tests on the real control plane.

Most of them need not start Python and import the program again, which takes a second of CPU: their process is a fork
(``tests.forked``). tests/cluster/test_serve.py starts the program.

The processes that are started one after the other on a control plane have one CA and one port: definitions that name
another CA or URL are other definitions, whose schemas and rules the API server compiles again.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from api.names import LEADER_ELECTION_ID, NAMESPACE
from app.identity import AS_CONTROLLER
from app.server import Address
from certs import pki
from certs.directory import DirectoryStore
from certs.plan import RenewalPolicy
from certs.record import CertificateRecord
from devcluster.controlplane import ControlPlane
from tests.eventually import PATIENCE
from tests.forked import Forked

AS_US = (f"--as={AS_CONTROLLER['Impersonate-User']}", f"--as-group={AS_CONTROLLER['Impersonate-Group']}")
"""Options of kubectl: write with the account of our controller, whose writes admission does not judge."""


class Served:
    """A running `seiretsu serve`. `lines` are what it printed on stdout, `events` what it logged.

    `start`: how it is started, if not as a process of its own that runs `program`.
    """

    def __init__(
        self,
        arguments: list[str],
        environment: dict[str, str] | None = None,
        program: list[str] | None = None,
        start: Callable[[list[str], dict[str, str]], subprocess.Popen[str] | Forked] | None = None,
    ) -> None:
        begin = start or partial(_started, program or [sys.executable, "-m", "cli.main", "serve"])
        self.process = begin(arguments, environment or {})
        self.lines: list[str] = []
        self.log: list[str] = []
        self._news: queue.Queue[None] = queue.Queue(1)
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.lines), daemon=True),
            threading.Thread(target=self._read, args=(self.process.stderr, self.log), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log's lines; one that is no JSON is an event named `text`."""
        return [json.loads(line) if line.startswith("{") else {"event": "text", "text": line} for line in self.log]

    def ready(self, within: float = PATIENCE) -> None:
        """Wait for the line `ready`; fails with the log if the process ends or is silent for too long."""
        self.wait_for(lambda: "ready" in self.lines, "ready", within)

    def logged(self, event: str, within: float = PATIENCE) -> dict[str, Any]:
        """Wait for an event of the log."""
        self.wait_for(lambda: any(found["event"] == event for found in self.events), event, within)
        return next(found for found in self.events if found["event"] == event)

    def wait_for(self, condition: Any, what: str, within: float = PATIENCE) -> None:
        """Wait for a condition, asked again at each line the process prints."""
        while not condition():
            try:
                self._news.get(timeout=within)
            except queue.Empty:
                raise AssertionError(f"no {what!r} within {within:g} s:\n{''.join(self.log)}") from None
            if self.process.poll() is not None and self._news.empty() and not condition():
                raise AssertionError(f"ended with {self.process.wait()} before {what!r}:\n" + "\n".join(self.log))

    @property
    def address(self) -> Address:
        """Where it listens."""
        return Address.parse(self.logged("Listening")["address"])

    def stop(self, number: signal.Signals = signal.SIGTERM, within: float = PATIENCE) -> int:
        """Send a signal and wait for the end; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.wait(within)

    def wait(self, within: float = PATIENCE) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(timeout=within)
        for reader in self._readers:
            reader.join(timeout=PATIENCE)
        return code

    def _read(self, stream: Any, into: list[str]) -> None:
        for line in stream:
            into.append(line.rstrip("\n"))
            self._tell()
        stream.close()
        self._tell()

    def _tell(self) -> None:
        with suppress(queue.Full):  # whoever waits looks at all lines then
            self._news.put_nowait(None)


def _started(program: list[str], arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        cwd=Path(__file__).resolve().parent.parent,
    )


@functools.cache
def _authority() -> dict[str, bytes]:
    """The CA of all processes, in the form it is stored in."""
    return CertificateRecord(pki.new_authority(datetime.now(UTC), RenewalPolicy().authority_life)).data()


_PORTS: dict[Path, int] = {}
"""The ports of processes by the kubeconfig that they are given."""
_NEVER_CHOSEN = range(20_000, 32_000)
"""Ports that systems do not give to connections, so that a port is free again when a process has ended."""


def _port(kubeconfig: Path) -> int:
    """The port that the last process with a kubeconfig had, if it is free; else a new one."""
    known = [_PORTS[kubeconfig]] if kubeconfig in _PORTS else []
    _PORTS[kubeconfig] = free_port(*known)
    return _PORTS[kubeconfig]


def free_port(*known: int) -> int:
    """One of these ports, or another one, that is free and that no connection is given until something listens."""
    for port in (*known, *random.sample(_NEVER_CHOSEN, 100)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port is free")


@contextmanager
def serving(
    kubeconfig: Path, cert_dir: Path, *arguments: str, install: bool = True, forked: bool = True
) -> Iterator[Served]:
    """`seiretsu serve --install` on a free port, not yet ready; it is stopped, or else killed, at the end."""
    if forked:
        DirectoryStore(cert_dir)._write(_authority(), "")  # unless there is another one already
    bind = f"127.0.0.1:{_port(kubeconfig)}"
    given = ["--kubeconfig", str(kubeconfig), "--cert-dir", str(cert_dir), "--bind", bind]
    served = Served([*given, *(["--install"] if install else []), *arguments], start=Forked if forked else None)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
        served.wait()


class Service:
    """`seiretsu serve --install` which can be killed and started again.

    Without ``arguments`` in its default configuration. ``within`` is how many seconds its start may take.

    Killing it also deletes its Lease: the next one need not wait until that lapses (tests/cluster/test_crash.py does).
    """

    def __init__(self, plane: ControlPlane, directory: Path, *arguments: str) -> None:
        self.within = PATIENCE
        self._plane = plane
        self._arguments = arguments
        self._directory = directory
        self._running = ExitStack()
        self._process: Served | None = None

    def ready(self) -> Served:
        """Start it where it does not run, and wait until it is ready."""
        if self._process is None:
            self._process = self._running.enter_context(
                serving(self._plane.kubeconfig, self._directory, *self._arguments)
            )
            self._process.ready(self.within)
        return self._process

    def revive(self) -> None:
        """Start it again if it has ended by itself, as a kubelet does."""
        if self._process is not None and self._process.process.poll() is not None:
            self._running.close()
            self._process = None
        self.ready()

    def kill(self) -> None:
        """End it at once, in the middle of whatever it does; fails where it has ended already."""
        process, self._process = self._process, None
        alive = process is None or process.process.poll() is None
        self._running.close()
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEADER_ELECTION_ID}"
        self._plane.administrator.request("DELETE", lease)
        assert alive, "seiretsu serve ended by itself:\n" + "\n".join(process.log if process else ())
