"""Generates the documentation of all rules: ``python -m core.feedback.page FILE`` writes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from core.feedback.budget import MOST_FIELDS
from core.feedback.catalog import TABLES
from core.feedback.rules import LIMIT, Rule

_HEAD: Final = f"""<!-- Made by `make generate` from the rules in core/feedback. -->
# Feedback: the warnings that kubectl prints at once

Without these warnings a Job with the name of a queue that does not exist would wait for ever, and nobody would know
why. Seiretsu checks every object that is submitted with the rules of its scheduler and reports immediately what will
not work, why, and what to do. By default a finding is a warning: kubectl prints it and the object is created. A warning
has at most {LIMIT} characters (long names are cut in the middle, numbers are not). One object gets at most five
warnings, the most important first, and at most three of one rule; the last one counts the rest. Every warning comes
from a rule on this page or from a rule of the operator. Warnings about old API versions come from the API server.

The operator chooses in the Configuration what a rule does, by namespace:

```yaml
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
seiretsu:
  feedback:
    rules:
    - name: request-too-large      # refuse in production what can never start
      action: Deny                 # Ignore | Warn | Deny
      namespaceSelector:
        matchLabels: {{env: production}}
    - name: will-wait              # waiting is normal here
      action: Ignore
```

If several entries name the same rule, the first whose `namespaceSelector` matches is used; an entry without a selector
matches all namespaces. A rule without an entry warns. An entry with a `namespaceSelector` never matches objects without
a namespace (ClusterQueues, Cohorts, ResourceFlavors); if its rule is only about such objects, `serve` logs that when it
starts. A refusal ends in `(rule NAME)`.

Jobs that were just accepted count as if the scheduler had decided them already. So if six Jobs are created together,
those of them that have to wait get the warning. With several replicas, each replica knows only the Jobs that it
accepted itself.

Findings are computed from the caches. After a start there are no findings, and no refusals by these rules, until the
caches have been read. Pods with more than {MOST_FIELDS:,} fields are not checked, and after 0.3 s of CPU for one review
no further rule is checked. Then the object gets a warning, or a refusal if any rule refuses in that namespace
(`not-judged`). Suspension and validation do not depend on this limit. What Kubernetes itself forbids (syntax, immutable
fields) is always an error and has no rule.

## Rules of your own

Write a CEL expression that is true for correct objects. It is checked when the Configuration is read. The action of the
rule is configured by its name under `rules`, as for any other rule.

```yaml
seiretsu:
  feedback:
    expressions:
    - name: small-in-the-daytime
      resources: [jobs]            # jobs | workloads | clusterqueues | localqueues | cohorts | resourceflavors
      expression: job.requests.cpu <= amount('cpu', '64') || job.queue == 'night'
      message: more than 64 cpu goes to the queue "night"
      messageExpression: "'asks for ' + string(job.requests.cpu / 1000) + ' cpu: more than 64 goes to the queue night'"
    rules:
    - name: small-in-the-daytime
      action: Deny
```

An expression can use `object`, `oldObject` (null on create), `request` (`operation`, `namespace`, `name`, `username`,
`dryRun`) and `namespaceObject` (name and labels). For jobs, and for Workloads without a job, it can also use `job`:
`queue`, `priorityClass`, `pods`, and `requests` by resource as they count for quota, in base units (cpu in
thousandths). `amount(resource, quantity)` converts a quantity to the same units. A resource that the job does not
request is 0, unless the expression tests whether it exists (`has(job.requests.cpu)`,
`'nvidia.com/gpu' in job.requests`). If an expression fails on an object because another field does not exist, it
counts as false and the message says so.

These mistakes are errors of the Configuration: syntax, unknown functions, variables and fields of `job`, `request` and
`namespaceObject`, an expression that does not return a boolean (or a message that does not return a string), and
operands of the wrong type.
"""
_SECTIONS: Final = {
    "jobs": "Checked when a job is created, when a waiting job is changed, and when a Workload is created without a\n"
    "job. The last rule is for changes of a running job, together with `nobody-lends` and `request-too-large`: the\n"
    "job is requeued.",
    "labels and annotations": "Checked when a label or an annotation of a job is added, or the queue name is\n"
    "removed. This includes jobs without a queue name; their hook is skipped while Seiretsu is down.",
    "pod templates of Jobs": "Printed before the refusal of Kubernetes itself (`field is immutable`). Another\n"
    "image, command or argument of a Job is refused with such a sentence in the place of Kubernetes' own, which has\n"
    "the whole template; not where the rule is set to `Ignore`.",
    "what is not queued": "For objects that name a queue but are not queued. These hooks are skipped while Seiretsu is"
    " down, and only\nobjects with a queue label, or a similar one, are sent to them. For a CronJob, the rules about"
    " labels and the\nrules about jobs that can never start check its jobTemplate.",
    "Workloads of Jobs": "",
    "ClusterQueues": "For administrators. These hooks are skipped while Seiretsu is down, so `Deny` works only while it"
    " runs.",
    "LocalQueues": "",
    "Queues of v0.1": "All rules about LocalQueues, and:",
    "Cohorts": "",
    "ResourceFlavors": "",
    "Topologies": "Checked when a Topology is created, or its levels change.",
    "whom a change hits": "Computed when a ClusterQueue, Cohort, LocalQueue or ResourceFlavor is created, changed or\n"
    "deleted, or the value of a WorkloadPriorityClass changes: one cycle of the scheduler before the change and one\n"
    "after it, on copies. `seiretsu plan` prints all workloads, and when their starts move. With more than 2,000\n"
    "workloads in the queues concerned, or while another such question is computed, the warning has their numbers\n"
    "alone. A running workload *loses its guarantee* when its ClusterQueue then borrows what it uses: other\n"
    "ClusterQueues of the cohort may reclaim it.",
}


_COLUMNS: Final = "| rule | what it finds | example of the message |\n|---|---|---|\n"


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for subject, rules in TABLES.items():
        intro = f"{_SECTIONS[subject]}\n\n" if _SECTIONS[subject] else ""
        rows = "".join(_row(rule) for rule in rules)
        parts.append(f"\n## About {subject}\n\n{intro}{_COLUMNS}{rows}")
    return "".join(parts)


def _row(rule: Rule[Any]) -> str:
    example = rule.example.replace("|", "\\|")
    module = rule.texts.__module__.replace(".", "/")
    return f"| [`{rule.name}`](../{module}.py) | {rule.about} | {example} |\n"


def main(arguments: list[str]) -> int:
    """Write the page to the file that is named."""
    Path(arguments[0]).write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
