"""How long `seiretsu simulate` takes: `python -m bench.simulate [JOBS]` (part of `make bench`).

Simulates a trace of 10,000 Jobs on 30 ClusterQueues in 5 cohorts, from reading the files to the table, in three cases:
all start immediately; requests of 1.5 times the quota, so that a backlog grows; the same with preemption, a tenth of
the Jobs being urgent. CPU time of one process, including the command's start.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

JOBS = 10_000
QUEUES, COHORTS = 30, 5
PREEMPTION = "  preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}\n"

FLAVOR = """apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: standard}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 100
"""
QUEUE = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: cq-{number}}}
spec:
  cohortName: cohort-{cohort}
  namespaceSelector: {{}}
{preemption}  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: standard
      resources: [{{name: cpu, nominalQuota: {cpu}}}, {{name: memory, nominalQuota: 2Ti}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: lq-{number}, namespace: team}}
spec: {{clusterQueue: cq-{number}}}
"""


def queues(cpu: int, *, preemption: bool) -> str:
    """The manifests; ``cpu`` is each ClusterQueue's quota."""
    rules = PREEMPTION if preemption else ""
    made = (QUEUE.format(number=n, cohort=n % COHORTS, cpu=cpu, preemption=rules) for n in range(QUEUES))
    return FLAVOR + "".join(made)


def trace(jobs: int, *, urgent: float) -> str:
    """Jobs of 1, 2, 4 or 8 cpu that run for half a minute to five; 1,750 cpu if none of them waited."""
    chance = random.Random(1)
    lines = ["at,run_for,queue,namespace,name,cpu,memory,priority_class"]
    for number in range(jobs):
        run_for, cpu = chance.choice((30, 60, 120, 300)), chance.choice((1, 1, 2, 4, 8))
        priority = "urgent" if chance.random() < urgent else ""
        lines.append(
            f"{number * 0.23:.2f},{run_for}s,lq-{chance.randrange(QUEUES)},team,job-{number},{cpu},1Gi,{priority}"
        )
    return "\n".join(lines) + "\n"


def measure(folder: Path, jobs: int, cpu: int, *, preemption: bool) -> tuple[float, str]:
    """Returns the CPU seconds of the command, and the last line of its table."""
    (folder / "queues.yaml").write_text(queues(cpu, preemption=preemption))
    (folder / "trace.csv").write_text(trace(jobs, urgent=0.1 if preemption else 0.0))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "cli.main", "simulate", str(folder / "queues.yaml"), str(folder / "trace.csv")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, done.stdout.splitlines()[-1]


def main() -> None:
    """Print the figures."""
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else JOBS
    with tempfile.TemporaryDirectory() as scratch:
        for what, cpu, preemption in (
            ("all start at once", 1000, False),
            ("1.5 times as much is asked for as there is", 40, False),
            ("the same with preemption, a tenth urgent", 40, True),
        ):
            took, last = measure(Path(scratch), jobs, cpu, preemption=preemption)
            print(f"simulate, {jobs:,} Jobs, {what:44} {took:7.2f} s of CPU   ({last})", flush=True)


if __name__ == "__main__":
    main()
