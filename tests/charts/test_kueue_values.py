"""A values file of Kueue's chart is accepted by this one, and means the same, except where the notes say otherwise."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from api.configuration import load
from api.objects import Raw
from release.version import version
from tests.charts.rendering import documents, notes, only, rendered

pytestmark = pytest.mark.cluster

KUEUE: Final[Raw] = yaml.safe_load((Path(__file__).parent / "kueue_values.yaml").read_text())


def given(**groups: Any) -> Raw:
    """Returns Kueue's values with changes; a dict changes the values that it names."""
    return merged(KUEUE, groups)


def merged(values: Raw, changes: Raw) -> Raw:
    found = copy.deepcopy(values)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(found.get(name), dict)
        found[name] = merged(found[name], value) if both else value
    return found


def deployment(values: Raw) -> Raw:
    return dict(only(documents(rendered(values)), "Deployment")["spec"])


def container(values: Raw) -> Raw:
    (found,) = deployment(values)["template"]["spec"]["containers"]
    return dict(found)


def of_manager(**values: Any) -> Raw:
    return given(controllerManager={"manager": values})


def of_deployment(**values: Any) -> Raw:
    return given(controllerManager=values)


def test_kueues_image_is_never_run_and_the_notes_say_so() -> None:
    assert container(KUEUE)["image"] == f"seiretsu:{version()}"
    assert container(KUEUE)["imagePullPolicy"] == "IfNotPresent", "a node may have it, and no registry"
    told = notes(KUEUE)
    assert f"registry.k8s.io/kueue/kueue is Kueue's image. The chart runs seiretsu:{version()} instead" in told
    assert "which nodes pull only if they do not have it" in told
    other = of_manager(image={"repository": "registry.example.com/seiretsu", "tag": "2"})
    assert container(other)["image"] == "registry.example.com/seiretsu:2"
    assert container(other)["imagePullPolicy"] == "Always"
    assert "Kueue's image" not in notes(other)


