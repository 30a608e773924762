"""What the command line and the Configuration come to: addresses, names, certificates. Decided once, before anything
runs.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from api import names
from app.server import Address, Farewell
from webhook.configurations import Endpoint
from webhook.settings import Settings

LOCAL_FAREWELL = Farewell(lame_duck=1.0, calls=4.0)
CLUSTER_FAREWELL = Farewell(lame_duck=4.0, calls=4.0)
"""In a cluster an endpoint is still called for some seconds after it was withdrawn. Both end within ten seconds."""

SERVICE_SUFFIX = "-webhook-service"


@dataclass(frozen=True, slots=True)
class Options:
    """The command line of `seiretsu serve`; None is "not given"."""

    kubeconfig: Path | None = None
    config: Path | None = None
    bind: str | None = None
    install: bool = False
    cert_dir: Path | None = None
    namespace: str | None = None
    lame_duck: float | None = None
    log_level: str = "info"


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that is known before the port is open.

    `health` and `metrics` are plain HTTP ports of their own, None where the main port serves all. `mounted` says that
    `cert_dir` holds certificates of somebody else's making; otherwise it holds our CA, and where it is None the Secret
    does.
    """

    bind: Address
    install: bool
    settings: Settings
    service: str
    secret: str
    service_port: int = 443
    cert_dir: Path | None = None
    mounted: bool = False
    health: Address | None = None
    metrics: Address | None = None
    tls_minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    tls_ciphers: tuple[str, ...] = ()
    farewell: Farewell = field(default_factory=lambda: LOCAL_FAREWELL)

    @property
    def namespace(self) -> str:
        """Our own namespace."""
        return self.settings.namespace

    @property
    def names(self) -> tuple[str, ...]:
        """What callers may call us, the one they do first."""
        local = ("localhost", "127.0.0.1", "::1")
        if self.install:
            host = _reachable(self.bind.host)
            return tuple(dict.fromkeys((host, *local, socket.gethostname().lower())))
        qualified = f"{self.service}.{self.namespace}.svc"
        return (qualified, f"{qualified}.cluster.local", f"{self.service}.{self.namespace}", *local)

    @property
    def configuration_prefix(self) -> str:
        """The name of our webhook configurations up to `-mutating-webhook-configuration`; the chart makes it so."""
        return "seiretsu" if self.install else self.service.removesuffix(SERVICE_SUFFIX)

    def endpoint(self, bound: Address) -> Endpoint:
        """Where the API server calls us, once the port is known."""
        if self.install:
            return Endpoint(url=f"https://{Address(_reachable(bound.host), bound.port)}")
        return Endpoint(service=self.service, namespace=self.namespace, port=self.service_port)


def decide(options: Options, environment: Mapping[str, str] | None = None) -> Setup:
    """What follows of the options. Raises `ValueError` with a sentence for a person."""
    env = os.environ if environment is None else environment
    farewell = LOCAL_FAREWELL if options.install else CLUSTER_FAREWELL
    if options.lame_duck is not None:
        farewell = Farewell(options.lame_duck, farewell.calls)
    default = "127.0.0.1:9443" if options.install else "0.0.0.0:9443"
    return Setup(
        bind=Address.parse(options.bind or default),
        install=options.install,
        settings=Settings(namespace=options.namespace or names.NAMESPACE),
        service=f"seiretsu{SERVICE_SUFFIX}",
        secret="seiretsu-webhook-server-cert",
        cert_dir=options.cert_dir or (state_directory(env) / "certs" if options.install else None),
        farewell=farewell,
    )


def state_directory(environment: Mapping[str, str]) -> Path:
    """Where a person's own server keeps what must outlive it (XDG base directories)."""
    base = environment.get("XDG_STATE_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "seiretsu"


def _reachable(host: str) -> str:
    """A host the API server of a local control plane can call, where we listen on every address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
