"""Which cluster, namespace and account a command is for; failures in kubectl's words, with the same exit codes."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from cli.main import COMMANDS, PLUGIN, application, completions
from cli.target import DONE, FAILED, UNREADABLE, USAGE
from tests.cli.api_server import EMPTY, Asked, Reply, kubeconfig, refusal, serving

ROOT = Path(__file__).parents[2]
READING = (
    ["explain", "fill"],
    ["when", "fill"],
    ["simulate", "--from-cluster"],
    ["doctor"],
    ["bundle"],
    ["migrate", "check"],
    ["migrate", "take-over"],
    ["uninstall"],
)
OTHERS = ("serve", "demo", "top")
"""Commands with a kubeconfig that do more than read and write: they start something, or need a terminal first."""
MANIFEST = "MANIFEST"


NEEDS = {
    "simulate": ["--from-cluster"],
    "plan": ["--from-cluster"],
    "import": ["--namespace=some", "--queuelabel=some", "--queuemapping=a=b"],
}
"""What else a command needs to be called."""


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The commands of a group that do something, each once: a type has several names."""
    if not hasattr(command, "commands"):
        yield path, command
        return
    seen: set[object] = set()
    for name, each in command.commands.items():
        if hasattr(each, "commands") or each.callback not in seen:
            seen.add(each.callback)
            yield from leaves(each, (*path, name))


def of_a_cluster() -> Iterator[list[str]]:
    """The words of every command that has the options of a cluster, with what it needs to be called."""
    for command in COMMANDS:
        group: Any = typer.main.get_command(application([command.name]))
        for path, leaf in leaves(group.commands[command.name], (command.name,)):
            if command.name in OTHERS or "--kubeconfig" not in {word for each in leaf.params for word in each.opts}:
                continue
            words = [*path]
            for each in leaf.params:
                if each.param_type_name == "argument" and (each.required or path[0] == "delete"):
                    words.append("some")
                elif each.param_type_name == "option" and each.required:
                    words += [each.opts[0], MANIFEST if each.opts[0] == "--filename" else "job/some"]
            yield [*words, *NEEDS.get(path[0], ())]


def run(*words: object) -> tuple[int, str, str]:
    given = [str(word) for word in words]
    done = CliRunner().invoke(application(given), given, env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.stdout, done.stderr


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def namespaces(asked: Asked) -> Reply:
    """An API server with the namespaces team-a and team-b, and nothing in them."""
    if asked.path != "/api/v1/namespaces":
        return EMPTY
    items = [{"metadata": {"name": name}} for name in ("default", "team-a", "team-b")]
    return Reply({**EMPTY.body, "items": items})


def test_every_command_reports_a_cluster_that_is_down_as_kubectl_does(tmp_path: Path) -> None:
    port, manifest = closed_port(), tmp_path / "manifest.yaml"
    manifest.write_text('{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "some"}}')
    file = kubeconfig(tmp_path / "config", f"https://127.0.0.1:{port}")
    told = f"The connection to the server 127.0.0.1:{port} was refused - did you specify the right host or port?"
    called = [[str(manifest) if word == MANIFEST else word for word in words] for words in of_a_cluster()]
    assert {words[0] for words in called} >= {words[0] for words in READING} | {"list", "create", "stop", "delete"}
    for words in called:
        code, out, err = run(*words, "--kubeconfig", file)
        name = " ".join(words[: 1 + (words[0] == "migrate")])
        assert (code, out, err) == (UNREADABLE, "", f"seiretsu {name}: {told}\n"), words


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_kubeconfig_that_does_not_exist_has_the_same_exit_code(words: list[str], tmp_path: Path) -> None:
    code, _, err = run(*words, "--kubeconfig", tmp_path / "absent")
    assert code == UNREADABLE
    assert err.endswith(f"no cluster: {tmp_path / 'absent'}: no such kubeconfig file\n")


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("https://nowhere.invalid:6443", "Unable to connect to the server: there is no host nowhere.invalid"),
        ("http://127.0.0.1:{port}", "You must be logged in to the server 127.0.0.1:{port} (Unauthorized)"),
        ("https://127.0.0.1:{port}", "Unable to connect to the server 127.0.0.1:{port}: "),
    ],
    ids=["unknown host", "refused credentials", "no TLS"],
)
def test_why_an_api_server_does_not_answer_is_one_sentence(server: str, told: str, tmp_path: Path) -> None:
    with serving(lambda asked: refusal(401, "Unauthorized", "Unauthorized")) as (url, _):
        port = url.rpartition(":")[2]
        file = kubeconfig(tmp_path / "config", server.replace("{port}", port))
        code, _, err = run("explain", "fill", "--kubeconfig", file)
    assert code == UNREADABLE
    assert err.startswith(f"seiretsu explain: {told.replace('{port}', port)}")
    assert err.count("\n") == 1


