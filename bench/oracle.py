"""Compares the scheduling cycle with recorded decisions: `python -m bench.oracle DIRECTORY` (`make oracle
CYCLE=DIRECTORY`).

A directory has `<family>.jsonl` (or `.jsonl.xz`), one scenario on each line: `name`, `input` (API objects and a time)
and `expected` (the decisions of one cycle, and the ClusterQueues after it). It prints figures by family, the first
differences, how many messages agree, and `agreement: X/Y`; the exit code is 0 when all agree.
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api import quantity
from api.feature_gates import enabled
from api.objects import key_of
from bench.topology_lines import others
from core.model import FlavorResource, Key, Plan, PodSetAssignment, Raw, Reserve, StayPending, messages
from core.model.policy import SchedulingPolicy, Strategy, TopologyPolicy
from core.quota.active import COHORT_CYCLE
from core.quota.placement import PlacementCapacity, needs_second_pass
from core.quota.shares import share
from core.quota.usage import Reservation
from core.scheduling.cycle import schedule
from core.state.state import State
from core.wire import decode
from core.wire.pod_requests import RequestRules, limits, overheads, transformations
from core.wire.timestamps import epoch

COMPARED = ("outcome", "secondPass", "reason", "clusterQueue", "podSets", "preemptor")
ENCODED = "topologyAssignment"
"""The form of domains that is stored; recordings have it beside the plain one, and only that one is compared."""
TOLERANCE = 0.001


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one scenario: differences, and the number of messages that agree."""

    name: str
    differences: tuple[str, ...]
    messages: int
    messages_agreed: int
    message_difference: str = ""


def load(given: Raw) -> tuple[State, SchedulingPolicy, float]:
    """The state that a scenario's input describes. Without ``topologies`` in it, topology-aware scheduling is off."""
    policy = _policy(given)
    state = State(policy)
    for raw in given.get("topologies", ()):
        state.set_topology(raw["metadata"]["name"], decode.topology_object(raw))
    for raw in given.get("nodes", ()):
        state.set_node(raw["metadata"]["name"], decode.node(raw))
    for node, used in others(given.get("pods", ())).items():
        state.set_other_pods(node, used)
    for raw in given.get("namespaces", ()):
        state.set_namespace(raw["metadata"]["name"], raw["metadata"].get("labels") or {})
    for raw in given.get("resourceFlavors", ()):
        state.set_flavor(raw["metadata"]["name"], decode.resource_flavor(raw))
    for raw in given.get("admissionChecks", ()):
        state.set_admission_check(raw["metadata"]["name"], decode.admission_check(raw))
    for raw in given.get("cohorts", ()):
        state.set_cohort(raw["metadata"]["name"], decode.cohort(raw))
    for raw in given.get("clusterQueues", ()):
        state.set_cluster_queue(raw["metadata"]["name"], decode.cluster_queue(raw))
    for raw in given.get("localQueues", ()):
        state.set_local_queue(key_of(raw), decode.local_queue(raw))
    contexts: dict[str, decode.WorkloadContext] = {}
    for raw in given.get("workloads", ()):
        key = key_of(raw)
        if key.namespace not in contexts:
            contexts[key.namespace] = _context(given, key.namespace)
        state.set_workload(key, decode.workload(raw, contexts[key.namespace]))
    return state, policy, epoch(given["now"])


def _policy(given: Raw) -> SchedulingPolicy:
    chosen: tuple[Strategy, ...] | None = None
    if given.get("fairSharing") is not None:
        strategies = given["fairSharing"].get("preemptionStrategies")
        chosen = tuple(Strategy(name) for name in strategies) if strategies else tuple(Strategy)
    gates = given.get("featureGates") or {}
    return SchedulingPolicy(
        fair_sharing=chosen,
        recompute_on_overlap=enabled("RecomputeAssignmentUponPreemptionTargetsOverlap", gates),
        topology=TopologyPolicy.of(gates) if "topologies" in given else None,
    )


