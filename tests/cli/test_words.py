"""Command lines in kubectl's forms, and the words that kubectl gets."""

from __future__ import annotations

import pytest

from cli.verbs.passthrough import arguments, names, passes
from cli.words import WordsError, arranged, connected

GROUPS = ["list", "get", "create"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("list cq -A", "list cq -A"),
        ("-n x list cq", "list cq -n x"),
        ("list -n x cq -o=json", "list cq -n x -o json"),
        ("--namespace=x list cq", "list cq --namespace=x"),
        ("create --dry-run client lq a -c b", "create lq --dry-run client a -c b"),
        ("list cq --all-namespaces=true --show-managed-fields=false", "list cq --all-namespaces"),
        ("-n x explain job", "explain -n x job"),
        ("--help", "--help"),
        ("list --help", "list --help"),
        ("--verbose list cq", "--verbose list cq"),
        ("get cq -- -o=x", "get cq -- -o=x"),
        ("", ""),
    ],
)
def test_the_command_comes_first(given: str, found: str) -> None:
    assert arranged(given.split(), GROUPS) == found.split()


def test_options_for_the_connection_are_taken_out() -> None:
    words = [
        "list",
        "cq",
        "-s",
        "https://x",
        "--user=u",
        "--insecure-skip-tls-verify",
        "--request-timeout",
        "1m",
        "--cache-dir",
        "c",
        "--",
        "--token",
    ]
    line = connected(words)
    assert line.words == ["list", "cq", "--", "--token"]
    assert line.flags == {"server": "https://x", "user": "u", "insecure_skip_tls_verify": True, "request_timeout": 60.0}


@pytest.mark.parametrize("words", [["--token"], ["--request-timeout", "soon"], ["--as-user-extra", "x"]])
def test_an_option_without_a_meaning_is_named(words: list[str]) -> None:
    with pytest.raises(WordsError, match=words[0]):
        connected(words)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("get cq", "get clusterqueue.kueue.x-k8s.io"),
        ("get workload/a -o wide", "get workload.kueue.x-k8s.io/a -o wide"),
        ("describe -n x lq cq", "describe -n x localqueue.kueue.x-k8s.io cq"),
        ("edit resourceflavors.kueue.x-k8s.io a", "edit resourceflavor.kueue.x-k8s.io a"),
        ("patch kwl a --type merge -p {}", "patch workload.kueue.x-k8s.io a --type merge -p {}"),
    ],
)
def test_kubectl_gets_the_full_type(given: str, sent: str) -> None:
    assert passes(given.split())
    assert arguments(given.split()) == sent.split()


def test_what_kubectl_does_not_get() -> None:
    assert not passes(["delete", "workload", "a"])
    assert passes(["delete", "cq", "a"])
    assert not passes(["get", "pods"])
    assert not passes(["get", "--help"])


def test_the_names_of_objects_are_told_from_options_and_their_values() -> None:
    assert names(["get", "cq", "a", "-n", "b", "c", "-o", "name"]) == ["a", "c"]
    assert names(["get", "cq/a"]) == ["a"]
    assert names(["get", "cq"]) == []
