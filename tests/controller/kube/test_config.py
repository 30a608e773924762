import asyncio
import base64
import json
import ssl
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.objects import Raw
from controller.kube import config
from controller.kube.command import CommandError, credential
from controller.kube.config import ConfigError, Connection, FileToken, PluginCredentials, StaticCredentials
from controller.kube.errors import Unreachable
from core.wire.timestamps import stamp


def kubeconfig(path: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None) -> Path:
    document = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "http://127.0.0.1:1/"}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def test_the_current_context_is_taken(tmp_path: Path) -> None:
    found = config.load(kubeconfig(tmp_path / "config"))
    assert found == Connection("http://127.0.0.1:1", None, StaticCredentials(), "team")


@pytest.mark.parametrize(
    ("user", "header"),
    [
        ({}, None),
        ({"token": "abc"}, "Bearer abc"),
        ({"token": "abc\n"}, "Bearer abc"),
        ({"username": "u", "password": "p"}, "Basic " + base64.b64encode(b"u:p").decode()),
    ],
    ids=["certificate or none", "token", "token with a line end", "password"],
)
async def test_static_users_get_their_header(tmp_path: Path, user: dict[str, Any], header: str | None) -> None:
    found = config.load(kubeconfig(tmp_path / "config", user=user))
    assert await found.credentials.authorization() == header


async def test_a_token_file_is_read_again_every_minute_and_after_a_refusal(tmp_path: Path) -> None:
    now = [0.0]
    (tmp_path / "token").write_text("one\n")
    token = FileToken(tmp_path / "token", clock=lambda: now[0])
    assert await token.authorization() == "Bearer one"
    (tmp_path / "token").write_text("two")
    assert await token.authorization() == "Bearer one"
    assert await token.authorization(fresh=True) == "Bearer two"
    (tmp_path / "token").unlink()
    now[0] = 61.0
    assert await token.authorization() == "Bearer two"
    (tmp_path / "token").write_text("three")
    assert await token.authorization() == "Bearer three"


async def test_an_exec_plugin_is_run_for_its_token(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t0"}}'
    plugin.write_text(f"#!/bin/sh\necho '{credential}'\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin)}}
    found = config.load(kubeconfig(tmp_path / "config", user=user))
    assert isinstance(found.credentials, PluginCredentials)
    assert await found.credentials.authorization() == "Bearer t0"


async def test_an_auth_provider_needs_the_package_kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes.aio.client", None)
    found = config.load(kubeconfig(tmp_path / "config", user={"auth-provider": {"name": "oidc"}}))
    with pytest.raises(Unreachable, match=r"no credentials: .*pip install 'seiretsu\[kubernetes\]'"):
        await found.credentials.authorization()


VERSION = "client.authentication.k8s.io/v1"


def plugin(directory: Path, script: str, **more: object) -> Raw:
    """A kubeconfig user whose token a shell script prints."""
    path = directory / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"exec": {"apiVersion": VERSION, "command": "./plugin", **more}}


def printed(**status: str) -> str:
    return f"echo '{json.dumps({'apiVersion': VERSION, 'kind': 'ExecCredential', 'status': status})}'"


async def test_an_exec_plugin_is_told_which_cluster_it_is_for_if_it_asks(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "spoke"}}
    cluster: Raw = {"server": "http://spoke", "extensions": [extension]}
    script = f'printf %s "$KUBERNETES_EXEC_INFO" >{tmp_path}/told; {printed(token="t")}'
    for asks in (True, False):
        user = plugin(tmp_path, script, provideClusterInfo=asks, interactiveMode="Never")
        found = config.load(kubeconfig(tmp_path / "config", cluster=cluster, user=user))
        assert await found.credentials.authorization() == "Bearer t"
        told = json.loads((tmp_path / "told").read_text())
        wanted = {"cluster": {"server": "http://spoke", "config": {"audience": "spoke"}}} if asks else {}
        assert told == {"apiVersion": VERSION, "kind": "ExecCredential", "spec": {"interactive": False, **wanted}}


@pytest.mark.parametrize(
    "script",
    [
        "exit 3",
        "echo no JSON",
        printed(),
        printed(clientCertificateData="no certificate", clientKeyData="no key"),
        "head -c 200000 /dev/zero >&2; exit 1",
    ],
)
async def test_an_exec_plugin_that_fails_makes_the_cluster_unreachable_and_is_run_again(
    tmp_path: Path, script: str
) -> None:
    user = plugin(tmp_path, script, interactiveMode="Never")
    found = config.load(kubeconfig(tmp_path / "config", cluster={"server": "https://h:1"}, user=user))
    with pytest.raises(Unreachable, match="no credentials"):
        await found.credentials.authorization()
    plugin(tmp_path, printed(token="t1"))
    assert await found.credentials.authorization() == "Bearer t1"


