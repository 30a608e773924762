from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from api.objects import Raw
from cli.main import application
from cli.picture import DARK, LIGHT
from cli.report import summary
from cli.scenario import Scenario, ScenarioError, changed, duration, read
from cli.simulator import play
from cli.world import rules
from core.jobs.kinds import kind_of

EXAMPLES = Path(__file__).parents[2] / "examples"
DOCS = EXAMPLES.parent / "docs"
GATES = "featureGates: {SparkApplicationIntegration: true}\n"
HEADER = "at,run_for,queue,namespace,name,cpu,parallelism,priority_class\n"


def trace(folder: Path, *lines: str) -> Path:
    path = folder / "trace.csv"
    path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return path


def waits(scenario: Scenario) -> dict[str, float | None]:
    return {told["job"]: told["waited"] for told in summary(play(scenario))["workloads"]}


def simulate(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(application(["simulate"]), ["simulate", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


def test_a_job_that_does_not_fit_waits_for_the_one_that_holds_the_quota(tmp_path: Path) -> None:
    jobs = trace(tmp_path, "0,60s,main,team-b,first,16,1,", "10s,60s,main,team-b,second,1,1,")
    assert waits(read([EXAMPLES / "queues.yaml", jobs])) == {"first": 0, "second": 50}


def test_borrowing_ends_at_the_borrowing_limit(tmp_path: Path) -> None:
    jobs = trace(tmp_path, *(f"0,60s,main,team-a,job-{n},4,1," for n in range(4)))
    assert sorted(waits(read([EXAMPLES / "queues.yaml", jobs])).values(), key=str) == [0, 0, 0, 60]


def test_a_higher_priority_class_goes_first_among_those_that_wait(tmp_path: Path) -> None:
    jobs = trace(
        tmp_path,
        "0,60s,main,team-b,holder,16,1,",
        "1,9s,main,team-b,older,16,1,",
        "2,9s,main,team-b,urgent,16,1,urgent",
    )
    assert waits(read([EXAMPLES / "queues.yaml", jobs])) == {"holder": 0, "older": 68, "urgent": 58}


def test_a_change_is_merged_and_a_preempted_job_starts_again(tmp_path: Path) -> None:
    jobs = trace(tmp_path, *(f"0,60s,main,team-a,a{n},4,1," for n in range(3)), "10,60s,main,team-b,b,8,1,")
    patch = tmp_path / "patch.yaml"
    patch.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: team-b}\n"
        "spec: {preemption: {reclaimWithinCohort: Any}}\n"
    )
    before = read([EXAMPLES / "queues.yaml", jobs])
    assert waits(before)["b"] == 50
    told = summary(play(changed(before, patch)))
    assert {w["job"]: w["waited"] for w in told["workloads"]}["b"] == 0
    (victim,) = [w for w in told["workloads"] if len(w["attempts"]) > 1]
    assert victim["attempts"][0]["by"] == "team-b/b"
    assert [attempt["ended"] - attempt["started"] for attempt in victim["attempts"]] == [10, 60]


def test_a_refused_job_has_kubectls_error_and_the_other_jobs_continue(tmp_path: Path) -> None:
    manifest = yaml.safe_load((EXAMPLES / "jobs" / "train.yaml").read_text())
    manifest["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "7"}
    bad = tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump(manifest))
    played = play(read([EXAMPLES / "queues.yaml", EXAMPLES / "jobs" / "train.yaml", bad]))
    (refusal,) = played.unplayed
    assert "job-min-parallelism]: Invalid value: 7: should be between 0 and 1" in refusal.message
    assert [course.finished for course in played.timeline.courses.values()] == [60]


def test_the_examples_too_big_and_misspelt_are_warned_and_never_start() -> None:
    told = summary(play(read([EXAMPLES / "queues.yaml", EXAMPLES / "jobs"])))
    never = {w["job"]: w["warnings"] for w in told["workloads"] if w["waited"] is None}
    assert sorted(never) == ["misspelt-1", "too-big-1"]
    assert 'did you mean "main"?' in never["misspelt-1"][0]
    assert "asks for 20 cpu" in never["too-big-1"][0]


def test_devices_count_as_the_configuration_maps_their_classes(tmp_path: Path) -> None:
    config = tmp_path / "configuration.yaml"
    config.write_text(
        "resources: {deviceClassMappings: [{name: example.com/gpus, deviceClassNames: [gpu.example.com]}]}"
    )
    code, out, _ = simulate(EXAMPLES / "devices", "--config", config, "-o", "json")
    told = json.loads(out)
    assert code == 0
    assert [each["waited"] for each in told["workloads"]] == [0]
    peaks = {each["resource"]: each["peak"] for each in told["clusterQueues"][0]["used"]}
    assert peaks["example.com/gpus"] == "2"


TOPOLOGY_WITH_DEVICES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: hosts}
spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: racks}
spec: {topologyName: hosts, nodeLabels: {pool: a}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, example.com/gpus]
    flavors: [{name: racks, resources: [{name: cpu, nominalQuota: 9}, {name: example.com/gpus, nominalQuota: 9}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: team}
spec: {clusterQueue: team}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: device.driver == 'gpu.example.com'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: of-n2}
spec:
  driver: gpu.example.com
  nodeName: n2
  pool: {name: n2, generation: 1, resourceSliceCount: 1}
  devices: [{name: a}, {name: b}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: two, namespace: team}
spec: {spec: {devices: {requests: [{name: gpus, exactly: {deviceClassName: gpu.example.com, count: 2}}]}}}
"""
A_NODE = """
---
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {kubernetes.io/hostname: %s, rack: r, pool: a}}
status: {allocatable: {cpu: 8, pods: 110}, conditions: [{type: Ready, status: "True"}]}
"""
A_CLAIMING_JOB = """
---
apiVersion: batch/v1
kind: Job
metadata:
  name: %s
  namespace: team
  labels: {kueue.x-k8s.io/queue-name: main}
spec:
  template:
    metadata: {annotations: {kueue.x-k8s.io/podset-required-topology: rack}}
    spec:
      restartPolicy: Never
      resourceClaims: [{name: gpus, resourceClaimTemplateName: two}]
      containers: [{name: main, image: i, resources: {requests: {cpu: "1"}}}]
"""


def test_jobs_with_a_topology_wait_for_the_devices_of_nodes(tmp_path: Path) -> None:
    config, objects = tmp_path / "configuration.yaml", tmp_path / "objects.yaml"
    config.write_text(
        "resources: {deviceClassMappings: [{name: example.com/gpus, deviceClassNames: [gpu.example.com]}]}"
    )
    nodes = "".join(A_NODE % (name, name) for name in ("n1", "n2"))
    objects.write_text(TOPOLOGY_WITH_DEVICES + nodes + A_CLAIMING_JOB % "first" + A_CLAIMING_JOB % "second")
    code, out, _ = simulate(objects, "--config", config, "-o", "json")
    told = json.loads(out)
    assert code == 0
    first, second = sorted(told["workloads"], key=lambda each: each["waited"])
    assert first["waited"] == 0
    assert second["waited"] == first["attempts"][0]["ended"] > 0, "n1 has no devices"


def test_devices_that_no_configuration_maps_are_never_counted() -> None:
    told = summary(play(read([EXAMPLES / "devices"])))
    assert [(each["waited"], each["warnings"]) for each in told["workloads"]] == [
        (
            None,
            [
                'DeviceClass "gpu.example.com" is in no deviceClassMappings: nothing starts; an administrator must map'
                " it to a resource"
            ],
        )
    ]


def test_a_jobset_is_played_with_all_its_pods(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("integrations: {frameworks: [batch/job, jobset.x-k8s.io/jobset]}\n")
    scenario = read([EXAMPLES / "queues.yaml", EXAMPLES / "jobset.yaml"])
    played = play(scenario, rules(config))
    (told,) = summary(played)["workloads"]
    assert (told["job"], told["waited"]) == ("training-1", 0)
    assert [course.finished for course in played.timeline.courses.values()] == [60]
    used = [level.used.items() for level in played.timeline.levels]
    most = max(amount for cells in used for cell, amount in cells if cell.resource == "cpu")
    assert most == 5_000, "a driver of one cpu and eight workers of half a cpu"


@pytest.mark.parametrize("example", sorted((EXAMPLES / "kinds").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_example_of_each_kind_is_played_or_told_why_not(example: Path, tmp_path: Path) -> None:
    manifest = yaml.safe_load(example.read_text())
    manifest["metadata"]["namespace"] = "team-a"
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(manifest))
    kind = kind_of(manifest)
    assert kind is not None
    (tmp_path / "config.yaml").write_text(f"integrations: {{frameworks: [batch/job, {kind.framework}]}}\n{GATES}")
    played = play(read([EXAMPLES / "queues.yaml", tmp_path / "job.yaml"]), rules(tmp_path / "config.yaml"))
    if kind.kind == "TrainJob":
        (unplayed,) = played.unplayed
        assert unplayed.message == (
            "not simulated: the pod templates of a TrainJob are in an object that its controller creates"
        )
        return
    (told,) = summary(played)["workloads"]
    assert (told["job"], told["waited"], told.get("warnings")) == (manifest["metadata"]["name"], 0, None)


def test_a_job_of_a_kind_that_is_not_enabled_starts_immediately() -> None:
    played = play(read([EXAMPLES / "queues.yaml", EXAMPLES / "jobset.yaml"]))
    (unplayed,) = played.unplayed
    assert unplayed.fate == "not managed"
    assert unplayed.message == "starts immediately: integrations.frameworks does not list jobset.x-k8s.io/jobset"


def test_a_jobset_without_pod_templates_is_an_error(tmp_path: Path) -> None:
    manifest = yaml.safe_load((EXAMPLES / "jobset.yaml").read_text())
    del manifest["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]
    bad = tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump(manifest))
    with pytest.raises(ScenarioError, match=r"spec.replicatedJobs\[1\].template.spec.template.spec: Required value"):
        read([bad])


def test_simulating_twice_gives_the_same_output(tmp_path: Path) -> None:
    jobs = trace(
        tmp_path, *(f"{n % 7},{5 + n % 11}s,main,team-{'ab'[n % 2]},job-{n},{1 + n % 5},1," for n in range(200))
    )
    scenario = read([EXAMPLES / "queues.yaml", jobs])
    assert summary(play(scenario)) == summary(play(scenario))


def test_no_moment_uses_more_than_the_cohort_has(tmp_path: Path) -> None:
    jobs = trace(tmp_path, *(f"{n},{5 + n % 11}s,main,team-{'ab'[n % 2]},job-{n},{1 + n % 5},1," for n in range(100)))
    used: dict[str, int] = {}
    for level in play(read([EXAMPLES / "queues.yaml", jobs])).timeline.levels:
        used[level.cluster_queue] = sum(amount for cell, amount in level.used.items() if cell.resource == "cpu")
        assert used["team-a"] <= 12_000, level
    assert set(used.values()) == {0}


def test_until_cuts_the_simulation_and_leaves_the_rest_unfinished(tmp_path: Path) -> None:
    jobs = trace(tmp_path, "0,60s,main,team-b,first,16,1,", "10s,60s,main,team-b,second,1,1,")
    code, out, _ = simulate(EXAMPLES / "queues.yaml", jobs, "--until", "30s", "-o", "json")
    told = json.loads(out)
    assert code == 0
    assert (told["apiVersion"], told["kind"]) == ("cli.seiretsu.dev/v1", "Simulation")
    assert told["end"] == 30
    assert [w["finished"] for w in told["workloads"]] == [None, None]


def test_yaml_and_json_output_have_the_same_content() -> None:
    _, as_json, _ = simulate(EXAMPLES / "queues.yaml", EXAMPLES / "jobs", "-o", "json")
    _, as_yaml, _ = simulate(EXAMPLES / "queues.yaml", EXAMPLES / "jobs", "-o", "yaml")
    assert json.loads(as_json) == yaml.safe_load(as_yaml)


def test_a_plot_shows_every_queue_and_every_job(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    code, _, _ = simulate(EXAMPLES / "queues.yaml", EXAMPLES / "jobs", "--plot", page)
    assert code == 0
    text = page.read_text()
    assert all(word in text for word in ("<svg", "team-a", "train-1", "urgent-1", "cpu in standard"))


def test_two_outcomes_are_drawn_side_by_side_with_the_same_rows_heights_and_time(tmp_path: Path) -> None:
    jobs = trace(tmp_path, "0,60s,main,team-b,first,16,1,", "10s,60s,main,team-b,second,8,1,")
    patch, page = tmp_path / "more.yaml", tmp_path / "out.html"
    patch.write_text(
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {name: research}\nspec:\n  resourceGroups:\n"
        "  - coveredResources: [cpu]\n    flavors:\n    - name: standard\n"
        "      resources: [{name: cpu, nominalQuota: 8}]\n"
    )
    code, out, _ = simulate(EXAMPLES / "queues.yaml", jobs, "--what-if", patch, "--plot", page)
    assert code == 0
    before, after = re.findall("<svg.*?</svg>", page.read_text())
    labels = [re.findall('<text class="small".*?</text>', each) for each in (before, after)]
    assert labels[0] == labels[1], "the rows of Jobs"
    sizes = [re.search('viewBox="[^"]*"', each)[0] for each in (before, after)]  # type: ignore[index]
    assert sizes[0] == sizes[1]
    assert ">1 at most<" in before
    assert ">0 at most<" in after
    for picture, mean in ((before, "75%"), (after, "50%")):
        assert f">{mean} of quota in use<" in picture
    assert "50s -> 0s  cpu in standard 150%, memory" in out, "means over the same time, as in the picture"


PREEMPTS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-a}
spec:
  preemption: {withinClusterQueue: LowerPriority}
"""


