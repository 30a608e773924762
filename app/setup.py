"""The settings that follow from the command line and the Configuration: addresses, names, certificates. Computed once,
at the start.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from api.configuration import Configuration, Loaded
from app import tls
from app.server import Address, Farewell
from app.visibility import FrontProxy
from certs import pki
from controller.settings import ControllerSettings, from_configuration
from webhook.configurations import Endpoint
from webhook.expressions import compiled
from webhook.policy import policy
from webhook.settings import TrustedControllers, WebhookSettings

LOCAL_FAREWELL = Farewell(lame_duck=1.0, calls=4.0)
CLUSTER_FAREWELL = Farewell(lame_duck=10.0, calls=4.0)
"""In a cluster an endpoint is still called for some seconds after it was withdrawn."""

CALLS_PER_SECOND, CALLS_AT_ONCE = 2000.0, 4000
"""The rate of calls if the Configuration does not set it. Kueue's 300 and 500 limit admission to a hundred a second;
the API server has its own fairness and answers 429 when it is overloaded, and then the client slows down.
"""

SERVICE_SUFFIX = "-webhook-service"
METRICS_SUFFIX = "-controller-manager-metrics-service"
VISIBILITY_SUFFIX = "-visibility-server"
UI_SUFFIX = "-ui"
UI_PORT = 8445


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """The command line of `seiretsu serve`; None is "not given"."""

    kubeconfig: Path | None = None
    config: Path | None = None
    bind: str | None = None
    install: bool = False
    cert_dir: Path | None = None
    namespace: str | None = None
    lame_duck: float | None = None
    client_ca: Path | None = None
    client_names: tuple[str, ...] = ()
    log_level: str = "info"
    profile: Path | None = None


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything that is known before the port is open.

    `health` is a separate port with plain HTTP, `metrics` one with TLS for clients with the right to read them; on a
    local address it has plain HTTP for any client. Without them, the main port answers probes, and outside of a cluster
    metrics too: inside it, clients of the webhooks should not read them. `visibility` is the port of the visibility
    API, `ui` that of the page, None if these are off; `ui_proxy` is who may name the users of the page. `mounted` is
    whether `cert_dir` has certificates of another program; otherwise it has Seiretsu's CA, and if it is None the Secret
    has it. With `client_ca` only clients with a certificate of this CA (and one of `client_names`, if there are any)
    may call hooks.
    """

    bind: Address
    install: bool
    settings: WebhookSettings
    service: str
    secret: str
    service_port: int = 443
    cert_dir: Path | None = None
    mounted: bool = False
    health: Address | None = None
    metrics: Address | None = None
    visibility: Address | None = None
    ui: Address | None = None
    ui_proxy: FrontProxy = field(default_factory=FrontProxy)
    readiness: str = "readyz"
    liveness: str = "healthz"
    tls_minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    tls_ciphers: tuple[str, ...] = ()
    client_ca: bytes = b""
    client_names: tuple[str, ...] = ()
    farewell: Farewell = field(default_factory=lambda: LOCAL_FAREWELL)
    controller: ControllerSettings = field(default_factory=ControllerSettings)
    calls_per_second: float = CALLS_PER_SECOND
    calls_at_once: int = CALLS_AT_ONCE

    @property
    def namespace(self) -> str:
        """Returns the namespace of Seiretsu."""
        return self.settings.namespace

    @property
    def names(self) -> tuple[str, ...]:
        """The host names with which clients call, the most used one first."""
        local = ("localhost", "127.0.0.1", "::1")
        if self.install:
            host = _reachable(self.bind.host)
            return tuple(dict.fromkeys((host, *local, socket.gethostname().lower())))
        qualified = f"{self.service}.{self.namespace}.svc"
        others = (
            METRICS_SUFFIX,
            *((VISIBILITY_SUFFIX,) if self.visibility else ()),
            *((UI_SUFFIX,) if self.ui else ()),
        )
        services = [f"{self.configuration_prefix}{suffix}.{self.namespace}.svc" for suffix in others]
        return (qualified, f"{qualified}.cluster.local", f"{self.service}.{self.namespace}", *services, *local)

    @property
    def configuration_prefix(self) -> str:
        """The name of the webhook configurations without `-mutating-webhook-configuration`; the chart uses the same."""
        return "seiretsu" if self.install else self.service.removesuffix(SERVICE_SUFFIX)

    def endpoint(self, bound: Address) -> Endpoint:
        """Returns the address with which the API server calls, when the port is known."""
        if self.install:
            return Endpoint(url=f"https://{Address(_reachable(bound.host), bound.port)}")
        return Endpoint(service=self.service, namespace=self.namespace, port=self.service_port)


