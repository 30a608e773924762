"""Invalid AdmissionReviews, each with the required result. Pure: the same seed gives the same reviews.

``wrong`` decides which answers are allowed; it uses the bytes that were sent and none of Seiretsu's code: what cannot
be parsed, or is about something else, must be refused; a queued Job that is allowed must be suspended.
"""

import base64
import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import yaml

from api.objects import Raw

EXAMPLES = Path(__file__).parent.parent / "examples" / "kinds"
QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE = "kueue.x-k8s.io"
MUTATE, VALIDATE = "/mutate-batch-v1-job", "/validate-batch-v1-job"
LIMIT = 7 * 1024 * 1024
_JUNK: list[Any] = [None, True, 0, -1, 2**40, 1.5, "", "x" * 300, [], {}, [None], {"a": None}, [[]], {"": {}}, "\x00"]


class Ask(NamedTuple):
    """A request and its category. ``statuses`` are the allowed answers."""

    kind: str
    path: str
    body: bytes
    statuses: tuple[int, ...]


class About(NamedTuple):
    """What a hook is called about: the resource, an example, and the operations; ``suspends`` is the field that its
    answer to the creation of a queued job must set, none for other hooks.
    """

    group: str
    version: str
    resource: str
    example: Raw
    operations: tuple[str, ...] = ("CREATE",)
    suspends: tuple[str, ...] = ()


class Bad(NamedTuple):
    """A way to make reviews invalid: its frequency (by weight), and the body that it returns for a path."""

    weight: float
    make: Callable[[random.Random, str], bytes]
    statuses: tuple[int, ...]


def asks(seed: int, count: int) -> Iterator[Ask]:
    """Yields that many requests, one of each kind first: most are invalid, one in twenty is valid and must be
    allowed.
    """
    chance = random.Random(seed)
    kinds = list(WAYS)
    weights = [WAYS[kind].weight for kind in kinds]
    for number in range(count):
        kind = kinds[number] if number < len(kinds) else chance.choices(kinds, weights)[0]
        path = chance.choice(OF_JOBS if chance.random() < 0.5 else tuple(HOOKS))
        yield Ask(kind, path, WAYS[kind].make(chance, path), WAYS[kind].statuses)


def wrong(ask: Ask, status: int, body: bytes) -> str:
    """Returns what is wrong about an answer, as a sentence; empty if nothing is."""
    if status not in ask.statuses:
        return f"status {status}, not {' or '.join(map(str, ask.statuses))}"
    if b"Traceback" in body:
        return "a traceback in the answer"
    if status != 200:
        return "" if body.endswith(b"\n") and len(body) < 1000 else "no short sentence"
    try:
        response = orjson.loads(body)["response"]
    except (orjson.JSONDecodeError, KeyError):
        return "status 200 without a review"
    if not response["allowed"]:
        code = response["status"]["code"]
        return "a good review is refused" if ask.kind == "good" else "code 500" if code == 500 else ""
    return _accident(ask, response)


def _accident(ask: Ask, response: Raw) -> str:
    """Returns why an allowed review should have been refused."""
    if ask.kind in REFUSED:
        return f"{ask.kind} is allowed"
    try:
        review = json.loads(ask.body)
        request, uid = review["request"], review["request"]["uid"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "what cannot be read is allowed"
    if (review.get("apiVersion"), review.get("kind")) != ("admission.k8s.io/v1", "AdmissionReview"):
        return "something that is no AdmissionReview v1 is allowed"
    if response["uid"] != uid:
        return "the answer is about another uid"
    about = HOOKS[ask.path]
    if (request["resource"].get("group", ""), request["resource"].get("resource")) != (about.group, about.resource):
        return "another resource than the path's is allowed"
    if request["operation"] in ("CREATE", "UPDATE") and not isinstance(request["object"], dict):
        return "no object is allowed"
    if about.suspends and request["operation"] == "CREATE" and not _waits(request["object"], about, response):
        return "a queued job is allowed and not suspended"
    return ""


def _waits(job: Raw, about: About, response: Raw) -> bool:
    """Whether a job that was allowed is not queued, or is suspended by the patch."""
    metadata = job.get("metadata") or {}
    named = any((metadata.get(where) or {}).get(QUEUE) for where in ("labels", "annotations"))
    patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
    above = {"/" + "/".join(about.suspends[: depth + 1]) for depth in range(len(about.suspends))}
    forced = any(step["path"] in above for step in patch)
    found: Any = job
    for step in about.suspends:
        found = (found or {}).get(step)
    held = found is True or (isinstance(found, list) and _GATE in found)
    return not named or forced or held or "deletionTimestamp" in metadata


# The objects that reviews are about.


def _job(*, suspended: bool) -> Raw:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "team-a",
            "labels": {QUEUE: "main"},
            "annotations": {"kueue.x-k8s.io/job-min-parallelism": "1", "example.com/notes": "x" * 500},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "n", "uid": "u"}],
        },
        "spec": {
            "parallelism": 4,
            "completions": 4,
            "suspend": suspended,
            "template": {
                "metadata": {"labels": {"app": "train"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [container],
                    "tolerations": [{"key": "a", "operator": "Exists"}],
                    "nodeSelector": {"zone": "a"},
                },
            },
        },
    }


