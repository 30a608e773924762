"""The chart's alerts and dashboards: Prometheus accepts them, their metrics exist, and each alert has a runbook."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
import yaml

from api.metrics.families import FAMILIES, ROLE
from api.objects import Raw
from api.resources import WORKLOADS
from app.internals import of_certificates, of_controller
from app.metrics import ClientCalls, ProcessMetrics
from app.verdicts import Verdicts
from certs.directory import DirectoryStore
from certs.keeper import Keeper
from certs.live import LiveContext
from certs.pki import new_authority
from certs.record import CertificateRecord
from controller.kube.client import Client
from controller.kube.config import Connection
from controller.kube.flow.budget import Budget
from controller.kube.reflector import Reflector
from controller.kube.store import Store, verbatim
from controller.reconcilers.guard import PodGuard
from devcluster import build
from tests.charts.rendering import CHART, documents, only, rendered

pytestmark = pytest.mark.cluster

RULES: Final[Raw] = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
ALERTS: Final[list[Raw]] = [rule for group in RULES["groups"] for rule in group["rules"]]
DASHBOARDS: Final = sorted((CHART / "files" / "dashboards").glob("*.json"))
RUNBOOKS: Final = Path(__file__).parents[2] / "docs" / "operate.md"
JOB: Final = "seiretsu-controller-manager-metrics-service"
METRIC: Final = re.compile(r"\b((?:kueue|seiretsu|rest_client|process)_[a-z_]+|up)\{([^}]*)\}")


def promtool(*arguments: str | Path) -> None:
    program = build.ensure("promtool")["promtool"]
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def served() -> dict[str, set[str]]:
    """Returns the labels of every series that the process serves, by name."""
    found: dict[str, set[str]] = {"up": set()}
    for name, family in FAMILIES.items():
        names = [f"kueue_{name}{end}" for end in ("_bucket", "_sum", "_count")] if family.kind == "histogram" else []
        found |= {each: {*family.labels, ROLE, "le"} for each in names or [f"kueue_{name}"]}
    metrics = ProcessMetrics()
    metrics.registry.register(ClientCalls({("GET", "jobs", 200): 1}))
    metrics.answered("/path", 400, 0.1)
    Verdicts(metrics.registry)._verdicts.labels("", "", "")
    client = Client(Connection("https://127.0.0.1:1"))
    reflectors = [Reflector(client, WORKLOADS, Store("workloads", verbatim))]
    guard = cast("PodGuard", SimpleNamespace(pods=(), did=Counter()))
    of_the_controller = of_controller(client, reflectors, Budget(client.pressure), lambda: True, guard)
    live = LiveContext()
    live.pair = new_authority(datetime.now(UTC), timedelta(days=1))
    keeper = Keeper(DirectoryStore(Path()), live, ("localhost",), clock=lambda: datetime.now(UTC))
    keeper.record = CertificateRecord(live.pair)
    for collected in (*metrics.registry.collect(), *of_certificates(live, keeper), *of_the_controller):
        for sample in collected.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions(value: Any) -> Iterator[str]:
    """Yields every expression of a dashboard or of alerts."""
    if isinstance(value, dict):
        yield from (value["expr"],) if "expr" in value else ()
        for inner in value.values():
            yield from expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from expressions(inner)


@pytest.mark.parametrize("source", [RULES, *(json.loads(path.read_text()) for path in DASHBOARDS)])
def test_every_metric_that_is_named_is_served_with_these_labels(source: Raw) -> None:
    known = served()
    found = list(expressions(source))
    assert found
    for expression in found:
        named = METRIC.findall(expression)
        assert named, expression
        for name, selectors in named:
            assert name in known, expression
            labels = set(re.findall(r"(\w+)(?:=~|!~|!=|=)", selectors))
            assert labels <= known[name] | {"job"}, expression
            assert f'job="{JOB}"' in selectors, "other applications may serve a metric of this name"


def test_prometheus_accepts_the_alerts_of_the_chart(tmp_path: Path) -> None:
    promtool("check", "rules", CHART / "files" / "alerts.yaml")
    settings: Raw = {"enablePrometheus": True, "fullnameOverride": "queueing"}
    rule = only(documents(rendered(settings)), "PrometheusRule")
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump(rule["spec"]))
    promtool("check", "rules", file)
    assert JOB not in file.read_text()
    assert "queueing-controller-manager-metrics-service" in file.read_text()


def test_prometheus_accepts_the_queries_of_the_dashboards(tmp_path: Path) -> None:
    queries = [text for path in DASHBOARDS for text in expressions(json.loads(path.read_text()))]
    rules = [{"record": f"query:{n}", "expr": text.replace("$cluster_queue", ".*")} for n, text in enumerate(queries)]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    promtool("check", "rules", file)


def series(text: str, values: str) -> Raw:
    return {"series": text.replace("JOB", f'job="{JOB}"'), "values": values}


FIRING: Final[dict[str, list[Raw]]] = {
    "SeiretsuDown": [series("up{JOB,instance='a'}", "0x90")],
    "SeiretsuReplicaDown": [series("up{JOB,instance='a'}", "0x90"), series("up{JOB,instance='b'}", "1x90")],
    "SeiretsuNoLeader": [series(f"seiretsu_leader{{JOB,pod='{pod}'}}", "0x90") for pod in "ab"],
    "SeiretsuWebhookErrors": [
        series("seiretsu_webhook_requests_total{JOB,code='200'}", "0+90x90"),
        series("seiretsu_webhook_requests_total{JOB,code='500'}", "0+10x90"),
    ],
    "SeiretsuWebhookSlow": [
        series("seiretsu_webhook_request_duration_seconds_bucket{JOB,le='0.5'}", "0+1x90"),
        series("seiretsu_webhook_request_duration_seconds_bucket{JOB,le='1'}", "0+9x90"),
        series("seiretsu_webhook_request_duration_seconds_bucket{JOB,le='+Inf'}", "0+9x90"),
    ],
    "SeiretsuCertificateExpiresSoon": [series("seiretsu_certificate_expiration_timestamp_seconds{JOB}", "500000x90")],
    "SeiretsuCaNotRotated": [series("seiretsu_ca_expiration_timestamp_seconds{JOB}", "5000000x90")],
    "SeiretsuCaDamaged": [series("seiretsu_ca_restorations_total{JOB}", "0x60 1x30")],
    "SeiretsuCaBundleContested": [series("seiretsu_ca_bundle_writes_total{JOB}", "0+2x90")],
    "SeiretsuGarbageCollectionSlow": [
        series("seiretsu_gc_pause_seconds_bucket{JOB,generation='2',le='0.25'}", "0+1x90"),
        series("seiretsu_gc_pause_seconds_count{JOB,generation='2'}", "0+2x90"),
    ],
    "SeiretsuEventLoopSlow": [
        series("seiretsu_event_loop_lag_seconds_bucket{JOB,le='0.5'}", "0+1x90"),
        series("seiretsu_event_loop_lag_seconds_bucket{JOB,le='1'}", "0+9x90"),
        series("seiretsu_event_loop_lag_seconds_bucket{JOB,le='+Inf'}", "0+9x90"),
    ],
    "SeiretsuApiServerErrors": [
        series("rest_client_requests_total{JOB,code='200'}", "0+8x90"),
        series("rest_client_requests_total{JOB,code='429'}", "0+2x90"),
    ],
    "SeiretsuCacheStale": [series("seiretsu_informer_age_seconds{JOB,resource='jobs'}", "0+60x90")],
    "SeiretsuWritesFenced": [series("seiretsu_fenced_writes_total{JOB}", "0x60 1x30")],
    "SeiretsuVerdictsFail": [
        series("seiretsu_admission_verdicts_total{JOB,hook='mjob.kb.io',verdict='failed'}", "0x70 1x20"),
    ],
    "SeiretsuRightsMissing": [series("rest_client_requests_total{JOB,method='PATCH',code='403'}", "0+1x90")],
    "SeiretsuClusterQueueInactive": [
        series("kueue_cluster_queue_status{JOB,cluster_queue='a',status='pending'}", "1x90"),
    ],
    "SeiretsuNothingAdmitted": [
        series("kueue_pending_workloads{JOB,cluster_queue='a'}", "3x90"),
        series("kueue_reserving_active_workloads{JOB,cluster_queue='a'}", "0x90"),
    ],
    "SeiretsuEvictionStorm": [
        series("kueue_evicted_workloads_total{JOB,cluster_queue='a',reason='Preempted'}", "0+5x90"),
    ],
    "SeiretsuPodsWithoutQuota": [series("seiretsu_guard_stops_total{JOB,what='deleted_pods'}", "0x80 1x10")],
    "SeiretsuQuotaExceeded": [
        series("kueue_cohort_subtree_resource_reservations{JOB,cohort='a',flavor='f',resource='cpu'}", "9x90"),
        series("kueue_cohort_subtree_quota{JOB,cohort='a',flavor='f',resource='cpu'}", "8x90"),
        series("kueue_cohort_info{JOB,cohort='a',parent_cohort=''}", "1x90"),
    ],
}
"""What makes each alert fire within 90 minutes."""


def test_each_alert_fires_for_its_cause(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(
        yaml.safe_dump({"groups": [{"name": "all", "rules": [{**each, "annotations": {}} for each in ALERTS]}]})
    )
    firing = "count by (alertname) (ALERTS{alertstate='firing',alertname='%s'})"
    tests = [
        {
            "interval": "1m",
            "input_series": given,
            "promql_expr_test": [
                {
                    "expr": firing % name,
                    "eval_time": "90m",
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}],
                }
            ],
        }
        for name, given in FIRING.items()
    ]
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)


def test_a_leader_among_several_replicas_is_enough(tmp_path: Path) -> None:
    (alert,) = [each for each in ALERTS if each["alert"] == "SeiretsuNoLeader"]
    leads = [series("seiretsu_leader{JOB,pod='a'}", "0x90"), series("seiretsu_leader{JOB,pod='b'}", "1x90")]
    query = {"expr": alert["expr"], "eval_time": "90m", "exp_samples": []}
    file, rules = tmp_path / "test.yaml", tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"groups": []}))
    tests = [{"interval": "1m", "input_series": leads, "promql_expr_test": [query]}]
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", file)


def test_each_alert_says_what_to_do() -> None:
    assert {each["alert"] for each in ALERTS} == FIRING.keys()
    sections = set(re.findall(r"^### (\w+)$", RUNBOOKS.read_text(), re.MULTILINE))
    assert sections == {each["alert"] for each in ALERTS}
    for each in ALERTS:
        assert each["labels"]["severity"] in ("critical", "warning")
        assert {"summary", "description"} <= each["annotations"].keys()
        assert each["annotations"]["runbook_url"] == f"docs/operate.md#{each['alert'].lower()}"


def test_grafana_finds_the_dashboards() -> None:
    found = [
        each
        for each in documents(rendered({"enablePrometheus": True, "nameOverride": "queueing"}))
        if each["kind"] == "ConfigMap" and each["metadata"]["labels"].get("grafana_dashboard") == "1"
    ]
    assert len(found) == len(DASHBOARDS) == 3
    for each in found:
        ((name, text),) = each["data"].items()
        board = json.loads(text)
        assert name == f"{board['uid']}.json"
        assert 'job=\\"seiretsu-queueing-controller-manager-metrics-service\\"' in text
        assert board["templating"]["list"][0]["type"] == "datasource"
