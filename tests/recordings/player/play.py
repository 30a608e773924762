"""Play scenarios against the queueing controller of a control plane and record what it decides."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import urllib3
import yaml

from tests.recordings.player.cluster import CLUSTER_KINDS, SCENARIO, WATCHED, Api, ApiError, Mirror, url
from tests.recordings.player.facts import Obj, changes, differing, load, pictures, save
from tests.recordings.player.observe import compact, condition, job_facts, number, queue_facts

QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
SPACING = 1.1  # seconds between steps at least: creationTimestamps have a granularity of 1 s
PATIENCE = 240.0  # seconds after which a step that keeps changing is recorded as unsettled
POLL = 0.1  # seconds between two looks at the objects
GRACE = 20.0  # seconds without a change after which nothing more is expected of a controller
EXPECTING = 60.0  # the same while a golden result differs: a busy controller writes counts and shares late


def job_manifest(step: Obj, namespace: str) -> Obj:
    """The Job that a createJob step asks for."""
    labels, annotations = {QUEUE: step["queue"]}, {}
    if "priorityClass" in step:
        labels[PRIORITY] = step["priorityClass"]
    if "minParallelism" in step:
        annotations[MIN_PARALLELISM] = str(step["minParallelism"])
    requests = {name: str(value) for name, value in step["requests"].items()}
    resources = {"requests": requests, "limits": {n: v for n, v in requests.items() if "/" in n}}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none", "resources": resources}]}
    pod |= {key: step[key] for key in ("nodeSelector", "tolerations", "affinity") if key in step}
    parallelism = step.get("parallelism", 1)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": step["job"], "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": compact(
            {
                "parallelism": parallelism,
                "completions": step.get("completions", parallelism),
                "suspend": step.get("suspend", True),
                "template": {"spec": pod},
            }
        ),
    }


def done(job: Obj) -> bool:
    """Whether a Job has reached its end."""
    return (condition(job, "Complete") or condition(job, "Failed") or "").startswith("True")


def has(workload: Obj, kind: str) -> bool:
    """Whether a condition of a Workload is True."""
    return (condition(workload, kind) or "").startswith("True")


def counts(queue: Obj) -> tuple[int, int]:
    """How many pending and how many reserving Workloads the status of a queue shows."""
    status = queue.get("status", {})
    return status.get("pendingWorkloads", 0), status.get("reservingWorkloads", 0)


def reserves(workload: Obj) -> bool:
    """Whether a Workload holds quota."""
    return has(workload, "QuotaReserved") and not has(workload, "Finished")


def usage_of(admission: Obj) -> Counter[tuple[str, str]]:
    """What an admission reserves, by flavor and resource."""
    found = Counter[tuple[str, str]]()
    for assigned in admission.get("podSetAssignments", []):
        for resource, flavor in assigned.get("flavors", {}).items():
            found[flavor, resource] += Decimal(number(assigned.get("resourceUsage", {}).get(resource)))  # type: ignore[assignment]
    return +found


def reserved(queue: Obj) -> Counter[tuple[str, str]]:
    """What the status of a ClusterQueue shows as reserved, by flavor and resource."""
    flavors = queue.get("status", {}).get("flavorsReservation", [])
    return +Counter({(f["name"], r["name"]): Decimal(number(r.get("total"))) for f in flavors for r in f["resources"]})


def in_transit(job: Obj, workload: Obj | None) -> bool:
    """Whether a Job and its Workload do not (yet) tell the same story."""
    if workload is None or "deletionTimestamp" in job["metadata"]:
        return not done(job)
    admitted, evicted, finished = (has(workload, kind) for kind in ("Admitted", "Evicted", "Finished"))
    if done(job) or finished:
        return not finished
    suspended = job["spec"].get("suspend", False)
    stopping = suspended and job.get("status", {}).get("active")
    return bool(stopping or (evicted and "admission" in workload["status"]) or admitted == suspended)


def completed(job: Obj) -> Obj:
    """The Job as the Job controller would leave it after its last pod succeeded."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = job.get("status", {})
    ended = [
        {
            "type": kind,
            "status": "True",
            "reason": "CompletionsReached",
            "message": "completed",
            "lastTransitionTime": now,
            "lastProbeTime": now,
        }
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status |= {
        "startTime": status.get("startTime", now),
        "completionTime": now,
        "active": 0,
        "ready": 0,
        "terminating": 0,
        "succeeded": job["spec"].get("completions", 1),
        "uncountedTerminatedPods": {},
        "conditions": status.get("conditions", []) + ended,
    }
    return job | {"status": status}


class Player:
    """Plays one scenario in the namespace that has its name."""

    def __init__(
        self, api: Api, mirrors: dict[str, Mirror], scenario: Obj, tick: float, golden: Obj | None = None
    ) -> None:
        self.api, self.mirrors, self.scenario, self.tick = api, mirrors, scenario, tick
        self.id: str = scenario["id"]
        self.expected = pictures(golden) if golden else []

    def mine(self, kind: str) -> dict[str, Obj]:
        """The scenario's objects of one kind by name."""
        return self.mirrors[kind].objects.get(self.id, {})

    def workloads(self) -> dict[str, Obj]:
        """The Workloads by the name of the Job that each stands for."""
        return {
            ref["name"]: w
            for w in self.mine("Workload").values()
            for ref in w["metadata"].get("ownerReferences", [])
            if ref["kind"] == "Job"
        }

    def settle(self, since: float, expected: Obj | None = None) -> bool:
        """Wait until nothing has changed for a tick; False when something changes again and again.

        Time is counted in polls: they take longer on a busy machine, where the controller needs longer too. What
        differs from the ``expected`` picture has longer to become equal. What is equal must stay so for a tick, too.
        """
        last, quiet = since, 0.0
        for _ in range(round(PATIENCE / POLL)):
            time.sleep(POLL)
            newest = max([since] + [m.changed.get(self.id, 0.0) for m in self.mirrors.values()])
            last, quiet = newest, quiet + POLL if newest == last else 0.0
            spaced = time.monotonic() - since >= SPACING
            if quiet < self.tick or not spaced:
                continue
            if quiet >= EXPECTING or (not self.differs(expected) and (quiet >= GRACE or not self.busy())):
                return True
        return False

    def differs(self, expected: Obj | None) -> bool:
        """Whether an expected picture, which has the result of its step too, is another one than that of now."""
        return expected is not None and any(differing(expected, {**self.snapshot(), "step": expected["step"]}))

    def busy(self) -> bool:
        """Whether something is plainly under way: a Job or an eviction that has not been dealt with, or a queue whose
        status has no condition Active, or does not count its Workloads, yet.
        """
        workloads, queues = self.workloads(), self.mine("LocalQueue")
        if any(in_transit(job, workloads.get(name)) for name, job in self.mine("Job").items()):
            return True
        made = [*queues.values(), *self.mine("ClusterQueue").values()]
        if any(condition(queue, "Active") is None for queue in made):
            return True
        pending, reserving = Counter[str](), Counter[str]()
        for workload in self.mine("Workload").values():
            name = workload["spec"].get("queueName", "")
            if reserves(workload):
                reserving.update((f"LocalQueue/{name}", workload["status"]["admission"]["clusterQueue"]))
            elif not has(workload, "Finished") and name in queues:
                pending.update((f"LocalQueue/{name}", queues[name]["spec"]["clusterQueue"]))
        shown = {f"LocalQueue/{name}": queue for name, queue in queues.items()} | self.mine("ClusterQueue")
        if any(counts(queue) != (pending[name], reserving[name]) for name, queue in shown.items()):
            return True
        held = [each["status"]["admission"] for each in self.mine("Workload").values() if reserves(each)]
        return any(
            reserved(queue) != sum((usage_of(each) for each in held if each["clusterQueue"] == name), Counter())
            for name, queue in self.mine("ClusterQueue").items()
        )

    def snapshot(self) -> Obj:
        """All recorded facts of the scenario by object."""
        owned = self.workloads()
        facts = {f"Job/{n}": job_facts(j, owned.get(n)) for n, j in self.mine("Job").items()}
        for kind in ("ClusterQueue", "LocalQueue"):
            facts |= {f"{kind}/{n}": queue_facts(q) for n, q in self.mine(kind).items()}
        return dict(sorted(facts.items()))

    def create(self, manifest: Obj) -> None:
        """Create an object, marked as belonging to the scenario."""
        meta = manifest["metadata"]
        marked = manifest | {"metadata": meta | {"labels": meta.get("labels", {}) | {SCENARIO: self.id}}}
        self.api.call("POST", url(manifest["kind"], "", self.id), marked)

    def running(self, step: Obj) -> list[str]:
        """Names of the running Jobs that a finishJob step may mean, oldest first."""
        jobs = {n: j for n, j in sorted(self.mine("Job").items()) if not j["spec"].get("suspend") and not done(j)}
        if "job" in step:
            return [n for n in jobs if n == step["job"]]
        return [n for n, j in jobs.items() if step.get("queue") in (None, j["metadata"].get("labels", {}).get(QUEUE))]

    def finish(self, step: Obj) -> str:
        """Complete the first running Job that the step means."""
        names = self.running(step)
        if not names:
            return "skipped"
        path = url("Job", names[0], self.id)
        for _ in range(20):
            try:
                self.api.call("PUT", f"{path}/status", completed(self.api.call("GET", path)))
                return f"ok {names[0]}"
            except ApiError as err:
                if err.status != 409:
                    raise
        raise ApiError(409, f"{names[0]} could not be finished")

    def label_job(self, step: Obj, label: str, value: str) -> None:
        """Change a label of a Job."""
        self.api.call("PATCH", url("Job", step["job"], self.id), {"metadata": {"labels": {label: value}}})

    def act(self, step: Obj) -> str:
        """Carry out a step: ok, skipped (nothing to act on) or rejected (refused by the API)."""
        op = step["op"]
        if op in ("deleteJob", "setPriority", "setQueue") and step["job"] not in self.mine("Job"):
            return "skipped"
        if op == "setup":
            return "ok"
        if op == "finishJob":
            return self.finish(step)
        if op == "createJob":
            self.create(job_manifest(step, self.id))
        elif op == "deleteJob":
            self.api.call("DELETE", url("Job", step["job"], self.id), {"propagationPolicy": "Background"})
        elif op == "setPriority":
            self.label_job(step, PRIORITY, step["priorityClass"])
        elif op == "setQueue":
            self.label_job(step, QUEUE, step["queue"])
        elif op == "create":
            self.create(step["object"])
        else:
            self.api.call(
                {"patch": "PATCH", "delete": "DELETE"}[op], url(step["kind"], step["name"], self.id), step.get("patch")
            )
        return "ok"

    def record(self, step: Obj, before: Obj, expected: Obj | None = None) -> tuple[Obj, Obj]:
        """Carry out a step and return what changed since the step before, and the whole picture."""
        since, standing = time.monotonic(), self.standing()
        try:
            result = self.act(step)
        except ApiError as err:
            if err.status not in (400, 403, 404, 409, 422):
                raise
            result = "rejected"
        settled = self.settle(since, expected)
        after = self.snapshot()
        entry = {
            "op": step["op"],
            "result": result,
            "unsettled": not settled or None,
            "ambiguous": self.tied(standing, before, after) or None,
        }
        return compact(entry) | {"changes": changes(before, after)}, after

    def standing(self) -> dict[str, tuple[str, int]]:
        """When the quota of each running Job was reserved, and its priority: these order candidates for preemption."""
        found = {}
        for name, workload in self.workloads().items():
            for cond in workload.get("status", {}).get("conditions", []):
                if cond["type"] == "QuotaReserved" and cond["status"] == "True":
                    found[name] = (cond["lastTransitionTime"], workload["spec"].get("priority", 0))
        return found

    def tied(self, standing: dict[str, tuple[str, int]], before: Obj, after: Obj) -> bool:
        """Whether a Job was preempted that nothing but chance told from another one that was not."""

        def preempted(name: str) -> bool:
            now, old = (p.get(f"Job/{name}", {}).get("Preempted", "") for p in (after, before))
            return now.startswith("True") and not old.startswith("True")

        gone = {standing[name] for name in standing if preempted(name)}
        return any(standing[name] in gone and not preempted(name) for name in standing)

    def play(self) -> Obj:
        """Play the whole scenario and clear away what it made."""
        report: Obj = {"family": self.scenario["family"], "steps": []}
        try:
            self.await_free_namespace()
            for manifest in self.scenario["objects"]:
                self.create(manifest)
            facts: Obj = {}
            for number, step in enumerate([{"op": "setup"}, *self.scenario["steps"]]):
                expected = self.expected[number] if number < len(self.expected) else None
                entry, facts = self.record(step, facts, expected)
                report["steps"].append(entry)
        except (ApiError, urllib3.exceptions.HTTPError) as err:
            report["error"] = str(err)
        self.clear()
        return report

    def await_free_namespace(self) -> None:
        """Wait until an earlier run of the same scenario has gone away."""
        for _ in range(120):
            try:
                self.api.call("GET", url("Namespace", self.id, ""))
            except ApiError:
                return
            time.sleep(0.5)
        raise ApiError(409, f"namespace {self.id} is in use")

    def clear(self) -> None:
        """Delete the scenario's Jobs, and then its other objects without waiting for them to go."""
        for name in list(self.mine("Job")):
            self.discard("Job", name)
        for _ in range(50):
            if not self.mine("Job"):
                break
            time.sleep(0.1)
        made = self.scenario["objects"] + [s["object"] for s in self.scenario["steps"] if s["op"] == "create"]
        for manifest in sorted(made, key=lambda m: m["kind"] != "Namespace"):
            if manifest["kind"] in CLUSTER_KINDS:
                self.discard(manifest["kind"], manifest["metadata"]["name"])

    def discard(self, kind: str, name: str) -> None:
        """Delete an object if it is there."""
        with contextlib.suppress(ApiError, urllib3.exceptions.HTTPError):
            self.api.call("DELETE", url(kind, name, self.id), {"propagationPolicy": "Background"})


def main() -> None:
    """Play all scenarios of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig")
    parser.add_argument("scenarios", help="folder of scenario files")
    parser.add_argument("--out", required=True)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--tick", type=float, default=2.0, help="seconds without a change that end a step")
    parser.add_argument("--only", default="", help="play only scenarios whose name has this in it")
    parser.add_argument("--golden", help="results to compare with later: a step has longer to become equal to them")
    args = parser.parse_args()
    golden = load(args.golden) if args.golden else {}
    files = [f for f in sorted(Path(args.scenarios).rglob("*.yaml")) if args.only in f.stem]
    api = Api(args.kubeconfig, args.parallel + 8)
    mirrors = {kind: Mirror(api, kind) for kind in WATCHED}
    for mirror in mirrors.values():
        mirror.start()
        mirror.ready.wait()
    start, results = time.monotonic(), {}
    with ThreadPoolExecutor(args.parallel) as pool:
        scenarios = [yaml.safe_load(f.read_text()) for f in files]
        players = [Player(api, mirrors, each, args.tick, golden.get(each["id"])) for each in scenarios]
        jobs = {pool.submit(p.play): p.id for p in players}
        for future in as_completed(jobs):
            results[jobs[future]] = future.result()
            print(f"\r{len(results)}/{len(files)} scenarios, {time.monotonic() - start:.0f} s", end="", flush=True)
    save(args.out, results)
    bad = sum("error" in r for r in results.values())
    restless = sum(any("unsettled" in s for s in r["steps"]) for r in results.values())
    print(
        f"\n{len(results)} scenarios, {sum(len(r['steps']) for r in results.values())} steps, "
        f"{bad} failed, {restless} never settled, {time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