def decide(options: SetupOptions, loaded: Loaded, environment: Mapping[str, str]) -> Setup:
    """Returns the setup from the options and the Configuration. Raises `ValueError` with a sentence for a person.

    Outside of a cluster a port besides the main one is opened only if the Configuration names it: several servers run
    on a developer's machine, and Kueue's default ports are the same for all.
    """
    configuration = loaded.configuration
    farewell = LOCAL_FAREWELL if options.install else CLUSTER_FAREWELL
    if options.lame_duck is not None:
        farewell = Farewell(options.lame_duck, farewell.calls)
    management = configuration.internal_cert_management
    ciphers, _ = tls.ciphers(configuration.tls.cipher_suites if configuration.tls else ())
    connection = configuration.client_connection
    health = _own_port(
        configuration.health.health_probe_bind_address,
        wanted=not options.install or "health_probe_bind_address" in configuration.health.model_fields_set,
    )
    metrics = _own_port(
        configuration.metrics.bind_address,
        wanted=not options.install or "bind_address" in configuration.metrics.model_fields_set,
    )
    if metrics is not None and metrics == health and not metrics.local:
        raise ValueError(
            f"health.healthProbeBindAddress and metrics.bindAddress are both {metrics}: metrics are served with TLS,"
            " probes without it, so give them different ports"
        )
    return Setup(
        bind=Address.parse(options.bind or _default_bind(options, configuration)),
        install=options.install,
        settings=admission_settings(loaded, options.namespace),
        service=management.webhook_service_name,
        secret=management.webhook_secret_name,
        cert_dir=_cert_dir(options, configuration, environment),
        mounted=not management.enable,
        health=health,
        metrics=metrics,
        visibility=_visibility(loaded),
        ui=_ui(options, configuration),
        ui_proxy=_ui_proxy(configuration),
        readiness=configuration.health.readiness_endpoint_name.strip("/") or "readyz",
        liveness=configuration.health.liveness_endpoint_name.strip("/") or "healthz",
        tls_minimum=tls.minimum(configuration.tls),
        tls_ciphers=ciphers,
        client_ca=_client_ca(options),
        client_names=options.client_names,
        farewell=farewell,
        controller=from_configuration(
            configuration, elect=_others_may_run(options, configuration), namespace=options.namespace
        ),
        calls_per_second=connection.qps if "qps" in connection.model_fields_set else CALLS_PER_SECOND,
        calls_at_once=connection.burst if "burst" in connection.model_fields_set else CALLS_AT_ONCE,
    )


def _others_may_run(options: SetupOptions, configuration: Configuration) -> bool:
    """In a cluster always; outside of it only if the Configuration has leader election."""
    return not options.install or "leader_elect" in configuration.leader_election.model_fields_set


