import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.kube import config
from controller.kube.config import ConfigError, Connection, FileToken, PluginCredentials, StaticCredentials


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
        ({"username": "u", "password": "p"}, "Basic " + base64.b64encode(b"u:p").decode()),
    ],
    ids=["certificate or none", "token", "password"],
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
    found = config.in_cluster(tmp_path)
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