def test_kueues_file_makes_what_it_makes_of_kueue() -> None:
    spec, (pod,) = deployment(KUEUE), [container(KUEUE)]
    assert spec["replicas"] == 1
    assert pod["resources"] == KUEUE["controllerManager"]["manager"]["resources"]
    assert "--log-level=info" in pod["args"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert KUEUE["controllerManager"][probe].items() <= pod[probe].items()
    found = documents(rendered(KUEUE))
    assert [each for each in found if each["kind"] == "PodDisruptionBudget"] == []
    assert {hook["reinvocationPolicy"] for hook in only(found, "MutatingWebhookConfiguration")["webhooks"]} == {"Never"}
    service = only(found, "Service", "seiretsu-webhook-service")["spec"]
    assert (service["type"], service["ports"]) == ("ClusterIP", KUEUE["webhookService"]["ports"])
    scraped = only(found, "Service", "seiretsu-controller-manager-metrics-service")["spec"]
    assert (scraped["type"], scraped["ports"]) == ("ClusterIP", KUEUE["metricsService"]["ports"])


def test_names_that_only_the_chart_knows_replace_kueues_in_the_configuration() -> None:
    text = only(documents(rendered(KUEUE)), "ConfigMap")["data"]["controller_manager_config.yaml"]
    loaded = load(text)
    assert loaded.configuration.namespace == "queues"
    assert loaded.configuration.internal_cert_management.webhook_service_name == "seiretsu-webhook-service"
    assert loaded.configuration.internal_cert_management.webhook_secret_name == "seiretsu-webhook-server-cert"
    wanted = yaml.safe_load(KUEUE["managerConfig"]["controllerManagerConfigYaml"])
    kept = yaml.safe_load(text)
    assert {name: kept[name] for name in wanted.keys() - {"namespace", "internalCertManagement"}} == {
        name: wanted[name] for name in wanted.keys() - {"namespace", "internalCertManagement"}
    }


@pytest.mark.parametrize(("level", "word"), [(0, "info"), (2, "info"), (3, "debug"), (5, "debug"), ("error", "error")])
def test_a_log_level_of_kueue_is_the_word_for_it(level: int | str, word: str) -> None:
    assert f"--log-level={word}" in container(of_manager(logLevel=level))["args"]


@pytest.mark.parametrize(
    "strategy", [{"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}]
)
def test_each_update_strategy_is_possible(strategy: Raw) -> None:
    assert deployment(of_deployment(strategy=strategy))["strategy"] == strategy


def test_feature_gates_of_the_deployment_are_those_of_the_configuration() -> None:
    wanted = of_deployment(featureGates=[{"name": "PartialAdmission", "enabled": False}])
    found = documents(rendered(wanted))
    text = only(found, "ConfigMap")["data"]["controller_manager_config.yaml"]
    assert yaml.safe_load(text)["featureGates"] == {"PartialAdmission": False}
    named = [hook["name"] for hook in only(found, "MutatingWebhookConfiguration")["webhooks"]]
    assert "mworkload.kb.io" in named, "webhooks depend on gates as well"


def test_the_pods_may_use_the_network_of_their_node() -> None:
    wanted = of_deployment(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet")
    pod = deployment(wanted)["template"]["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert "networkPolicy: no effect" in notes(wanted)


def test_services_have_the_type_ports_and_families_that_are_given() -> None:
    port = {"name": "scraped", "port": 9090, "targetPort": "metrics", "protocol": "TCP"}
    ports = [{"port": 8443, "targetPort": 9443}]
    families = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
    wanted = given(
        webhookService={"type": "NodePort", "ports": ports, "ipDualStack": {"enabled": True, **families}},
        metricsService={"type": "LoadBalancer", "ports": [port], "labels": {"a": "b"}, "annotations": {"c": "d"}},
    )
    found = documents(rendered(wanted))
    webhook = only(found, "Service", "seiretsu-webhook-service")["spec"]
    assert {"type": "NodePort", "ports": ports, **families}.items() <= webhook.items()
    called = [hook for each in found if each["kind"].endswith("WebhookConfiguration") for hook in each["webhooks"]]
    assert {hook["clientConfig"]["service"]["port"] for hook in called} == {8443}
    scraped = only(found, "Service", "seiretsu-controller-manager-metrics-service")
    assert (scraped["spec"]["type"], scraped["spec"]["ports"]) == ("LoadBalancer", [port])
    assert scraped["metadata"]["labels"]["a"] == "b"
    assert scraped["metadata"]["annotations"] == {"c": "d"}


def test_prometheus_finds_the_metrics_service_and_nothing_else() -> None:
    found = documents(rendered(given(enablePrometheus=True, metrics={"prometheusNamespace": "observability"})))
    monitor = only(found, "ServiceMonitor")["spec"]
    wanted = monitor["selector"]["matchLabels"].items()
    (selected,) = [each for each in found if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()]
    assert [each["port"] for each in monitor["endpoints"]] == [each["name"] for each in selected["spec"]["ports"]]
    account = {"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "observability"}
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        assert account in only(found, kind, "seiretsu-prometheus-k8s")["subjects"]


def test_prometheus_verifies_the_certificate_of_the_metrics_unless_told_otherwise() -> None:
    (endpoint,) = only(documents(rendered({"enablePrometheus": True})), "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"] == {
        "serverName": "seiretsu-controller-manager-metrics-service.queues.svc",
        "ca": {"secret": {"name": "seiretsu-webhook-server-cert", "key": "ca.crt"}},
    }
    (endpoint,) = only(documents(rendered(given(enablePrometheus=True))), "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            {"enableVisibilityAPF": True, "enableVisibilityAuthReaderRoleBinding": False},
            "enableVisibilityAPF: no effect",
        ),
        ({"enableKueueViz": True}, "enableKueueViz: no effect"),
        ({"enableMutatingAdmissionPolicy": True}, "enableMutatingAdmissionPolicy: no effect"),
    ],
)
def test_the_notes_name_each_value_without_effect(values: Raw, told: str) -> None:
    assert told in notes(given(**values))


@pytest.mark.parametrize(
    ("values", "served"),
    [
        ({}, False),
        ({"visibility": {"enabled": True}}, True),
        ({"enableVisibilityAuthReaderRoleBinding": True}, True),
        ({"managerConfig": {"controllerManagerConfigYaml": "visibilityServer: {bindPort: 9999}"}}, True),
        ({"managerConfig": {"controllerManagerConfigYaml": "visibilityServer: {}"}}, True),
        (
            {
                "visibility": {"enabled": True},
                "controllerManager": {"featureGates": [{"name": "VisibilityOnDemand", "enabled": False}]},
            },
            False,
        ),
    ],
    ids=[
        "by default",
        "by its value",
        "as in Kueue",
        "by the Configuration",
        "by an empty section",
        "not without its gate",
    ],
)
def test_the_visibility_api_is_served(values: Raw, served: bool) -> None:
    found = documents(rendered(values))
    services = [each for each in found if each["kind"] == "APIService"]
    configuration = yaml.safe_load(
        only(found, "ConfigMap", "seiretsu-config")["data"]["controller_manager_config.yaml"]
    )
    assert bool(services) == served
    assert ("visibilityServer" in configuration) == served
    if served:
        assert not any(each["spec"].get("insecureSkipTLSVerify") for each in services)
        (container,) = only(found, "Deployment")["spec"]["template"]["spec"]["containers"]
        (port,) = [each["containerPort"] for each in container["ports"] if each["name"] == "visibility"]
        assert port == configuration["visibilityServer"]["bindPort"]
        (allowed, *_) = only(found, "NetworkPolicy")["spec"]["ingress"]
        assert port in [each["port"] for each in allowed["ports"]]