def _context(given: Raw, namespace: str) -> decode.WorkloadContext:
    ranges = [r for r in given.get("limitRanges", ()) if r["metadata"].get("namespace", "") == namespace]
    rules = RequestRules(
        limits=limits(ranges),
        overheads=overheads(given.get("runtimeClasses", ())),
        transformations=transformations(given.get("resourceTransformations", ())),
    )
    return decode.WorkloadContext(rules)


def outcome(given: Raw, decide: Callable[..., Plan] = schedule) -> Raw:
    """Runs one cycle, and describes the result in the form of the scenarios."""
    state, policy, now = load(given)
    heads = state.heads(now)
    plan = decide(state.snapshot(), heads, policy, now)
    looked = {str(head.workload.key) for head in heads}
    without = {str(key_of(raw)) for raw in given["workloads"] if not _reserved(raw)}
    holding = {key: held for key in state.workloads if (held := state.reservations.get(key)) is not None}
    decided = _decisions(plan, holding)
    if state.placement is not None:
        for key in sorted(holding):
            if needs_second_pass(state.workloads[key]):
                decided.setdefault(str(key), {"outcome": "Unchanged"})["secondPass"] = True
    state.apply(plan)
    state.check()
    for key in _replaced(plan) & holding.keys():
        _hold_still(state, holding[key])
    described: Raw = {
        "workloads": decided,
        "untouched": sorted(without - looked),
        "clusterQueues": {name: _cluster_queue(state, name) for name in sorted(state.reservations.cluster_queues)},
    }
    if policy.fair_sharing is not None and state.reservations.cohorts:
        nodes = {name: node for arena in state.reservations.arenas.values() for name, node in arena.cohorts.items()}
        described["cohortShares"] = {
            name: _number(share(nodes[name]).weighted) for name in state.reservations.cohorts if name in nodes
        }
    domains = _domains(state)
    if domains:
        described["tasUsage"] = domains
    return described


def _replaced(plan: Plan) -> set[Key]:
    """The slices of elastic jobs that others have replaced."""
    reserves = (each.workload for each in plan.decisions if isinstance(each, Reserve))
    return {workload.replaces for workload in reserves if workload.replaces is not None}


def _hold_still(state: State, held: Reservation) -> None:
    """Counts a slice that was replaced, as Kueue does until it is finished, which is after the cycle."""
    arena = state.reservations.arenas[state.reservations.arena_of[held.cluster_queue]]
    node = arena.queues[held.cluster_queue]
    arena.add(node, held.usage)
    node.reserved = {**node.reserved, held.workload.key: held}


def _reserved(raw: Raw) -> bool:
    conditions = raw.get("status", {}).get("conditions", ())
    return any(each["type"] == "QuotaReserved" and each["status"] == "True" for each in conditions)


def _decisions(plan: Plan, holding: Container[Key]) -> Raw:
    """The decisions by workload; ``holding`` are the workloads that held quota before."""
    found: Raw = {}
    for decision in plan.decisions:
        key = str(decision.workload.key)
        match decision:
            case Reserve():
                found[key] = {
                    "outcome": "Admitted" if decision.admitted else "QuotaReserved",
                    "clusterQueue": decision.admission.cluster_queue,
                    "podSets": [_pod_set(each) for each in decision.admission.pod_sets],
                    "considered": decision.considered,
                }
                if decision.workload.replaces in holding:
                    replaced = {
                        "outcome": "Finished",
                        "reason": "WorkloadSliceReplaced",
                        "message": messages.slice_replaced(decision.workload),
                    }
                    found.setdefault(str(decision.workload.replaces), replaced)
            case StayPending(second_pass=True) if (
                decision.victims and decision.victims[0].workload is decision.workload
            ):
                found[key] = {"outcome": "Evicted", "reason": decision.reason, "message": decision.message}
                continue
            case StayPending():
                found[key] = {
                    "outcome": "SecondPassFailed" if decision.second_pass else "Pending",
                    **({} if decision.second_pass else {"reason": decision.reason}),
                    "message": decision.message,
                    "resourceRequests": {name: _amounts(r) for name, r in decision.requests.items()},
                }
                for victim in decision.victims:
                    found[str(victim.workload.key)] = {
                        "outcome": "Preempted",
                        "reason": victim.reason,
                        "preemptor": key,
                        "message": victim.message,
                    }
    return found


