"""A control plane as the runner sees it: plain requests, and a mirror of the objects it watches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import urllib3
from kubernetes import client, config

from tests.eventually import PATIENCE
from tests.recordings.player.facts import Obj

SCENARIO = "oracle/scenario"  # label of all objects of a scenario that have no namespace
KUEUE, BATCH = "/apis/kueue.x-k8s.io/v1beta2", "/apis/batch/v1"
CLUSTER_KINDS = {
    "Namespace": "/api/v1/namespaces",
    "ResourceFlavor": f"{KUEUE}/resourceflavors",
    "WorkloadPriorityClass": f"{KUEUE}/workloadpriorityclasses",
    "Cohort": f"{KUEUE}/cohorts",
    "ClusterQueue": f"{KUEUE}/clusterqueues",
}
NAMESPACED_KINDS = {"LocalQueue": (KUEUE, "localqueues"), "Job": (BATCH, "jobs")}
WATCHED = {
    "Job": f"{BATCH}/jobs",
    "Workload": f"{KUEUE}/workloads",
    "LocalQueue": f"{KUEUE}/localqueues",
    "ClusterQueue": f"{KUEUE}/clusterqueues",
}


class ApiError(Exception):
    """An answer of the API server other than 2xx."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:300]}")
        self.status = status


class Api:
    """Plain JSON requests to an API server."""

    def __init__(self, kubeconfig: str, connections: int) -> None:
        conf = client.Configuration()
        config.load_kube_config(kubeconfig, client_configuration=conf)  # type: ignore[no-untyped-call]
        conf.connection_pool_maxsize = connections
        self.pool = client.ApiClient(conf).rest_client.pool_manager
        self.host = conf.host
        token = conf.auth_settings().get("BearerToken", {}).get("value")
        self.headers = {"authorization": token} if token else {}

    def call(self, method: str, path: str, body: Obj | None = None) -> Obj:
        """Send one request; retry while the server or a webhook is not reachable."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        for attempt in range(6):
            reply = self.pool.request(
                method,
                self.host + path,
                body=json.dumps(body) if body else None,
                timeout=PATIENCE,
                headers=self.headers | {"content-type": kind},
            )
            if reply.status < 500 and reply.status != 429:
                break
            time.sleep(0.5 * (attempt + 1))
        if reply.status >= 300:
            raise ApiError(reply.status, reply.data.decode())
        answer: Obj = json.loads(reply.data)
        return answer

    def watch(self, path: str, version: str) -> Iterator[Obj]:
        """Yield watch events until the server ends the stream."""
        reply = self.pool.request(
            "GET",
            f"{self.host}{path}?watch=1&resourceVersion={version}",
            headers=self.headers,
            preload_content=False,
            timeout=urllib3.Timeout(connect=10, read=3600),
        )
        rest = b""
        for chunk in reply.stream(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (json.loads(line) for line in lines)


def url(kind: str, name: str, namespace: str) -> str:
    """The path of an object, or of its collection when the name is empty."""
    if kind in CLUSTER_KINDS:
        base = CLUSTER_KINDS[kind]
    else:
        prefix, plural = NAMESPACED_KINDS[kind]
        base = f"{prefix}/namespaces/{namespace}/{plural}"
    return f"{base}/{name}" if name else base


class Mirror(threading.Thread):
    """Keeps the objects of one kind by scenario, and the time each scenario last changed."""

    def __init__(self, api: Api, kind: str) -> None:
        super().__init__(daemon=True)
        self.api, self.path = api, WATCHED[kind]
        self.objects: dict[str, dict[str, Obj]] = {}
        self.changed: dict[str, float] = {}
        self.ready = threading.Event()

    def run(self) -> None:
        """List and watch for as long as the process lives."""
        while True:
            try:
                listing = self.api.call("GET", self.path)
                self.objects = {}
                for item in listing["items"]:
                    self.take({"type": "ADDED", "object": item})
                self.ready.set()
                for event in self.api.watch(self.path, listing["metadata"]["resourceVersion"]):
                    if event["type"] == "ERROR":
                        break
                    self.take(event)
            except (urllib3.exceptions.HTTPError, ApiError):
                time.sleep(0.5)

    def take(self, event: Obj) -> None:
        """Apply one watch event."""
        meta = event["object"]["metadata"]
        scenario = meta.get("namespace") or meta.get("labels", {}).get(SCENARIO, "")
        kept = dict(self.objects.get(scenario, {}))
        if event["type"] == "DELETED":
            kept.pop(meta["name"], None)
        else:
            kept[meta["name"]] = event["object"]
        self.objects[scenario] = kept
        self.changed[scenario] = time.monotonic()