def admission_settings(loaded: Loaded, namespace: str | None = None) -> WebhookSettings:
    """Returns the part of a Configuration that hooks and handlers use; ``namespace`` replaces that of the
    Configuration.
    """
    configuration = loaded.configuration
    integrations = configuration.integrations
    return WebhookSettings(
        namespace=namespace or configuration.namespace,
        manage_jobs_without_queue_name=configuration.manage_jobs_without_queue_name,
        managed_jobs_namespace_selector=configuration.managed_namespaces,
        frameworks=frozenset(integrations.frameworks),
        external_frameworks=frozenset(integrations.external_frameworks),
        gates=loaded.gates,
        feedback=policy(configuration.seiretsu.feedback),
        expressions=compiled(configuration.seiretsu.feedback),
        controllers=TrustedControllers(
            frozenset(configuration.seiretsu.controllers.accounts), configuration.seiretsu.controllers.by_rights
        ),
        records_users=configuration.seiretsu.history.enable and configuration.seiretsu.history.users,
    )


def _default_bind(options: SetupOptions, configuration: Configuration) -> str:
    host = configuration.webhook.host or ("127.0.0.1" if options.install else "0.0.0.0")
    return str(Address(host, configuration.webhook.port))


def _cert_dir(options: SetupOptions, configuration: Configuration, environment: Mapping[str, str]) -> Path | None:
    if options.cert_dir is not None:
        return options.cert_dir
    if not configuration.internal_cert_management.enable:
        return Path(configuration.webhook.cert_dir)
    return state_directory(environment) / "certs" if options.install else None


def _client_ca(options: SetupOptions) -> bytes:
    if options.client_ca is None:
        if options.client_names:
            raise ValueError("--client-name has no effect without --client-ca")
        return b""
    text = options.client_ca.read_bytes()
    try:
        if pki.read_certificates(text):
            return text
    except pki.CertificateError as error:
        raise ValueError(f"--client-ca {options.client_ca}: {error}") from None
    raise ValueError(f"--client-ca {options.client_ca}: there is no certificate in it")


def _visibility(loaded: Loaded) -> Address | None:
    """Only with the section `visibilityServer`: an APIService whose server is down delays the deletion of every
    namespace of the cluster, so nobody gets one unasked.
    """
    configuration = loaded.configuration
    served = configuration.visibility_server
    if "visibility_server" not in configuration.model_fields_set or not loaded.gates["VisibilityOnDemand"]:
        return None
    return Address(served.bind_address, served.bind_port)


def _ui(options: SetupOptions, configuration: Configuration) -> Address | None:
    wanted = configuration.seiretsu.ui
    default = "127.0.0.1:0" if options.install else f"0.0.0.0:{UI_PORT}"
    return Address.parse(wanted.bind_address or default) if wanted.enable else None


def _ui_proxy(configuration: Configuration) -> FrontProxy:
    """Returns how the proxy of the page identifies itself; nobody may name users without it."""
    wanted = configuration.seiretsu.ui.proxy
    if not configuration.seiretsu.ui.enable or wanted is None:
        return FrontProxy()
    authority = Path(wanted.client_ca_file).read_bytes()
    try:
        if not pki.read_certificates(authority):
            raise ValueError(f"seiretsu.ui.proxy.clientCaFile: there is no certificate in {wanted.client_ca_file}")
    except pki.CertificateError as error:
        raise ValueError(f"seiretsu.ui.proxy.clientCaFile: {wanted.client_ca_file}: {error}") from None
    return FrontProxy(
        ca=authority,
        names=tuple(wanted.allowed_names),
        user=_lower(wanted.username_headers),
        group=_lower(wanted.group_headers),
        extra=_lower(wanted.extra_headers_prefix),
    )


def _lower(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(each.lower() for each in names)


def _own_port(text: str, *, wanted: bool) -> Address | None:
    """`0` and an empty text switch a port off, as in Kueue."""
    return Address.parse(text) if wanted and text not in ("", "0") else None


def state_directory(environment: Mapping[str, str]) -> Path:
    """Returns the directory for data that must outlive a person's own server (XDG base directories)."""
    base = environment.get("XDG_STATE_HOME") or ""
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "seiretsu"


def _reachable(host: str) -> str:
    """A host the API server of a local control plane can call, where we listen on every address."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