def _pod_set(given: PodSetAssignment) -> Raw:
    """A podSetAssignment; the recordings state the total also where it is empty, and domains plain and in order."""
    found: Raw = {"name": given.name, "count": given.count, "resourceUsage": _amounts(given.usage)}
    if given.flavors:
        found["flavors"] = dict(given.flavors)
    if given.topology is not None:
        domains = ({"values": list(domain.values), "count": domain.count} for domain in given.topology.domains)
        found["domains"] = sorted(domains, key=lambda domain: domain["values"])
    if given.delayed:
        found["delayedTopologyRequest"] = given.delayed
    return found


def _domains(state: State) -> Raw:
    """By flavor and domain, what can be used there, and what workloads use."""
    found: Raw = {}
    for arena in state.reservations.arenas.values():
        capacity = arena.further.get("topology")
        if not isinstance(capacity, PlacementCapacity):
            continue
        for flavor, domains in capacity.usage().items():
            found[flavor] = {
                ",".join(values): {
                    "freeCapacity": _amounts(free),
                    **({"tasUsage": _amounts(used)} if (used := {r: n for r, n in taken.items() if n}) else {}),
                }
                for values, (free, taken) in domains.items()
            }
    return found


def _amounts(amounts: Mapping[str, int]) -> Raw:
    return {resource: quantity.text(resource, amount) for resource, amount in amounts.items()}


def _by_flavor(amounts: Mapping[FlavorResource, int]) -> Raw:
    found: Raw = {}
    for fr, amount in amounts.items():
        if amount:
            found.setdefault(fr.flavor, {})[fr.resource] = quantity.text(fr.resource, amount)
    return found


def _cluster_queue(state: State, name: str) -> Raw:
    reservations = state.reservations
    node = reservations.arenas[reservations.arena_of[name]].queues[name]
    active_condition = reservations.active_condition(name)
    reserved = _by_flavor(node.usage)
    used: dict[FlavorResource, int] = {}
    for held in node.reserved.values():
        for fr, amount in held.usage.quota.items() if held.admitted else ():
            used[fr] = used.get(fr, 0) + amount
    admitted = _by_flavor(used)
    queue = state.pending.queues[name]
    named = reservations.cluster_queues[name].cohort  # also if the cohorts form a cycle and the queue is alone
    found = {
        "reserved": reserved,
        "borrowed": _by_flavor({fr: node.borrowed(fr) for fr in node.usage}) if named else {},
        "queue": sorted(str(entry.workload.key) for entry in queue if queue.is_active(entry)),
        "inadmissible": sorted(str(entry.workload.key) for entry in queue if not queue.is_active(entry)),
    }
    found = {what: value for what, value in found.items() if value}
    if admitted != reserved:
        found["admitted"] = admitted
    if not active_condition.active and active_condition.reason != COHORT_CYCLE:
        found["inactive"] = active_condition.reason
    if state.policy.fair_sharing is not None:
        found["weightedShare"] = _number(share(node).weighted)
    return found


def _number(value: float) -> str:
    return "inf" if math.isinf(value) else f"{value:.6f}"


def differences(expected: Raw, got: Raw) -> Iterator[str]:
    """Returns the compared values that are not equal."""
    for key in sorted({*expected["workloads"], *got["workloads"]}):
        want, have = expected["workloads"].get(key, {}), got["workloads"].get(key, {})
        for what in COMPARED:
            if not _same(_plain(want.get(what)), have.get(what)):
                yield f"{key} {what}: expected {want.get(what)!r}, got {have.get(what)!r}"
    if not _same(sorted(expected.get("untouched", [])), got["untouched"]):
        yield f"untouched: expected {sorted(expected['untouched'])}, got {got['untouched']}"
    for name in sorted({*expected["clusterQueues"], *got["clusterQueues"]}):
        want, have = expected["clusterQueues"].get(name, {}), got["clusterQueues"].get(name, {})
        for what in sorted({*want, *have}):
            if not _same(want.get(what) or {}, have.get(what) or {}):
                yield f"ClusterQueue {name} {what}: expected {want.get(what)!r}, got {have.get(what)!r}"
    if not _same(expected.get("cohortShares", {}), got.get("cohortShares", {})):
        yield f"cohortShares: expected {expected.get('cohortShares')}, got {got.get('cohortShares')}"
    for flavor in sorted({*expected.get("tasUsage", {}), *got.get("tasUsage", {})}):
        want, have = expected.get("tasUsage", {}).get(flavor, {}), got.get("tasUsage", {}).get(flavor, {})
        for domain in sorted({*want, *have}):
            if not _same(want.get(domain), have.get(domain)):
                yield f"{flavor} {domain}: expected {want.get(domain)}, got {have.get(domain)}"


