"""Reviews that are none: a clear answer, never a failure of ours, and never leave to pass by accident."""

from __future__ import annotations

import copy
import random

import orjson
import pytest

from api.names import Label
from bench import reviews
from bench.reviews import spoil
from core.model import Raw
from core.state.lookup import Lookup
from tests.effort import cases
from tests.webhook.cluster import ask, cluster, job, review, review_of
from webhook.hooks import HOOKS
from webhook.review import deny, encode
from webhook.routes import answer, routes
from webhook.settings import Context, WebhookSettings

VALIDATE = "/validate-batch-v1-job"
CONTEXT = Context(WebhookSettings(), cluster())
WAYS = [(kind, way) for kind, way in reviews.WAYS.items() if kind not in ("huge", "wide", "over the limit")]
HOOKS_BY_PATH = {hook.path: hook for hook in HOOKS}
QUEUED = job(labels={Label.QUEUE_NAME: "main"})


def without(key: str) -> bytes:
    body = review(QUEUED)
    del body["request"][key]
    return orjson.dumps(body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(b"", "not JSON", id="an empty body"),
        pytest.param(b"[" * 100_000, "not JSON", id="a hundred thousand brackets"),
        pytest.param(b'{"a": NaN}', "not JSON", id="NaN"),
        pytest.param(b'"\xff\xfe"', "not JSON", id="bad UTF-8"),
        pytest.param(b'{"a": "\\ud800"}', "not JSON", id="a lone surrogate"),
        pytest.param(b"[]", "a JSON list", id="a list at the top"),
        pytest.param(b"null", "a JSON null", id="null at the top"),
        pytest.param(b"{}", "expected admission.k8s.io/v1 AdmissionReview", id="an empty object"),
        pytest.param(
            orjson.dumps({**review(QUEUED), "apiVersion": "admission.k8s.io/v1beta1"}),
            "found 'admission.k8s.io/v1beta1'",
            id="a review of v1beta1",
        ),
        pytest.param(orjson.dumps({**review(QUEUED), "request": None}), "no request", id="no request"),
        pytest.param(
            orjson.dumps(review(job())).replace(b'"parallelism":1', b'"parallelism":' + b"9" * 400),
            "not JSON",
            id="a number of 400 digits",
        ),
        pytest.param(without("uid"), "request.uid", id="no uid"),
        pytest.param(orjson.dumps(review(QUEUED, uid="u" * 10_000)), "request.uid", id="a uid of 10 KB"),
    ],
)
def test_t3_t4_a_call_without_a_readable_uid_is_a_400(body: bytes, says: str) -> None:
    """T3 and T4: `test_limits.py` has what is refused before a review is read."""
    for hook in HOOKS:
        status, text = answer(hook, body, CONTEXT)
        assert status == 400
        assert says in text.decode()
        assert "Traceback" not in text.decode()


def test_t3_of_two_fields_with_one_name_the_last_counts() -> None:
    """T3: it is what the API server's own parser does."""
    twice = b'{"kind": "Pod", "request": [1], ' + orjson.dumps(review(QUEUED))[1:]
    status, text = answer(HOOKS_BY_PATH[VALIDATE], twice, CONTEXT)
    assert (status, orjson.loads(text)["response"]["uid"]) == (200, "u-1")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        pytest.param(review(None), "request.object is null on CREATE", id="a null object on create"),
        pytest.param(review(QUEUED, operation="UPDATE"), "request.oldObject is null on UPDATE", id="no old object"),
        pytest.param(review([1]), "request.object is a list, not an object", id="an object that is a list"),
        pytest.param(review(QUEUED, operation="PATCH"), "request.operation is 'PATCH'", id="an unknown operation"),
        pytest.param(review(QUEUED, resource=None), "request.resource is missing", id="no resource"),
        pytest.param(
            review(QUEUED, resource={"group": "", "version": "v1", "resource": "pods"}),
            "looks at jobs of batch, not at 'pods' of ''",
            id="another kind than the path's",
        ),
        pytest.param(
            review(QUEUED, namespace=7), "namespace is a number, not a text", id="a namespace that is a number"
        ),
        pytest.param(review(job(labels={"a": 1})), "metadata.labels.a: Invalid value", id="a label that is a number"),
        pytest.param(review({**QUEUED, "spec": []}), "spec: Invalid value", id="a spec that is a list"),
        pytest.param(review(job(parallelism=1.5)), "must be of type integer", id="one and a half pods"),
        pytest.param(review(job(parallelism=True)), "must be of type integer", id="true pods"),
    ],
)
def test_t4_with_a_uid_the_answer_is_a_refusal_with_code_400(body: Raw | bytes, says: str) -> None:
    """T4."""
    response = ask(VALIDATE, body)
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("u-1", False, 400)
    assert says in response["status"]["message"]


@pytest.mark.parametrize("value", [{}, {"metadata": None, "spec": None}], ids=["empty", "nulls"])
def test_an_object_without_fields_is_no_failure(value: Raw) -> None:
    for hook in HOOKS:
        body = review(value, resource={"group": hook.group, "version": "v1", "resource": hook.resources[0]})
        status, text = answer(hook, orjson.dumps(body), CONTEXT)
        assert status == 200
        assert orjson.loads(text)["response"].get("status", {}).get("code") != 500


