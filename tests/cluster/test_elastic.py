"""An elastic Job grows and shrinks on the real control plane without being stopped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from api.objects import Raw
from tests.cluster.world import World, condition, holds, job, quota

pytestmark = pytest.mark.cluster

GATE = {"name": "kueue.x-k8s.io/elastic-job"}


def elastic(name: str, queue: str, *, pods: int) -> Raw:
    """An elastic Job that has work for a long time."""
    found = job(name, queue, cpu=1, pods=pods, seconds=3000)
    found["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
    found["spec"]["completions"] = 100
    return found


def resize(world: World, pods: int) -> None:
    world.patch("jobs", "job", {"spec": {"parallelism": pods}})


def pods(world: World) -> dict[str, bool]:
    """The pods that are not on their way out, and whether each is gated."""
    items = world.get("pods").get("items", [])
    return {
        item["metadata"]["name"]: GATE in item["spec"].get("schedulingGates", [])
        for item in items
        if "deletionTimestamp" not in item["metadata"]
    }


def free(world: World) -> set[str]:
    """The pods without gate."""
    return {name for name, gated in pods(world).items() if not gated}


def marks(world: World) -> set[str]:
    """What a start has left in the metadata of the Job's template."""
    annotations = world.jobs()["job"]["spec"]["template"]["metadata"].get("annotations", {})
    return {key for key in annotations if key.startswith("kueue.x-k8s.io/")}


def slices(world: World) -> dict[str, Raw]:
    """The Workloads by their number of pods, finished ones too."""
    items = world.get("workloads").get("items", [])
    return {str(item["spec"]["podSets"][0]["count"]): item for item in items}


@pytest.mark.exceeds  # on a busy machine a pod that a smaller job gave up terminates longer than it may
def test_an_elastic_job_grows_and_shrinks_while_its_pods_run(world: World) -> None:
    world.queue("team", 4)
    world.create(elastic("job", "team", pods=2))
    world.until("two pods run", lambda: len(free(world)) == 2)
    first = free(world)
    before = world.version("jobs")

    resize(world, 4)
    world.until("four pods run", lambda: len(free(world)) == 4)
    assert first < free(world), "the pods that ran go on"
    world.until("the old slice is finished", lambda: holds(slices(world)["2"], "Finished"))
    old, new = slices(world)["2"], slices(world)["4"]
    assert condition(old, "Finished")[1] == "WorkloadSliceReplaced"
    named = f"{world.namespace}/{old['metadata']['name']}"
    assert new["metadata"]["annotations"]["kueue.x-k8s.io/workload-slice-replacement-for"] == named
    world.until("its quota is counted once", lambda: world.used("team") == ("4", "0"))

    resize(world, 6)
    world.until("two pods wait for quota", lambda: sorted(pods(world).values()) == [False] * 4 + [True] * 2)
    world.until("and say so", lambda: condition(slices(world).get("6", {}), "QuotaReserved")[0] == "False")
    assert "current podset request (6) > maximum capacity (4)" in condition(slices(world)["6"], "QuotaReserved")[2]
    world.patch("clusterqueues", world.full("team"), quota(world, 6))
    world.until("six pods run", lambda: len(free(world)) == 6)
    assert first < free(world)

    resize(world, 1)
    world.until("one pod is left", lambda: len(pods(world)) == 1)
    world.until("its quota is that of one", lambda: world.used("team") == ("1", "0"))
    world.patch("jobs", "job", {"metadata": {"labels": {"seen": "yes"}}})
    states = world.seen("jobs", before, lambda state: "seen" in state["metadata"]["labels"])
    assert not any(state["spec"]["suspend"] for state in states), "it was never suspended"