def _job_set() -> Raw:
    job = {"spec": {key: value for key, value in _job(suspended=False)["spec"].items() if key != "suspend"}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "namespace": "team-a", "labels": {QUEUE: "main"}},
        "spec": {"suspend": False, "replicatedJobs": [{"name": "workers", "replicas": 2, "template": job}]},
    }


_GATE = {"name": f"{KUEUE}/admission"}
_POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
_QUEUED = {"name": "train", "namespace": "team-a", "labels": {"kueue.x-k8s.io/queue-nmae": "main"}}
_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
_COVERED = {"name": "standard", "resources": [{"name": "cpu", "nominalQuota": "8"}]}
_GROUPS = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [_COVERED]}]}
_BOTH, _ALL = ("CREATE", "UPDATE"), ("CREATE", "UPDATE", "DELETE")


def _stranger(kind: str, api_version: str, spec: Raw) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": _QUEUED, "spec": spec}


def _ours(kind: str, spec: Raw, version: str = "v1beta2", **metadata: Any) -> Raw:
    return {"apiVersion": f"{KUEUE}/{version}", "kind": kind, "metadata": {"name": "train", **metadata}, "spec": spec}


def _about_jobs(path: str, resource: str, example: Raw, suspends: str = "spec.suspend") -> dict[str, About]:
    """The hooks of a kind of job."""
    group, _, version = example["apiVersion"].partition("/")
    about, field = About(group, version, resource, example), tuple(suspends.split("."))
    suspended = copy.deepcopy(example)
    holder = suspended
    for step in field[:-1]:
        holder = holder.setdefault(step, {})
    holder[field[-1]] = True
    return {
        f"/mutate-{path}-owner": about,
        f"/mutate-{path}": about._replace(operations=_BOTH, suspends=field),
        f"/mutate-{path}-default": about._replace(suspends=field),
        f"/validate-{path}": about._replace(example=suspended, operations=_BOTH),
        f"/feedback-{path}-unmanaged": about,
        f"/validate-{path}-owner": about._replace(operations=("UPDATE",)),
    }


def _about_example(path: str, resource: str, suspends: str = "spec.suspend") -> dict[str, About]:
    """The hooks of a kind of job that has a manifest in ``examples/kinds``, named like the kind in the path."""
    example = yaml.safe_load((EXAMPLES / f"{path.rpartition('-')[2]}.yaml").read_text())
    example["metadata"]["namespace"] = "team-a"
    return _about_jobs(path, resource, example, suspends)


def _about_pods() -> dict[str, About]:
    """The hooks of queued pods."""
    metadata = {
        "name": "train",
        "namespace": "team-a",
        "labels": {QUEUE: "main", f"{KUEUE}/managed": "true", f"{KUEUE}/pod-group-name": "group"},
        "annotations": {f"{KUEUE}/pod-group-total-count": "2", f"{KUEUE}/role-hash": "worker"},
        "finalizers": [f"{KUEUE}/managed"],
    }
    gates = [{"name": f"{KUEUE}/topology"}, _GATE]
    gated = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**_POD, "schedulingGates": gates}}
    about = About("", "v1", "pods", {**gated, "spec": _POD})
    return {
        "/mutate--v1-pod-owner": about,
        "/mutate--v1-pod": about._replace(suspends=("spec", "schedulingGates")),
        "/mutate--v1-pod-default": about._replace(suspends=("spec", "schedulingGates")),
        "/validate--v1-pod": about._replace(example=gated, operations=_BOTH),
        "/feedback--v1-pod-unmanaged": about,
        "/validate--v1-pod-owner": about._replace(operations=("UPDATE",)),
        "/validate--v1-pod-counted": about._replace(example=gated, operations=("UPDATE",)),
    }


