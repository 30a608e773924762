"""An admission check: the jobs of a namespace may together cost as much an hour as its annotation example.com/budget.

A core costs 0.05 an hour, a GPU 2.50. A job that would exceed the budget gives its quota back and is asked again a
little later; one that costs more than the whole budget is rejected. Nothing is stored: what is spent now is the cost
of the Workloads that have passed the check and have not ended.

pip install --no-deps seiretsu
kubectl apply -f examples/check/budget.yaml
kubectl annotate namespace team-a example.com/budget=10.00
"""

import logging
import os
from collections.abc import Mapping
from decimal import Decimal

from seiretsu.client import CheckController, Question, Verdict
from seiretsu.client.verdict import Raw, holds, usage

PRICES = {"cpu": Decimal("0.05"), "nvidia.com/gpu": Decimal("2.50")}
AGAIN_SECONDS = int(os.environ.get("AGAIN_SECONDS", "30"))


def cost(used: Mapping[str, Decimal]) -> Decimal:
    """What so many cores and GPUs cost an hour."""
    return sum((PRICES.get(resource, Decimal(0)) * amount for resource, amount in used.items()), Decimal(0))


def passed(workload: Raw, check: str) -> bool:
    """Whether a Workload spends money: it has passed the check and still holds its quota."""
    states = (workload.get("status") or {}).get("admissionChecks") or ()
    ready = any(state["name"] == check and state["state"] == "Ready" for state in states)
    return ready and holds(workload, "QuotaReserved") and not holds(workload, "Finished")


class Budget:
    """Decides about one Workload after the other."""

    def __init__(self, checks: CheckController) -> None:
        self.checks = checks

    def decide(self, question: Question) -> Verdict:
        """Within the budget: ready, and its pods show their cost."""
        namespace = self.checks.api.get(f"/api/v1/namespaces/{question.namespace}")
        annotation = (namespace["metadata"].get("annotations") or {}).get("example.com/budget")
        if annotation is None:
            return Verdict.pending("the namespace has no annotation example.com/budget", again_after=AGAIN_SECONDS)
        budget, asked = Decimal(annotation), cost(question.usage)
        spent = sum(
            cost(usage(workload))
            for (place, _), workload in self.checks.workloads.items()
            if place == question.namespace and passed(workload, question.check)
        )
        if asked > budget:
            return Verdict.rejected(f"costs {asked:.2f} an hour, the budget of the namespace is {budget:.2f}")
        if spent + asked > budget:
            message = f"costs {asked:.2f} an hour, {budget - spent:.2f} of {budget:.2f} are left"
            return Verdict.retry(message, after=AGAIN_SECONDS)
        cents = {"example.com/cost-per-hour": f"{asked:.2f}"}
        return Verdict.ready(f"{spent + asked:.2f} of {budget:.2f} are spent", annotations=cents)


def main() -> None:
    """Runs until it is stopped; in a pod with its service account, elsewhere with the kubeconfig."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        checks = CheckController.in_cluster("example.com/budget")
    except OSError:
        from kubernetes import client, config

        config.load_kube_config()
        checks = CheckController.of(client.Configuration.get_default_copy(), "example.com/budget")
    checks.run(Budget(checks).decide)


if __name__ == "__main__":
    main()