def _plain(value: Any) -> Any:
    """Pod sets without the encoded form of their domains."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return value
    return [{name: each for name, each in pod_set.items() if name != ENCODED} for pod_set in value]


def _same(want: Any, have: Any) -> bool:
    """Equal, sets as sorted lists, quantities and shares by value."""
    if isinstance(want, dict) and isinstance(have, dict):
        return want.keys() == have.keys() and all(_same(want[key], have[key]) for key in want)
    if isinstance(want, list) and isinstance(have, list):
        if all(isinstance(each, str) for each in (*want, *have)):
            return sorted(want) == sorted(have)
        return len(want) == len(have) and all(_same(a, b) for a, b in zip(want, have, strict=True))
    if want == have:
        return True
    return isinstance(want, str) and isinstance(have, str) and _equal_values(want, have)


def _equal_values(want: str, have: str) -> bool:
    try:
        return quantity.exact(want) == quantity.exact(have) or abs(float(want) - float(have)) <= TOLERANCE
    except ValueError:
        return False


def judge(scenario: Raw) -> Verdict:
    """Run one scenario and compare it."""
    expected, got = scenario["expected"], outcome(scenario["input"])
    texts = message_differences(expected, got)
    wrong = [text for text in texts if text]
    found = tuple(differences(expected, got))
    return Verdict(scenario["name"], found, len(texts), len(texts) - len(wrong), wrong[0] if wrong else "")


def message_differences(expected: Raw, got: Raw) -> list[str]:
    """The difference of each message that was recorded, '' where there is none."""
    found = []
    for key, each in expected["workloads"].items():
        if "message" in each:
            want, have = each["message"], got["workloads"].get(key, {}).get("message")
            found.append("" if want == have else f"{key}: expected {want!r}, got {have!r}")
    return found


def scenarios(path: Path) -> Iterator[Raw]:
    """The scenarios of a family."""
    with (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def main(arguments: list[str] | None = None) -> int:
    """Compare all families of a directory."""
    parser = argparse.ArgumentParser(description="Compare the scheduling cycle with recorded decisions.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", default="", help="scenarios with this text in their names")
    parser.add_argument("--show", type=int, default=3, help="differences to show by family")
    options = parser.parse_args(arguments)
    paths = sorted((*options.directory.glob("*.jsonl"), *options.directory.glob("*.jsonl.xz")))
    if not paths:
        print(
            f"no *.jsonl or *.jsonl.xz in {options.directory}: give a directory of cycles (make oracle CYCLE=DIRECTORY)"
        )
        return 2
    verdicts: list[Verdict] = []
    for path in paths:
        family = [judge(each) for each in scenarios(path) if options.only in each["name"]]
        failed = [verdict for verdict in family if verdict.differences]
        print(f"{path.name.split('.')[0]:12} {len(family) - len(failed)}/{len(family)}")
        for verdict in failed[: options.show]:
            print(f"  {verdict.name}: {'; '.join(verdict.differences[:3])}")
        for verdict in [v for v in family if v.message_difference][: options.show]:
            print(f"  {verdict.name} message: {verdict.message_difference}")
        verdicts += family
    agreed = sum(1 for verdict in verdicts if not verdict.differences)
    print(f"messages: {sum(v.messages_agreed for v in verdicts)}/{sum(v.messages for v in verdicts)}")
    print(f"agreement: {agreed}/{len(verdicts)}")
    return 0 if agreed == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
