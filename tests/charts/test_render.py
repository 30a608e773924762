"""What helm makes of the chart; helm is real, no cluster is needed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import build
from webhook.backstop import policies
from webhook.configurations import Endpoint, Options, mutating, validating
from webhook.settings import Settings

CHART = Path(__file__).parents[2] / "charts" / "seiretsu"
Raw = dict[str, Any]

pytestmark = pytest.mark.cluster


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = build.ensure("helm")["helm"]
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def render(namespace: str = "queues", served: str = "", **values: str) -> list[Raw]:
    settings = [word for key, value in values.items() for word in ("--set-string", f"{key}={value}")]
    done = helm("template", "seiretsu", str(CHART), "--namespace", namespace, *settings, *served.split())
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def only(documents: list[Raw], kind: str) -> Raw:
    (found,) = [document for document in documents if document["kind"] == kind]
    return found


def configured(text: str) -> dict[str, str]:
    return {"managerConfig.controllerManagerConfigYaml": text}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("kind: Configuration", Settings(namespace="queues")),
        ("manageJobsWithoutQueueName: true", Settings(namespace="queues", manage_jobs_without_queue_name=True)),
        (
            "managedJobsNamespaceSelector: {matchLabels: {team: red}}",
            Settings(namespace="queues", managed_jobs_namespace_selector={"matchLabels": {"team": "red"}}),
        ),
        (
            "featureGates: {PartialAdmission: false}",
            Settings(namespace="queues", gates={"PartialAdmission": False}),
        ),
    ],
    ids=["defaults", "all Jobs are managed", "some namespaces are managed", "no partial admission"],
)
def test_the_chart_registers_the_hooks_that_the_table_asks_for(text: str, settings: Settings) -> None:
    documents = render(**{key: value.replace(",", "\\,") for key, value in configured(text).items()})
    options = Options(
        settings=settings,
        endpoint=Endpoint(service="seiretsu-webhook-service", namespace="queues"),
        ourselves="system:serviceaccount:queues:seiretsu",
    )
    for kind, wanted in (
        ("MutatingWebhookConfiguration", mutating(options)),
        ("ValidatingWebhookConfiguration", validating(options)),
    ):
        assert only(documents, kind)["webhooks"] == wanted["webhooks"]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("kind: Configuration", Settings(namespace="queues")),
        ("manageJobsWithoutQueueName: true", Settings(namespace="queues", manage_jobs_without_queue_name=True)),
    ],
    ids=["defaults", "all Jobs are managed"],
)
def test_policies_that_hold_while_we_are_down_are_there_where_wanted_and_served(text: str, settings: Settings) -> None:
    wanted = {"enableMutatingAdmissionPolicy": "true", **configured(text)}
    served = "--api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
    found = [each for each in render(served=served, **wanted) if "AdmissionPolicy" in each["kind"]]
    options = Options(settings=settings, name="seiretsu", ourselves="system:serviceaccount:queues:seiretsu")
    assert found == policies(options)
    for documents in (render(), render(**wanted), render(served=served)):
        assert not [each for each in documents if "AdmissionPolicy" in each["kind"]]


def test_the_configuration_in_the_chart_names_its_own_service_secret_and_namespace() -> None:
    data = only(render(), "ConfigMap")["data"]["controller_manager_config.yaml"]
    configuration = yaml.safe_load(data)
    assert configuration["namespace"] == "queues"
    assert configuration["internalCertManagement"] == {
        "webhookServiceName": "seiretsu-webhook-service",
        "webhookSecretName": "seiretsu-webhook-server-cert",
    }


def test_a_configuration_that_is_no_yaml_is_refused_with_the_name_of_the_value() -> None:
    done = helm("template", "seiretsu", str(CHART), "--set-string", "managerConfig.controllerManagerConfigYaml=a: [")
    assert done.returncode
    assert "managerConfig.controllerManagerConfigYaml is not YAML" in done.stderr


def test_the_chart_passes_helms_own_strict_lint() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr
