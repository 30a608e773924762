"""A stand-in for spark-submit in cluster mode: creates the driver's pod and, as the driver would, its executors.

``spark_submit_stand_in.py KUBECTL ARGUMENT...``: reads the ``--conf`` arguments that the Spark operator gives
spark-submit. The executors are created with a token of the driver's account that is bound to its pod, as the kubelet
gives it to a driver: ``OF_THE_KUBELET`` is a kubeconfig that may ask for it. Of Spark's own work it does nothing; but a
driver does not end before it has created its executors, so the time for which it runs begins then. Pods have the
scheduling gates of the template of their role, as with Spark's ``podTemplateFile``. It also stands in for the
operator's webhook for pods, which gives them the node selectors and tolerations of their role.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any

PREFIX = "spark.kubernetes."
RUN_FOR = "seiretsu.dev/run-for"  # devcluster.nodes: without it a pod runs until it is deleted


def pod(conf: dict[str, str], application: dict[str, Any], role: str, name: str, **labels: str) -> dict[str, Any]:
    """The pod of a role with the labels and annotations of the configuration, and the nodes of the application."""

    def of(part: str) -> dict[str, str]:
        head = f"{PREFIX}{part}."
        return {key.removeprefix(head): value for key, value in conf.items() if key.startswith(head)}

    fields = application["spec"][role]
    nodes = {part: fields[part] for part in ("nodeSelector", "tolerations") if part in fields}
    gates = fields.get("template", {}).get("spec", {}).get("schedulingGates", [])
    cpu = conf.get(f"{PREFIX}{role}.request.cores", "1")
    container = {"name": f"spark-kubernetes-{role}", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": conf[f"{PREFIX}namespace"],
            "labels": {**of(f"{role}.label"), "spark-role": role, **labels},
            "annotations": of(f"{role}.annotation"),
        },
        "spec": {"restartPolicy": "Never", "containers": [container], "schedulingGates": gates, **nodes},
    }


def run(*command: str, given: str = "") -> dict[str, Any]:
    """What kubectl prints; its message goes to the operator where that fails."""
    done = subprocess.run([*command, "-o", "json"], input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main(kubectl: str, *arguments: str) -> None:
    """Create the pods that the arguments ask for."""
    given = [after for before, after in itertools.pairwise(arguments) if before == "--conf"]
    conf = dict(each.split("=", 1) for each in given)
    name = conf[f"{PREFIX}driver.pod.name"]
    application = run(
        *(kubectl, "get", "sparkapplications", conf[f"{PREFIX}driver.label.sparkoperator.k8s.io/app-name"]),
        *("-n", conf[f"{PREFIX}namespace"]),
    )
    create = (kubectl, "create", "-f", "-")
    made = pod(conf, application, "driver", name)
    above = {name: application[name] for name in ("apiVersion", "kind")}
    made["metadata"]["ownerReferences"] = [{**above, **{key: application["metadata"][key] for key in ("name", "uid")}}]
    runs_for = made["metadata"]["annotations"].pop(RUN_FOR, "")
    made["spec"]["serviceAccountName"] = account = conf[f"{PREFIX}authenticate.driver.serviceAccountName"]
    driver = run(*create, given=json.dumps(made))
    bound = ("Pod", name, driver["metadata"]["uid"])
    options = (f"--bound-object-{part}={value}" for part, value in zip(("kind", "name", "uid"), bound, strict=True))
    of_kubelet = (kubectl, "--kubeconfig", os.environ["OF_THE_KUBELET"], "-n", conf[f"{PREFIX}namespace"])
    token = run(*of_kubelet, "create", "token", account, *options)["status"]["token"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": driver["metadata"]["uid"], "controller": True}
    for number in range(1, int(conf.get("spark.executor.instances", "1")) + 1):
        made = pod(conf, application, "executor", f"{name}-exec-{number}", **{"spark-exec-id": str(number)})
        made["metadata"]["ownerReferences"] = [owner]
        run(kubectl, "--token", token, *create[1:], given=json.dumps(made))
    if runs_for:
        ends = (*of_kubelet, "annotate", "pod", name, f"{RUN_FOR}={runs_for}")
        done = subprocess.run(ends, capture_output=True, text=True, check=False)
        if done.returncode and "(NotFound)" not in done.stderr:  # it was stopped before
            sys.exit(done.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