@pytest.mark.parametrize("part", ["containers", "initContainers", "parallelism", "completions"])
def test_what_is_null_in_a_job_counts_as_absent(part: str) -> None:
    new = job(labels={Label.QUEUE_NAME: "main"}, suspend=True)
    holder = new["spec"] if part in ("parallelism", "completions") else new["spec"]["template"]["spec"]
    holder[part] = None
    for path in (VALIDATE, "/mutate-batch-v1-job"):
        assert ask(path, review(new))["allowed"] is True


@pytest.mark.parametrize("verb", ["validate", "feedback"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"metadata": None}, "metadata: Required value", id="no metadata"),
        pytest.param({"metadata": True}, "metadata: Invalid value", id="metadata that are true"),
        pytest.param({"kind": "Pod"}, "not at a 'Pod' of 'kueue.x-k8s.io/v1beta2'", id="another kind"),
        pytest.param(
            {"apiVersion": "kueue.x-k8s.io/v1alpha1"},
            "not at a 'ResourceFlavor' of 'kueue.x-k8s.io/v1alpha1'",
            id="another version",
        ),
    ],
)
def test_a_malformed_object_of_seiretsus_kinds_is_refused_without_an_error(verb: str, change: Raw, says: str) -> None:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "a"}, "spec": {}}
    body = review_of(flavor, resource="resourceflavors")
    body["request"]["object"] = {**flavor, **change}
    response = ask(f"/{verb}-kueue-x-k8s-io-v1beta2-resourceflavor", body)
    assert (response["allowed"], response["status"]["code"]) == (False, 400)
    assert says in response["status"]["message"]


def test_a_label_of_a_flavor_that_is_null_counts_as_absent() -> None:
    flavor = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": "a"}}
    body = review_of({**flavor, "spec": {"nodeLabels": {"zone": None}}}, resource="resourceflavors")
    assert ask("/validate-kueue-x-k8s-io-v1beta2-resourceflavor", body)["allowed"] is True


FULL = job(
    labels={Label.QUEUE_NAME: "main", Label.PRIORITY_CLASS: "high", "kueue.x-k8s.io/max-exec-time-seconds": "60"},
    annotations={"kueue.x-k8s.io/job-min-parallelism": "1", "kueue.x-k8s.io/admission-gated-by": "a.b/c"},
    owner={"apiVersion": "batch/v1", "kind": "CronJob", "name": "n", "uid": "u", "controller": True},
    parallelism=4,
    completions=4,
    template={
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-slice-size": "2"}},
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "nodeSelector": {"zone": "a"},
        },
    },
)


def test_spoiled_reviews_are_answered_and_a_lost_meaning_is_never_leave_to_pass() -> None:
    chance = random.Random(20260822)
    whole = [review(FULL), review(FULL, old=job(labels={Label.QUEUE_NAME: "main"}))]
    paths = [hook for hook in HOOKS if hook.resources == ("jobs",)]
    for _ in range(cases(300, 20_000)):
        body = spoil(chance, copy.deepcopy(chance.choice(whole)))
        hook = chance.choice(paths)
        status, text = answer(hook, orjson.dumps(body), CONTEXT)
        if status == 400:
            assert text.endswith(b"\n") and b"Traceback" not in text
            continue
        assert status == 200
        response = orjson.loads(text)["response"]
        assert response.get("status", {}).get("code") != 500, (body, response)
        if response["allowed"]:
            request = body["request"]
            assert response["uid"] == request["uid"]
            assert isinstance(request["object"], dict) or request["operation"] in ("DELETE", "CONNECT")


def test_the_reviews_of_the_bench_reach_every_hook_and_the_good_ones_are_allowed() -> None:
    assert set(reviews.HOOKS) == {hook.path for hook in HOOKS}
    for hook in HOOKS:
        about = reviews.HOOKS[hook.path]
        assert (about.group, about.version, about.resource) == (hook.group, hook.version, hook.resources[0])
        assert about.operations == hook.operations
        for kind, way in WAYS:
            sent = reviews.Ask(kind, hook.path, way.make(random.Random(kind), hook.path), way.statuses)
            assert reviews.wrong(sent, *answer(hook, sent.body, CONTEXT)) == "", hook.path


async def test_every_hook_has_a_route_that_answers_bytes() -> None:
    found = routes(CONTEXT)
    assert [*found] == [hook.path for hook in HOOKS]
    status, content = await found["/mutate-batch-v1-job"](orjson.dumps(review(QUEUED)))
    assert status == 200
    assert orjson.loads(content)["response"]["patchType"] == "JSONPatch"
    assert (await found["/mutate-batch-v1-job"](b"{"))[0] == 400


def test_a_bug_refuses_in_a_hook_with_policy_fail_and_allows_in_one_with_ignore(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Lookup, "priority_class", fails)
    monkeypatch.setattr(Lookup, "local_queue", fails)
    held = ask("/mutate-batch-v1-job", review(QUEUED))
    assert (held["allowed"], held["status"]["code"]) == (False, 500)
    assert "ZeroDivisionError" not in held["status"]["message"]
    skipped = ask("/mutate-batch-v1-job-default", review(job()))
    assert skipped == {"uid": "u-1", "allowed": True}


def test_the_message_of_a_refusal_has_at_most_1_kib() -> None:
    message = orjson.loads(encode("u-1", deny("x" * 5000)))["response"]["status"]["message"]
    assert (len(message), message[-4:]) == (1024, "x...")
