"""A Workload, its requests and the autoscaler in any order of events.

The rules read nothing but objects, so each order is also a list of crash points: at any step another process continues.
Whatever happens, also that objects are refused, the actions end; then a check has at most one request, which matches
the config and the admission, and a request is never seen without its PodTemplates.
"""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.names import CheckState
from api.resources import PROVISIONING_REQUESTS
from core.actions import Create
from core.model import Workload
from core.provisioning.config import Config
from core.workload import transitions
from tests.core.multikueue.groups import conditions
from tests.core.provisioning.situations import CONFIG, Api, check, pod_set, workload
from tests.effort import cases

OTHER = replace(CONFIG, class_name="another", parameters={"p": "v"})
MOST_WRITES = 4
"""More than these are not needed while objects are refused: an answer, and a report."""
ANSWERS = ("Accepted", "Provisioned", "Failed", "BookingExpired", "CapacityRevoked")


class Play(Api):
    """Each method is one thing that may happen at any time."""

    def answer(self, kind: str) -> None:
        for name in sorted(self.requests):
            self.autoscaler(name, details=None, **{kind: "True"})

    def step(self) -> str:
        """One action; a request is never created before its templates."""
        action = self.decide()
        if isinstance(action, Create) and action.resource == PROVISIONING_REQUESTS:
            names = [each["podTemplateRef"]["name"] for each in action.manifest["spec"]["podSets"]]
            assert set(names) <= self.templates.keys()
        return super().step()

    def evict(self) -> None:
        if self.workload.holds("QuotaReserved"):
            self._take(transitions.evicted(self.workload, "Preempted", "", self.now), Evicted="True")

    def requeue(self, flavor: str) -> None:
        """Quota is reserved again, in another flavor perhaps."""
        if self.workload.holds("Evicted"):
            admission = workload(flavor=flavor, pod_sets=self.raw["spec"]["podSets"])["status"]["admission"]
            self.become(conditions=conditions(QuotaReserved="True", Evicted="False"), admission=admission)

    def follow(self) -> None:
        """The rest of Seiretsu: admits, evicts after a retry, deactivates after a rejection."""
        states = {each.state for each in self.workload.checks}
        if self.workload.holds("Evicted"):
            return
        if states == {CheckState.READY}:
            self.become(conditions=conditions(QuotaReserved="True", Admitted="True"))
        elif CheckState.REJECTED in states or CheckState.RETRY in states:
            self._take(transitions.evicted(self.workload, "AdmissionCheck", "", self.now), Evicted="True")

    def _take(self, after: Workload, **found: str) -> None:
        checks = [check(each.name, each.state, each.message, retryCount=each.retry_count) for each in after.checks]
        self.become(admissionChecks=checks, conditions=conditions(QuotaReserved="True", **found))

    def configure(self, config: Config | None) -> None:
        self.checks = {"nodes": config}

    def lose(self) -> None:
        """Somebody deletes the requests, and Kubernetes what belonged to them."""
        self.requests.clear()
        self.collect_garbage()

    def lose_templates(self) -> None:
        """Somebody deletes the PodTemplates."""
        self.templates.clear()

    def refuse(self) -> None:
        """The API server refuses new objects for a while: the status of the Workload comes to rest."""
        self.refuses, writes = True, 0
        for _ in range(20):
            before = self.raw
            self.step()
            writes += self.raw != before
        self.refuses = False
        assert writes <= MOST_WRITES

    def verify(self) -> None:
        """What holds when nothing is left to do."""
        self.settle()
        assert len(self.requests) <= (0 if self.workload.holds("Evicted") and self.cleans_up else 1)
        (state,) = self.workload.checks
        config = self.checks["nodes"]
        if state.state == CheckState.PENDING and config is not None and not self.workload.holds("Evicted"):
            (made,) = self.requests.values()
            assert made["spec"]["provisioningClassName"] == config.class_name
            for each in made["spec"]["podSets"]:
                template = self.templates[each["podTemplateRef"]["name"]]
                given = self.workload.admission
                assert given is not None
                flavor = self.flavors[given.pod_sets[0].flavors["cpu"]]
                assert template["template"]["spec"]["nodeSelector"] == flavor["spec"]["nodeLabels"]


EVENTS = st.one_of(
    st.tuples(st.just("answer"), st.sampled_from(ANSWERS)),
    st.tuples(st.just("requeue"), st.sampled_from(["spot", "other"])),
    st.tuples(st.just("configure"), st.sampled_from([CONFIG, OTHER, None])),
    st.tuples(st.sampled_from(["step", "step", "evict", "follow", "lose", "lose_templates"])),
    st.tuples(st.sampled_from(["refuse", "collect_garbage", "verify"])),
)


@settings(max_examples=cases(100, 2000))
@given(st.lists(EVENTS, max_size=30), st.booleans())
@example([("verify",), ("lose_templates",), ("refuse",)], True)
def test_the_actions_end_with_one_request_that_is_right(events: list[tuple[object, ...]], cleans_up: bool) -> None:
    play = Play(workload(pod_sets=[pod_set("a"), pod_set("b")]), {"nodes": CONFIG}, cleans_up=cleans_up)
    for name, *arguments in events:
        getattr(play, str(name))(*arguments)
    play.verify()
