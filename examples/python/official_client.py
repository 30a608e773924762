"""Submits a Job with the official client alone: one label queues it; its Workload tells why it waits.

pip install kubernetes
NAMESPACE=team-a python examples/python/official_client.py
"""

import os

from kubernetes import client, config, watch

NAMESPACE = os.environ.get("NAMESPACE", "default")


def manifest() -> client.V1Job:
    """A Job of two pods in the LocalQueue `main`; nobody has to suspend it."""
    requests = client.V1ResourceRequirements(requests={"cpu": "1"})
    container = client.V1Container(name="train", image="busybox", command=["sleep", "5"], resources=requests)
    pod = client.V1PodSpec(restart_policy="Never", containers=[container])
    return client.V1Job(
        metadata=client.V1ObjectMeta(generate_name="train-", labels={"kueue.x-k8s.io/queue-name": "main"}),
        spec=client.V1JobSpec(parallelism=2, completions=2, template=client.V1PodTemplateSpec(spec=pod)),
    )


def main() -> None:
    """Creates the Job and prints each condition of its Workload until it has finished."""
    config.load_kube_config()
    job = client.BatchV1Api().create_namespaced_job(NAMESPACE, manifest())
    print(f"{job.metadata.name} is created")
    told = set()
    arguments = ("kueue.x-k8s.io", "v1beta2", NAMESPACE, "workloads")
    workloads = watch.Watch().stream(
        client.CustomObjectsApi().list_namespaced_custom_object,
        *arguments,
        label_selector=f"kueue.x-k8s.io/job-uid={job.metadata.uid}",
    )
    for event in workloads:
        conditions = (event["object"].get("status") or {}).get("conditions") or []
        for condition in conditions:
            line = f"{condition['type']}={condition['status']}: {condition['message']}"
            if line not in told:
                print(f"  {line}")
            told.add(line)
        finished = next((each for each in conditions if each["type"] == "Finished"), None)
        if finished:
            print(f"{job.metadata.name} has {finished['reason'].lower()}")
            return


if __name__ == "__main__":
    main()
