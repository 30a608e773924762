"""Every value of the chart changes something, and values that cannot work are refused with their path."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from api.configuration import load
from api.configuration.load import ConfigurationError
from api.objects import Raw
from core.feedback.catalog import NAMES
from core.jobs.kinds import supported
from tests.charts.conformity import conforms
from tests.charts.rendering import CHART, POLICIES_SERVED, documents, notes, only, refusal, rendered
from tests.cluster.test_kinds_life import CONFIGURATION as AUDITED
from webhook.configuration_table import template

pytestmark = pytest.mark.cluster

VALUES: Final[Raw] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: Final[Raw] = json.loads((CHART / "values.schema.json").read_text())
DIGEST: Final = "sha256:" + "0123456789abcdef" * 4
ALL_ON: Final[Raw] = {
    "population": {"enabled": True},
    "enforcement": {"queueName": {"enabled": True}, "requests": {"enabled": True}},
    "enablePrometheus": True,
    "enableCertManager": True,
    "webhookService": {"ipDualStack": {"enabled": True}},
    "history": {"enabled": True, "volume": {"accessModes": ["ReadWriteMany"]}},
    "recorder": {"enabled": True},
}
"""What makes the chart render everything."""

CHANGES: Final[dict[str, tuple[Any, str]]] = {
    "nameOverride": ("queueing", "app.kubernetes.io/name: queueing"),
    "fullnameOverride": ("batch-queues", "name: batch-queues-controller-manager"),
    "commonLabels": ({"owner": "platform"}, "owner: platform"),
    "multiKueue.secrets": (["worker-one"], "- worker-one"),
    "provisioningRequests.enabled": (True, "podtemplates"),
    "enforcement.namespaceSelector": ({"matchLabels": {"enforced": "here"}}, "enforced: here"),
    "enforcement.validationActions": (["Audit"], "- Audit"),
    "enforcement.requests.resources": (["memory"], "requests or limits for: memory"),
    "enforcement.flavors.allowed": (["spot"], "only these ResourceFlavors: spot"),
    "population.localQueueName": ("team-queue", "localQueueName: team-queue"),
    "population.localQueueNameMode": ("AsClusterQueue", "localQueueNameMode: AsClusterQueue"),
    "population.namespaceSelector": ({"matchLabels": {"populated": "yes"}}, 'populated: "yes"'),
    "controllerManager.replicas": (5, "replicas: 5"),
    "controllerManager.imagePullSecrets": ([{"name": "registry"}], "- name: registry"),
    "controllerManager.nodeSelector": ({"pool": "system"}, "pool: system"),
    "controllerManager.tolerations": ([{"key": "critical"}], "- key: critical"),
    "controllerManager.affinity": (
        {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
        "requiredDuringSchedulingIgnoredDuringExecution: []",
    ),
    "controllerManager.topologySpreadConstraints": (
        [{"maxSkew": 3, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
        "topologyKey: rack",
    ),
    "controllerManager.podDisruptionBudget.minAvailable": (3, "minAvailable: 3"),
    "controllerManager.strategy.rollingUpdate.maxUnavailable": (2, "maxUnavailable: 2"),
    "controllerManager.strategy.rollingUpdate.maxSurge": (4, "maxSurge: 4"),
    "controllerManager.revisionHistoryLimit": (6, "revisionHistoryLimit: 6"),
    "controllerManager.terminationGracePeriodSeconds": (71, "terminationGracePeriodSeconds: 71"),
    "controllerManager.dnsPolicy": ("Default", "dnsPolicy: Default"),
    "controllerManager.featureGates": ([{"name": "PriorityBoost", "enabled": True}], "PriorityBoost: true"),
    "controllerManager.startupProbe": ({"failureThreshold": 61}, "failureThreshold: 61"),
    "controllerManager.extraVolumes": ([{"name": "extra-volume", "emptyDir": {}}], "name: extra-volume"),
    "controllerManager.manager.image.repository": ("registry.example.com/seiretsu", '"registry.example.com/seiretsu@'),
    "controllerManager.manager.image.digest": (DIGEST, f'@{DIGEST}"'),
    "controllerManager.manager.image.pullPolicy": ("Never", "imagePullPolicy: Never"),
    "controllerManager.manager.logLevel": ("warning", "--log-level=warning"),
    "controllerManager.manager.extraArgs": (["--lame-duck=6"], "- --lame-duck=6"),
    "controllerManager.manager.extraEnv": ([{"name": "HTTPS_PROXY", "value": "proxy"}], "- name: HTTPS_PROXY"),
    "controllerManager.manager.extraVolumeMounts": (
        [{"name": "extra-volume", "mountPath": "/extra"}],
        "mountPath: /extra",
    ),
    "controllerManager.manager.podAnnotations": ({"scraped": "never"}, "scraped: never"),
    "controllerManager.manager.podLabels": ({"team": "queueing"}, "team: queueing"),
    "controllerManager.manager.priorityClassName": ("system-cluster-critical", "Name: system-cluster-critical"),
    "controllerManager.manager.resources.requests.cpu": ("317m", "cpu: 317m"),
    "controllerManager.manager.resources.requests.memory": ("317Mi", "memory: 317Mi"),
    "controllerManager.manager.resources.limits.memory": ("1317Mi", "memory: 1317Mi"),
    "controllerManager.manager.podSecurityContext.runAsNonRoot": (False, "runAsNonRoot: false"),
    "controllerManager.manager.podSecurityContext.runAsUser": (1001, "runAsUser: 1001"),
    "controllerManager.manager.podSecurityContext.seccompProfile.type": ("Localhost", "type: Localhost"),
    "controllerManager.manager.containerSecurityContext.readOnlyRootFilesystem": (
        False,
        "readOnlyRootFilesystem: false",
    ),
    "controllerManager.manager.containerSecurityContext.allowPrivilegeEscalation": (
        True,
        "allowPrivilegeEscalation: true",
    ),
    "controllerManager.manager.containerSecurityContext.capabilities.drop": (["NET_RAW"], "- NET_RAW"),
    **{
        f"controllerManager.{probe}Probe.{field}": (number + offset, f"{field}: {number + offset}")
        for offset, probe in ((0, "readiness"), (50, "liveness"))
        for number, field in enumerate(
            ("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold"), 101
        )
    },
    "managerConfig.controllerManagerConfigYaml": (
        "kind: Configuration\nmetrics: {bindAddress: ':18443'}",
        "containerPort: 18443",
    ),
    "serviceAccount.name": ("queue-keeper", "serviceAccountName: queue-keeper"),
    "serviceAccount.annotations": ({"cloud/role": "queues"}, "cloud/role: queues"),
    "webhookService.type": ("NodePort", "type: NodePort"),
    "webhookService.ports": ([{"port": 10443, "targetPort": "webhook"}], "port: 10443"),
    "webhookService.annotations": ({"webhook-service": "here"}, "webhook-service: here"),
    "webhookService.ipDualStack.ipFamilies": (["IPv6"], "ipFamilies:\n  - IPv6\n  ipFamilyPolicy"),
    "webhookService.ipDualStack.ipFamilyPolicy": ("RequireDualStack", "ipFamilyPolicy: RequireDualStack"),
    "metricsService.type": ("LoadBalancer", "type: LoadBalancer"),
    "metricsService.ports": ([{"name": "scraped", "port": 18080, "targetPort": "metrics"}], "port: scraped"),
    "metricsService.labels": ({"scrape": "this"}, "scrape: this"),
    "metricsService.annotations": ({"metrics-service": "here"}, "metrics-service: here"),
    "metrics.prometheusNamespace": ("observability", "kubernetes.io/metadata.name: observability"),
    "metrics.serviceMonitor.labels": ({"selected": "monitor"}, "selected: monitor"),
    "metrics.prometheusRule.labels": ({"selected": "rule"}, "selected: rule"),
    "metrics.prometheusRule.runbookUrl": ("https://wiki.example", "https://wiki.example#seiretsudown"),
    "metrics.dashboards.labels": ({"grafana_dashboard": "2"}, 'grafana_dashboard: "2"'),
    "metrics.dashboards.annotations": ({"grafana_folder": "Batch"}, "grafana_folder: Batch"),
    "metrics.serviceMonitor.tlsConfig": ({"insecureSkipVerify": True}, "insecureSkipVerify: true"),
    "metrics.serviceMonitor.interval": ("17s", "interval: 17s"),
    "networkPolicy.webhookFrom": ([{"ipBlock": {"cidr": "192.0.2.7/32"}}], "cidr: 192.0.2.7/32"),
    "networkPolicy.apiServerPorts": ([7443], "- port: 7443"),
    "history.users": (False, "users: false"),
    "history.maxAge": ("17h", "maxAge: 17h"),
    "history.maxSize": ("3Gi", "maxSize: 3Gi"),
    "history.volume.size": ("37Gi", "storage: 37Gi"),
    "history.volume.storageClassName": ("fast", "storageClassName: fast"),
    "history.volume.accessModes": (["ReadWriteMany", "ReadOnlyMany"], "- ReadOnlyMany"),
    "recorder.maxSize": ("99Mi", "maxSize: 99Mi"),
    "crds.olderVersions": (["v1beta1"], "served: false"),
    "certManager.issuerRef": ({"kind": "ClusterIssuer", "name": "corporate"}, "name: corporate"),
    "kubernetesClusterDomain": ("corp.example", ".svc.corp.example"),
    "extraObjects": (
        [{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "{{ .Release.Namespace }}-extra"}}],
        "queues-extra",
    ),
    "mutatingWebhook.reinvocationPolicy": ("Never", "reinvocationPolicy: Never"),
    "webhooks.timeoutSeconds": (13, "timeoutSeconds: 13"),
    "webhooks.clientCA.secretName": ("webhook-clients", "secretName: webhook-clients"),
    "webhooks.clientCA.names": (["kube-apiserver"], "--client-name=kube-apiserver"),
    "visibility.enabled": (True, "kind: APIService"),
    "visibility.port": (4443, "port: 4443"),
    "ui.enabled": (True, "name: ui"),
    "ui.port": (4445, "port: 4445"),
    "ui.from": ([{"ipBlock": {"cidr": "192.0.2.9/32"}}], "cidr: 192.0.2.9/32"),
    "ui.proxy.secretName": ("people-gate", "secretName: people-gate"),
    "ui.proxy.names": (["people-gate"], "- people-gate"),
    "enableVisibilityAPF": (True, "kind: PriorityLevelConfiguration"),
}
"""By value: another one that is valid, and what the chart then renders. All are given at once."""

ALONE: Final[dict[str, Any]] = {
    "controllerManager.podDisruptionBudget.enabled": False,
    "controllerManager.strategy.type": "Recreate",
    "controllerManager.hostNetwork": True,
    "controllerManager.hostUsers": False,
    "controllerManager.manager.image.tag": "1.2.3",
    "population.enabled": False,
    "enforcement.queueName.enabled": False,
    "enforcement.requests.enabled": False,
    "serviceAccount.create": False,
    "rbac.userRoles": False,
    "rbac.aggregate": False,
    "webhookService.ipDualStack.enabled": False,
    "enablePrometheus": False,
    "metrics.prometheusRule.enabled": False,
    "metrics.dashboards.enabled": False,
    "flowSchema.enabled": False,
    "networkPolicy.enabled": False,
    "networkPolicy.metricsFrom": [{"podSelector": {}}],
    "history.enabled": False,
    "history.volume.existingClaim": "of-another-origin",
    "history.postgres.secretName": "history-url",
    "recorder.enabled": False,
    "crds.enabled": False,
    "crds.keep": False,
    "enableCertManager": False,
    "enableVisibilityAuthReaderRoleBinding": True,
    "admissionPolicies.enabled": False,
    "webhooks.failurePolicy": "Ignore",
}
"""Values that remove something, or that others above hide: each is given alone."""

WITHOUT_EFFECT: Final = {
    "enableKueueViz": True,
    "kueueViz": {"backend": {"priorityClassName": "high"}},
    "enableMutatingAdmissionPolicy": True,
}
"""Values of Kueue's chart that have none here, which the notes say."""


