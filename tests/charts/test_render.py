"""What helm makes of the chart; helm is real, no cluster is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from api import crds
from api.configuration import load
from api.objects import Raw
from app.setup import SetupOptions, decide
from tests.charts.rendering import CHART, POLICIES_SERVED, VALIDATING_SERVED, documents, helm, only, refusal, rendered
from webhook.backstop import policies
from webhook.configurations import Endpoint, HookOptions, mutating, validating
from webhook.settings import ControllerAccount, TrustedControllers, WebhookSettings

pytestmark = pytest.mark.cluster


def render(namespace: str = "queues", served: str = "", set_values: str = "", **values: str) -> list[Raw]:
    settings = [word for key, value in values.items() for word in ("--set-string", f"{key}={value}")]
    settings += ["--set", set_values] if set_values else []
    done = helm("template", "seiretsu", str(CHART), "--namespace", namespace, *settings, *served.split())
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, Loader=yaml.CSafeLoader) if document]


def in_order(documents: list[Raw]) -> list[Raw]:
    return sorted(documents, key=lambda each: (each["kind"], each["metadata"]["name"]))


def configured(text: str) -> dict[str, str]:
    return {"managerConfig.controllerManagerConfigYaml": text}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("kind: Configuration", WebhookSettings(namespace="queues")),
        ("manageJobsWithoutQueueName: true", WebhookSettings(namespace="queues", manage_jobs_without_queue_name=True)),
        (
            "managedJobsNamespaceSelector: {matchLabels: {team: red}}",
            WebhookSettings(namespace="queues", managed_jobs_namespace_selector={"matchLabels": {"team": "red"}}),
        ),
        (
            "featureGates: {PartialAdmission: false}",
            WebhookSettings(namespace="queues", gates={"PartialAdmission": False}),
        ),
        ("integrations: {frameworks: [pod]}", WebhookSettings(namespace="queues", frameworks=frozenset({"pod"}))),
        (
            "integrations: {frameworks: [deployment]}",
            WebhookSettings(namespace="queues", frameworks=frozenset({"deployment"})),
        ),
    ],
    ids=[
        "defaults",
        "all Jobs are managed",
        "some namespaces are managed",
        "no partial admission",
        "pods",
        "pods of Deployments",
    ],
)
def test_the_chart_registers_the_hooks_that_the_table_asks_for(text: str, settings: WebhookSettings) -> None:
    documents = render(**{key: value.replace(",", "\\,") for key, value in configured(text).items()})
    options = HookOptions(
        settings=settings,
        endpoint=Endpoint(service="seiretsu-webhook-service", namespace="queues"),
        account=ControllerAccount("system:serviceaccount:queues:seiretsu"),
    )
    for kind, wanted in (
        ("MutatingWebhookConfiguration", mutating(options)),
        ("ValidatingWebhookConfiguration", validating(options)),
    ):
        assert only(documents, kind)["webhooks"] == wanted["webhooks"]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("kind: Configuration", WebhookSettings(namespace="queues")),
        ("manageJobsWithoutQueueName: true", WebhookSettings(namespace="queues", manage_jobs_without_queue_name=True)),
        (
            "integrations: {externalFrameworks: [Wrapper.v1.example.com\\,AppWrapper.v1beta2.workload.codeflare.dev]}",
            WebhookSettings(
                namespace="queues",
                external_frameworks=frozenset({"Wrapper.v1.example.com", "AppWrapper.v1beta2.workload.codeflare.dev"}),
            ),
        ),
        (
            "integrations: {frameworks: [batch/job\\,jobset.x-k8s.io/jobset]\\,externalFrameworks: [A.v1.example.com]}",
            WebhookSettings(
                namespace="queues",
                frameworks=frozenset({"batch/job", "jobset.x-k8s.io/jobset"}),
                external_frameworks=frozenset({"A.v1.example.com"}),
            ),
        ),
        (
            "integrations: {frameworks: [jobset.x-k8s.io/jobset]}",
            WebhookSettings(namespace="queues", frameworks=frozenset({"jobset.x-k8s.io/jobset"})),
        ),
        (
            "seiretsu: {controllers: {byRights: false\\,accounts: [joe\\,'system:serviceaccount:operators:*']}}",
            WebhookSettings(
                namespace="queues",
                controllers=TrustedControllers(
                    frozenset({"joe", "system:serviceaccount:operators:*"}), by_rights=False
                ),
            ),
        ),
    ],
    ids=[
        "defaults",
        "all Jobs are managed",
        "others queue their objects too",
        "two kinds",
        "JobSets alone",
        "named controllers",
    ],
)
def test_admission_policies_are_rendered_where_they_are_served(text: str, settings: WebhookSettings) -> None:
    found = [each for each in render(served=POLICIES_SERVED, **configured(text)) if "AdmissionPolicy" in each["kind"]]
    for each in found:
        assert each["metadata"].pop("labels")["app.kubernetes.io/instance"] == "seiretsu"
    options = HookOptions(
        settings=settings, name="seiretsu", account=ControllerAccount("system:serviceaccount:queues:seiretsu")
    )
    # helm sorts what it renders by kind
    assert in_order(found) == in_order(policies(options))
    validating_alone = render(served=VALIDATING_SERVED, **configured(text))
    names = [each["metadata"]["name"] for each in found if each["kind"].startswith("Validating")]
    assert [each["metadata"]["name"] for each in validating_alone if "AdmissionPolicy" in each["kind"]] == names
    for rendering, enforced in ((validating_alone, True), (render(**configured(text)), False)):
        hooks = validating(replace(options, settings=replace(settings, policies=enforced)))["webhooks"]
        registered = only(rendering, "ValidatingWebhookConfiguration")["webhooks"]
        assert [hook["name"] for hook in registered] == [hook["name"] for hook in hooks]
    for without in (render(), render(served=POLICIES_SERVED, set_values="admissionPolicies.enabled=false")):
        assert not [each for each in without if "AdmissionPolicy" in each["kind"]]


def test_the_configuration_in_the_chart_names_its_own_service_secret_and_namespace() -> None:
    data = only(render(), "ConfigMap")["data"]["controller_manager_config.yaml"]
    configuration = yaml.safe_load(data)
    assert configuration["namespace"] == "queues"
    assert configuration["internalCertManagement"] == {
        "webhookServiceName": "seiretsu-webhook-service",
        "webhookSecretName": "seiretsu-webhook-server-cert",
    }


@pytest.mark.parametrize(
    ("management", "set_values", "mounted"),
    [
        ("{enable: false, webhookSecretName: corp-tls}", "", ["corp-tls"]),
        ("{enable: false}", "", ["seiretsu-webhook-server-cert"]),
        ("{enable: false, webhookSecretName: corp-tls}", "enableCertManager=true", ["seiretsu-webhook-server-cert"]),
        ("{enable: true, webhookSecretName: corp-tls}", "", []),
    ],
)
def test_a_secret_of_another_maker_is_mounted_by_its_name(management: str, set_values: str, mounted: list[str]) -> None:
    found = render(set_values=set_values, **configured(f"internalCertManagement: {management}".replace(",", "\\,")))
    volumes = only(found, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert [each["secret"]["secretName"] for each in volumes if "secret" in each] == mounted
    configuration = yaml.safe_load(only(found, "ConfigMap")["data"]["controller_manager_config.yaml"])
    name = configuration["internalCertManagement"]["webhookSecretName"]
    assert name == (mounted or ["seiretsu-webhook-server-cert"])[0]


def definitions(documents: list[Raw]) -> dict[str, Raw]:
    kind = "CustomResourceDefinition"
    return {each["spec"]["names"]["kind"]: each for each in documents if each["kind"] == kind}


def test_helm_completes_the_definitions_to_those_of_the_models() -> None:
    service = {"name": "seiretsu-webhook-service", "namespace": "queues", "path": crds.CONVERSION_PATH, "port": 443}
    found = definitions(render())
    for definition in found.values():
        assert definition["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        assert definition["metadata"].pop("labels")["app.kubernetes.io/instance"] == "seiretsu"
    assert found == {each["spec"]["names"]["kind"]: each for each in crds.definitions({"service": service})}


INJECTED = "cert-manager.io/inject-ca-from"


def test_with_cert_manager_its_ca_goes_into_every_webhook_and_its_secret_is_what_the_app_serves() -> None:
    documents = render(set_values="enableCertManager=true")
    certificate = only(documents, "Certificate", "seiretsu-serving-cert")
    place = f"queues/{certificate['metadata']['name']}"
    called = [each for each in definitions(documents).values() if "conversion" in each["spec"]]
    called += [only(documents, f"{phase}WebhookConfiguration") for phase in ("Mutating", "Validating")]
    assert len(called) == 13
    assert [each["metadata"]["annotations"][INJECTED] for each in called] == [place] * 13
    assert INJECTED not in definitions(documents)["Queue"]["metadata"]["annotations"], "nothing of it is converted"
    service = only(documents, "Service", "seiretsu-webhook-service")["metadata"]["name"]
    assert certificate["spec"]["dnsNames"] == [
        f"{service}.queues.svc",
        f"{service}.queues.svc.cluster.local",
        "seiretsu-controller-manager-metrics-service.queues.svc",
    ]
    issuer, authority = only(documents, "Issuer", "seiretsu-ca-issuer"), only(documents, "Certificate", "seiretsu-ca")
    assert certificate["spec"]["issuerRef"] == {"kind": "Issuer", "name": issuer["metadata"]["name"]}
    assert issuer["spec"] == {"ca": {"secretName": authority["spec"]["secretName"]}}
    first = only(documents, "Issuer", "seiretsu-selfsigned-issuer")
    assert authority["spec"]["issuerRef"] == {"kind": "Issuer", "name": first["metadata"]["name"]}
    assert [each for each in documents if each["kind"] == "Secret"] == []
    pod = only(documents, "Deployment")["spec"]["template"]["spec"]
    assert {"name": "cert", "secret": {"secretName": certificate["spec"]["secretName"]}} in pod["volumes"]
    text = only(documents, "ConfigMap")["data"]["controller_manager_config.yaml"]
    setup = decide(SetupOptions(), load(text), {})
    assert setup.mounted
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["cert"] == str(setup.cert_dir)


def test_cert_managers_certificate_may_come_from_an_issuer_of_the_clusters_own() -> None:
    settings = "enableCertManager=true,certManager.issuerRef.kind=ClusterIssuer,certManager.issuerRef.name=ours"
    documents = render(set_values=settings)
    assert only(documents, "Certificate")["spec"]["issuerRef"] == {"kind": "ClusterIssuer", "name": "ours"}
    assert [each for each in documents if each["kind"] == "Issuer"] == []


def test_without_cert_manager_nothing_of_it_is_there() -> None:
    documents = render()
    assert {each["kind"] for each in documents if each["apiVersion"].startswith("cert-manager.io")} == set()
    assert [each for each in documents if INJECTED in (each["metadata"].get("annotations") or {})] == []
    only(documents, "Secret")


@pytest.mark.parametrize(
    ("value", "served"),
    [
        ("{v1beta1,v1alpha1}", {"v1beta2", "v1beta1", "v1alpha1"}),
        ("{v1beta1}", {"v1beta2", "v1beta1"}),
        ("null", {"v1beta2"}),
    ],
    ids=["all of them", "only the one before", "none"],
)
def test_older_versions_can_be_disabled_to_save_conversions(value: str, served: set[str]) -> None:
    found = definitions(render(set_values=f"crds.olderVersions={value}"))
    queue = found.pop("Queue")
    assert [version["served"] for version in queue["spec"]["versions"]] == [True], "a kind of its own, not converted"
    for definition in found.values():
        versions = {version["name"]: version["served"] for version in definition["spec"]["versions"]}
        assert versions == {name: name in served for name in versions}
        assert len(versions) > 1, "what was stored in an older version can still be read"


def test_drained_nodes_leave_a_replica_that_answers_and_the_end_of_one_node_is_not_that_of_all() -> None:
    documents = render()
    labels = only(documents, "Deployment")["spec"]["selector"]["matchLabels"]
    budget = only(documents, "PodDisruptionBudget")["spec"]
    assert budget == {
        "minAvailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": labels},
    }
    spread = only(documents, "Deployment")["spec"]["template"]["spec"]["topologySpreadConstraints"]
    assert [each["topologyKey"] for each in spread] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert [each["labelSelector"]["matchLabels"] for each in spread] == [labels] * 2
    assert {each["whenUnsatisfiable"] for each in spread} == {"ScheduleAnyway"}, "a small cluster is served as well"


@pytest.mark.parametrize(
    "values",
    ["controllerManager.replicas=1", "controllerManager.podDisruptionBudget.enabled=false"],
    ids=["a single replica would keep its node from being drained", "where the operator has another"],
)
def test_no_budget_is_made(values: str) -> None:
    assert [each for each in render(set_values=values) if each["kind"] == "PodDisruptionBudget"] == []


def test_the_lease_has_the_queue_of_leases_in_the_api_server() -> None:
    given = {"managerConfig": {"controllerManagerConfigYaml": "leaderElection: {resourceNamespace: leases}"}}
    schema = only(documents(rendered(given)), "FlowSchema")["spec"]
    (rule,) = schema["rules"]
    assert schema["priorityLevelConfiguration"] == {"name": "leader-election"}
    assert rule["subjects"][0]["serviceAccount"] == {"name": "seiretsu", "namespace": "queues"}
    assert rule["resourceRules"][0]["resources"] == ["leases"]
    assert rule["resourceRules"][0]["namespaces"] == ["leases"], "where the Configuration has the lease"


@pytest.mark.parametrize(
    "given",
    [
        {"flowSchema": {"enabled": False}},
        {
            "controllerManager": {"replicas": 1},
            "managerConfig": {"controllerManagerConfigYaml": "leaderElection: {leaderElect: false}"},
        },
    ],
    ids=["not wanted", "no lease"],
)
def test_no_flow_schema_is_made(given: Raw) -> None:
    assert [each for each in documents(rendered(given)) if each["kind"] == "FlowSchema"] == []


def test_spreading_may_be_chosen_and_left_out() -> None:
    spread = "controllerManager.topologySpreadConstraints"
    chosen = f"{spread}[0].maxSkew=2,{spread}[0].topologyKey=rack,{spread}[0].whenUnsatisfiable=DoNotSchedule"
    for values, keys in ((chosen, ["rack"]), (f"{spread}=null", [])):
        pod = only(render(set_values=values), "Deployment")["spec"]["template"]["spec"]
        assert [each["topologyKey"] for each in pod.get("topologySpreadConstraints", [])] == keys


def test_a_configuration_that_is_no_yaml_is_refused_with_the_name_of_the_value() -> None:
    done = helm("template", "seiretsu", str(CHART), "--set-string", "managerConfig.controllerManagerConfigYaml=a: [")
    assert done.returncode
    assert "managerConfig.controllerManagerConfigYaml is not YAML" in done.stderr


@pytest.mark.parametrize("name", ["helm", "helm3"])
def test_the_chart_passes_helms_own_strict_lint(name: str) -> None:
    done = helm("lint", "--strict", str(CHART), name=name)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", [{}, {"enablePrometheus": True, "enableCertManager": True}])
def test_helm_3_and_4_render_the_same(values: Raw) -> None:
    found = [documents(rendered(values, served=POLICIES_SERVED, name=name)) for name in ("helm", "helm3")]
    assert in_order(found[0]) == in_order(found[1])


def test_helm_3_refuses_wrong_values_too() -> None:
    told = refusal({"controllerManager": {"replicas": "two"}, "crds": {"olderVersions": ["v1beta3"]}}, "helm3")
    assert "/controllerManager/replicas" in told
    assert "/crds/olderVersions/0" in told


def test_the_page_has_a_port_a_service_and_the_right_to_ask_who_looks() -> None:
    def kinds(found: list[Raw]) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in found}

    off = render(set_values="metrics.serviceMonitor.interval=1m", **configured("metrics: {bindAddress: '0'}"))
    on = render(
        set_values="ui.enabled=true,ui.proxy.secretName=sso,ui.proxy.names={gate}",
        **configured("metrics: {bindAddress: '0'}"),
    )
    added = kinds(on) - kinds(off)
    assert ("Service", "seiretsu-ui") in added
    assert ("ClusterRole", "seiretsu-metrics-auth-role") in added
    config = only(on, "ConfigMap", "seiretsu-config")["data"]["controller_manager_config.yaml"]
    section = yaml.safe_load(config)["seiretsu"]["ui"]
    assert section == {
        "enable": True,
        "bindAddress": "0.0.0.0:8445",
        "proxy": {"clientCaFile": "/etc/seiretsu-ui-proxy/ca.crt", "allowedNames": ["gate"]},
    }
    (container,) = only(on, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"name": "ui", "containerPort": 8445, "protocol": "TCP"} in container["ports"]
    assert 8445 in [port["port"] for rule in only(on, "NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]]
    assert "ui" not in str(only(off, "Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"])
