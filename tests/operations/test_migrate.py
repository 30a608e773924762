"""What a migration from Kueue refuses before the first change, and in which order it changes webhooks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from api.objects import Raw, Resource
from controller.kube.client import Client
from controller.kube.errors import NotFound
from core.diagnosis.migration import Found
from operations import migrate
from operations.installations import API_SERVICES
from operations.migrate import APPLIED_SECONDS, ClusterToMigrate, MigrationError
from tests.core.test_migration import KUEUE, SEIRETSU, webhooks
from webhook.hooks import HOOKS


class Steps(Client):
    """An API server that remembers the writes in their order. It has the objects in `there`."""

    def __init__(self, *there: Raw) -> None:
        self.there = {each["metadata"]["name"]: each for each in there}
        self.done: list[str] = []
        self.field_manager = "seiretsu"

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Raw:
        if name not in self.there:
            raise NotFound(404, "NotFound", name)
        return self.there[name]

    async def _call(self, verb: str, resource: Resource, path: str, *rest: object, **options: object) -> Raw:
        self.done.append(f"{verb} {resource.kind}")
        return {}


def of(found: Found, monkeypatch: pytest.MonkeyPatch, *there: Raw) -> tuple[Steps, ClusterToMigrate]:
    """Returns a cluster in which a migration finds this."""

    async def read(client: Client) -> Found:
        return found

    monkeypatch.setattr(migrate, "read", read)
    steps = Steps(*there)
    return steps, ClusterToMigrate(steps, steps, lambda step: None)


async def test_kueue_without_a_deployment_is_not_taken_over_even_with_force(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found(kueue=replace(KUEUE, deployment=None), seiretsu=replace(SEIRETSU, ready=1))
    steps, cluster = of(found, monkeypatch)
    with pytest.raises(MigrationError, match="no Deployment of Kueue is behind Service kueue-system/kueue-webhook"):
        await migrate.take_over(cluster, force=True)
    assert steps.done == []


async def test_seiretsu_must_answer_after_the_api_servers_use_its_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    class ProbedError(Exception):
        pass

    async def sleep(seconds: float) -> None:
        steps.done.append(f"wait {seconds:g} s")

    async def probe(client: Client) -> None:
        steps.done.append("probe")
        raise ProbedError

    hooks = webhooks("MutatingWebhookConfiguration", "seiretsu-mutating-webhook-configuration")
    hooks["webhooks"][0] |= {
        "name": next(hook.name for hook in HOOKS if hook.failure_policy == "Fail"),
        "failurePolicy": "Ignore",
    }
    seiretsu = replace(SEIRETSU, ready=1, configurations=(hooks,))
    steps, cluster = of(Found(kueue=KUEUE, seiretsu=seiretsu), monkeypatch, hooks)
    monkeypatch.setattr(migrate, "asyncio", SimpleNamespace(sleep=sleep))
    monkeypatch.setattr(migrate, "await_admission", probe)
    with pytest.raises(ProbedError):
        await migrate.take_over(cluster)
    assert steps.done == [
        "patch ConfigMap",
        "patch MutatingWebhookConfiguration",
        f"wait {APPLIED_SECONDS:g} s",
        "probe",
    ]


async def test_nothing_is_handed_back_while_seiretsu_serves_an_api_of_kueue(monkeypatch: pytest.MonkeyPatch) -> None:
    def api_service(service: str) -> Raw:
        spec = {"service": {"name": service, "namespace": "kueue-system"}}
        return {"kind": API_SERVICES.kind, "metadata": {"name": "v1beta2.visibility.kueue.x-k8s.io"}, "spec": spec}

    record = {"configurations": [], "definitions": [], "apiServices": [api_service("kueue-visibility-server")]}
    steps, cluster = of(Found(kueue=KUEUE, record=record), monkeypatch, api_service("seiretsu-visibility-server"))
    with pytest.raises(MigrationError, match=r"first helm upgrade Seiretsu with visibility\.enabled=false"):
        await migrate.hand_back(cluster)
    assert steps.done == []
