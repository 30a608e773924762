"""The simulated nodes, and the life of pods on them: the stages that kwok simulates.

A pod starts as soon as it is placed. A Job's pod then runs for the duration in its annotation `seiretsu.dev/run-for`
(`10s`, `1m30s`; by default two seconds) and succeeds, or fails if `seiretsu.dev/exit-code` is set and not `"0"`. A pod
without a Job runs until it is deleted, unless it has `seiretsu.dev/run-for` too. A deleted pod is gone at once; with
`seiretsu.dev/ignores-sigterm: "true"` when its grace period has ended.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

Raw = dict[str, Any]

RUN_FOR = "seiretsu.dev/run-for"
EXIT_CODE = "seiretsu.dev/exit-code"
IGNORES_SIGTERM = "seiretsu.dev/ignores-sigterm"
DEFAULT_RUN_MILLISECONDS = 2000

_MOST_PODS = "1000"


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """`count` equal nodes named after `prefix`; amounts as Kubernetes spells quantities, e.g. `16` and `64Gi`."""

    count: int = 4
    cpu: str = "16"
    memory: str = "64Gi"
    prefix: str = "node"
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, str], ...] = ()
    resources: dict[str, str] = field(default_factory=dict)


def nodes(group: NodeGroup) -> list[Raw]:
    """The Node objects of a group, ready from the start so that the scheduler need not wait for the simulator."""
    amounts = {"cpu": group.cpu, "memory": group.memory, "pods": _MOST_PODS, **group.resources}
    return [_node(f"{group.prefix}-{index}", group, amounts) for index in range(1, group.count + 1)]


def _node(name: str, group: NodeGroup, amounts: dict[str, str]) -> Raw:
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "type": "kwok",
        **group.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": list(group.taints)},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def stages() -> str:
    """kwok's configuration: YAML documents, each of them JSON."""
    every = [
        _node_lives(),
        _pod_starts(),
        _pod_ends("pod-succeeds", phase="Succeeded", reason="Completed", succeeds=True),
        _pod_ends("pod-fails", phase="Failed", reason="Error", succeeds=False),
        _pod_goes("pod-goes", "NotIn"),
        _pod_goes("pod-is-killed", "In", delay={"durationFrom": {"expressionFrom": ".metadata.deletionTimestamp"}}),
    ]
    return "\n---\n".join(json.dumps(stage, indent=1) for stage in every)


def _stage(name: str, kind: str, selector: list[Raw], **rest: Any) -> Raw:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": selector},
            **rest,
        },
    }


def _is(key: str, operator: str, *values: str) -> Raw:
    return {"key": key, "operator": operator, "values": list(values)} if values else {"key": key, "operator": operator}


_LIVES = _is(".metadata.deletionTimestamp", "DoesNotExist")


def _annotation(name: str) -> str:
    return f'.metadata.annotations["{name}"]'


def _node_lives() -> Raw:
    template = """
    {{ $now := Now }}
    {{ $since := or .metadata.creationTimestamp $now }}
    phase: Running
    conditions:
    {{ range NodeConditions }}
    - type: {{ .type | Quote }}
      status: {{ .status | Quote }}
      reason: {{ .reason | Quote }}
      message: {{ .message | Quote }}
      lastHeartbeatTime: {{ $now | Quote }}
      lastTransitionTime: {{ $since | Quote }}
    {{ end }}
    addresses:
    - type: Hostname
      address: {{ .metadata.name | Quote }}
    {{ with NodeIP }}
    - type: InternalIP
      address: {{ . | Quote }}
    {{ end }}
    nodeInfo:
      architecture: amd64
      operatingSystem: linux
      kubeletVersion: {{ printf "kwok-%s" Version }}
      kubeProxyVersion: {{ printf "kwok-%s" Version }}
      containerRuntimeVersion: {{ printf "kwok-%s" Version }}
      kernelVersion: {{ printf "kwok-%s" Version }}
      bootID: ""
      machineID: ""
      osImage: ""
      systemUUID: ""
    """
    return _stage("node-lives", "Node", [_is(".status.phase", "NotIn", "Running")], next={"statusTemplate": template})


