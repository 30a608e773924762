"""`seiretsu replay`: a recording is played, differences are named, and other quotas give another course."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner, Result

from cli.main import application
from core.model import Key, LocalQueue, ResourceFlavor
from core.model.policy import SchedulingPolicy
from core.recording.encoding import RecordingEncoder
from core.recording.entries import MAGIC, Decided, RecordingEntry
from core.recording.recorded import RecordedState
from core.state.drain import drain
from core.workload import transitions
from tests.builders import cluster_queue, workload


def entries() -> list[RecordingEntry]:
    """Of 4 CPUs, `first` takes 3 for a minute; `second` waits for 2 until then."""
    made: list[Callable[[], RecordingEntry]] = []
    state = RecordedState(SchedulingPolicy(), made.append)
    state.set_namespace("ns", {})
    state.set_flavor("default", ResourceFlavor("default"))
    state.set_cluster_queue("cq", cluster_queue("cq", 4000))
    state.set_local_queue(Key("ns", "lq"), LocalQueue(Key("ns", "lq"), "cq"))

    def cycles(now: float) -> None:
        for plan in drain(state, state.policy, now):
            for decision in plan.decisions:
                key = decision.workload.key
                held = state.reservations.get(key)
                if state.assumed(key) and held is not None and held.workload.admission is not None:
                    state.set_workload(key, transitions.reserved(state.workloads[key], held.workload.admission, now))

    for name, cpu, at in (("first", 3000, 100.0), ("second", 2000, 110.0)):
        state.set_workload(Key("ns", name), workload(name, cpu, created=at))
        cycles(at)
    for name, at in (("first", 160.0), ("second", 200.0)):
        done = transitions.finished(state.workloads[Key("ns", name)], "Succeeded", "", at)
        state.set_workload(Key("ns", name), done)
        cycles(at)
    state.set_workload(Key("ns", "third"), workload("third", 1000, created=220.0))
    cycles(220.0)
    return [make() for make in made]


def file(folder: Path, found: list[RecordingEntry]) -> Path:
    path = folder / "1.recording"
    path.write_bytes(MAGIC + RecordingEncoder().chunk(found))
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(application(["replay"]), ["replay", *map(str, words)])


def test_a_recording_of_this_version_has_no_difference(tmp_path: Path) -> None:
    found = run(file(tmp_path, entries()))
    assert (found.exit_code, found.stdout) == (
        0,
        "4 cycles with 4 decisions: this version decides all of them in the same way.\n",
    )


def test_a_difference_is_named_with_both_decisions(tmp_path: Path) -> None:
    changed = entries()
    waits = [number for number, each in enumerate(changed) if isinstance(each, Decided) and each.decisions[0].reason]
    place = waits[0]
    before = changed[place]
    assert isinstance(before, Decided)
    changed[place] = Decided((replace(before.decisions[0], message="there is no room"),))
    path = file(tmp_path, changed)
    found = run(path)
    assert found.exit_code == 1
    assert "recorded: waits: there is no room" in found.stdout
    assert "now:      waits: couldn't assign flavors" in found.stdout
    told = json.loads(run(path, "-o", "json").stdout)
    assert (told["cycles"], [each["workload"] for each in told["different"][0]["decisions"]]) == (4, ["ns/second"])
    assert run(path, "--until", "1970-01-01T00:01:45Z").exit_code == 0, "only the first cycle"


def test_with_more_quota_nobody_would_have_waited(tmp_path: Path) -> None:
    patch = tmp_path / "more.yaml"
    patch.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: cq}\nspec:\n  resourceGroups:\n"
        "  - coveredResources: [cpu]\n    flavors:\n    - {name: default, resources: [{name: cpu, nominalQuota: 8}]}\n"
    )
    found = run(file(tmp_path, entries()), "--what-if", patch)
    assert found.exit_code == 0, found.output
    row = found.stdout.splitlines()[-1]
    assert row.startswith("cq")
    assert "50s -> 0s" in row, "second waited for the end of first"


def test_an_archive_of_bundle_may_be_played_as_it_is(tmp_path: Path) -> None:
    data = file(tmp_path, entries()).read_bytes()
    archive = tmp_path / "bundle.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("seiretsu-bundle/kueue-system/last.recording")
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))
    assert run(archive).exit_code == 0


@pytest.mark.parametrize(
    ("content", "told"), [(b"", "neither a recording nor an archive"), (None, "is no file"), (b"\x1f\x8bx", "neither")]
)
def test_another_file_is_named(tmp_path: Path, content: bytes | None, told: str) -> None:
    path = tmp_path / "other"
    if content is not None:
        path.write_bytes(content)
    found = run(path)
    assert found.exit_code == 1
    assert told in found.stderr