def _about_pod_owner(path: str, group: str, resource: str, kind: str) -> dict[str, About]:
    """The hooks of a kind whose pods are queued."""
    _, version, _ = path.rsplit("-", 2)
    metadata = {"name": "train", "namespace": "team-a", "labels": {QUEUE: "main"}}
    example = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, "spec": {"template": _TEMPLATE}}
    about = About(group, version, resource, example, _BOTH)
    return {
        f"/mutate-{path}": about,
        f"/mutate-{path}-default": about._replace(operations=("CREATE",)),
        f"/validate-{path}": about,
    }


def _about_ours() -> dict[str, About]:
    """The hooks of Kueue's kinds."""
    here = {"namespace": "team-a"}
    workload = _ours(
        "Workload", {"queueName": "main", "podSets": [{"name": "main", "count": 1, "template": {"spec": _POD}}]}, **here
    )
    examples = {
        "clusterqueue": _ours("ClusterQueue", _GROUPS),
        "cohort": _ours("Cohort", _GROUPS),
        "localqueue": _ours("LocalQueue", {"clusterQueue": "team"}, **here),
        "queue": _ours("Queue", {"clusterQueue": "team"}, "v1alpha1", **here),
        "resourceflavor": _ours("ResourceFlavor", {"nodeLabels": {"zone": "a"}}),
        "workload": workload,
    }
    hooks = {
        "mutate": (("CREATE",), ("clusterqueue", "resourceflavor", "workload")),
        "validate": (_BOTH, ("clusterqueue", "cohort", "resourceflavor", "workload")),
        "feedback": (_ALL, ("clusterqueue", "cohort", "localqueue", "queue", "resourceflavor")),
    }
    found = {}
    for verb, (operations, kinds) in hooks.items():
        for kind in kinds:
            version = examples[kind]["apiVersion"].partition("/")[2]
            about = About(KUEUE, version, f"{kind}s", examples[kind], operations)
            found[f"/{verb}-kueue-x-k8s-io-{version}-{kind}"] = about
    owned = {**workload, "metadata": {**workload["metadata"], "ownerReferences": [_OWNER]}}
    found["/feedback-kueue-x-k8s-io-v1beta2-workload-deletion"] = About(
        KUEUE, "v1beta2", "workloads", owned, ("DELETE",)
    )
    topology = _ours("Topology", {"levels": [{"nodeLabel": "rack"}]})
    found["/feedback-kueue-x-k8s-io-v1beta2-topology"] = About(
        KUEUE, "v1beta2", "topologies", topology, ("CREATE", "UPDATE")
    )
    priority = {**_ours("WorkloadPriorityClass", {}), "value": 1}
    found["/feedback-kueue-x-k8s-io-v1beta2-workloadpriorityclass"] = About(
        KUEUE, "v1beta2", "workloadpriorityclasses", priority, ("UPDATE",)
    )
    return found


_TEMPLATE = {"metadata": {"labels": _QUEUED["labels"]}, "spec": _POD}

