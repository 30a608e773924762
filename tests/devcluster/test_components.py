"""The files from which an API server and its clients know who somebody is."""

from __future__ import annotations

import csv
import json

from devcluster.components import Ports, User, kubeconfig, tokens


def test_a_token_is_of_a_user_and_his_groups_and_of_no_group_without_a_name() -> None:
    ann, bob = User("ann", ("system:masters", "team")), User("bob")
    rows = list(csv.reader(tokens([ann, bob]).splitlines()))
    assert rows == [[ann.token, "ann", "ann", "system:masters,team"], [bob.token, "bob", "bob"]]
    assert ann.token != bob.token
    assert ann.token not in repr(ann)


def test_a_kubeconfig_has_the_token_of_its_user() -> None:
    ann = User("ann")
    found = json.loads(kubeconfig("here", Ports(1, 2, 3), b"ca", ann))
    assert [each["user"] for each in found["users"]] == [{"token": ann.token}]
    assert found["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:3"
