"""A job gets a warning only about a ResourceQuota that prevents its pods from being created."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.feedback import Submission, submission
from core.feedback.jobs import of_job, of_template
from core.feedback.rules import LIMIT
from core.feedback.submission import PodSpec
from core.model import Raw
from core.wire.pod_requests import RequestRules, limits
from tests.core.feedback.world import job, world

RULE = "resource-quota-too-small"
LIMITED = {"cpu": "2", "memory": "1Gi"}
GPU = {"nvidia.com/gpu": "1"}
TAKES_ALL = "an administrator must raise it"


def two(**spec: Any) -> Submission:
    """A Workload of two pod sets: a driver that asks for 1 cpu, and three workers that ask for 2 each."""
    driver, worker = (
        {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}], **spec}
        for cpu in ("1", "2")
    )
    return submission(
        "team-a", "main", "", [PodSpec("driver", 1, driver), PodSpec("worker", 3, worker)], RequestRules()
    )


def case(asked: Submission, hard: Raw, message: str, id: str, **spec: Any) -> Any:
    return pytest.param(asked, [{"hard": hard, **spec}], RULE if message else "", message, id=id)


RESOURCE_QUOTAS = [
    case(
        job(requests={"cpu": "4"}),
        {"requests.cpu": "2"},
        'no pod can be created: each asks for 4 cpu, ResourceQuota "q0" allows 2; ask for 2 or less',
        "one pod alone is too large",
    ),
    case(
        job(requests={"cpu": "4"}),
        {"cpu": "2"},
        'no pod can be created: each asks for 4 cpu, ResourceQuota "q0" allows 2; ask for 2 or less',
        "cpu without prefix is requests",
    ),
    case(
        job(requests={"cpu": "1"}, limits={"cpu": "4"}),
        {"limits.cpu": "2500m"},
        'no pod can be created: each has a limit of 4 cpu, ResourceQuota "q0" allows 2500m; set 2500m or less',
        "limits of one pod are too large",
    ),
    case(
        job(requests={"cpu": "2"}, count=4),
        {"requests.cpu": "5"},
        'at most 2 of 4 pods at once: all ask for 8 cpu, ResourceQuota "q0" allows 5; set parallelism to 2 or less',
        "all pods together are too large",
    ),
    case(
        job(requests={"cpu": "1"}, limits=LIMITED, count=4),
        {"limits.memory": "3Gi"},
        'at most 3 of 4 pods at once: all have limits of 4Gi memory, ResourceQuota "q0" allows 3Gi;'
        " set parallelism to 3 or less",
        "limits of all pods together are too large",
    ),
    case(
        job(count=4),
        {"pods": "3"},
        'at most 3 of 4 pods at once: ResourceQuota "q0" allows 3 pods; set parallelism to 3 or less',
        "more pods than allowed",
    ),
    case(
        job(count=4),
        {"count/pods": "2", "pods": "3"},
        'at most 2 of 4 pods at once: ResourceQuota "q0" allows 2 pods; set parallelism to 2 or less',
        "the number of pods by both its names",
    ),
    case(
        job(),
        {"pods": "0"},
        f'no pod can be created: ResourceQuota "q0" allows 0 pods; {TAKES_ALL}',
        "no pods at all",
    ),
    case(
        job(requests={"cpu": "1", **GPU}, limits=GPU),
        {"requests.nvidia.com/gpu": "0"},
        f'no pod can be created: each asks for 1 nvidia.com/gpu, ResourceQuota "q0" allows 0; {TAKES_ALL}',
        "no GPUs for the namespace",
    ),
    case(
        job(requests={"cpu": "1"}),
        {"limits.cpu": "8"},
        'no pod can be created: ResourceQuota "q0" requires limits.cpu; set it in containers[0].resources',
        "a limit is required",
    ),
    case(
        job(requests={"cpu": "1"}),
        {"memory": "8Gi"},
        'no pod can be created: ResourceQuota "q0" requires requests.memory; set it in containers[0].resources',
        "a request is required",
    ),
    case(
        two(),
        {"requests.cpu": "6"},
        'not all pods at once: all ask for 7 cpu, ResourceQuota "q0" allows 6; set a lower parallelism',
        "pod sets together",
    ),
    case(
        two(),
        {"requests.cpu": "1"},
        'some pods cannot be created: each asks for 2 cpu, ResourceQuota "q0" allows 1; ask for 1 or less',
        "one of two pod sets",
    ),
    case(
        job(requests={"cpu": "4"}, activeDeadlineSeconds=60),
        {"cpu": "2"},
        'no pod can be created: each asks for 4 cpu, ResourceQuota "q0" allows 2; ask for 2 or less',
        "pods that end, of a scope for these",
        scopes=["Terminating", "NotBestEffort"],
    ),
    case(job(requests={"cpu": "4"}), {"cpu": "2"}, "", "pods that do not end", scopes=["Terminating"]),
    case(job(requests={"cpu": "4"}), {"pods": "0"}, "", "pods with requests", scopes=["BestEffort"]),
    case(job(requests={"cpu": "4"}), {"cpu": "2"}, "", "scopes that cannot be judged", scopes=["Another"]),
    case(
        job(priorityClassName="high-priority"),
        {"pods": "0"},
        f'no pod can be created: ResourceQuota "q0" allows 0 pods; {TAKES_ALL}',
        "pods of its priority",
        scopeSelector={
            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high-priority"]}]
        },
    ),
    case(
        job(priorityClassName="high-priority"),
        {"pods": "0"},
        "",
        "pods of another priority",
        scopeSelector={
            "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high-priority"]}]
        },
    ),
    case(
        job(),
        {"pods": "0"},
        "",
        "pods that may get a default priority",
        scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]},
    ),
    case(job(), {"services": "0", "requests.storage": "0", "count/jobs.batch": "0"}, "", "other objects than pods"),
    case(job(requests={"cpu": "2", "memory": "1Gi"}, count=4), {"cpu": "8", "pods": "4"}, "", "just enough"),
    case(
        job(requests={}, limits=LIMITED),
        {"requests.cpu": "2", "requests.memory": "1Gi"},
        "",
        "limits stand in for requests",
    ),
    case(job(count=0), {"pods": "0"}, "", "no pods"),
]


@pytest.mark.parametrize(("asked", "quotas", "rule", "message"), RESOURCE_QUOTAS)
def test_the_messages_of_each_case(asked: Submission, quotas: list[Raw], rule: str, message: str) -> None:
    found = [(each.rule, each.message) for each in of_job(asked, world(quotas=quotas)) if each.rule == RULE]
    assert found == [(rule, message)] * bool(message)


def test_of_several_the_lowest_is_named_and_each_only_once() -> None:
    quotas = [{"hard": {"cpu": "3"}}, {"hard": {"requests.cpu": "2"}}, {"hard": {"cpu": "2"}}]
    (text,) = [each.message for each in of_job(job(requests={"cpu": "4"}), world(quotas=quotas)) if each.rule == RULE]
    assert text == 'no pod can be created: each asks for 4 cpu, ResourceQuota "q1" allows 2; ask for 2 or less'


def test_a_limit_range_sets_what_a_resource_quota_requires() -> None:
    ranges = {"limits": [{"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "1"}}]}
    rules = RequestRules(limits=limits([{"metadata": {"name": "l"}, "spec": ranges}]))
    pods = [PodSpec("main", 1, {"containers": [{"name": "main"}]})]
    quotas = [{"hard": {"limits.cpu": "4", "requests.cpu": "4"}}]
    assert of_job(submission("team-a", "main", "", pods, rules), world(quotas=quotas)) == ()
    assert of_job(submission("team-a", "main", "", pods, RequestRules()), world(quotas=quotas))


def test_resources_of_the_pod_count_and_its_containers_need_not_set_them() -> None:
    whole = {"requests": {"cpu": "2"}, "limits": {"cpu": "4"}}
    asked = job(requests={}, resources=whole)
    assert of_job(asked, world(quotas=[{"hard": {"limits.cpu": "4", "cpu": "2"}}])) == ()
    (found,) = of_job(asked, world(quotas=[{"hard": {"limits.cpu": "3"}}]))
    assert found.rule == RULE


def test_exclusions_of_the_configuration_do_not_count_for_a_resource_quota() -> None:
    rules = RequestRules(excluded_prefixes=("cpu",))
    pods = [PodSpec("main", 1, {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]})]
    found = of_job(submission("team-a", "main", "", pods, rules), world(quotas=[{"hard": {"cpu": "2"}}]))
    assert RULE in {each.rule for each in found}


def test_the_template_of_a_cronjob_is_checked_too() -> None:
    asked = job(requests={"cpu": "4"})
    assert [each.rule for each in of_template(asked, world(quotas=[{"hard": {"cpu": "2"}}]))] == [RULE]


amounts = st.integers(0, 6)
KEYS = ("pods", "count/pods", "cpu", "requests.cpu", "limits.cpu", "memory", "limits.memory")


@given(
    st.dictionaries(st.sampled_from(["cpu", "memory"]), amounts),
    st.dictionaries(st.sampled_from(["cpu", "memory"]), amounts),
    st.integers(1, 5),
    st.lists(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 12)), max_size=3),
)
def test_it_is_said_exactly_where_the_api_server_would_not_create_all_pods(
    requests: dict[str, int], limits: dict[str, int], count: int, hard: list[dict[str, int]]
) -> None:
    """Pods are created one after the other in an empty namespace, as the quota plugin of the API server does it."""
    asked = {**limits, **requests}
    each = {"pods": 1, "count/pods": 1}
    each |= {f"{prefix}{name}": amount for name, amount in asked.items() for prefix in ("", "requests.")}
    each |= {f"limits.{name}": amount for name, amount in limits.items()}

    def admits(before: int) -> bool:
        known = all(key in each for quota in hard for key in quota)
        return known and all(each[key] * (before + 1) <= most for quota in hard for key, most in quota.items())

    created = next((number for number in range(count) if not admits(number)), count)
    written = [{name: str(amount) for name, amount in found.items()} for found in (requests, limits)]
    submitted = job(requests=written[0], limits=written[1], count=count)
    quotas = [{"hard": {key: str(most) for key, most in quota.items()}} for quota in hard]
    said = [each.message for each in of_job(submitted, world(quotas=quotas)) if each.rule == RULE]
    assert bool(said) is (created < count)
    assert any(text.startswith("no pod can be created") for text in said) is (created == 0)
    if 0 < created < count:
        assert min(int(text.split()[2]) for text in said if text.startswith("at most")) == created


@given(st.text("abc-", min_size=1, max_size=253), st.integers(0, 10**15), st.integers(0, 10**15), st.integers(1, 10**6))
def test_every_message_fits(resource: str, asks: int, hard: int, count: int) -> None:
    gpu = f"example.com/{resource}"
    asked = job(requests={gpu: str(asks)}, limits={gpu: str(asks)}, count=count)
    found = of_job(
        asked, world(quotas=[{"hard": {f"requests.{gpu}": str(hard), "pods": str(hard), "limits.cpu": "1"}}])
    )
    assert all(0 < len(each.message) <= LIMIT for each in found)
