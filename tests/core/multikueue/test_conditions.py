"""The condition Active of AdmissionChecks, and which kubeconfigs are used."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest

from api.objects import Raw
from core.multikueue.conditions import CONNECTED, of_check
from core.multikueue.kubeconfig import insecure, outside
from core.wire.active import Active, patch
from tests.core.multikueue.groups import AT, NOW, conditions

CHECK: Raw = {"spec": {"parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "c"}}}
CONFIG: Raw = {"spec": {"clusters": ["w1", "w2"]}}
GOOD: Raw = {"status": {"conditions": conditions(Active="True")}}
BAD: Raw = {"status": {"conditions": conditions(Active="False")}}


@pytest.mark.parametrize(
    ("config", "clusters", "wanted"),
    [
        (CONFIG, {"w1": GOOD, "w2": GOOD}, Active(True, "Active", "The admission check is active")),
        (CONFIG, {"w1": GOOD}, Active(True, "SomeActiveClusters", "Missing clusters: [w2]")),
        (CONFIG, {"w1": GOOD, "w2": BAD}, Active(True, "SomeActiveClusters", "Inactive clusters: [w2]")),
        (CONFIG, {"w2": BAD}, Active(False, "NoUsableClusters", "Missing clusters: [w1], Inactive clusters: [w2]")),
        (
            None,
            {},
            Active(
                False,
                "BadConfig",
                'Cannot load the AdmissionChecks parameters: MultiKueueConfig.kueue.x-k8s.io "c" not found',
            ),
        ),
    ],
)
def test_a_check_is_active_while_one_of_its_clusters_is(
    config: Raw | None, clusters: dict[str, Raw], wanted: Active
) -> None:
    assert of_check(CHECK, config, clusters) == wanted


def test_a_check_of_other_parameters_is_not_active() -> None:
    found = of_check({"spec": {"parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "Other", "name": "c"}}}, None, {})
    assert (found.status, found.reason) == (False, "BadConfig")
    assert 'wrong kind "Other", expecting "MultiKueueConfig"' in found.message


def test_a_condition_is_written_once_and_keeps_its_time_and_the_others() -> None:
    raw: Raw = {"metadata": {"uid": "u", "resourceVersion": "1", "generation": 2}, "status": GOOD["status"]}
    wanted = patch(raw, CONNECTED, NOW + 60)
    assert wanted is not None
    (written,) = wanted["status"]["conditions"]
    assert (written["reason"], written["lastTransitionTime"]) == ("Active", AT)
    assert patch({**raw, "status": wanted["status"]}, CONNECTED, NOW + 90) is None


def config(user: Any = None, **cluster: Any) -> Raw:
    return {
        "clusters": [{"name": "w", "cluster": {"server": "https://10.0.0.1:6443", **cluster}}],
        "users": [{"name": "u", "user": user or {"token": "t"}}],
    }


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        (config(), ""),
        (config(server="https://worker.example.com"), ""),
        (config({"tokenFile": "/t"}), "tokenFile is not allowed"),
        (config({"username": "u", "password": "p"}), "basic auth is not allowed"),
        (config({"exec": {"command": "sh"}}), "exec plugins are not allowed"),
        (config({"auth-provider": {"name": "x"}}), "auth providers are not allowed"),
        ({"users": ["x"]}, "not a kubeconfig: users[0] must be a mapping"),
        ({"clusters": [{"name": "w", "cluster": "x"}]}, "not a kubeconfig: clusters[0].cluster must be a mapping"),
        ({"contexts": {"name": "w"}}, "not a kubeconfig: contexts must be a list"),
        (config(**{"insecure-skip-tls-verify": True}), "insecure TLS verification is not allowed for cluster w"),
        (config(server=""), "server URL is required for cluster w"),
        (config(server="https://bad_host"), "untrusted server endpoint"),
        (
            config(server="http://worker"),
            "server http://worker of cluster w is not https, which sends the credentials in clear: use https, or set"
            " multiKueue.kubeConfigs.allowHttp",
        ),
        (
            config(**{"proxy-url": "socks5://10.0.0.9"}),
            "proxy-url socks5://10.0.0.9 of cluster w is not allowed unless multiKueue.kubeConfigs.allowProxyUrl is"
            " set",
        ),
        (
            config(**{"certificate-authority": "/ca.crt"}),
            "certificate-authority file paths are not allowed, use certificate-authority-data for cluster w",
        ),
    ],
)
def test_a_kubeconfig_that_runs_programs_or_reads_files_is_not_used(document: Raw, wanted: str) -> None:
    assert insecure(document) == wanted


@pytest.mark.parametrize(
    ("path", "resolved", "wanted"),
    [
        ("/etc/multikueue/kubeconfigs/w", "/etc/multikueue/kubeconfigs/w", ""),
        ("", "", "kubeconfig path must not be empty"),
        ("/etc/multikueue/kubeconfigs/../x", "/etc/multikueue/x", 'path contains ".."'),
        ("w", "/w", "path must be absolute"),
        ("/etc/multikueue/kubeconfigs/w", "/etc/passwd", '"/etc/passwd" is not under "/etc/multikueue/kubeconfigs"'),
    ],
)
def test_a_kubeconfig_file_is_read_only_below_one_directory(path: str, resolved: str, wanted: str) -> None:
    found = outside(path, resolved, PurePosixPath("/etc/multikueue/kubeconfigs"))
    assert (found.endswith(wanted) and bool(found)) if wanted else found == ""