def leaves(values: Raw, path: str = "") -> Iterator[str]:
    """Yields the path of every value that has no values of its own."""
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in ("labels", "annotations"):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def having(values: Raw, path: str, value: Any) -> Raw:
    """Returns the values with one of them changed."""
    found = copy.deepcopy(values)
    *above, name = path.split(".")
    place = found
    for each in above:
        place = place.setdefault(each, {})
    place[name] = value
    return found


def test_the_tests_know_every_value() -> None:
    assert set(leaves(VALUES)) == CHANGES.keys() | ALONE.keys() | WITHOUT_EFFECT.keys()


@cache
def every_set() -> dict[str, str]:
    """What the chart renders: with everything on, with all changes at once, and with each of the values that are given
    alone. Together these sets have every value.
    """
    changed, account = ALL_ON, ALL_ON | {"serviceAccount": {"name": "seiretsu"}}
    for path, (value, _) in CHANGES.items():
        changed = having(changed, path, value)
    sets = {"before": ALL_ON, "changed": changed, "alone": account}
    sets |= {path: having(account, path, value) for path, value in ALONE.items()}
    return {name: rendered(values, served=POLICIES_SERVED) for name, values in sets.items()}


def test_each_value_changes_what_it_says() -> None:
    before, after = every_set()["before"], every_set()["changed"]
    assert [path for path, (_, text) in CHANGES.items() if text in before] == [], "the default already"
    assert [path for path, (_, text) in CHANGES.items() if text not in after] == [], "no effect"


