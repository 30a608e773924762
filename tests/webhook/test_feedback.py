"""Findings at admission: warned of, refused or kept quiet, as the operator decided."""

from __future__ import annotations

from typing import Any

import pytest

from api.configuration import load
from api.names import Label
from core.feedback.catalog import NAMES
from core.model import Raw, Requirement, Selector
from tests.core.feedback.world import world
from tests.webhook.cluster import ask, job, review, review_of
from webhook.policy import Entry, Policy
from webhook.policy import policy as policy_of
from webhook.review import shortened
from webhook.settings import Settings

VALIDATE = "/validate-batch-v1-job"
MISSPELT = 'LocalQueue "mian" does not exist in namespace "team-a": did you mean "main"?'


def queued(queue: str = "main", cpu: str = "1", **fields: Any) -> Raw:
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    template = {"spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]}}
    return job(labels={Label.QUEUE_NAME: queue}, suspend=True, template=template, **fields)


def policy(*entries: Entry) -> Settings:
    return Settings(feedback=Policy(entries))


def test_by_default_a_finding_is_a_warning() -> None:
    response = ask(VALIDATE, review(queued("mian")), knows=world())
    assert (response["allowed"], response["warnings"]) == (True, [MISSPELT])


def test_a_good_job_is_let_in_without_a_word() -> None:
    assert ask(VALIDATE, review(queued()), knows=world()) == {"uid": "u-1", "allowed": True}


def test_a_rule_set_to_deny_refuses_and_names_itself() -> None:
    settings = policy(Entry("local-queue-not-found", "Deny"))
    response = ask(VALIDATE, review(queued("mian")), knows=world(), settings=settings)
    assert response["allowed"] is False
    assert response["status"]["message"] == f"{MISSPELT} (rule local-queue-not-found)"


def test_a_rule_set_to_ignore_says_nothing() -> None:
    settings = policy(Entry("local-queue-not-found", "Ignore"))
    assert ask(VALIDATE, review(queued("mian")), knows=world(), settings=settings) == {"uid": "u-1", "allowed": True}


@pytest.mark.parametrize(("team", "allowed"), [("a", False), ("b", True)])
def test_the_first_entry_whose_namespaces_match_counts(team: str, allowed: bool) -> None:
    selector = Selector((Requirement("team", "In", (team,)),))
    settings = policy(Entry("local-queue-not-found", "Deny", selector), Entry("local-queue-not-found", "Ignore"))
    assert ask(VALIDATE, review(queued("mian")), knows=world(), settings=settings)["allowed"] is allowed


def test_the_configuration_says_what_becomes_of_a_rule() -> None:
    text = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
seiretsu:
  feedback:
    rules:
    - {name: local-queue-not-found, action: Deny, namespaceSelector: {matchLabels: {team: a}}}
    - {name: will-wait, action: Ignore}
"""
    loaded = load(text, feedback_rules=NAMES)
    assert policy_of(loaded.configuration.seiretsu.feedback) == Policy(
        (
            Entry("local-queue-not-found", "Deny", Selector((Requirement("team", "In", ("a",)),))),
            Entry("will-wait", "Ignore"),
        )
    )


def test_refusals_and_warnings_come_together() -> None:
    settings = policy(Entry("request-too-large", "Deny"))
    new = queued(cpu="20", annotations={"a": "b"})
    new["metadata"]["labels"][Label.PRIORITY_CLASS] = "urgnet"
    response = ask(VALIDATE, review(new), knows=world(), settings=settings)
    assert response["status"]["message"].startswith("never starts: asks for 20 cpu")
    assert response["warnings"] == ['WorkloadPriorityClass "urgnet" does not exist: did you mean "urgent"?']


def test_cold_caches_refuse_nobody() -> None:
    settings = policy(Entry("local-queue-not-found", "Deny"))
    response = ask(VALIDATE, review(queued("mian")), knows=world(synced=False), settings=settings)
    assert response == {"uid": "u-1", "allowed": True}


def test_an_error_of_the_job_itself_comes_before_feedback() -> None:
    response = ask(VALIDATE, review(queued("Mian!")), knows=world())
    assert "RFC 1123" in response["status"]["message"]
    assert "warnings" not in response


@pytest.mark.parametrize(
    ("old", "new", "warned"),
    [
        pytest.param(queued("mian"), queued("mian", annotations={"note": "x"}), False, id="another annotation"),
        pytest.param(queued(), queued("mian"), True, id="another queue"),
        pytest.param(queued(), queued(cpu="20"), True, id="a larger request"),
        pytest.param(
            {**queued("mian"), "spec": {**queued()["spec"], "suspend": False}},
            queued("mian"),
            False,
            id="a Job that is being stopped",
        ),
    ],
)
def test_an_update_is_looked_at_where_it_changes_what_feedback_looks_at(old: Raw, new: Raw, warned: bool) -> None:
    assert ("warnings" in ask(VALIDATE, review(new, old=old), knows=world())) is warned


def test_warnings_are_at_most_five_of_120_characters_and_fit_a_header() -> None:
    found = shortened([f"{number}\n{'x' * 200}" for number in range(8)])
    assert len(found) == 5
    assert all(len(text) <= 120 and text.isprintable() for text in found)
    assert found[-1] == "... and 4 more warnings"


FEEDBACK = "/feedback-kueue-x-k8s-io-v1beta2"


def local_queue(cluster_queue: str, **metadata: Any) -> Raw:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": "new", "namespace": "team-a", **metadata},
        "spec": {"clusterQueue": cluster_queue},
    }


def test_administrators_are_warned_too() -> None:
    body = review_of(local_queue("taem-a"), resource="localqueues")
    message = 'ClusterQueue "taem-a" does not exist, and clusterQueue cannot be changed later: did you mean "team-a"?'
    assert ask(f"{FEEDBACK}-localqueue", body, knows=world()) == {"uid": "u-1", "allowed": True, "warnings": [message]}
    denied = ask(
        f"{FEEDBACK}-localqueue", body, knows=world(), settings=policy(Entry("cluster-queue-not-found", "Deny"))
    )
    assert denied["status"]["message"] == f"{message} (rule cluster-queue-not-found)"


def test_a_change_that_is_not_of_the_specification_is_not_looked_at() -> None:
    body = review_of(local_queue("gone", finalizers=["a"]), old=local_queue("gone"), resource="localqueues")
    assert ask(f"{FEEDBACK}-localqueue", body, knows=world()) == {"uid": "u-1", "allowed": True}


def test_a_deletion_has_no_new_object_and_is_looked_at() -> None:
    old = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "spot"}, "spec": {}}
    body = review_of(old, resource="resourceflavors")
    body["request"] |= {"operation": "DELETE", "object": None, "oldObject": old}
    response = ask(f"{FEEDBACK}-resourceflavor", body, knows=world())
    assert response["warnings"] == ["the flavor is used by ClusterQueue team-b: it goes when they drop it"]
