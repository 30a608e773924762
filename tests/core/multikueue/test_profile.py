"""Worker clusters of the cluster inventory: the address is in the ClusterProfile, the command in the Configuration."""

from __future__ import annotations

import pytest

from api.objects import Raw
from core.multikueue import kubeconfig
from core.multikueue.profile import Provider
from core.multikueue.profile import kubeconfig as of_profile

COMMAND: Raw = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Always"}
CLOUD, HOUSE = Provider("cloud", COMMAND), Provider("house", COMMAND | {"command": "enter"})


def cluster(server: str, **more: object) -> Raw:
    return {"server": server, "certificate-authority-data": "Q0E=", "insecure-skip-tls-verify": True, **more}


def described(**status: list[Raw]) -> Raw:
    return {"metadata": {"name": "spoke"}, "status": status}


def access(name: str, server: str, **more: object) -> Raw:
    return {"name": name, "cluster": cluster(server, **more)}


PROFILE = described(accessProviders=[access("house", "https://house"), access("cloud", "https://cloud")])


def test_the_first_provider_of_the_configuration_that_the_profile_names_is_used() -> None:
    document, wrong = of_profile(PROFILE, (Provider("other", {}), CLOUD, HOUSE))
    assert wrong == ""
    (found,), (user,) = document["clusters"], document["users"]
    assert found["cluster"] == {"server": "https://cloud", "certificate-authority-data": "Q0E="}
    assert user["user"]["exec"] == COMMAND | {"interactiveMode": "Never"}
    assert kubeconfig.insecure(document, kubeconfig.Allowed(commands=True)) == ""
    assert kubeconfig.insecure(document) == "exec plugins are not allowed"


def test_access_providers_are_used_before_the_older_credential_providers() -> None:
    both = described(
        credentialProviders=[access("cloud", "https://old"), access("house", "https://house")],
        accessProviders=[access("cloud", "https://new")],
    )
    servers = [of_profile(both, (each,))[0]["clusters"][0]["cluster"]["server"] for each in (CLOUD, HOUSE)]
    assert servers == ["https://new", "https://house"]


def test_the_profile_may_pass_a_value_to_the_command_and_nothing_else() -> None:
    extensions = [
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
        {"name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": ["--evil"]},
    ]
    document, _ = of_profile(described(accessProviders=[access("cloud", "https://c", extensions=extensions)]), (CLOUD,))
    assert document["users"][0]["user"]["exec"] == COMMAND | {"interactiveMode": "Never", "config": {"audience": "a"}}


@pytest.mark.parametrize(
    ("profile", "providers", "why"),
    [
        (PROFILE, (), "no access provider configured"),
        (described(), (CLOUD,), 'no matching cluster accessor found for cluster profile "spoke"'),
    ],
)
def test_a_profile_that_describes_no_way_says_why(profile: Raw, providers: tuple[Provider, ...], why: str) -> None:
    assert of_profile(profile, providers) == ({}, why)