def test_each_switch_changes_something() -> None:
    assert [path for path in ALONE if every_set()[path] == every_set()["alone"]] == []


def test_every_set_of_values_conforms_to_the_schemas_of_kubernetes(tmp_path: Path) -> None:
    objects = {text for rendering in every_set().values() for text in rendering.split("\n---\n")}
    assert conforms(sorted(objects), tmp_path) == []
    wrong = [text.replace("minAvailable: 1", "minAvailabel: 1") for text in objects if "minAvailable: 1" in text]
    (complaint,) = conforms(wrong[:1], tmp_path)
    assert "additional properties 'minAvailabel' not allowed" in complaint


def test_values_without_effect_change_nothing() -> None:
    wanted: Raw = {}
    for path, value in WITHOUT_EFFECT.items():
        wanted = having(wanted, path, value)
    assert rendered(wanted) == rendered()


def properties(schema: Raw, path: str = "") -> Iterator[str]:
    """Yields the path of every property of a schema."""
    for name, value in schema.get("properties", {}).items():
        reference = value.get("$ref", "").removeprefix("#/$defs/")
        yield f"{path}{name}"
        yield from properties(SCHEMA["$defs"][reference] if reference else value, f"{path}{name}.")


def test_the_schema_and_values_yaml_have_the_same_values() -> None:
    known, shown = set(properties(SCHEMA)), set(leaves(VALUES))
    above = {path.rsplit(".", n)[0] for path in shown for n in range(path.count(".") + 1)}
    inner = {path for path in known for each in shown if path.startswith(f"{each}.")}
    of_kubernetes = {path for path in known if "SecurityContext." in path}
    assert known - above - inner - of_kubernetes == {"global", "controllerManager.manager.resources.claims"}
    assert {path for path in shown - known if "resources." not in path} == set()


