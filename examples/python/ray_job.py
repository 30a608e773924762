"""Runs a Ray program as a RayJob in the LocalQueue `main`: KubeRay makes a cluster for it when it is admitted.

pip install kubernetes seiretsu
NAMESPACE=team-a python examples/python/ray_job.py
"""

import inspect
import os
import shlex

from kubernetes import client, config

from seiretsu.client import Queue

IMAGE = "docker.io/rayproject/ray:2.51.1"


def program() -> None:
    """What runs in the cluster: an ordinary Ray program."""
    import ray

    ray.init()

    @ray.remote(num_cpus=1)
    def square(number: int) -> int:
        return number * number

    print(sum(ray.get([square.remote(number) for number in range(100)])))


def group(cpu: str) -> dict:
    """The template of the pods of a group."""
    resources = {"requests": {"cpu": cpu, "memory": "2Gi"}}
    return {"spec": {"containers": [{"name": "ray", "image": IMAGE, "resources": resources}]}}


def manifest() -> dict:
    """A RayJob with two workers; a queued one must delete its cluster when it ends."""
    worker = {
        "groupName": "small",
        "replicas": 2,
        "minReplicas": 2,
        "maxReplicas": 2,
        "rayStartParams": {},
        "template": group("1"),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"generateName": "squares-"},
        "spec": {
            "entrypoint": f"python -c {shlex.quote(inspect.getsource(program) + 'program()')}",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {
                "rayVersion": "2.51.1",
                "headGroupSpec": {"rayStartParams": {}, "template": group("500m")},
                "workerGroupSpecs": [worker],
            },
        },
    }


def main() -> None:
    """Submits the RayJob and follows it to its end."""
    config.load_kube_config()
    queue = Queue.of(client.Configuration.get_default_copy(), "main", os.environ.get("NAMESPACE", "default"))
    job = queue.submit(manifest())
    for warning in job.warnings:
        print(f"Warning: {warning}")
    job.wait(progress=lambda state: print(f"{job.name} is {state}"))


if __name__ == "__main__":
    main()
