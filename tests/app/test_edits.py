"""T20: a Configuration that is edited while the process runs."""

import asyncio
from pathlib import Path

import orjson
from structlog.testing import capture_logs

from api.objects import Raw
from api.resources import EVENTS
from app.edits import ConfigurationFile, Edit
from app.identity import pod_of, user_info
from app.serve import _error_in
from app.setup import SetupOptions
from controller.kube.client import Client
from controller.kube.events import EventSender, ObjectReference
from tests.eventually import eventually
from tests.faults import Answer, FaultProxy
from tests.standin import StandIn

USED = "metrics: {bindAddress: ':8443'}\n"
BAD = "webhook: {prot: 1}\nmetrics: 7\n"
GOOD = "metrics: {bindAddress: ':8444'}\n"
POD = ObjectReference("v1", "Pod", "seiretsu-system", "seiretsu-0", "uid-of-the-pod")
USER: Raw = {
    "username": "system:serviceaccount:seiretsu-system:seiretsu",
    "extra": {
        "authentication.kubernetes.io/pod-name": [POD.name],
        "authentication.kubernetes.io/pod-uid": [POD.uid],
        "authentication.kubernetes.io/node-name": ["a"],
    },
}


class Mounted:
    """A ConfigMap as the kubelet mounts it, and what was reported about its edits."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.edits = directory, list[Edit]()
        self.path = directory / "config.yaml"
        (directory / "first").mkdir()
        (directory / "first" / "config.yaml").write_text(USED)
        (directory / "..data").symlink_to("first")
        self.path.symlink_to("..data/config.yaml")
        options = SetupOptions(config=self.path)
        self.file = ConfigurationFile(self.path, USED, lambda text: _error_in(text, options), self.edits.append)

    async def edit(self, text: str) -> list[Edit]:
        """Replaces the content as the kubelet does; returns what one look at it reports."""
        version = f"version-{len(list(self.directory.iterdir()))}"
        (self.directory / version).mkdir()
        (self.directory / version / "config.yaml").write_text(text)
        (self.directory / "next").symlink_to(version)
        (self.directory / "next").rename(self.directory / "..data")
        self.edits.clear()
        await self.file.look()
        return list(self.edits)


async def test_t20_an_invalid_edit_is_rejected_with_every_error_and_the_old_configuration_stays(tmp_path: Path) -> None:
    mounted = Mounted(tmp_path)
    (edit,) = await mounted.edit(BAD)
    assert (edit.type, edit.reason) == ("Warning", "InvalidConfiguration")
    assert edit.message == (
        "the edited Configuration is not used, and a restart would fail: invalid Configuration:\n"
        '  webhook.prot: Forbidden: unknown field; did you mean "port"?\n'
        "  metrics: Invalid value: 7: must be a map of fields"
    )
    assert await mounted.edit(BAD) == [], "it is reported once"
    (edit,) = await mounted.edit(USED)
    assert (edit.type, edit.reason) == ("Normal", "ConfigurationUnchanged")


async def test_t20_a_valid_edit_is_used_from_the_next_start_on(tmp_path: Path) -> None:
    mounted = Mounted(tmp_path)
    (edit,) = await mounted.edit(GOOD)
    assert (edit.type, edit.reason) == ("Normal", "ConfigurationChanged")
    assert "kubectl rollout restart deployment" in edit.message


async def test_t20_values_that_cannot_work_together_are_an_error_of_the_edit_too(tmp_path: Path) -> None:
    both = "metrics: {bindAddress: ':8081'}\nhealth: {healthProbeBindAddress: ':8081'}\n"
    (edit,) = await Mounted(tmp_path).edit(both)
    assert "are both 0.0.0.0:8081" in edit.message


async def test_t20_an_edit_that_the_check_cannot_read_is_reported_as_invalid(tmp_path: Path) -> None:
    (edit,) = await Mounted(tmp_path).edit("a: &a [*a]\n")
    assert (edit.type, edit.reason) == ("Warning", "InvalidConfiguration")
    assert "RecursionError" in edit.message


async def test_t20_a_file_that_is_gone_for_a_moment_changes_nothing(tmp_path: Path) -> None:
    mounted = Mounted(tmp_path)
    (tmp_path / "..data").unlink()
    with capture_logs() as logged:
        await mounted.file.look()
    assert [(line["event"], line["log_level"]) for line in logged] == [
        ("The Configuration cannot be read again", "warning")
    ]
    assert mounted.edits == []


async def test_t20_an_event_on_the_pod_reports_the_edit(server: StandIn, proxy: FaultProxy) -> None:
    async with Client(proxy.connection) as client:
        recorder = EventSender(client)
        sending = asyncio.create_task(recorder.run())
        recorder.record(POD, "Warning", "InvalidConfiguration", "metrics: Invalid value: 7", component="seiretsu")
        await eventually(lambda: recorder.sent == 1)
        recorder.close()
        await sending
    ((path, event),) = server.objects.items()
    assert path.startswith(EVENTS.path(POD.namespace))
    assert (event["involvedObject"]["kind"], event["involvedObject"]["uid"]) == ("Pod", POD.uid)


async def test_the_pod_is_known_from_its_token(proxy: FaultProxy) -> None:
    body = b'{"kind": "SelfSubjectReview", "status": {"userInfo": %b}}'
    async with Client(proxy.connection) as client:
        proxy.inject(Answer(201, body % orjson.dumps(USER), "application/json"))
        assert pod_of(await user_info(client), POD.namespace) == POD
    assert pod_of({"username": "admin"}, POD.namespace) is None
    assert pod_of({}, POD.namespace) is None
