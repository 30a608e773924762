"""Trains with the Kubeflow SDK in the LocalQueue `main`: one option of the SDK puts the TrainJob into the queue.

pip install kubeflow seiretsu
NAMESPACE=team-a python examples/python/kubeflow_sdk.py
"""

import os

from kubeflow.common.types import KubernetesBackendConfig
from kubeflow.trainer import CustomTrainer, TrainerClient
from kubeflow.trainer.options import Labels
from kubernetes import client, config

from seiretsu.client import Queue


def train() -> None:
    """What runs on each node: an ordinary PyTorch program."""
    import torch
    from torch import distributed

    distributed.init_process_group("gloo")
    total = torch.ones(1)
    distributed.all_reduce(total)
    print(f"node {distributed.get_rank()} of {int(total)}")
    distributed.destroy_process_group()


def main() -> None:
    """Submits the TrainJob with the SDK and follows it to its end."""
    namespace = os.environ.get("NAMESPACE", "default")
    config.load_kube_config()
    trainer = CustomTrainer(func=train, num_nodes=2, resources_per_node={"cpu": "1", "memory": "1Gi"})
    in_queue = Labels({"kueue.x-k8s.io/queue-name": "main"})
    name = TrainerClient(KubernetesBackendConfig(namespace=namespace)).train(
        runtime="torch-distributed", trainer=trainer, options=[in_queue]
    )
    queue = Queue.of(client.Configuration.get_default_copy(), "main", namespace)
    job = queue.find(name, api_version="trainer.kubeflow.org/v1alpha1", kind="TrainJob")
    job.wait(progress=lambda state: print(f"{name} is {state}"))


if __name__ == "__main__":
    main()