HOOKS: dict[str, About] = {
    **_about_jobs("batch-v1-job", "jobs", _job(suspended=False)),
    **_about_jobs("jobset-x-k8s-io-v1alpha2-jobset", "jobsets", _job_set()),
    **_about_example("kubeflow-org-v2beta1-mpijob", "mpijobs", "spec.runPolicy.suspend"),
    **_about_example("kubeflow-org-v1-pytorchjob", "pytorchjobs", "spec.runPolicy.suspend"),
    **_about_example("kubeflow-org-v1-tfjob", "tfjobs", "spec.runPolicy.suspend"),
    **_about_example("kubeflow-org-v1-xgboostjob", "xgboostjobs", "spec.runPolicy.suspend"),
    **_about_example("kubeflow-org-v1-paddlejob", "paddlejobs", "spec.runPolicy.suspend"),
    **_about_example("kubeflow-org-v1-jaxjob", "jaxjobs", "spec.runPolicy.suspend"),
    **_about_example("ray-io-v1-rayjob", "rayjobs"),
    **_about_example("ray-io-v1-raycluster", "rayclusters"),
    **_about_example("ray-io-v1-rayservice", "rayservices", "spec.rayClusterConfig.suspend"),
    **_about_example("trainer-kubeflow-org-v1alpha1-trainjob", "trainjobs"),
    **_about_example("workload-codeflare-dev-v1beta2-appwrapper", "appwrappers"),
    **_about_example("sparkoperator-k8s-io-v1beta2-sparkapplication", "sparkapplications"),
    **_about_pods(),
    **_about_pod_owner("apps-v1-deployment", "apps", "deployments", "Deployment"),
    **_about_pod_owner("apps-v1-statefulset", "apps", "statefulsets", "StatefulSet"),
    **_about_pod_owner(
        "leaderworkerset-x-k8s-io-v1-leaderworkerset", "leaderworkerset.x-k8s.io", "leaderworkersets", "LeaderWorkerSet"
    ),
    **_about_ours(),
    "/feedback-core-v1-pod": About("", "v1", "pods", _stranger("Pod", "v1", _POD)),
    "/feedback-apps-v1-deployment": About(
        "apps", "v1", "deployments", _stranger("Deployment", "apps/v1", {"template": _TEMPLATE}), _BOTH
    ),
    "/feedback-apps-v1-statefulset": About(
        "apps", "v1", "statefulsets", _stranger("StatefulSet", "apps/v1", {"template": _TEMPLATE}), _BOTH
    ),
    **{
        f"/validate-apps-v1-{kind.lower()}-marks": About(
            "apps", "v1", f"{kind.lower()}s", _stranger(kind, "apps/v1", {"template": _TEMPLATE}), ("UPDATE",)
        )
        for kind in ("ReplicaSet", "StatefulSet")
    },
    "/feedback-batch-v1-cronjob": About(
        "batch",
        "v1",
        "cronjobs",
        _stranger("CronJob", "batch/v1", {"schedule": "@daily", "jobTemplate": {"spec": {"template": _TEMPLATE}}}),
        _BOTH,
    ),
}
"""Every hook, by its path."""
OF_JOBS = tuple(path for path, about in HOOKS.items() if about.resource == "jobs")


