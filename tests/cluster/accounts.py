"""Accounts that tests write with: service accounts with the rights of real users."""

from __future__ import annotations

import json
from pathlib import Path

from devcluster.controlplane import ControlPlane


def kubeconfig_of(plane: ControlPlane, namespace: str, account: str, directory: Path, *options: str) -> Path:
    """A kubeconfig with nothing but a token of a service account; ``options`` are those of `kubectl create token`."""
    token = plane.kubectl("create", "token", account, "-n", namespace, *options, check=True).stdout.strip()
    kubeconfig = json.loads(plane.kubeconfig.read_text())
    kubeconfig["users"] = [{"name": user["name"], "user": {"token": token}} for user in kubeconfig["users"]]
    path = directory / f"kubeconfig-{namespace}-{account}"
    path.write_text(json.dumps(kubeconfig))
    return path


def may(plane: ControlPlane, *words: str) -> bool:
    """Whether somebody may do something already, as `kubectl auth can-i` answers: rights come after their binding."""
    return plane.kubectl("auth", "can-i", *words).stdout == "yes\n"


def tenant(plane: ControlPlane, namespace: str, directory: Path) -> Path:
    """The kubeconfig of a user with the role `edit` in one namespace and no rights elsewhere."""
    plane.kubectl("create", "serviceaccount", "tenant", "-n", namespace, check=True)
    binding = ("create", "rolebinding", "tenant", "--clusterrole=edit", f"--serviceaccount={namespace}:tenant")
    plane.kubectl(*binding, "-n", namespace, check=True)
    return kubeconfig_of(plane, namespace, "tenant", directory)
