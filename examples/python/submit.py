"""Submits a Job to the LocalQueue `main` and waits for its end; prints why it waits, and for how long it probably will.

pip install kubernetes seiretsu
NAMESPACE=team-a python examples/python/submit.py
"""

import os

from kubernetes import client, config

from seiretsu.client import Job, Phase, Queue, State

MANIFEST = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"generateName": "train-"},
    "spec": {
        "parallelism": 2,
        "completions": 2,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "train",
                        "image": "busybox",
                        "command": ["sleep", "5"],
                        "resources": {"requests": {"cpu": "1"}},
                    }
                ],
            }
        },
    },
}


def report(job: Job, state: State) -> None:
    """Prints where the job stands, and while it waits an estimate."""
    print(f"{job.name} is {state}")
    if state.phase is Phase.WAITING:
        print(f"  it will start in {job.estimate() or 'an unknown time: too few Jobs of this queue are known'}")


def main() -> None:
    """Submits the Job and follows it to its end."""
    config.load_kube_config()
    queue = Queue.of(client.Configuration.get_default_copy(), "main", os.environ.get("NAMESPACE", "default"))
    job = queue.submit(MANIFEST)
    for warning in job.warnings:
        print(f"Warning: {warning}")
    job.wait(progress=lambda state: report(job, state))


if __name__ == "__main__":
    main()
