"""LeaderWorkerSets and TrainJobs through MultiKueue, with their operators: `make test-long`, because three control
planes and the operators in two of them take minutes to start.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api.objects import Raw
from tests.cluster.fleet import FRAMEWORKS, Fleet, fleet
from tests.cluster.kinds import runtime
from tests.cluster.operators import JOBSET, LWS, OF_LWS, TRAINER, Operators, define
from tests.cluster.test_multikueue import MANAGED, copies
from tests.cluster.test_pods import leader_worker_set
from tests.cluster.world import World, condition

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def operated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """With the controllers of LeaderWorkerSets, in the manager and the first worker, and of TrainJobs there."""
    kinds = ("leaderworkerset.x-k8s.io/leaderworkerset", "trainer.kubeflow.org/trainjob")
    with fleet(tmp_path_factory.mktemp("fleet"), frameworks=(*FRAMEWORKS, *kinds)) as made:
        for world in (made.manager, made.workers[0]):
            define(world, *LWS, *TRAINER, JOBSET)  # one process of kubectl for all of them
            operators = Operators(world, tmp_path_factory.mktemp("operators"))
            operators.lws()
            world.create(runtime("works", "0"))
        operators.jobset()
        operators.trainer()
        yield made


def test_a_leader_worker_set_runs_in_a_worker_with_all_its_groups(operated: Fleet) -> None:
    here, (one, other) = operated.manager, operated.workers
    operated.queue("sets", there=(8, 0))
    made = leader_worker_set("model", "sets", groups=2)
    del made["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
    here.create(made)

    def phases(world: World) -> list[str]:
        """The phases of its pods."""
        found = (each for each in world.get("pods")["items"] if each["metadata"]["labels"].get(OF_LWS) == "model")
        return [each["status"]["phase"] for each in found]

    def placed() -> list[str]:
        """The workers of its groups."""
        found = here.get("workloads")["items"]
        mine = (each for each in found if each["metadata"]["name"].startswith("leaderworkerset-model-"))
        return [str(each.get("status", {}).get("clusterName")) for each in mine]

    here.until("both groups run in the first worker", lambda: phases(one) == ["Running"] * 4)
    assert placed() == ["worker1"] * 2
    here.until("its pods here wait", lambda: set(phases(here)) == {"Pending"})
    assert not any("nodeName" in each["spec"] for each in here.get("pods")["items"])
    here.patch("leaderworkersets", "model", {"spec": {"replicas": 3}})
    here.until("a third group runs there", lambda: phases(one) == ["Running"] * 6)
    assert placed() == ["worker1"] * 3
    here.patch("leaderworkersets", "model", {"spec": {"replicas": 1}})
    here.until("one group is left", lambda: phases(one) == ["Running"] * 2 and len(copies(one)) == 1)
    here.until("its Workload, too", lambda: placed() == ["worker1"])
    here.delete("leaderworkersets", "model")
    here.until("nothing is left of it", lambda: not copies(one) and not one.get("leaderworkersets")["items"])
    assert not copies(other)
    here.until("nor here", lambda: not placed())


def test_a_train_job_runs_in_a_worker_and_its_status_comes_back(operated: Fleet) -> None:
    """The manager has its runtime, and no controller of it."""
    here, (one, _) = operated.manager, operated.workers
    operated.queue("trained", there=(8, 0))
    trainer = {"numNodes": 2, "image": "none", "resourcesPerNode": {"requests": {"cpu": "1"}}}
    train_job: Raw = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "fit", "labels": {"kueue.x-k8s.io/queue-name": "trained"}},
        "spec": {"runtimeRef": {"name": "works"}, "trainer": trainer, "managedBy": MANAGED},
    }
    here.create(train_job)
    here.until("it is complete here", lambda: condition(here.read(train_job), "Complete")[0] == "True")
    (found,) = [each for each in here.get("workloads")["items"] if each["metadata"]["name"].startswith("trainjob-fit-")]
    (pods,) = found["spec"]["podSets"]
    assert (pods["count"], found["status"]["clusterName"]) == (2, "worker1")
    here.until(
        "its Workload has finished", lambda: condition(here.read(found), "Finished")[:2] == ("True", "Succeeded")
    )
    here.until("nothing is left of it", lambda: not copies(one) and not one.read(train_job))
    here.remove(train_job)