async def test_an_exec_plugin_that_does_not_answer_is_stopped(tmp_path: Path) -> None:
    run = plugin(tmp_path, "sleep 600 & wait", interactiveMode="Never")["exec"]
    with pytest.raises(CommandError, match="no answer within"):
        await credential(run, {}, tmp_path, seconds=0.1)


@pytest.mark.parametrize("script", [printed(token="t"), "exit 1"])
async def test_requests_at_the_same_time_share_one_run_of_a_plugin(tmp_path: Path, script: str) -> None:
    user = plugin(tmp_path, f"echo run >>{tmp_path}/runs; {script}", interactiveMode="Never")
    found = config.load(kubeconfig(tmp_path / "config", user=user))
    answers = await asyncio.gather(*(found.credentials.authorization() for _ in range(5)), return_exceptions=True)
    assert len({str(each) for each in answers}) == 1
    assert (tmp_path / "runs").read_text() == "run\n"


@pytest.mark.parametrize(
    ("ends_in", "kept_for", "renewed_after"),
    [(None, 299, 301), (3600, 3500, 3601), (60, 50, 61), (-3600, 9, 11)],
    ids=["unknown", "in an hour", "in a minute", "an hour ago"],
)
async def test_an_exec_plugin_is_run_again_when_its_credentials_end(
    tmp_path: Path, ends_in: int | None, kept_for: int, renewed_after: int
) -> None:
    end = {} if ends_in is None else {"expirationTimestamp": stamp(time.time() + ends_in)}
    user = plugin(tmp_path, f"echo run >>{tmp_path}/runs; {printed(token='t', **end)}", interactiveMode="Never")
    found = config.load(kubeconfig(tmp_path / "config", user=user)).credentials
    assert isinstance(found, PluginCredentials)
    now = [1000.0]
    found.clock = lambda: now[0]
    for seconds, runs in ((0, 1), (kept_for, 1), (renewed_after, 2)):
        now[0] = 1000.0 + seconds
        assert await found.authorization() == "Bearer t"
        assert (tmp_path / "runs").read_text() == "run\n" * runs


def test_files_are_looked_up_beside_the_kubeconfig_and_data_is_decoded(
    tmp_path: Path, pair: tuple[bytes, bytes]
) -> None:
    certificate, key = pair
    (tmp_path / "ca.crt").write_bytes(certificate)
    user = {
        "client-certificate-data": base64.b64encode(certificate).decode(),
        "client-key-data": base64.b64encode(key).decode(),
    }
    cluster = {"server": "https://h:6443", "certificate-authority": "ca.crt", "tls-server-name": "kubernetes"}
    found = config.load(kubeconfig(tmp_path / "config", cluster=cluster, user=user))
    assert found.tls is not None and found.tls.verify_mode is ssl.CERT_REQUIRED
    assert len(found.tls.get_ca_certs()) == 1
    assert found.server_name == "kubernetes"


def test_insecure_is_only_what_was_asked_for(tmp_path: Path) -> None:
    found = config.load(
        kubeconfig(tmp_path / "config", cluster={"server": "https://h:1", "insecure-skip-tls-verify": True})
    )
    assert found.tls is not None and found.tls.verify_mode is ssl.CERT_NONE


def test_of_several_files_the_first_mention_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").write_text("current-context: here\n")
    kubeconfig(tmp_path / "two")
    kubeconfig(tmp_path / "three", cluster={"server": "http://other"})
    names = ":".join(str(tmp_path / name) for name in ("absent", "one", "two", "three"))
    monkeypatch.setenv("KUBECONFIG", names)
    assert config.load().server == "http://127.0.0.1:1"


def test_in_a_pod_the_service_account_speaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pair: tuple[bytes, bytes]
) -> None:
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(pair[0])
    (tmp_path / "namespace").write_text("seiretsu-system")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setenv("SEIRETSU_SERVICE_ACCOUNT", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    found = config.load()
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "seiretsu-system")
    assert isinstance(found.credentials, FileToken)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not readable as kubeconfig"),
        ("- a", "a mapping is expected"),
        ("{}", "no current-context"),
        ("current-context: x", "contexts: no 'x'"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: d}]", "no 'c', only d"),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {server: h}}]",
            "not an http(s) address: 'h'",
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://h', certificate-authority-data: '%%'}}]",
            "certificate-authority-data: not base64",
        ),
        (
            "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://h', certificate-authority: nowhere}}]",
            "does not load",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_serve_says_why(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / "config")
    assert message in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such kubeconfig file"):
        config.load(tmp_path / "absent")