APART = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team-b}
spec: {cohortName: null}
"""


def test_a_change_lists_the_jobs_that_it_delays_and_those_that_it_speeds_up(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    rows = ["0,60s,main,team-a,long,8,", "10s,30s,main,team-a,next,8,", "20s,10s,main,team-a,now,8,urgent"]
    jobs.write_text("\n".join(["at,run_for,queue,namespace,name,cpu,priority_class", *rows]) + "\n")
    (tmp_path / "preempts.yaml").write_text(PREEMPTS)
    code, out, _ = simulate(EXAMPLES / "queues.yaml", jobs, "--what-if", tmp_path / "preempts.yaml")
    assert code == 0
    _, _, told = out.partition("# as it is -> with preempts.yaml")
    assert told.splitlines()[-5:] == [
        "Worse for 2 workloads",
        "  team-a/long: waits 0s -> 10s, stopped 0 -> 1 times, ends 1m -> 1m30s",
        "  team-a/next: waits 1m -> 1m20s, ends 1m40s -> 2m",
        "Better for 1 workload",
        "  team-a/now: waits 40s -> 0s, ends 1m10s -> 30s",
    ]


def test_a_job_that_no_longer_starts_is_the_greatest_loss(tmp_path: Path) -> None:
    jobs = trace(tmp_path, "0,60s,main,team-b,small,1,1,", "0,60s,main,team-b,big,16,1,")
    (tmp_path / "apart.yaml").write_text(APART)
    _, out, _ = simulate(EXAMPLES / "queues.yaml", jobs, "--what-if", tmp_path / "apart.yaml")
    assert out.splitlines()[-2:] == [
        "Worse for 1 workload",
        "  team-b/big: waits 1m -> never starts, ends 2m -> does not end",
    ]
    assert "New: " not in out


def test_waiting_after_a_preemption_counts(tmp_path: Path) -> None:
    rows = ["0,60s,main,team-a,first,8,", "20s,10s,main,team-a,now,8,urgent"]
    jobs, queues = tmp_path / "jobs.csv", tmp_path / "queues.yaml"
    jobs.write_text("\n".join(["at,run_for,queue,namespace,name,cpu,priority_class", *rows]) + "\n")
    queues.write_text(PREEMPTS)
    played = play(changed(read([EXAMPLES / "queues.yaml", jobs]), queues))
    told = summary(played)
    assert {w["job"]: w["waited"] for w in told["workloads"]} == {"first": 10, "now": 0}
    (mine,) = (each for each in told["clusterQueues"] if each["name"] == "team-a")
    assert mine["wait"]["longest"] == 10
    cut = summary(play(changed(read([EXAMPLES / "queues.yaml", jobs]), queues), until=25.0))
    assert {w["job"]: w["waited"] for w in cut["workloads"]} == {"first": 5, "now": 0}, "it waits still"


def test_a_page_reads_in_the_dark_and_by_a_screen_reader(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    simulate(EXAMPLES / "queues.yaml", EXAMPLES / "jobs", "--plot", page)
    text = page.read_text()
    assert text.count("<h1>Simulation of queues.yaml, jobs</h1>") == 1
    assert "@media(prefers-color-scheme:dark)" in text
    assert 'role="img" aria-label="' in text
    assert "<pre" in text[text.index("</svg>") :], "what the picture shows stands below it in words"


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["by day", "in the dark"])
def test_every_colour_stands_out_from_the_paper(colours: dict[str, str]) -> None:
    """As WCAG counts it: 3:1 for what is drawn, 4.5:1 for what is to be read."""

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05

    for kind, least in {"own": 3, "borrowed": 3, "wait": 3, "stopped": 3, "quota": 3, "text": 4.5, "dim": 4.5}.items():
        pair = sorted((light(colours[kind]), light(colours["paper"])))
        assert pair[1] / pair[0] >= least, kind


def test_names_too_long_for_the_picture_are_whole_where_the_pointer_is(tmp_path: Path) -> None:
    name, page = f"fine-tuning-{'of-a-large-language-model-' * 3}1", tmp_path / "out.html"
    simulate(EXAMPLES / "queues.yaml", trace(tmp_path, f"0,60s,main,team-b,{name},1,1,"), "--plot", page)
    (svg,) = re.findall("<svg.*?</svg>", page.read_text())
    assert f"<title>team-b/{name}</title>" in svg
    assert name not in re.sub("<title>.*?</title>", "", svg)


def test_a_page_weighs_the_same_however_many_jobs_there_are_and_shows_those_that_wait_longest(tmp_path: Path) -> None:
    weights = []
    for number in (1000, 3000):
        lines = [f"{n // 4},{5 + n % 23}s,main,team-{'ab'[n % 2]},job-{n},1,1," for n in range(number)]
        jobs, page = trace(tmp_path, "0,1s,main,team-a,never,99,1,", *lines), tmp_path / "out.html"
        simulate(EXAMPLES / "queues.yaml", jobs, "--plot", page)
        (svg,) = re.findall("<svg.*?</svg>", page.read_text())
        assert f"the 150 of {number + 1} that wait longest" in svg
        assert "team-a/never" in svg
        weights.append(len(svg))
    assert weights[1] < 1.3 * weights[0]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.yaml", "a: [", "bad.yaml"),
        ("bad.yaml", "just: this", "is this a Kubernetes manifest?"),
        ("bad.csv", "at,cpu\n", "name the columns run_for, queue too"),
        ("bad.csv", HEADER + "soon,60s,main,team-a,x,1,1,\n", "'soon' is no duration"),
        (
            "bad.yaml",
            "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec:\n  resourceGroups:\n"
            "  - coveredResources: [cpu]\n    flavors:\n    - name: f\n      resources:\n"
            "      - {name: cpu, nominalQuota: 1, borrowingLimit: 1}\n",
            "must be nil when cohort is empty",
        ),
    ],
    ids=["no YAML", "no manifest", "a trace without its columns", "an unreadable time", "a queue that cannot be"],
)
def test_unplayable_input_is_reported_with_its_file_and_the_fix(
    tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text)
    code, _, err = simulate(EXAMPLES / "queues.yaml", tmp_path / name)
    assert code == 1
    assert said in err


@pytest.mark.parametrize(("text", "wanted"), [("90", 90), ("1h30m", 5400), ("250ms", 0.25), ("2d", 172800)])
def test_durations_are_read_as_people_write_them(text: str, wanted: float) -> None:
    assert duration(text) == wanted


def test_deleting_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    patch = tmp_path / "patch.yaml"
    patch.write_text("$patch: delete\nkind: ClusterQueue\nmetadata: {name: nobody}\n")
    with pytest.raises(ScenarioError, match="there is no ClusterQueue nobody to delete"):
        changed(read([EXAMPLES / "queues.yaml"]), patch)


SETS = """
integrations: {frameworks: [batch/job, deployment, statefulset, leaderworkerset.x-k8s.io/leaderworkerset]}
"""


def serving_pods(kind: str, name: str, **annotations: str) -> Raw:
    """Three pods, or groups of two pods, of one cpu each."""
    pods = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}]}}
    grouped = kind == "LeaderWorkerSet"
    templates = {"leaderWorkerTemplate": {"size": 2, "workerTemplate": pods}} if grouped else {"template": pods}
    labels = {"kueue.x-k8s.io/queue-name": "main"}
    metadata = {"name": name, "namespace": "team-b", "labels": labels, "annotations": annotations}
    version = "leaderworkerset.x-k8s.io/v1" if grouped else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"replicas": 3, **templates}}


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("Deployment", {"web-0": 1, "web-1": 1, "web-2": 1}),
        ("StatefulSet", {"web": 3}),
        ("LeaderWorkerSet", {"web-0": 2, "web-1": 2}),
    ],
)
def test_pods_and_groups_that_are_queued_one_by_one_run_without_end(
    tmp_path: Path, kind: str, parts: dict[str, int]
) -> None:
    (tmp_path / "config.yaml").write_text(f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration{SETS}")
    (tmp_path / "web.yaml").write_text(yaml.safe_dump(serving_pods(kind, "web")))
    scenario = read([EXAMPLES / "queues.yaml", tmp_path / "web.yaml"])
    played = play(scenario, rules(tmp_path / "config.yaml"), until=3600.0)
    found = {
        played.jobs[key].name: sum(each.count for each in course.attempts[0].admission.pod_sets)
        for key, course in played.timeline.courses.items()
        if course.attempts and course.finished is None
    }
    assert found == parts
    assert len(played.timeline.courses) == (1 if kind == "StatefulSet" else 3)


def test_a_deployment_may_end_and_one_without_a_queue_is_not_simulated(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration{SETS}")
    free = serving_pods("Deployment", "free")
    del free["metadata"]["labels"]
    made = [serving_pods("Deployment", "web", **{"seiretsu.dev/run-for": "30s"}), free]
    (tmp_path / "web.yaml").write_text(yaml.safe_dump_all(made))
    played = play(read([EXAMPLES / "queues.yaml", tmp_path / "web.yaml"]), rules(tmp_path / "config.yaml"))
    assert [course.finished for course in played.timeline.courses.values()] == [30.0] * 3
    assert "not simulated: 1 of kind Deployment (apps/v1)" in played.remarks


def test_the_page_on_topology_shows_what_is_printed_and_drawn(tmp_path: Path) -> None:
    page = (DOCS / "topology.md").read_text()
    command, shown = re.findall(r"\$ kubectl seiretsu (simulate [^\n]*)\n(.*?)```", page, re.DOTALL)[0]
    words = [EXAMPLES.parent / word if word.startswith("examples/") else word for word in command.split()[1:-1]]
    code, printed, _ = simulate(*words, tmp_path / "topology.svg")
    assert code == 0
    for table in shown.strip().split("\n\n"):  # the page leaves out what is about quota
        assert table in printed
    assert (tmp_path / "topology.svg").read_text() == (DOCS / "topology.svg").read_text()
