"""Every command in the README and the pages works as written on a machine without any set-up.

Each test has a separate cache, so that clusters have the names of the README; the programs in it are shared.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import build
from tests.cluster.charted import free_ports
from tests.cluster.test_demo import processes_in
from tests.eventually import PATIENCE, until

ROOT = Path(__file__).parents[2]
FINISHED = f"kubectl wait --for=condition=Complete jobs --all --namespace team-a --timeout={PATIENCE:g}s"

pytestmark = pytest.mark.cluster


def block(first: str, page: str = "README.md") -> str:
    """The code that begins with these words, indented or between fences."""
    text = (ROOT / page).read_text()
    fenced = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^    .+\n)+", text, re.MULTILINE)
    (found,) = [each for each in (*fenced, *indented) if each.strip().startswith(first)]
    return str(found)


def shell(script: str, cache: Path, programs: Path | None = None) -> str:
    """Run lines as in one shell, in the project's folder, and return what they print; the first that fails ends it, and
    the clusters that it has started. ``programs`` are those that need not be built.
    """
    programs = programs or build.ensure("kubectl")["kubectl"].parent
    environ = os.environ | {"XDG_CACHE_HOME": str(cache), "KUBEBUILDER_ASSETS": str(programs), "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    if done.returncode:
        for each in (cache / "seiretsu" / "clusters").glob("[!.]*"):
            down = [sys.executable, "-m", "cli.main", "cluster", "down", "--name", each.name]
            subprocess.run(down, cwd=ROOT, env=environ, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ready_in_the_background(command: str, log: Path) -> str:
    """The lines that start a program, to be ended with the shell if it still runs, and wait until it is ready."""
    start = f"{command} > {log} 2>&1 & trap 'kill $! || true' EXIT"
    return f"{start}\nuntil grep -qx ready {log}; do kill -0 $!; sleep 0.2; done"


def nothing_left(cache: Path) -> bool:
    return not processes_in(cache) and not list((cache / "seiretsu" / "clusters").glob("[!.]*"))


def test_make_up_and_what_is_typed_after_it(tmp_path: Path) -> None:
    script = block("make up")
    printed = shell(script, tmp_path)
    given = [line for line in printed.splitlines() if line.startswith('eval "$(')]
    assert [line.replace(f"{ROOT}/", "") for line in given] == script.splitlines()[1:2], (
        "make up prints the line itself"
    )
    for said in ("job.batch/train-", "team-a   research", "Cluster demo is down."):
        assert said in printed
    assert nothing_left(tmp_path)


def test_serve_beside_a_cluster_and_the_examples(tmp_path: Path) -> None:
    """Where another program listens on the port of the README, a free one is as good."""
    serve = re.compile(r"^seiretsu serve --install .*$", re.MULTILINE)
    log = tmp_path / "log"
    ready = ready_in_the_background("seiretsu serve --install --bind 127.0.0.1:0", log)
    begin, examples = block("make tools"), block("kubectl label nodes")
    assert serve.search(begin)
    priorities = block("kubectl get workloads", "docs/priority.md").strip() + " --namespace team-a"
    end = "kill $!; wait $! || true; trap - EXIT; seiretsu cluster down --name dev"
    printed = shell("\n".join([serve.sub(ready, begin), examples, FINISHED, priorities, end]), tmp_path)
    assert "node/node-1 labeled" in printed
    assert "kueue.x-k8s.io/queue-name=main" in printed, "kubectl describe jobs"
    assert re.search(r"^NAME +PRIORITY\njob-train-\S+ +0$", printed, re.MULTILINE)
    assert re.search(r"^job.batch/train-\S+ condition met$", printed, re.MULTILINE)
    assert nothing_left(tmp_path)


def test_the_chart_on_a_cluster_without_containers(tmp_path: Path) -> None:
    """Where other programs listen on the ports of the page, free ones are as good; nothing calls a lame duck here.

    The port of the webhooks is one that systems give to connections: `seiretsu doctor` dials the addresses of the pods,
    which are simulated, and the networks of some machines answer for every address, but not on these ports.
    """
    (programs := tmp_path / "programs").mkdir()
    for each in (*build.ensure("kubectl")["kubectl"].parent.iterdir(), build.ensure("helm")["helm"]):
        (programs / each.name).symlink_to(each)
    health, metrics = free_ports(2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        webhook = listening.getsockname()[1]
    configuration = {
        "webhook": {"port": webhook},
        "health": {"healthProbeBindAddress": f":{health}"},
        "metrics": {"bindAddress": f":{metrics}"},
    }
    here = {
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(configuration)},
        "controllerManager": {"manager": {"extraArgs": ["--lame-duck=0"]}},
    }
    (tmp_path / "values.yaml").write_text(json.dumps(here))
    page = "docs/install.md"
    installed = block("helm package", page).replace("=9443", f"={webhook}")
    assert "targetPort=webhook'\n" in installed
    installed = installed.replace("targetPort=webhook'\n", f"targetPort=webhook' --values {tmp_path}/values.yaml\n")
    running = ready_in_the_background(block("seiretsu cluster run", page).strip(), tmp_path / "log")
    used = [block(first, page) for first in ("kubectl apply -f", "helm upgrade seiretsu dist/", "kubectl delete -f")]
    printed = shell("\n".join([block("make tools", page), installed, running, *used]), tmp_path, programs)
    assert re.search(r"^job.batch/train-\S+ condition met$", printed, re.MULTILINE)
    for said in ("seiretsu-controller-manager", "Nothing is wrong", "superseded", 'release "seiretsu" uninstalled'):
        assert said in printed
    until(lambda: nothing_left(tmp_path))
