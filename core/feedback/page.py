"""The documentation of all rules, made from the rules: ``python -m core.feedback.page FILE`` writes it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from core.feedback.budget import MOST_FIELDS
from core.feedback.catalog import TABLES
from core.feedback.rules import LIMIT, Rule

_HEAD: Final = f"""<!-- Made by `make generate` from the rules in core/feedback. -->
# Feedback: the warnings that kubectl prints at once

A Job that names a queue which does not exist would wait for ever without a word. Seiretsu judges what is submitted as
its scheduler will, and reports at once what will not work, why, and what to do. By default a finding is a warning:
kubectl prints it and the object is created. A warning has at most {LIMIT} characters (long names lose their middle,
numbers stay); there are at most five, the most important first, and at most three of one rule: the last says how many
more there are. Every warning comes from a rule below or from one of your own; what kubectl says of old API versions
is the API server's.

What a rule does is the operator's choice, by namespace, in the Configuration:

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

Of several entries for a rule the first whose `namespaceSelector` matches counts (none matches all namespaces); a rule
without entry warns. An entry with a `namespaceSelector` never counts for what is in no namespace (ClusterQueues,
Cohorts, ResourceFlavors); where its rule is about nothing else, `serve` says so at the start. A refusal ends in
`(rule NAME)`. Jobs that were accepted a moment ago count as if the scheduler had judged them already, so that of six
created together those that have to wait get the warning; with several replicas each knows only of those that it
accepted itself.
Findings come from the caches: until those have been read once after a start nothing is said, and nothing
is refused by these rules. Pods with more than {MOST_FIELDS:,} fields are not looked at, and once a review has
taken 0.3 s of CPU no other rule is begun: a warning says so, or, where any rule of that namespace
refuses, a refusal (`not-judged`). Suspension and validation do not depend on that. What is wrong in Kubernetes' own
sense (syntax, immutable fields) is always an error and no rule.

## Rules of your own

An expression in CEL that is true of what is fine. It is checked when the Configuration is read; what the rule does is
said among `rules`, by its name, like that of any other.

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

An expression sees `object`, `oldObject` (null on create), `request` (`operation`, `namespace`, `name`, `username`,
`dryRun`), `namespaceObject` (name and labels) and, of jobs and of Workloads made without one, `job`: `queue`,
`priorityClass`, `pods`, and `requests` by resource as they count for quota, in base units (cpu in thousandths).
`amount(resource, quantity)` reads a quantity in the same units. A resource that the job does not ask for is 0, unless
the expression asks whether it is there (`has(job.requests.cpu)`, `'nvidia.com/gpu' in job.requests`). Where an
expression fails on an object, because another field is not there, it counts as false and says so.

What can be known before any object comes is an error of the Configuration: syntax, unknown functions, variables and
fields of `job`, `request` and `namespaceObject`, an expression that gives no truth value (or a message no text), and
types that do not go together.
"""
_SECTIONS: Final = {
    "jobs": "Said to whoever submits a job, when it is created and when it changes while it waits; to whoever makes a\n"
    "Workload without a job; and the last one to whoever resizes a job that runs, with\n"
    "`nobody-lends` and `request-too-large`: it queues again.",
    "labels and annotations": "Said of jobs, when a label or an annotation comes, or the queue name goes; of those\n"
    "that name no queue too, by a hook that may be skipped while Seiretsu is down.",
    "pod templates of Jobs": "Said before Kubernetes itself refuses the change (`field is immutable`).",
    "what is not queued": "Said to whoever names a queue where nothing waits in one. These hooks may be skipped while"
    " Seiretsu is down,\nand only objects come to them that have such a label, or nearly. Of the Jobs that a CronJob"
    " will make the rules\nabout labels and about what can never start say what is wrong with its jobTemplate.",
    "Workloads of Jobs": "",
    "ClusterQueues": "Said to administrators. These hooks may be skipped while Seiretsu is down: `Deny` holds only"
    " while it answers.",
    "LocalQueues": "",
    "Queues of v0.1": "The same as about LocalQueues, and:",
    "Cohorts": "",
    "ResourceFlavors": "",
}


_COLUMNS: Final = "| rule | what it finds | what it says, for example |\n|---|---|---|\n"


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
    return f"| `{rule.name}` | {rule.about} | {example} |\n"


def main(arguments: list[str]) -> int:
    """Write the page to the file that is named."""
    Path(arguments[0]).write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