def test_an_elastic_job_is_evicted_like_any_other_and_starts_again_at_its_new_size(world: World) -> None:
    world.queue("team", 4)
    world.create(elastic("job", "team", pods=2))
    world.until("two pods run", lambda: len(free(world)) == 2)
    world.patch("clusterqueues", world.full("team"), {"spec": {"stopPolicy": "HoldAndDrain"}})
    world.until("it is suspended", lambda: world.jobs()["job"]["spec"]["suspend"])
    world.until("its pods are gone", lambda: not pods(world))
    world.until("its template is as before", lambda: not marks(world))
    assert world.jobs()["job"]["spec"]["template"]["spec"]["schedulingGates"] == [GATE]
    resize(world, 3)
    world.patch("clusterqueues", world.full("team"), {"spec": {"stopPolicy": "None"}})
    world.until("three pods run", lambda: len(free(world)) == 3)
    world.until("its quota is counted", lambda: world.used("team") == ("3", "0"))


def test_a_waiting_elastic_job_that_is_deleted_leaves_nothing(world: World) -> None:
    world.queue("team", 2)
    world.create(elastic("job", "team", pods=2))
    world.until("two pods run", lambda: len(free(world)) == 2)
    resize(world, 4)
    world.until("it has a replacement", lambda: "4" in slices(world))
    world.delete("jobs", "job")
    world.until("the Workloads are gone", lambda: not slices(world))
    world.until("its quota is free", lambda: world.used("team") == ("0", "0"))


# The manifests of the pages about Jobs, as they are written there.


def manifest(page: str) -> Raw:
    """The manifest of a page in docs/."""
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    (found,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    raw: Raw = yaml.safe_load(found)
    return raw


def test_the_job_of_its_page_starts_with_as_many_pods_as_fit(world: World) -> None:
    world.queue("main", 3)
    world.create(covered(manifest("kinds/job.md")))
    world.until("it runs with three pods", lambda: world.jobs()["train"]["spec"]["parallelism"] == 3)
    assert world.running() == {"train"}
    world.delete("jobs", "train")


def test_a_job_of_the_cronjob_of_its_page_is_queued(world: World) -> None:
    world.queue("main", 1)
    nightly = manifest("kinds/cronjob.md")
    template = nightly["spec"]["jobTemplate"]["spec"]["template"]
    template["spec"] = covered({"spec": {"template": template}})["spec"]["template"]["spec"]
    world.create(nightly)
    world.plane.kubectl("create", "job", "-n", world.namespace, "--from=cronjob/nightly", "tonight", check=True)
    world.until("it runs", lambda: world.running() == {"tonight"})
    assert world.workload("tonight")["spec"]["queueName"] == "main"
    world.delete("jobs", "tonight")


def test_the_job_of_the_page_about_elastic_jobs_grows(world: World) -> None:
    world.queue("main", 4)
    world.create(covered(manifest("elastic.md")))
    world.until("two pods run", lambda: len(free(world)) == 2)
    said = world.plane.kubectl(
        *("patch", "job", "elastic", "-n", world.namespace, "--type", "merge", "-p", '{"spec": {"parallelism": 4}}')
    )
    assert said.stderr.strip().endswith("the elastic job continues to run with 2 pods; 2 more start when quota is free")
    world.until("four pods run", lambda: len(free(world)) == 4)


def covered(found: Raw) -> Raw:
    """The Job without its request of memory, which the queues of these tests do not have."""
    for container in found["spec"]["template"]["spec"]["containers"]:
        del container["resources"]["requests"]["memory"]
    return found


def test_an_elastic_job_that_is_queued_later_gets_its_gate_from_the_controller(world: World) -> None:
    world.queue("team", 4)
    unseen = elastic("job", "team", pods=1)
    label = unseen["metadata"].pop("labels")
    world.create({**unseen, "spec": {**unseen["spec"], "suspend": True}})
    world.patch("jobs", "job", {"metadata": {"labels": label}})
    world.until("it runs", lambda: world.running() == {"job"})
    assert world.jobs()["job"]["spec"]["template"]["spec"]["schedulingGates"] == [GATE]
    resize(world, 3)
    world.until("a slice replaces the first one", lambda: set(slices(world)) == {"1", "3"} and len(free(world)) == 3)
