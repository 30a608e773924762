"""``seiretsu when``: when a waiting Job probably starts.

The server is asked first: it has a forecast of every waiting workload. Where it has none, or may not be asked, the same
forecast is made here with the rights to read the whole queue; with rights in the namespace alone the start is estimated
from how long other jobs of the same LocalQueue waited. The answer says which of the three it is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from api import quantity
from api.names import Condition, Kind
from api.objects import key_of
from cli import explain, learned, live, named, scenario, target
from cli.cluster_state import ClusterState
from cli.explained import hidden
from cli.learned import NOTHING, Remembered
from cli.reader import Reader
from cli.target import As, AsGroup, ContextOption, Kubeconfig, Namespace
from cli.world import ConfiguredRules, rules_of_cluster
from core.explain.explanation import Explanation
from core.forecast.forecast import forecast
from core.forecast.run_times import KNOWN, RunTimes, constant
from core.forecast.situation import situation
from core.model import Key, Raw
from core.model.forecast import StartForecast, interval, span
from seiretsu.client.estimate import epoch, estimate, waits
from seiretsu.client.state import condition_of

How = Literal["forecast", "simulated", "estimated", "started", "finished", "unknown"]


@dataclass(frozen=True, slots=True)
class When:
    """When a Job starts: ``seconds`` from now, None where that is not known; ``why`` says what the answer is based on.

    ``interval`` is when one of ten and nine of ten such starts are. ``unseen`` are the objects that could not be read.
    ``stands`` is where the job stands meanwhile, by the answer of the server.
    """

    job: str
    how: How
    why: str
    seconds: float | None = None
    unseen: tuple[str, ...] = ()
    stands: str = ""
    interval: tuple[float | None, float | None] = (None, None)


def command(
    name: named.JobArgument,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: ContextOption = "",
    as_user: As = "",
    as_group: AsGroup = None,
    run_for: Annotated[
        str, typer.Option(help="How much longer each workload runs; else as long as those like it that finished.")
    ] = "",
    config: Annotated[Path | None, typer.Option(help="The Configuration that serve runs with.")] = None,
    output: named.OutputOption = "text",
) -> None:
    """Report when a waiting Job probably starts, and what that is based on."""
    with target.failing("when", output, ValueError):
        chosen = rules_of_cluster(config)
        given = scenario.duration(run_for) if run_for else None
        here = target.target(kubeconfig, context, as_user, as_group).connection()
        namespace = namespace or here.namespace
        named.sought(name)
        with Reader(here) as reader:
            here_found, answered = explain.asked(reader, name, namespace)
            known = (
                of_server(answered.forecast, f"{namespace}/{name}") if answered is not None and given is None else None
            )
            found = here_found if known is not None else explain.look(reader, name, namespace, chosen.controller)
        alone = known is None and given is None and not found.hides(*explain.JUDGED_BY)
        before = learned.remembered(here, chosen.controller.namespace) if alone else NOTHING
        answer = known or when(found, name, namespace, time.time(), chosen, given, before)
        if answered is not None and isinstance(answer, When) and answered.explanation.place:
            answer = replace(answer, stands=stands(answered.explanation), unseen=())
        if isinstance(answer, str):
            target.fail("when", answer, output=output)
    typer.echo(text(answer, time.time()) if output == "text" else target.written(plain(answer), output).rstrip())


def plain(answer: When) -> Raw:
    """Returns the answer as an object with a version."""
    value = {
        "job": answer.job,
        "basis": answer.how,
        "seconds": answer.seconds,
        "p10Seconds": answer.interval[0],
        "p90Seconds": answer.interval[1],
        "message": answer.why,
        "standing": answer.stands,
        "notReadable": list(answer.unseen),
    }
    return target.document("StartEstimate", value)


def stands(explanation: Explanation) -> str:
    """Returns the queue position of a waiting job and what it lacks in each flavor, as a sentence."""
    missing: dict[str, list[str]] = {}
    for cell in explanation.cells:
        flavor, resource = cell.flavor_resource
        if cell.missing:
            missing.setdefault(flavor, []).append(f"{quantity.text(resource, cell.missing)} {resource}")
    lacks = [f"{' and '.join(amounts)} in flavor {flavor}" for flavor, amounts in missing.items()]
    position = (
        f"queue position {explanation.place} of {explanation.waiting} in ClusterQueue {explanation.cluster_queue}"
    )
    return f"{position}; it lacks {', or '.join(lacks)}" if lacks else f"{position}: {explanation.message}"


def when(
    found: live.Seen,
    name: str,
    namespace: str,
    now: float,
    chosen: ConfiguredRules | None = None,
    run_for: float | None = None,
    before: Remembered = NOTHING,
) -> When | str:
    """Returns when a Job starts, as far as the objects that the user may read show it; a sentence if there is no such
    Job. ``before`` is what the controller remembers of run times.
    """
    workload = named.workload_of(found.objects, name, namespace)
    if workload is None:
        explanation = explain.explanation(
            found, name, namespace, now, chosen.controller if chosen is not None else None
        )
        return (
            explanation
            if isinstance(explanation, str)
            else When(f"{namespace}/{name}", "unknown", explanation.message, None, found.unseen)
        )
    job = f"{namespace}/{name}"
    for condition, how in ((Condition.FINISHED, "finished"), (Condition.ADMITTED, "started")):
        state = condition_of(workload, condition)
        if state.get("status") == "True":
            return When(job, how, f"at {state['lastTransitionTime']}")  # type: ignore[arg-type]
    if not found.hides(*explain.JUDGED_BY):
        cluster = _entered(found.objects, chosen)
        cluster.enter_workloads()
        run_times = before.run_times(cluster.workloads)
        start = _forecast(cluster, key_of(workload), now, constant(run_for) if run_for is not None else run_times)
        return _simulated(start, job, run_for)
    return _estimated(found, job, workload, now)


def of_server(answer: Raw | None, job: str) -> When | None:
    """Returns the forecast of the server; None if it has none."""
    if answer is None or "p50Seconds" not in answer:
        return None
    interval = (answer.get("p10Seconds"), answer.get("p90Seconds"))
    based = answer.get("restsOn") or KNOWN
    checks = answer.get("admissionChecks") or ()
    more = f"; then its AdmissionChecks decide: {', '.join(checks)}" if checks else ""
    why = f"forecast {span(answer['ageSeconds'])} ago, from {based}{more}"
    return When(job, "forecast", why, answer["p50Seconds"], interval=interval)


def _simulated(start: StartForecast | None, job: str, run_for: float | None) -> When:
    """The same forecast as that of the server, made here."""
    if start is None:
        return When(job, "unknown", "it is not queued, or its ClusterQueue does not exist or is inactive")
    if start.p50 is None:
        hint = "" if run_for is not None else "; --run-for DURATION sets how much longer each workload runs"
        return When(job, "unknown", f"{start.unknown}{hint}")
    assumed = f"if each workload runs {span(run_for)} more (as asked for)" if run_for is not None else start.rests_on
    words = (
        f"from {assumed}; no other is taken to be created" if run_for is None else f"{assumed} and no other is created"
    )
    return When(job, "simulated", words, start.p50, interval=(start.p10, start.p90))


def _entered(objects: list[Raw], chosen: ConfiguredRules | None) -> ClusterState:
    cluster = ClusterState(chosen.controller if chosen is not None else explain.settings(None))
    for raw in sorted(objects, key=lambda raw: raw["kind"] == Kind.WORKLOAD):
        cluster.add(raw)
    return cluster


def _forecast(cluster: ClusterState, key: Key, now: float, run_times: RunTimes) -> StartForecast | None:
    name = cluster.state.pending.where(key)
    arena = cluster.state.reservations.arena_of.get(name or "")
    if arena is None:
        return None
    about = situation(cluster.state, arena, now, cluster.settings.life)
    return forecast(about, run_times).starts.get(key)


def _estimated(found: live.Seen, job: str, workload: Raw, now: float) -> When:
    queue, namespace = workload["spec"].get("queueName", ""), workload["metadata"].get("namespace")
    others = [o for o in found.objects if o["kind"] == "Workload" and o["metadata"].get("namespace") == namespace]
    waited = max(0.0, now - epoch(workload["metadata"]["creationTimestamp"]))
    guess = estimate(waited, waits(others, queue))
    if guess is None:
        why = f"too few jobs of LocalQueue {queue} waited as long as this one has ({span(waited)})"
        return When(job, "unknown", why, None, found.unseen)
    return When(job, "estimated", str(guess), guess.median, found.unseen)


def text(answer: When, now: float) -> str:
    """Returns the answer for a terminal."""
    match answer.how:
        case "simulated" | "forecast":
            clock = datetime.fromtimestamp(now + (answer.seconds or 0), UTC).strftime("%H:%M:%S UTC")
            low, high = answer.interval
            known = low is not None and high is not None and span(low) != span(high)
            between = f" {interval(low or 0, answer.seconds or 0, high or 0)}" if known else ""
            how = "simulated, " if answer.how == "simulated" else ""
            sentence = f"starts in about {span(answer.seconds or 0)}{between}, at {clock}: {how}{answer.why}"
        case "estimated":
            sentence = f"starts in {answer.why}"
        case "unknown":
            sentence = f"not known when it starts: {answer.why}"
        case how:
            sentence = f"{how} {answer.why}"
    lines = [f"{answer.job}: {sentence}"]
    if answer.stands:
        lines.append(f"  {answer.stands}")
    if answer.unseen:
        lines.append(
            f"Your rights do not show {hidden(answer.unseen)}. With the role view in the whole cluster"
            " the start is simulated."
        )
    return "\n".join(lines)
