"""One real control plane in one directory: started in about two seconds, stopped without a trace.

    with ControlPlane.start(directory, Spec(nodes=(NodeGroup(4),))) as plane:
        plane.kubectl("get", "nodes")

Everything here blocks: from a coroutine, call it through `asyncio.to_thread`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from devcluster import build, components, guard, nodes, processes
from devcluster.api import Administrator
from devcluster.certificates import Authority, signing_key, write_private
from devcluster.components import APISERVER, CONTROLLER_MANAGER, ETCD, KWOK, SCHEDULER, Layout, Ports, User
from devcluster.errors import ClusterError
from devcluster.nodes import NodeGroup
from devcluster.tools import Report

START_SECONDS = 180.0
"""How long a component may take to get ready; two seconds are usual, a machine busy compiling takes longer."""
STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02
_PORT_ATTEMPTS = 5
ADMINISTRATORS = ("system:masters",)
"""The groups of the administrator, who has a certificate, too (`admin.crt`): for what must work with one."""
_PROGRAMS = (ETCD, APISERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK, "kubectl")


@dataclass(frozen=True, slots=True)
class Spec:
    """The parts of a control plane. Without nodes no scheduler or simulator runs: pods of Jobs stay pending.

    ``apiserver`` are further options of the API server.
    """

    name: str = "seiretsu"
    nodes: tuple[NodeGroup, ...] = (NodeGroup(),)
    apiserver: tuple[str, ...] = ()


class PortTakenError(Exception):
    """Another process took a port between its choice and the component's listening on it."""


