"""The command line of every component of a control plane, and the files it reads. Pure: nothing is run here."""

from __future__ import annotations

import base64
import csv
import io
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SERVICE_RANGE = "127.128.0.0/16"
SERVICE_HOSTS = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.128.0.1")

ETCD = "etcd"
APISERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
KWOK = "kwok"

CLIENT_QPS = 500
CLIENT_BURST = 1000
"""Limits of the components' own clients; the upstream defaults (20 and 30) would make them the bottleneck."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the components of one control plane listen, all on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    apiserver: int


@dataclass(frozen=True, slots=True)
class User:
    """A user of the API server, with the token that it sends: a client certificate is verified again in each request,
    which takes 3 to 7 % of an API server's CPU.
    """

    name: str
    groups: tuple[str, ...] = ()
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the files of one control plane lie."""

    directory: Path

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.directory / "pki"

    @property
    def logs(self) -> Path:
        """One log a component."""
        return self.directory / "logs"

    @property
    def records(self) -> Path:
        """One record a running process."""
        return self.directory / "run"

    @property
    def tokens(self) -> Path:
        """Whose tokens the API server accepts."""
        return self.pki / "tokens.csv"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    def log(self, component: str) -> Path:
        """The log of a component."""
        return self.logs / f"{component}.log"

    def config(self, component: str) -> Path:
        """The kubeconfig, or other configuration, of a component."""
        return self.directory / f"{component}.conf"


def etcd(program: Path, layout: Layout, ports: Ports) -> list[str | Path]:
    """A single member without fsync: its data need not survive a reboot of the machine."""
    client, peer = f"http://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peer}"
    return [
        program,
        "--name=default",
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--heartbeat-interval=50",  # an idle member works at each of them
        "--election-timeout=250",  # no competitors: start-up waits only for the first election
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def apiserver(program: Path, layout: Layout, ports: Ports) -> list[str | Path]:
    """RBAC, service-account tokens, the aggregation layer and every default admission plugin; no audit log.

    Services get loopback addresses: nothing here implements cluster addresses, so the API server reaches a program on
    this machine that listens on a Service's port.
    """
    pki = layout.pki
    return [
        program,
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports.apiserver}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki / 'service-account.pub'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--requestheader-client-ca-file={pki / 'ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
    ]


def controller_manager(program: Path, layout: Layout) -> list[str | Path]:
    """All default controllers. A node counts as lost after ten minutes: on a busy machine the simulator may lag."""
    pki, kubeconfig = layout.pki, layout.config(CONTROLLER_MANAGER)
    return [
        program,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={CLIENT_BURST}",
        "--node-monitor-grace-period=10m0s",
        "--concurrent-job-syncs=20",
    ]


def scheduler(program: Path, layout: Layout) -> list[str | Path]:
    """The default scheduler."""
    return [program, f"--config={layout.config(SCHEDULER)}", "--secure-port=0"]


def kwok(program: Path, layout: Layout, stages: Path) -> list[str | Path]:
    """The simulator of every node, and of the pods on it."""
    return [
        program,
        f"--kubeconfig={layout.config(KWOK)}",
        f"--config={stages}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=200",
        "--server-address=",
    ]


def scheduler_configuration(kubeconfig: Path) -> str:
    """The scheduler's configuration: the client's limits have no flag of their own."""
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": CLIENT_QPS, "burst": CLIENT_BURST},
        }
    )


def tokens(users: Iterable[User]) -> str:
    """The file of static tokens that an API server reads, a line a user: token, name, uid and groups."""
    rows = [[user.token, user.name, user.name, *([",".join(user.groups)] if user.groups else [])] for user in users]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def kubeconfig(name: str, ports: Ports, authority: bytes, user: User) -> str:
    """A kubeconfig with everything in it; JSON, which is YAML."""
    server = f"https://127.0.0.1:{ports.apiserver}"
    trusted = base64.b64encode(authority).decode()
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": trusted}}],
        "users": [{"name": user.name, "user": {"token": user.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user.name}}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"