def review(path: str, chance: random.Random) -> Raw:
    """A good review for a path."""
    about = HOOKS[path]
    operation = chance.choice(about.operations) if chance.random() < 0.3 else about.operations[0]
    metadata = about.example["metadata"]
    request = {
        "uid": f"u-{chance.randrange(10**9)}",
        "kind": {"group": about.group, "version": about.version, "kind": about.example["kind"]},
        "resource": {"group": about.group, "version": about.version, "resource": about.resource},
        "operation": operation,
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "userInfo": {"username": "alice", "groups": ["dev"]},
        "object": None if operation == "DELETE" else copy.deepcopy(about.example),
        "oldObject": None if operation == "CREATE" else copy.deepcopy(about.example),
        "dryRun": False,
        "options": {"fieldManager": "kubectl-create"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def _subject(body: Raw) -> str:
    """The field of the request with the object that the review is about."""
    return "object" if body["request"]["object"] is not None else "oldObject"


# The ways to spoil them.


def _good(chance: random.Random, path: str) -> bytes:
    return orjson.dumps(review(path, chance))


def _noise(chance: random.Random, path: str) -> bytes:
    return b"\xff" + chance.randbytes(chance.randrange(2000))


def _cut(chance: random.Random, path: str) -> bytes:
    body = _good(chance, path)
    return body[: chance.randrange(len(body))]


def _flipped(chance: random.Random, path: str) -> bytes:
    body = bytearray(_good(chance, path))
    for _ in range(chance.randint(1, 4)):
        body[chance.randrange(len(body))] = chance.randrange(256)
    return bytes(body)


def _spoiled(chance: random.Random, path: str) -> bytes:
    return orjson.dumps(spoil(chance, review(path, chance)))


def spoil(chance: random.Random, body: Raw) -> Raw:
    """Replace one to three values anywhere in ``body`` by junk, or remove them; returns it."""
    for _ in range(chance.randint(1, 3)):
        *above, last = chance.choice(list(_paths(body)))
        holder: Any = body
        for step in above:
            holder = holder[step]
        if chance.random() < 0.2:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(chance.choice(_JUNK))
        if not body:
            break
    return body


def _paths(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if here:
        yield here
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in items:
        yield from _paths(below, (*here, key))


def _within(body: Raw, value: bytes) -> bytes:
    """Returns the review with a value, given as JSON, in an unknown field."""
    body["request"][_subject(body)]["later"] = "@here@"
    return orjson.dumps(body).replace(b'"@here@"', value)


def _too_deep(chance: random.Random, path: str) -> bytes:
    depth = chance.choice((2_000, 20_000, 200_000))
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return _within(review(path, chance), opening * depth + b"1" + closing * depth)


def _deep(chance: random.Random, path: str) -> bytes:
    depth = chance.randint(50, 900)
    return _within(review(path, chance), b"[" * depth + b"]" * depth)


def _huge(chance: random.Random, path: str) -> bytes:
    return _within(review(path, chance), b'"' + b"x" * chance.randint(500_000, 6_500_000) + b'"')


def _wide(chance: random.Random, path: str) -> bytes:
    """Thousands of labels, containers and owners."""
    body, many = review(path, chance), chance.randint(1_000, 20_000)
    found = body["request"][_subject(body)]
    metadata = found["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), **{f"label-{number}": "x" for number in range(many)}}
    if path in OF_JOBS:
        pod = found["spec"]["template"]["spec"]
        pod["containers"] = pod["containers"] * (many // 10)
    return orjson.dumps(body)


def _over(chance: random.Random, path: str) -> bytes:
    return _within(review(path, chance), b'"' + b"x" * (LIMIT + chance.randrange(1_000_000)) + b'"')


def _other_version(chance: random.Random, path: str) -> bytes:
    wanted = chance.choice(("admission.k8s.io/v1beta1", "admission.k8s.io/v2", "v1", "", None, 1))
    return orjson.dumps({**review(path, chance), "apiVersion": wanted})


def _no_uid(chance: random.Random, path: str) -> bytes:
    body = review(path, chance)
    body["request"]["uid"] = chance.choice((None, "", 7, [], {}, "u" * 10_000))
    return orjson.dumps(body)


def _no_object(chance: random.Random, path: str) -> bytes:
    body = review(path, chance)
    body["request"][_subject(body)] = chance.choice((None, [], "", 1, True))
    return orjson.dumps(body)


def _other_kind(chance: random.Random, path: str) -> bytes:
    body = review(path, chance)
    group = chance.choice(("", "apps", "example.com", "batch.example.com"))
    body["request"]["resource"] = {"group": group, "version": "v1", "resource": chance.choice(("nodes", "jobs", "x"))}
    return orjson.dumps(body)


WAYS = {
    "good": Bad(5, _good, (200,)),
    "noise": Bad(10, _noise, (400,)),
    "cut short": Bad(12, _cut, (400,)),
    "some bytes changed": Bad(18, _flipped, (200, 400)),
    "some values changed": Bad(30, _spoiled, (200, 400)),
    "too deep": Bad(0.5, _too_deep, (400,)),
    "deep": Bad(3, _deep, (200,)),
    "huge": Bad(0.1, _huge, (200,)),
    "wide": Bad(0.1, _wide, (200,)),
    "over the limit": Bad(0.05, _over, (413,)),
    "another version": Bad(6, _other_version, (400,)),
    "no uid": Bad(6, _no_uid, (400,)),
    "no object": Bad(6, _no_object, (200,)),
    "another kind": Bad(6, _other_kind, (200,)),
}
REFUSED = ("no object", "another kind")
"""Valid JSON that must be refused regardless of its other content."""


def good(path: str) -> bytes:
    """A good review for a path, always the same."""
    return _good(random.Random(0), path)
