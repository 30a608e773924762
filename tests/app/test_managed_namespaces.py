"""Webhook, controller, simulation and the API server (by the webhook configuration) agree on which namespaces are
managed.
"""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from api.configuration import load
from app.setup import admission_settings
from cli.world import ConfiguredRules, World
from controller.cache.caches import Caches
from controller.cache.events import Recorder
from controller.cache.writes import Writer
from controller.metrics.counters import QueueingMetrics
from controller.reconcilers.jobs import JobReconciler
from controller.run.watched import rows
from controller.settings import from_configuration
from core.jobs.kinds import BATCH_JOB
from core.matching.placement import matches
from core.model import Raw
from core.state.state import State
from core.wire import decode
from tests.controller.test_caches import made
from tests.core.jobs.samples import job
from webhook import jobs
from webhook.configurations import namespace_selector

SYSTEM = "{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, kueue-system]}"
SELECTORS = [
    "",
    "managedJobsNamespaceSelector: {matchLabels: {team: a}}",
    f"managedJobsNamespaceSelector: {{matchExpressions: [{SYSTEM}]}}",
    f"managedJobsNamespaceSelector: {{matchExpressions: [{{key: team, operator: NotIn, values: [a]}}, {SYSTEM}]}}",
    "namespace: queueing",
]
NAMESPACES = ["ns", "kube-system", "kube-node-lease", "kueue-system", "queueing"]


@given(st.sampled_from(SELECTORS), st.sampled_from(NAMESPACES), st.sampled_from(["", "a", "b"]))
def test_every_part_gives_the_same_answer(config: str, namespace: str, team: str) -> None:
    loaded = load(config)
    labels = {"kubernetes.io/metadata.name": namespace, **({"team": team} if team else {})}
    rules = ConfiguredRules(from_configuration(loaded.configuration, elect=False), admission_settings(loaded))
    world = World([], rules)
    world.namespace(namespace, labels)
    answers = {
        "simulation": world.manages(namespace),
        "webhook": jobs.managed(namespace, world.admission),
        "controller": _controller(rules, namespace, labels),
        "API server": _selected(rules, labels),
    }
    assert len(set(answers.values())) == 1, answers


def _selected(rules: ConfiguredRules, labels: dict[str, str]) -> bool:
    selector = decode.selector(namespace_selector(rules.admission))
    return selector is not None and matches(selector, labels)


def _controller(rules: ConfiguredRules, namespace: str, labels: dict[str, str]) -> bool:
    found, caches = _reconciler(rules)
    known = made("Namespace", namespace)
    known["metadata"]["labels"] = labels
    caches.namespaces.observe("ADDED", known)
    return found.managed.selects(_in(namespace))


def _reconciler(rules: ConfiguredRules) -> tuple[JobReconciler, Caches]:
    caches = Caches(State(), rows([BATCH_JOB]))
    others = (cast(Writer, None), cast(Recorder, None), QueueingMetrics(CollectorRegistry()), rules.controller)
    return JobReconciler(BATCH_JOB, caches, *others), caches


def _in(namespace: str) -> Raw:
    found = job()
    return {**found, "metadata": {**found["metadata"], "namespace": namespace}}


@pytest.mark.parametrize("config", SELECTORS)
def test_a_job_whose_namespace_is_not_known_yet_is_left_alone_until_it_is(config: str) -> None:
    rules = ConfiguredRules(from_configuration(load(config).configuration, elect=False))
    found, _ = _reconciler(rules)
    assert not found.managed.selects(_in("ns"))
