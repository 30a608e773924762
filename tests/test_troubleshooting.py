"""Every message, command, value and rule of docs/troubleshooting.md is one that exists."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from api import configuration
from api.configuration import ConfigurationError
from api.kinds import KINDS
from api.names import GROUP, LEADER_ELECTION_ID, Condition, Event, Finalizer
from app.published import Published
from cli.main import COMMANDS
from core.devices.claims import claim_count
from core.devices.inventory import Inventory
from core.diagnosis.findings import RULES
from core.guard.judge import Excess, sentence
from core.model import FlavorResource, messages
from core.wire.devices import outgrown
from core.workload import lifecycle
from webhook.hooks import HOOKS

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs" / "troubleshooting.md").read_text()
CHART: Final = ROOT / "charts" / "seiretsu"
CPU: Final = FlavorResource("standard", "cpu")


def refused() -> str:
    """The error of an invalid Configuration."""
    with pytest.raises(ConfigurationError) as caught:
        configuration.load("managJobs: true", namespace="x", frameworks={}, feedback_rules=())
    return str(caught.value)


def source(of: Callable[..., object], *words: str) -> str:
    """The words, which the code of a function has."""
    text = Path(of.__code__.co_filename).read_text()
    assert all(word in text for word in words)
    return " ".join(words)


OURS: Final[dict[str, Callable[[], str]]] = {
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor ...": lambda: (
        messages.pod_set("main", [messages.more_needed(CPU, 1000)])
    ),
    "insufficient quota for cpu in flavor ..., ... current podset request (50) > maximum capacity (12)": lambda: (
        messages.beyond_maximum(CPU, 0, 50_000, 12_000)
    ),
    "LocalQueue ... doesn't exist": lambda: source(lifecycle.why_not_queued, "LocalQueue {w.queue} doesn't exist"),
    "ClusterQueue ... is inactive": lambda: messages.inactive("team-a"),
    "failed to get claim spec for ResourceClaimTemplate ...": lambda: source(
        Inventory.charge, "failed to get claim spec for ResourceClaimTemplate {name}"
    ),
    "DeviceClass ... is not mapped in DRA configuration": lambda: source(
        Inventory.charge, "DeviceClass {answer.devices.unmapped} is not mapped in DRA configuration"
    ),
    "insufficient matching devices": lambda: source(claim_count, "insufficient matching devices"),
    "ResourceClaimTemplate ... was made again after the admission": lambda: source(
        outgrown, "ResourceClaimTemplate {again[0].key.name} was made again after the admission"
    ),
    "PodsRemain": lambda: Condition.PODS_REMAIN,
    "WorkloadCreatedAgain": lambda: Event.WORKLOAD_CREATED_AGAIN,
    "Pods run without quota: the pods request 6 cpu, 4 admitted": lambda: sentence([Excess("cpu", 6000, 4000)]),
    "Pods run without quota: 3 pods run, 2 admitted": lambda: sentence([Excess("pods", 3, 2)]),
    "invalid Configuration:": refused,
    "the webhook ... has no caBundle": lambda: source(Published._judge, "the webhook {webhook", "has no caBundle"),
    "/readyz": lambda: "/readyz",
}
"""Messages of Seiretsu, each as its code makes it; "..." stands for any words."""
THEIRS: Final[dict[str, tuple[str, ...]]] = {
    'failed calling webhook "mjob.kb.io": ... connect: connection refused': tuple(hook.name for hook in HOOKS),
    'failed calling webhook ...: service "seiretsu-webhook-service" not found': ("seiretsu-webhook-service",),
    "x509: certificate signed by unknown authority": (),
    "quantities must match the regular expression ...": (),
    f"conversion webhook for {GROUP}/v1beta1 ... failed": tuple(each.name for kind in KINDS for each in kind.versions),
    "Terminating": (),
    f"{Finalizer.RESOURCE_IN_USE} in 1 resource instances": (Finalizer.RESOURCE_IN_USE,),
    "DiscoveryFailed": (),
    'CustomResourceDefinition "workloads.kueue.x-k8s.io" ... exists and cannot be imported into the current release': (
        tuple(kind.crd_name for kind in KINDS)
    ),
    'conflict with "..."': (),
    "additional properties ... not allowed": (),
    "helm upgrade": (),
    "403": (),
}
"""Words of Kubernetes and helm, with the names of Seiretsu of which they may have one."""


def rows() -> Iterator[list[str]]:
    """The cells of each row of a table, without its head."""
    for line in PAGE.splitlines():
        cells = [each.strip() for each in line.strip("|").split("|")]
        if line.startswith("| ") and cells[1] != "cause":
            yield cells


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_every_message_is_one_that_the_code_makes_or_that_kubernetes_and_helm_print() -> None:
    shown = {each for symptom, *_ in rows() for each in quoted(symptom)}
    assert shown == OURS.keys() | THEIRS.keys()


@pytest.mark.parametrize("message", OURS)
def test_the_code_makes_this_message(message: str) -> None:
    pattern = ".*".join(re.escape(part) for part in message.split("..."))
    assert re.search(pattern, OURS[message](), re.DOTALL)


@pytest.mark.parametrize("message", [each for each, known in THEIRS.items() if known])
def test_names_of_seiretsu_in_messages_of_others_are_right(message: str) -> None:
    assert any(name in message for name in THEIRS[message])


def test_every_command_and_its_options_exist() -> None:
    modules = {each.name: each.module for each in COMMANDS}
    found = [each.split() for each in quoted(PAGE) if each.startswith("seiretsu ")]
    assert len(found) > 5
    for _, command, *words in found:
        spec = importlib.util.find_spec(modules[command])
        assert spec is not None and spec.origin is not None
        text = Path(spec.origin).read_text()
        for option in [word for word in words if word.startswith("--")]:
            assert f'"{option}"' in text, option


def test_every_value_of_the_chart_and_every_rule_exists() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path, _ in re.findall(r"--set ([\w.]+)=(\w+)", PAGE):
        place = values
        for name in path.split("."):
            place = place[name]
    rules = {rule.name for rule in RULES}
    named = re.findall(r"`seiretsu doctor` reports ((?:`[a-z-]+`(?: or )?)+)", PAGE)
    assert named
    assert {each for words in named for each in quoted(words)} <= rules
    assert LEADER_ELECTION_ID in PAGE


def test_every_page_that_it_links_to_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).is_file(), target
