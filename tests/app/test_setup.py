"""The setup that results from the command line and the Configuration."""

import ssl
from pathlib import Path

import pytest

from api.configuration import ConfigurationError, load
from app import tls
from app.server import Address, Farewell
from app.setup import Setup, SetupOptions, decide
from devcluster.certificates import Authority

HOME = {"XDG_STATE_HOME": "/state"}


def decided(text: str = "", *, install: bool = True, bind: str | None = None, cert_dir: Path | None = None) -> Setup:
    return decide(SetupOptions(install=install, bind=bind, cert_dir=cert_dir), load(text), HOME)


def test_out_of_a_cluster_one_local_port_serves_all_and_certificates_live_with_the_person() -> None:
    found = decided()
    assert (found.bind, found.health, found.metrics) == (Address("127.0.0.1", 9443), None, None)
    assert found.cert_dir == Path("/state/seiretsu/certs")
    assert found.names[0] == "127.0.0.1"
    assert found.endpoint(Address("127.0.0.1", 1234)).url == "https://127.0.0.1:1234"
    assert found.configuration_prefix == "seiretsu"


def test_in_a_cluster_the_ports_are_kueues_and_the_ca_is_in_the_secret() -> None:
    found = decided(
        "namespace: queueing\n"
        "internalCertManagement: {webhookServiceName: my-seiretsu-webhook-service, webhookSecretName: certs}\n",
        install=False,
    )
    assert found.bind == Address("0.0.0.0", 9443)
    assert (found.health, found.metrics) == (Address("0.0.0.0", 8081), Address("0.0.0.0", 8443))
    assert (found.cert_dir, found.secret, found.mounted) == (None, "certs", False)
    assert found.names[:2] == (
        "my-seiretsu-webhook-service.queueing.svc",
        "my-seiretsu-webhook-service.queueing.svc.cluster.local",
    )
    assert found.configuration_prefix == "my-seiretsu"
    endpoint = found.endpoint(found.bind)
    assert (endpoint.url, endpoint.service, endpoint.namespace) == ("", "my-seiretsu-webhook-service", "queueing")


def test_ports_that_the_configuration_names_are_opened_out_of_a_cluster_too() -> None:
    found = decided("health: {healthProbeBindAddress: ':8081'}\nmetrics: {bindAddress: '127.0.0.1:9090'}\n")
    assert (found.health, found.metrics) == (Address("0.0.0.0", 8081), Address("127.0.0.1", 9090))


def test_a_port_of_0_is_none() -> None:
    found = decided("health: {healthProbeBindAddress: '0'}\nmetrics: {bindAddress: '0'}\n", install=False)
    assert (found.health, found.metrics) == (None, None)


def test_externally_managed_certificates_are_read_from_the_mount() -> None:
    found = decided("internalCertManagement: {enable: false}\n", install=False)
    assert (found.mounted, found.cert_dir) == (True, Path("/tmp/k8s-webhook-server/serving-certs"))


def test_an_endpoint_of_a_cluster_is_served_for_ten_seconds_after_sigterm() -> None:
    assert decided().farewell.total < 8
    assert decided(install=False).farewell == Farewell(lame_duck=10, calls=4)


def test_a_port_for_probes_and_metrics_with_tls_is_refused() -> None:
    with pytest.raises(ValueError, match=r"are both 0\.0\.0\.0:8081: metrics are served with TLS"):
        decided("health: {healthProbeBindAddress: ':8081'}\nmetrics: {bindAddress: ':8081'}\n")
    local = decided("health: {healthProbeBindAddress: '127.0.0.1:1'}\nmetrics: {bindAddress: '127.0.0.1:1'}\n")
    assert local.health == local.metrics


def test_the_serving_certificate_has_the_name_of_the_metrics_service() -> None:
    found = decided("internalCertManagement: {webhookServiceName: my-seiretsu-webhook-service}\n", install=False)
    assert "my-seiretsu-controller-manager-metrics-service.kueue-system.svc" in found.names


def test_what_was_given_wins() -> None:
    found = decided("webhook: {port: 9444}\n", bind="[::]:0", cert_dir=Path("/elsewhere"))
    assert (found.bind, found.cert_dir, found.names[0]) == (Address("::", 0), Path("/elsewhere"), "::1")
    assert decided("webhook: {port: 9444, host: 10.0.0.1}\n").bind == Address("10.0.0.1", 9444)


def test_the_visibility_api_is_served_on_demand_and_only_with_its_gate() -> None:
    section = "visibilityServer: {bindPort: 8082}\n"
    assert decided(section).visibility == Address("0.0.0.0", 8082)
    assert decided(f"{section}featureGates: {{VisibilityOnDemand: false}}\n").visibility is None
    assert decided().visibility is None


def test_admission_follows_the_configuration() -> None:
    settings = decided(
        "manageJobsWithoutQueueName: true\nmanagedJobsNamespaceSelector: {matchLabels: {team: a}}\n"
        "featureGates: {PartialAdmission: false}\n"
    ).settings
    assert settings.manage_jobs_without_queue_name
    assert settings.managed_jobs_namespace_selector == {"matchLabels": {"team": "a"}}
    assert not settings.enabled("PartialAdmission")


def test_wrong_fields_are_reported_with_their_paths() -> None:
    with pytest.raises(ConfigurationError, match=r"webhook\.prot: .*did you mean \"port\""):
        decided("webhook: {prot: 1}\n")


@pytest.mark.parametrize(
    ("text", "minimum", "ciphers"),
    [
        ("", ssl.TLSVersion.TLSv1_3, ()),
        ("tls: {minVersion: VersionTLS12}\n", ssl.TLSVersion.TLSv1_2, ()),
        (
            "tls: {minVersion: VersionTLS12, cipherSuites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]}\n",
            ssl.TLSVersion.TLSv1_2,
            ("ECDHE-ECDSA-AES128-GCM-SHA256",),
        ),
    ],
    ids=["nothing said: 1.3", "1.2", "with its ciphers"],
)
def test_tls(text: str, minimum: ssl.TLSVersion, ciphers: tuple[str, ...]) -> None:
    found = decided(text)
    assert (found.tls_minimum, found.tls_ciphers) == (minimum, ciphers)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(":".join(ciphers) or "DEFAULT")


def test_ciphers_without_forward_secrecy_are_left_out() -> None:
    assert tls.ciphers(["TLS_RSA_WITH_AES_128_CBC_SHA"]) == ((), ("TLS_RSA_WITH_AES_128_CBC_SHA",))


def test_a_client_ca_is_read_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "ca.crt"
    path.write_bytes(Authority("clients").pair.certificate)
    found = decide(SetupOptions(install=True, client_ca=path, client_names=("kube-apiserver",)), load(""), HOME)
    assert (found.client_ca, found.client_names) == (path.read_bytes(), ("kube-apiserver",))
    path.write_text("nothing")
    with pytest.raises(ValueError, match=r"--client-ca .*: not a PEM certificate"):
        decide(SetupOptions(install=True, client_ca=path), load(""), HOME)
    with pytest.raises(ValueError, match="--client-name has no effect without --client-ca"):
        decide(SetupOptions(install=True, client_names=("a",)), load(""), HOME)