SPREAD: Final = {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}


def of_manager(values: Raw) -> Raw:
    return {"controllerManager": {"manager": values}}


def configured(text: str) -> Raw:
    return {"managerConfig": {"controllerManagerConfigYaml": text}}


WRONG: Final = {
    "metrics: {bindAdress: ':8443'}": 'metrics.bindAdress: unknown field; did you mean "bindAddress"?',
    "integrations: {frameworks: [batch/job, batch/jobs]}": (
        'integrations.frameworks[1]: unsupported value "batch/jobs"; did you mean "batch/job"?'
    ),
    "apiVersion: config.kueue.x-k8s.io/v1": 'apiVersion: unsupported value "config.kueue.x-k8s.io/v1"',
    "kind: Configuraton": 'kind: unsupported value "Configuraton"; did you mean "Configuration"?',
    "manageJobsWithoutQueueName: 'true'": "manageJobsWithoutQueueName: must be of type boolean, not string",
    "clientConnection: {qps: many}": "clientConnection.qps: must be of type number, not string",
    "integrations: [pod]": "integrations: must be a map of fields",
    "integrations: {labelKeysToCopy: [1]}": "integrations.labelKeysToCopy[0]: must be of type string, not float64",
    "resources: {transformations: [{inputs: a}]}": (
        'resources.transformations[0].inputs: unknown field; did you mean "input"?'
    ),
    "seiretsu: {feedback: {rules: [{name: will-wiat, action: Deny}]}}": (
        'seiretsu.feedback.rules[0].name: unsupported value "will-wiat"; did you mean "will-wait"?'
    ),
    "seiretsu: {feedback: {rules: [{name: will-wait, action: Refuse}]}}": (
        'seiretsu.feedback.rules[0].action: unsupported value "Refuse"; supported values: Ignore, Warn, Deny'
    ),
    "waitForPodsReady: {enable: true}": "waitForPodsReady.enable: unknown field",
}
"""Configurations that `serve` refuses, and what helm says of them."""


@pytest.mark.parametrize("text", WRONG)
def test_serve_refuses_what_helm_refuses(text: str) -> None:
    with pytest.raises(ConfigurationError):
        load(text, frameworks=supported(), feedback_rules=NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "{apiVersion: config.kueue.x-k8s.io/v1beta1, waitForPodsReady: {enable: true}, queueVisibility: {}}",
        "{fairSharing: null, clientConnection: {qps: 1.5}, resources: {transformations: [{input: a}]}}",
        "seiretsu: {feedback: {expressions: [{name: own, resources: [jobs], expression: 'true', message: m}],"
        " rules: [{name: own, action: Deny}]}}",
        "",
    ],
    ids=["v1beta1", "nulls and numbers", "a rule of the operator", "empty"],
)
def test_helm_accepts_what_serve_accepts(text: str) -> None:
    load(text, frameworks=supported(), feedback_rules=NAMES)
    assert rendered(configured(text))


def test_the_table_of_the_configuration_is_generated() -> None:
    file = CHART / "templates" / "_configuration_table.tpl"
    assert file.read_text() == template(), "run `make generate`"


def gates_of(**gates: bool) -> Raw:
    return {"controllerManager": {"featureGates": [{"name": name, "enabled": on} for name, on in gates.items()]}}


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"controlerManager": {"replicas": 3}}, "additional properties 'controlerManager' not allowed"),
        ({"controllerManager": {"replica": 3}}, "at '/controllerManager': additional properties 'replica'"),
        ({"controllerManager": {"replicas": "two"}}, "at '/controllerManager/replicas': got string, want integer"),
        ({"controllerManager": {"replicas": -1}}, "at '/controllerManager/replicas'"),
        ({"controllerManager": {"manager": {"logLevel": "verbose"}}}, "at '/controllerManager/manager/logLevel'"),
        ({"controllerManager": {"manager": {"image": {"digest": "abc"}}}}, "/controllerManager/manager/image/digest"),
        ({"controllerManager": {"terminationGracePeriodSeconds": 1}}, "terminationGracePeriodSeconds"),
        ({"crds": {"olderVersions": ["v1beta3"]}}, "/crds/olderVersions/0': value must be one of 'v1beta1'"),
        ({"webhooks": {"failurePolicy": "fail"}}, "at '/webhooks/failurePolicy'"),
        ({"webhooks": {"timeoutSeconds": 60}}, "at '/webhooks/timeoutSeconds'"),
        ({"webhookService": {"ports": []}}, "at '/webhookService/ports'"),
        ({"webhookService": {"port": 443}}, "at '/webhookService': additional properties 'port'"),
        ({"networkPolicy": {"apiServerPorts": [0]}}, "at '/networkPolicy/apiServerPorts"),
        ({"kueueViz": {"backnd": {}}}, "at '/kueueViz'"),
        ({"extraObjects": [{"kind": "Secret"}]}, "at '/extraObjects/0': missing properties 'apiVersion', 'metadata'"),
        ({"controllerManager": {"replicas": 0}}, "controllerManager.replicas: 0 with webhooks.failurePolicy: Fail"),
        (
            {"controllerManager": {"podDisruptionBudget": {"minAvailable": 2}}},
            "controllerManager.podDisruptionBudget.minAvailable: 2 of 2 replicas",
        ),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is required"),
        ({"history": {"enabled": True}}, "history.volume.accessModes: a volume of ReadWriteOnce cannot be used by two"),
        ({"history": {"maxSize": "much"}}, "at '/history/maxSize'"),
        (
            {"managerConfig": {"controllerManagerConfigYaml": "leaderElection: {leaderElect: false}"}},
            "controllerManager.replicas: 2 replicas without leader election",
        ),
        (
            {"controllerManager": {"podDisruptionBudget": {"minAvailable": "60%"}}},
            "controllerManager.podDisruptionBudget.minAvailable: 60% of 2 replicas",
        ),
        (
            {"controllerManager": {"strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}}},
            "controllerManager.strategy.rollingUpdate.maxUnavailable: 100% of 2 replicas",
        ),
        ({"controllerManager": {"strategy": {"rollingUpdate": {"maxSurge": "a few"}}}}, "/rollingUpdate/maxSurge"),
        (of_manager({"podSecurityContext": {"runAsUsr": 1}}), "properties 'runAsUsr' not allowed"),
        (of_manager({"containerSecurityContext": {"priviledged": False}}), "properties 'priviledged' not allowed"),
        (of_manager({"resources": {"requests": {"memroy": "1Gi"}}}), "properties 'memroy' not allowed"),
        (of_manager({"resources": {"limits": {"memory": "lots"}}}), "/manager/resources/limits/memory"),
        (of_manager({"resources": {"limits": {"memory": "1GB"}}}), "/manager/resources/limits/memory"),
        (of_manager({"extraEnv": [{"name": "A", "valu": "b"}]}), "at '/controllerManager/manager/extraEnv/0'"),
        (of_manager({"extraEnv": [{"name": "A", "value": 1}]}), "/manager/extraEnv/0/value': got number, want string"),
        (of_manager({"extraVolumeMounts": [{"name": "a", "path": "/b"}]}), "manager/extraVolumeMounts/0'"),
        ({"controllerManager": {"tolerations": [{"kee": "a"}]}}, "at '/controllerManager/tolerations/0'"),
        ({"controllerManager": {"affinity": {"nodeAffinty": {}}}}, "at '/controllerManager/affinity'"),
        (
            {"controllerManager": {"topologySpreadConstraints": [SPREAD | {"maxSku": 1}]}},
            "at '/controllerManager/topologySpreadConstraints/0': additional properties 'maxSku'",
        ),
        ({"networkPolicy": {"webhookFrom": [{"podSelector": {"matchLabel": {}}}]}}, "webhookFrom/0/podSelector'"),
        ({"webhookService": {"ports": [{"port": 443, "targetPort": "nope"}]}}, "/webhookService/ports/0/targetPort'"),
        (
            {"webhookService": {"ports": [{"port": 443, "targetPort": "metrics"}]}},
            "webhookService.ports[0].targetPort: metrics is not the port of the webhooks: it is webhook, or 9443",
        ),
        ({"webhookService": {"ports": [{"port": 443}]}}, "webhookService.ports[0].targetPort: 443 is not the port"),
        ({"metricsService": {"ports": [{"port": 8080}]}}, "metricsService.ports[0].targetPort: 8080 is not the port"),
        (
            of_manager({"extraArgs": ["--lame-duck=60"]}),
            "controllerManager.terminationGracePeriodSeconds: 45 is too short for --lame-duck=60",
        ),
        (of_manager({"extraArgs": ["--lame-duck", "39.5"]}), "45 is too short for --lame-duck=40"),
        ({"webhooks": {"clientCA": {"names": ["api"]}}}, "webhooks.clientCA.secretName is required"),
        (
            {
                "visibility": {"enabled": True},
                "managerConfig": {"controllerManagerConfigYaml": "internalCertManagement: {enable: false}"},
            },
            "with internalCertManagement.enable: false needs enableCertManager: true",
        ),
        (
            {
                "controllerManager": {"featureGates": [{"name": "PriorityBoost", "enabled": True}]},
                "managerConfig": {"controllerManagerConfigYaml": "featureGates: {PartialAdmission: false}"},
            },
            "controllerManager.featureGates and featureGates in managerConfig",
        ),
        (
            gates_of(PartialAdmission=True, PriorityBosot=True),
            'featureGates[1].name: unknown feature gate "PriorityBosot"; did you mean "PriorityBoost"?',
        ),
        (gates_of(localqueuemetrics=False), 'gate "localqueuemetrics"; did you mean "LocalQueueMetrics"?'),
        (gates_of(Xyz=True), 'controllerManager.featureGates[0].name: unknown feature gate "Xyz": correct its'),
        (
            gates_of(TASGroupedPodSetSlicing=True),
            "controllerManager.featureGates[0].name: TASGroupedPodSetSlicing is a feature gate of a newer release",
        ),
        (gates_of(TLSOptions=False), "featureGates[0].name: cannot set feature gate TLSOptions to false: it is locked"),
        (
            {"managerConfig": {"controllerManagerConfigYaml": "featureGates: {MultiKueu: false}"}},
            'controllerManagerConfigYaml: featureGates.MultiKueu: unknown feature gate "MultiKueu"; did you mean',
        ),
        *((configured(text), f"managerConfig.controllerManagerConfigYaml: {told}") for text, told in WRONG.items()),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)  # fmt: skip
def test_values_that_cannot_work_are_refused_with_their_path(values: Raw, told: str) -> None:
    assert told in refusal(values)


@pytest.mark.parametrize(
    "values",
    [
        {"controllerManager": {"podDisruptionBudget": {"minAvailable": "50%"}}},
        {"controllerManager": {"replicas": 3, "podDisruptionBudget": {"minAvailable": "66%"}}},
        {"controllerManager": {"strategy": {"rollingUpdate": {"maxUnavailable": "99%"}}}},
        {
            "controllerManager": {"strategy": {"rollingUpdate": {"maxUnavailable": "100%"}}},
            "webhooks": {"failurePolicy": "Ignore"},
        },
        gates_of(TLSOptions=True, LendingLimit=True, PartialAdmission=False),
        of_manager({"extraArgs": ["--lame-duck=39"]}),
        of_manager({"extraArgs": None, "podSecurityContext": None, "containerSecurityContext": None}),
        of_manager({"resources": {"limits": {"cpu": 1.5, "memory": "1.5Gi", "example.com/gpu": "1e0"}}}),
        of_manager({"podSecurityContext": {"runAsUser": None, "fsGroup": 7, "supplementalGroups": [1]}}),
        {"webhookService": {"ports": [{"port": 443, "targetPort": 9443}]}},
        {"controllerManager": {"strategy": None, "tolerations": [{"operator": "Exists", "effect": "NoExecute"}]}},
        {"controllerManager": {"tolerations": [{"key": "k", "effect": "", "tolerationSeconds": None}]}},
        {"controllerManager": {"strategy": {"rollingUpdate": {"maxSurge": "150%"}}}},
        of_manager({"podSecurityContext": {"fsGroup": None}, "containerSecurityContext": {"runAsUser": None}}),
        of_manager({"resources": {"requests": {"cpu": ".5", "memory": "1e+9"}, "limits": {"cpu": "5e-1"}}}),
        of_manager({"extraArgs": ["--bind=0.0.0.0:10250"]})
        | {"webhookService": {"ports": [{"port": 443, "targetPort": 10250}]}},
    ],
    ids=str,
)
def test_values_that_work_are_not_refused(values: Raw) -> None:
    assert "kind: Deployment" in rendered(values)


def test_values_of_an_earlier_release_switch_nothing_on() -> None:
    """``helm upgrade --reuse-values`` has no value for what is new."""
    (deployment,) = (
        each for each in documents(rendered({"controllerManager": {"hostUsers": None}})) if each["kind"] == "Deployment"
    )
    assert "hostUsers" not in deployment["spec"]["template"]["spec"]


def test_a_client_may_have_any_name() -> None:
    name = "O: example #1"
    found = documents(rendered({"webhooks": {"clientCA": {"secretName": "ca", "names": [name]}}}))
    (container,) = only(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert f"--client-name={name}" in container["args"]


def test_no_replica_is_possible_if_the_webhooks_refuse_nothing_then() -> None:
    wanted = {"controllerManager": {"replicas": 0}, "webhooks": {"failurePolicy": "Ignore"}}
    assert only(documents(rendered(wanted)), "Deployment")["spec"]["replicas"] == 0
    assert "jobs with a queue name are accepted and wait" in notes(wanted)


def test_the_notes_say_how_to_release_waiting_jobs_and_what_an_uninstallation_leaves() -> None:
    told = notes()
    assert "jobs that wait stay suspended" in told
    assert """kubectl patch job NAME -n NAMESPACE --type merge -p '{"spec": {"suspend": false}}'""" in told
    assert "removes the webhooks and keeps the CustomResourceDefinitions" in told
    assert "NOTE" not in told
    assert "keeps the CustomResourceDefinitions" not in notes({"crds": {"keep": False}})


def test_the_notes_say_that_the_links_of_alerts_need_a_url() -> None:
    assert "metrics.prometheusRule.runbookUrl" not in notes()
    assert "NOTE metrics.prometheusRule.runbookUrl: docs/operate.md" in notes({"enablePrometheus": True})
    given = {"enablePrometheus": True, "metrics": {"prometheusRule": {"runbookUrl": "https://wiki.example/seiretsu"}}}
    assert "NOTE" not in notes(given)


def test_the_lease_is_where_the_configuration_says() -> None:
    text = "leaderElection: {resourceNamespace: leases, resourceName: ours}"
    found = documents(rendered({"managerConfig": {"controllerManagerConfigYaml": text}}))
    role = only(found, "Role", "seiretsu-leader-election-role")
    binding = only(found, "RoleBinding", "seiretsu-leader-election-rolebinding")
    assert {role["metadata"]["namespace"], binding["metadata"]["namespace"]} == {"leases"}
    assert role["rules"][1]["resourceNames"] == ["ours"]
    assert binding["subjects"][0]["namespace"] == "queues"


MULTIKUEUE: Final = ("multikueueconfigs", "multikueueclusters")
OF_TOPOLOGY: Final = {("kueue.x-k8s.io", "topologies", verb) for verb in ("list", "watch", "patch")}
JOB_SETS = "integrations: {frameworks: [jobset.x-k8s.io/jobset]}"
PROVISIONING: Final[Raw] = {"provisioningRequests": {"enabled": True}}
PROVISIONED = "seiretsu: {provisioningRequests: {enable: true}}"
VARIANTS = "featureGates: {ConcurrentAdmission: true}"
EXTERNAL = "integrations: {frameworks: [batch/job], externalFrameworks: [Wrapper.v1.example.com]}"
RECOVERY = "featureGates: {FailureRecoveryPolicy: true, TopologyAwareScheduling: false}"
RETENTION = "objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 1h}}"


def verbs(given: Raw, group: str, resource: str) -> set[str]:
    """Returns what the app's ClusterRole allows with these values."""
    role = only(documents(rendered(given)), "ClusterRole", "seiretsu-manager-role")
    found = [each for each in role["rules"] if group in each["apiGroups"] and resource in each["resources"]]
    return {verb for each in found for verb in each["verbs"]}


@pytest.mark.parametrize(
    ("group", "resource", "always", "given", "then"),
    [
        ("batch", "jobs", {"get", "list", "watch", "patch"}, configured(RETENTION), {"delete"}),
        (
            "kueue.x-k8s.io",
            "localqueues",
            {"list", "watch", "patch"},
            {"crds": {"olderVersions": []}, "population": {"enabled": True}},
            {"create"},
        ),
        ("", "pods/status", set(), configured(RECOVERY), {"patch"}),
        ("jobset.x-k8s.io", "jobsets/status", set(), configured(JOB_SETS), {"patch"}),
        ("", "pods", {"list", "watch", "delete"}, {}, {"patch"}),
        ("", "podtemplates", set(), PROVISIONING, {"list", "watch", "create", "patch", "delete"}),
        ("", "podtemplates", set(), configured(PROVISIONED), {"list", "watch", "create", "patch", "delete"}),
        ("autoscaling.x-k8s.io", "provisioningrequests", set(), PROVISIONING, {"list", "watch", "create", "delete"}),
        ("kueue.x-k8s.io", "workloads/finalizers", set(), PROVISIONING, {"update"}),
        ("kueue.x-k8s.io", "workloads/finalizers", set(), configured(VARIANTS), {"update"}),
        ("kueue.x-k8s.io", "localqueues", {"list", "watch", "patch"}, {}, {"create"}),
        ("jobset.x-k8s.io", "jobsets", set(), {}, set()),
        ("apps", "replicasets", set(), {}, set()),
        ("apps", "replicasets", set(), configured(EXTERNAL), {"get"}),
        ("apiextensions.k8s.io", "customresourcedefinitions", set(), {}, {"get", "list", "watch", "patch"}),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", {"list", "watch"}, {}, {"get", "patch"}),
        ("kueue.x-k8s.io", "multikueueclusters", set(), {}, {"list", "watch"}),
        ("kueue.x-k8s.io", "multikueueclusters/status", set(), {}, {"patch"}),
        ("kueue.x-k8s.io", "topologies", set(), {}, {"list", "watch", "patch"}),
    ],
    ids=[
        "jobs are deleted by a retention",
        "LocalQueues of namespaces",
        "pods that are stuck fail",
        "jobs that run elsewhere get a status",
        "pods lose a gate",
        "templates of requests for nodes",
        "templates of requests for nodes, by the Configuration",
        "requests for nodes",
        "owner references to Workloads of requests",
        "owner references to Workloads of variants",
        "LocalQueues of Queues",
        "owners of a kind that is not enabled",
        "owners above which nothing is queued",
        "owners below external frameworks",
        "definitions get the CA",
        "webhooks get the CA",
        "clusters of MultiKueue are read",
        "clusters of MultiKueue get a status",
        "topologies are kept while a flavor names them",
    ],
)
def test_rights_that_only_a_setting_needs_are_granted_only_with_it(
    group: str, resource: str, always: set[str], given: Raw, then: set[str]
) -> None:
    gates = "featureGates: {ElasticJobsViaWorkloadSlices: false, MultiKueue: false, TopologyAwareScheduling: false}"
    without = {"enableCertManager": True, "crds": {"olderVersions": ["v1beta1"]}} | configured(gates)
    assert verbs(without, group, resource) == always
    assert verbs(given, group, resource) == always | then


def test_the_process_uses_what_it_may_and_no_more() -> None:
    """It reads from its Configuration what the chart grants rights for."""

    def section(given: Raw) -> Raw:
        text = only(documents(rendered(given)), "ConfigMap", "seiretsu-config")["data"][
            "controller_manager_config.yaml"
        ]
        loaded = load(text).configuration.seiretsu
        return {"requests": loaded.provisioning_requests.enable, "queues": loaded.queues.enable}

    assert section({}) == {"requests": False, "queues": True}
    assert section(PROVISIONING) == {"requests": True, "queues": True}
    assert section(configured(PROVISIONED)) == {"requests": True, "queues": True}
    assert section({"crds": {"olderVersions": []}}) == {"requests": False, "queues": False}
    off = configured("seiretsu: {provisioningRequests: {enable: false}, feedback: {rules: []}}")
    assert section(PROVISIONING | off) == {"requests": False, "queues": True}


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({}, None),
        ({"multiKueue": {"secrets": ["one", "two"]}}, {"resourceNames": ["one", "two"]}),
        ({"multiKueue": {"secrets": ["*"]}}, {}),
        ({"multiKueue": {"secrets": ["one"]}} | configured("featureGates: {MultiKueue: false}"), None),
    ],
    ids=["none", "two names", "all", "without MultiKueue"],
)
def test_of_the_secrets_only_those_with_kubeconfigs_may_be_read(given: Raw, rule: Raw | None) -> None:
    roles = [each for each in documents(rendered(given)) if each["kind"] in ("Role", "ClusterRole")]
    found = [
        each
        for role in roles
        for each in role.get("rules") or ()
        if "secrets" in each.get("resources", ()) and {"list", "watch"} & set(each["verbs"])
    ]
    wanted = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}
    assert found == ([] if rule is None else [wanted | rule])


def granted(given: Raw) -> set[tuple[str, str, str]]:
    """Returns the rights of the app with these values: API group, resource and verb."""
    found = documents(rendered(given))
    (account,) = only(found, "ClusterRoleBinding", "seiretsu-manager-rolebinding")["subjects"]
    bound = [each["roleRef"]["name"] for each in found if account in (each.get("subjects") or ())]
    roles = [each for each in found if each["kind"] in ("Role", "ClusterRole") and each["metadata"]["name"] in bound]
    return {
        (group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_default_rights_are_those_that_an_audit_log_shows_and_those_of_multikueue_and_topology() -> None:
    """``test_kinds_life`` compares the rights with a Configuration that has every kind of job, without these two."""
    of_multikueue = {("kueue.x-k8s.io", each, verb) for each in MULTIKUEUE for verb in ("list", "watch")}
    of_multikueue |= {("kueue.x-k8s.io", "multikueueclusters/status", "patch")}
    assert granted({}) - granted(configured(json.dumps(AUDITED))) == of_multikueue | OF_TOPOLOGY


def test_with_a_mounted_certificate_and_without_multikueue_no_secret_may_be_read() -> None:
    found = documents(rendered({"enableCertManager": True} | configured("featureGates: {MultiKueue: false}")))
    roles = [each for each in found if each["kind"] in ("Role", "ClusterRole")]
    named = [resource for role in roles for rule in role.get("rules") or () for resource in rule.get("resources", ())]
    assert "secrets" not in named


def test_the_pods_meet_the_restricted_pod_security_standard() -> None:
    pod = only(documents(rendered()), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {name for volume in pod["volumes"] for name in volume} == {"name", "configMap", "emptyDir"}
    assert "hostNetwork" not in pod


def test_the_network_policy_allows_calls_and_scrapes() -> None:
    found = documents(rendered())
    policy = only(found, "NetworkPolicy")["spec"]
    assert policy["podSelector"] == only(found, "Deployment")["spec"]["selector"]
    webhook, metrics = policy["ingress"]
    assert webhook == {"ports": [{"port": 9443, "protocol": "TCP"}]}
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert metrics == {"ports": [{"port": 8443, "protocol": "TCP"}], "from": [monitoring]}


def test_the_network_policy_limits_connections_of_the_pods_only_if_it_knows_the_ports_of_the_api_server() -> None:
    policy = only(documents(rendered()), "NetworkPolicy")["spec"]
    assert (policy["policyTypes"], "egress" in policy) == (["Ingress"], False)
    policy = only(documents(rendered({"networkPolicy": {"apiServerPorts": [443, 2040]}})), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert [each["port"] for rule in policy["egress"] for each in rule["ports"]] == [443, 2040, 53, 53]


@pytest.mark.parametrize("address", ["0", ""])
def test_without_metrics_there_is_no_port_and_no_service_for_them(address: str) -> None:
    text = f'metrics: {{bindAddress: "{address}"}}'
    found = documents(rendered({"managerConfig": {"controllerManagerConfigYaml": text}, "enablePrometheus": True}))
    assert [each["metadata"]["name"] for each in found if each["kind"] == "Service"] == ["seiretsu-webhook-service"]
    assert [each for each in found if each["kind"] == "ServiceMonitor"] == []
    assert len(only(found, "NetworkPolicy")["spec"]["ingress"]) == 1
