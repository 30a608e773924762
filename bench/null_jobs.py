"""The floor of ``bench.latency``: admission hooks that allow everything, and a controller that makes only the writes of
a Job that nobody can do without: its Workload, reservation and admission in one status, and the start of the Job.

One process, like ``seiretsu serve``. It converts Workloads too, if older versions are served. It queues nothing,
checks nothing and writes no status of a queue and no event.
"""

import argparse
import asyncio
import base64
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import orjson
import uvloop

from api.crds import CONVERSION_PATH
from api.objects import Raw
from app.application import Application
from app.metrics import ProcessMetrics
from app.server import Address, Listener, Server
from bench.events import Object, follow
from bench.scenario import GROUP, JOBS, NAMESPACE, WORKLOADS, job
from bench.served import HOOKS
from certs import pki
from certs.live import LiveContext
from certs.plan import RenewalPolicy
from controller.kube import config
from controller.kube.client import Client
from controller.kube.flow.throttle import Throttle
from operations.install import install_definitions
from webhook.conversion import convert

VALIDATING = HOOKS._replace(plural="validatingwebhookconfigurations")
HOOK_PATH = "/allow"


async def allow(body: bytes | bytearray) -> tuple[int, bytes]:
    """Allows what a review asks."""
    uid = orjson.loads(body)["request"]["uid"]
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": uid, "allowed": True}}
    return 200, orjson.dumps(review)


def hook(kind: str, client: Raw) -> Raw:
    """Returns the configuration of a hook for Jobs that are created."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "null"},
        "webhooks": [
            {
                "name": "null.kb.io",
                "clientConfig": client,
                "rules": [
                    {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE"]}
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


async def start(client: Client, found: Object) -> None:
    """Makes the three writes of a Job."""
    name = found.metadata.name
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": found.metadata.uid, "controller": True}
    pod_set = {"name": "main", "count": 1, "template": {"spec": job(name)["spec"]["template"]["spec"]}}
    named = {"apiVersion": WORKLOADS.api_version, "kind": WORKLOADS.kind}
    metadata = {"name": f"job-{name}", "namespace": NAMESPACE, "ownerReferences": [owner]}
    metadata |= {"finalizers": [f"{GROUP}/resource-in-use"]}
    body = named | {"metadata": metadata, "spec": {"queueName": "lq-0", "podSets": [pod_set]}}
    made = await client.create(WORKLOADS, body, NAMESPACE)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assigned = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}
    admission = {"clusterQueue": "cq-0", "podSetAssignments": [assigned]}
    conditions = [
        {"type": one, "status": "True", "reason": one, "message": "By the null controller", "lastTransitionTime": now}
        for one in ("QuotaReserved", "Admitted")
    ]
    version = {"name": f"job-{name}", "namespace": NAMESPACE, "resourceVersion": made["metadata"]["resourceVersion"]}
    whole = named | {"metadata": version, "status": {"admission": admission, "conditions": conditions}}
    await client.update(WORKLOADS, whole, subresource="status")
    await client.patch(JOBS, name, NAMESPACE, {"spec": {"suspend": False}})


async def control(client: Client) -> None:
    """Starts every suspended Job, without end. Workloads are watched, as every controller must, and not read."""
    jobs = (await client.list(JOBS))["metadata"]["resourceVersion"]
    workloads = (await client.list(WORKLOADS))["metadata"]["resourceVersion"]
    known: set[str] = set()

    async def watch() -> None:
        async with aclosing(follow(client, WORKLOADS, workloads)) as events:
            async for _ in events:
                pass

    print("ready", flush=True)
    async with asyncio.TaskGroup() as group, aclosing(follow(client, JOBS, jobs)) as events:
        group.create_task(watch())
        async for _, found in events:
            if found.spec.suspend and found.metadata.namespace == NAMESPACE and found.metadata.uid not in known:
                known.add(found.metadata.uid)
                group.create_task(start(client, found))


async def run(kubeconfig: Path, *, older: bool) -> None:
    """Serves the hooks, installs Seiretsu's definitions and the hooks, and runs the controller."""
    live, now, policy = LiveContext(), datetime.now(UTC), RenewalPolicy()
    authority = pki.new_authority(now, policy.authority_life)
    leaf = pki.new_leaf(authority, ("localhost", "127.0.0.1"), now, policy.leaf_life)
    live.load(leaf, authority.chain_pem, "localhost", now)
    app = Application({CONVERSION_PATH: convert, HOOK_PATH: allow}, [], ProcessMetrics())
    listener = Listener(app, Address("127.0.0.1", 0), live.context)
    await Server([listener]).start()
    bundle = base64.b64encode(authority.chain_pem).decode()

    def called(path: str) -> Raw:
        return {"url": f"https://{listener.bound}{path}", "caBundle": bundle}

    async with Client(config.load(kubeconfig), throttle=Throttle(0), field_manager="null") as client:
        await install_definitions(client, called(CONVERSION_PATH) if older else None)
        await client.create(HOOKS, hook("MutatingWebhookConfiguration", called(HOOK_PATH)))
        await client.create(VALIDATING, hook("ValidatingWebhookConfiguration", called(HOOK_PATH)))
        await control(client)


def main() -> None:
    """Runs until it is ended by a signal."""
    parser = argparse.ArgumentParser(prog="bench.null_jobs", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--versions", choices=("stored", "all"), default="all")
    chosen = parser.parse_args()
    uvloop.run(run(chosen.kubeconfig, older=chosen.versions == "all"))


if __name__ == "__main__":
    main()