def _pod_starts() -> Raw:
    template = """
    {{ $now := Now }}
    phase: Running
    startTime: {{ $now | Quote }}
    conditions:
    - {type: Initialized, status: "True", lastTransitionTime: {{ $now | Quote }}}
    - {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
    - {type: ContainersReady, status: "True", lastTransitionTime: {{ $now | Quote }}}
    {{ range .spec.readinessGates }}
    - {type: {{ .conditionType | Quote }}, status: "True", lastTransitionTime: {{ $now | Quote }}}
    {{ end }}
    containerStatuses:
    {{ range .spec.containers }}
    - name: {{ .name | Quote }}
      image: {{ .image | Quote }}
      imageID: ""
      ready: true
      started: true
      restartCount: 0
      state: {running: {startedAt: {{ $now | Quote }}}}
    {{ end }}
    {{ with .spec.initContainers }}
    initContainerStatuses:
    {{ range . }}
    - name: {{ .name | Quote }}
      image: {{ .image | Quote }}
      imageID: ""
      ready: true
      restartCount: 0
      {{ if eq (or .restartPolicy "") "Always" }}
      started: true
      state: {running: {startedAt: {{ $now | Quote }}}}
      {{ else }}
      state:
        terminated:
          exitCode: 0
          reason: Completed
          startedAt: {{ $now | Quote }}
          finishedAt: {{ $now | Quote }}
      {{ end }}
    {{ end }}
    {{ end }}
    {{ $pod := .metadata }}
    {{ with PodIPWith .spec.nodeName (or .spec.hostNetwork false) $pod.uid $pod.name $pod.namespace }}
    podIP: {{ . | Quote }}
    podIPs: [{ip: {{ . | Quote }}}]
    {{ end }}
    """
    pending = [_LIVES, _is(".spec.nodeName", "Exists"), _is(".status.phase", "In", "Pending")]
    return _stage("pod-starts", "Pod", pending, next={"statusTemplate": template})


def _pod_goes(name: str, ignores: str, **rest: Any) -> Raw:
    selector = [_is(".metadata.deletionTimestamp", "Exists"), _is(_annotation(IGNORES_SIGTERM), ignores, "true")]
    return _stage(name, "Pod", selector, next={"delete": True}, **rest)


def _pod_ends(name: str, *, phase: str, reason: str, succeeds: bool) -> Raw:
    template = """
    {{ $now := Now }}
    {{ $root := . }}
    phase: PHASE
    conditions:
    - {type: Ready, status: "False", reason: PodREASON, lastTransitionTime: {{ $now | Quote }}}
    - {type: ContainersReady, status: "False", reason: PodREASON, lastTransitionTime: {{ $now | Quote }}}
    containerStatuses:
    {{ range $index, $container := .spec.containers }}
    {{ $before := index $root.status.containerStatuses $index }}
    - name: {{ $container.name | Quote }}
      image: {{ $container.image | Quote }}
      imageID: ""
      ready: false
      started: false
      restartCount: 0
      state:
        terminated:
          exitCode: CODE
          reason: REASON
          startedAt: {{ or $before.state.running.startedAt $now | Quote }}
          finishedAt: {{ $now | Quote }}
    {{ end }}
    """
    code = "0" if succeeds else f'{{{{ index $root.metadata.annotations "{EXIT_CODE}" }}}}'
    for word, value in {"PHASE": phase, "REASON": reason, "CODE": code}.items():
        template = template.replace(word, value)
    of_a_job = '([.metadata.ownerReferences[]?.kind] | index("Job")) != null'
    selector = [
        _LIVES,
        _is(".status.phase", "In", "Running"),
        _is(f"({of_a_job}) or ({_annotation(RUN_FOR)} != null)", "In", "true"),
        _is(f'({_annotation(EXIT_CODE)} // "0") == "0"', "In", str(succeeds).lower()),
    ]
    delay = {
        "durationMilliseconds": DEFAULT_RUN_MILLISECONDS,
        "durationFrom": {"expressionFrom": _annotation(RUN_FOR)},
    }
    return _stage(name, "Pod", selector, delay=delay, next={"statusTemplate": template})