class ControlPlane:
    """A running control plane. Leaving it as a context manager stops it and removes its directory."""

    def __init__(self, spec: Spec, layout: Layout, ports: Ports, programs: dict[str, Path]) -> None:
        self.spec = spec
        self.layout = layout
        self.ports = ports
        self.programs = programs
        self._guard: tuple[subprocess.Popen[bytes], IO[bytes]] | None = None

    @classmethod
    def start(
        cls,
        directory: Path | None = None,
        spec: Spec | None = None,
        *,
        report: Report | None = None,
    ) -> Self:
        """Starts a control plane in a directory that is created for it (by default a temporary one) and waits until it
        is ready.

        It ends with this process, for any reason, until `keep` is called. Builds missing tools first. Raises
        `ClusterError` with the log's end when a component does not start.
        """
        programs = build.ensure(*_PROGRAMS, report=report)
        directory = directory or Path(tempfile.mkdtemp(prefix="seiretsu-"))
        for _ in range(_PORT_ATTEMPTS):
            plane = cls(spec or Spec(), Layout(directory), _free_ports(), programs)
            try:
                plane._start()
            except PortTakenError:
                plane.stop()
            except BaseException:
                plane.stop()
                raise
            return plane
        raise ClusterError("No free ports: other programs took the ones chosen, five times over. Try again.")

    @classmethod
    def attach(cls, directory: Path, name: str) -> Self:
        """Returns the control plane that another process started in a directory; `ClusterError` when there is none."""
        try:
            ports = Ports(**json.loads((directory / "ports.json").read_text()))
        except FileNotFoundError:
            raise ClusterError(f"No control plane has been started in {directory}.") from None
        return cls(Spec(name=name), Layout(directory), ports, build.ensure(*_PROGRAMS))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.layout.kubeconfig

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://127.0.0.1:{self.ports.apiserver}"

    @functools.cached_property
    def administrator(self) -> Administrator:
        """A small client with the administrator's token."""
        return Administrator(self.kubeconfig)

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = False, timeout: float = 300.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs real kubectl as the administrator. `check` raises `ClusterError` with its output when it fails."""
        done = subprocess.run(
            [self.programs["kubectl"], *arguments],
            env=self.environment(),
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)}: exit {done.returncode}: {done.stderr or done.stdout}")
        return done

    def kubeconfig_of(self, namespace: str, account: str, directory: Path, *options: str) -> Path:
        """Returns a new kubeconfig in ``directory`` with a token of a service account and nothing else; ``options`` are
        those of `kubectl create token`.
        """
        token = self.kubectl("create", "token", account, "-n", namespace, *options, check=True).stdout.strip()
        config = json.loads(self.kubeconfig.read_text())
        config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
        path = directory / f"kubeconfig-{namespace}-{account}"
        path.write_text(json.dumps(config))
        return path

    def environment(self) -> dict[str, str]:
        """The environment in which kubectl, helm and the like meet this control plane and no other."""
        # kubectl's discovery cache uses the address as key, and ports are reused: each control plane gets its own
        return os.environ | {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": str(self.layout.directory / "cache")}

    def run(self, name: str, command: Sequence[str | Path], *, environ: Mapping[str, str] | None = None) -> Path:
        """Run a program as a guest of this control plane, to be stopped with it; returns the path of its log."""
        log = self.layout.log(name)
        processes.start(name, command, log=log, records=self.layout.records, environ=environ)
        return log

    def runs(self, name: str) -> bool:
        """Whether a component or guest of that name is running."""
        return any(record.alive() for record in self._recorded(name))

    def stop_apiserver(self) -> None:
        """Stops the API server alone; its data stays in etcd."""
        self._stop_component(APISERVER)

    def kill_apiserver(self) -> None:
        """Stop the API server as a crash would."""
        for record in self._recorded(APISERVER):
            record.send(signal.SIGKILL)
        self._stop_component(APISERVER)

    def start_apiserver(self) -> None:
        """Start it again, on the same port and the same data, and wait until it is ready."""
        program = self.programs[APISERVER]
        for attempt in range(_PORT_ATTEMPTS):
            self.layout.log(APISERVER).unlink(missing_ok=True)  # an earlier message about a port must not count again
            record = self._run_apiserver(program)
            try:
                self._wait(self.administrator.ready, [record], "the API server")
            except PortTakenError:
                # while nothing listened, a connection used the port as its own end; it releases it soon
                if attempt == _PORT_ATTEMPTS - 1:
                    raise
                time.sleep(1.0)
            else:
                return

    def pause(self, program: str = APISERVER) -> None:
        """Freeze a program: of the API server connections stay open, and nothing is answered."""
        for record in self._recorded(program):
            record.send(signal.SIGSTOP)

    def resume(self, program: str = APISERVER) -> None:
        """Let a frozen program go on."""
        for record in self._recorded(program):
            record.send(signal.SIGCONT)

    def stop(self) -> None:
        """Stop every process of this control plane and remove its directory. Nothing happens the second time."""
        stop_and_remove(self.layout.directory)
        self._dismiss_guard()

    def keep(self) -> None:
        """Let it outlive this process: it stays until `clusters.down`."""
        self._dismiss_guard()

    def _dismiss_guard(self) -> None:
        if self._guard:
            process, pipe = self._guard
            process.kill()
            process.wait()
            pipe.close()
            self._guard = None

    def _start(self) -> None:
        for path in (self.layout.directory, self.layout.pki, self.layout.logs, self.layout.records):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._guard = guard.start(self.layout.directory, self.layout.records)
        layout, ports, programs = self.layout, self.ports, self.programs
        running = [self._run(ETCD, components.etcd(programs[ETCD], layout, ports))]
        self._write_files()
        # an API server that starts first would wait a whole second before it tries again
        self._wait(lambda: _listens(ports.etcd), running, "etcd")
        running.append(self._run_apiserver(programs[APISERVER]))
        administrator = self.administrator
        self._wait(administrator.ready, running, "the API server")
        manager = components.controller_manager(programs[CONTROLLER_MANAGER], layout)
        running.append(self._run(CONTROLLER_MANAGER, manager))
        if self.spec.nodes:
            running.append(self._run(SCHEDULER, components.scheduler(programs[SCHEDULER], layout)))
            running.append(self._run(KWOK, components.kwok(programs[KWOK], layout, layout.directory / "stages.yaml")))
            for group in self.spec.nodes:
                for node in nodes.nodes(group):
                    administrator.create("/api/v1/nodes", node)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._wait(lambda: administrator.get(account) is not None, running, "the controller manager")
        self._wait(lambda: _schedulable(administrator), running, "the nodes")

    def _run_apiserver(self, program: Path) -> processes.Record:
        return self._run(APISERVER, [*components.apiserver(program, self.layout, self.ports), *self.spec.apiserver])

    def _write_files(self) -> None:
        """Certificates, tokens, kubeconfigs and configurations, while etcd is starting."""
        pki = self.layout.pki
        authority = Authority(f"{self.spec.name} authority")
        authority.pair.write(pki / "ca")
        authority.server("localhost", "127.0.0.1", *components.SERVICE_HOSTS).write(pki / "apiserver")
        authority.client("front-proxy-client").write(pki / "front-proxy-client")
        authority.client("admin", *ADMINISTRATORS).write(pki / "admin")
        private, public = signing_key()
        write_private(pki / "service-account.key", private)
        (pki / "service-account.pub").write_bytes(public)
        users = {
            self.layout.kubeconfig: User("admin", ADMINISTRATORS),
            self.layout.config(KWOK): User("kwok", ADMINISTRATORS),
            self.layout.config(CONTROLLER_MANAGER): User("system:kube-controller-manager"),
            self.layout.directory / "scheduler.kubeconfig": User("system:kube-scheduler"),
        }
        write_private(self.layout.tokens, components.tokens(users.values()).encode())
        certificate = authority.pair.certificate
        for path, user in users.items():
            text = components.kubeconfig(self.spec.name, self.ports, certificate, user)
            write_private(path, text.encode())
        configuration = components.scheduler_configuration(self.layout.directory / "scheduler.kubeconfig")
        self.layout.config(SCHEDULER).write_text(configuration)
        (self.layout.directory / "stages.yaml").write_text(nodes.stages())
        ports = {name: getattr(self.ports, name) for name in ("etcd", "etcd_peer", "apiserver")}
        (self.layout.directory / "ports.json").write_text(json.dumps(ports))

    def _run(self, name: str, command: Sequence[str | Path]) -> processes.Record:
        return processes.start(name, command, log=self.layout.log(name), records=self.layout.records)

    def _wait(self, ready: Callable[[], bool], running: Iterable[processes.Record], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            for record in running:
                if (code := processes.exit_code(record)) is not None:
                    self._explain_exit(record.name, code)
            if time.monotonic() >= deadline:
                logs = ", ".join(str(self.layout.log(record.name)) for record in running)
                raise ClusterError(f"Waited {START_SECONDS:.0f} s for {what} in vain. The logs: {logs}")
            time.sleep(_POLL_SECONDS)

    def _explain_exit(self, name: str, code: int) -> None:
        log = self.layout.log(name).read_text(errors="replace")
        if "address already in use" in log:
            raise PortTakenError
        tail = "\n".join(log.strip().splitlines()[-10:])
        raise ClusterError(f"{name} ended while starting (exit {code}). The end of its log:\n{tail}")

    def _recorded(self, name: str) -> list[processes.Record]:
        return [record for record in processes.recorded(self.layout.records) if record.name == name]

    def _stop_component(self, name: str) -> None:
        processes.stop(self._recorded(name), grace=STOP_SECONDS)


def stop_and_remove(directory: Path) -> None:
    """Stops what is recorded in a control plane's directory, clients of the API first and etcd last; then removes
    it.
    """
    layout = Layout(directory)
    if layout.records.is_dir():
        every = processes.recorded(layout.records)
        guests = {record.name for record in every} - {KWOK, SCHEDULER, CONTROLLER_MANAGER, APISERVER, ETCD}
        for names in (guests, {KWOK, SCHEDULER, CONTROLLER_MANAGER}, {APISERVER}, {ETCD}):
            processes.stop([record for record in every if record.name in names], grace=STOP_SECONDS)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(directory)


def _schedulable(administrator: Administrator) -> bool:
    """Whether no node has a taint of the kind that Kubernetes gives nodes that are not known to be ready."""
    found = administrator.get("/api/v1/nodes")
    if found is None:
        return False
    taints = (taint for node in found["items"] for taint in node["spec"].get("taints", ()))
    return not any(taint["key"].startswith("node.kubernetes.io/") for taint in taints)


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _free_ports() -> Ports:
    """Three ports free at this moment: all held at once, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return Ports(*(each.getsockname()[1] for each in sockets))
