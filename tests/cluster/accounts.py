"""Accounts that tests write with: service accounts with the rights of real users."""

from __future__ import annotations

from pathlib import Path

from devcluster.controlplane import ControlPlane


def may(plane: ControlPlane, *words: str) -> bool:
    """Whether somebody may do something already, as `kubectl auth can-i` answers: rights come after their binding."""
    return plane.kubectl("auth", "can-i", *words).stdout == "yes\n"


def tenant(plane: ControlPlane, namespace: str, directory: Path) -> Path:
    """The kubeconfig of a user with the role `edit` in one namespace and no rights elsewhere."""
    plane.kubectl("create", "serviceaccount", "tenant", "-n", namespace, check=True)
    binding = ("create", "rolebinding", "tenant", "--clusterrole=edit", f"--serviceaccount={namespace}:tenant")
    plane.kubectl(*binding, "-n", namespace, check=True)
    return plane.kubeconfig_of(namespace, "tenant", directory)