def test_the_namespace_is_that_of_the_context_unless_another_is_given(tmp_path: Path) -> None:
    with serving(namespaces) as (url, _):
        file = kubeconfig(tmp_path / "config", url)
        for command in ("explain", "when"):
            for more, namespace in (
                ([], "team-a"),
                (["--context", "there"], "team-b"),
                (["-n", "default"], "default"),
                (["--context", "there", "-n", "team-a"], "team-a"),
            ):
                code, _, err = run(command, "fill", "--kubeconfig", file, *more)
                assert code == FAILED
                assert err.startswith(f"seiretsu {command}: there is no Job fill in namespace {namespace};")


def test_a_namespace_that_does_not_exist_is_reported_as_kubectl_does(tmp_path: Path) -> None:
    with serving(namespaces) as (url, _):
        file = kubeconfig(tmp_path / "config", url)
        code, _, err = run("explain", "fill", "--kubeconfig", file, "-n", "taem-a")
    told = 'Error from server (NotFound): namespaces "taem-a" not found: did you mean team-a?'
    assert (code, err) == (FAILED, f"seiretsu explain: {told}\n")


def test_a_context_that_does_not_exist_is_reported_with_those_that_do(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1")
    code, _, err = run("explain", "fill", "--kubeconfig", file, "--context", "nowhere")
    assert code == UNREADABLE
    assert "contexts: no 'nowhere', only here, there" in err


def test_the_account_is_impersonated_with_its_groups(tmp_path: Path) -> None:
    groups = ["--as-group", "a", "--as-group", "b"]
    with serving(namespaces) as (url, asked):
        file = kubeconfig(tmp_path / "config", url)
        run("explain", "fill", "--kubeconfig", file, "--as", "jane", *groups)
        sent = [each for each in asked[0].headers if each[0].startswith("Impersonate")]
        asked.clear()
        run("doctor", "--kubeconfig", file, "--as", "jane", *groups)
        assert [each for each in asked[0].headers if each[0].startswith("Impersonate")] == sent
    assert sent == [("Impersonate-User", "jane"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]


def test_the_account_of_a_kubeconfig_is_impersonated_too(tmp_path: Path) -> None:
    with serving(namespaces) as (url, asked):
        file = kubeconfig(tmp_path / "config", url, user={"as": "jane", "as-groups": ["a"]})
        run("explain", "fill", "--kubeconfig", file)
    assert ("Impersonate-User", "jane") in asked[0].headers
    assert ("Impersonate-Group", "a") in asked[0].headers


def test_a_group_without_an_account_is_a_mistake(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1")
    code, _, err = run("explain", "fill", "--kubeconfig", file, "--as-group", "a")
    assert code == USAGE
    assert "--as-group needs --as" in err


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("jbo/fill", "there is no kind 'jbo' that is queued: did you mean job/fill?"),
        ("jobsets.jobset.x-k8s.io/fill", "there is no JobSet fill in namespace team-a"),
        ("rayjbo/fill", "there is no kind 'rayjbo' that is queued: did you mean rayjob/fill?"),
        ("sofa/fill", "there is no kind 'sofa' that is queued; write KIND/NAME"),
        ("job/", "there is no kind 'job' that is queued"),
    ],
)
def test_a_kind_that_does_not_exist_is_a_mistake(name: str, told: str, tmp_path: Path) -> None:
    with serving(namespaces) as (url, _):
        for command in ("explain", "when"):
            code, _, err = run(command, name, "--kubeconfig", kubeconfig(tmp_path / "config", url))
            assert err.startswith(f"seiretsu {command}: {told}")
            assert code == (FAILED if "there is no JobSet" in told else USAGE)


@pytest.mark.parametrize("words", [each for each in READING if each[0] in ("explain", "when", "doctor")], ids=" ".join)
def test_with_o_json_a_failure_is_json_too(words: list[str], tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "config", f"https://127.0.0.1:{closed_port()}")
    code, out, err = run(*words, "--kubeconfig", file, "-o", "json")
    told = json.loads(out)
    assert told["message"].startswith("The connection to the server")
    assert told["message"] in err
    assert told == {
        "apiVersion": "cli.seiretsu.dev/v1",
        "kind": "Error",
        "exitCode": code,
        "message": told["message"],
    }


def test_every_command_that_reads_a_cluster_has_the_same_options() -> None:
    for words in READING:
        path = [word for word in words if word.isalpha() or word == "take-over"][: 2 if words[0] == "migrate" else 1]
        _, out, _ = run(*path, "--help")
        assert all(option in out for option in ("--kubeconfig", "--context", "--as", "--as-group")), words


def test_the_version_is_printed_by_an_option_and_by_a_command() -> None:
    told = {run(*words) for words in (["--version"], ["version"])}
    assert len(told) == 1
    assert re.fullmatch(r"Seiretsu \d+\.\d+\.\d+\n", told.pop()[1])
    assert "version" in {command.name for command in PLUGIN}
    assert "version" in {command.name for command in COMMANDS}


def test_an_exception_that_nothing_expects_is_one_sentence_without_a_traceback() -> None:
    code = (
        "import sys; sys.argv[1:] = ['version']; import cli.version, cli.main\n"
        "def broken(): raise KeyError('x')\n"
        "cli.version.command = broken; cli.main.plugin()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    first, second = done.stderr.splitlines()
    assert (done.returncode, first) == (FAILED, "kubectl seiretsu: a bug in Seiretsu: KeyError: 'x'")
    assert "SEIRETSU_TRACEBACK=1" in second


def test_the_exit_codes_are_documented() -> None:
    page = (ROOT / "docs" / "simulate.md").read_text()
    for code in (DONE, FAILED, USAGE, UNREADABLE, 130):
        assert f"| {code} |" in page


def job(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}}


def test_names_of_the_cluster_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.startswith("/apis/batch/v1/namespaces/"):
            assert asked.query["labelSelector"] == ["kueue.x-k8s.io/queue-name"]
            return Reply({**EMPTY.body, "items": [job(f"train-{asked.path.split('/')[5]}"), job("fill")]})
        if asked.path == "/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads":
            return Reply({**EMPTY.body, "items": [job("job-train-1a")]})
        return namespaces(asked)

    with serving(answer) as (url, _):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "config", url)))
        assert completions(["explain", "t"])[0] == "train-team-a"
        assert completions(["explain", ""]) == ["fill", "train-team-a"]
        assert completions(["when", "-n", "team-b", "train"])[0] == "train-team-b"
        assert completions(["explain", "--context", "there", "tr"])[0] == "train-team-b"
        assert completions(["explain", "workload/j"]) == ["workload/job-train-1a"]
        assert completions(["explain", "jobs"]) == ["jobset/"]
        assert completions(["explain", "-n", "team"]) == ["team-a", "team-b"]
        assert completions(["explain", "--namespace=team-b"]) == ["--namespace=team-b"]
        assert completions(["explain", "--context", ""]) == ["here", "there"]
        assert completions(["explain", "-o", "y"]) == ["yaml"]
    assert completions(["explain", "fi"]) == [], "a cluster that is down completes nothing"
