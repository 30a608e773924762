"""What an account asks an API server for, from its audit log, compared with what its roles grant.

The log has every request of the account with the decision about it. One right is asked for without a request: an owner
reference that blocks the deletion of its owner needs ``update`` of the owner's finalizers, which an admission plugin
asks about. So requests for objects with such a reference are logged with their bodies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from api.objects import Raw
from api.resources import PROVISIONING_REQUESTS, WORKLOADS
from core.jobs.owners import KNOWN
from devcluster.controlplane import ControlPlane

OWNERS = {**KNOWN, **{(each.group, each.kind): each for each in (WORKLOADS, PROVISIONING_REQUESTS)}}
"""The resources whose objects own others."""


class Use(NamedTuple):
    """A verb on a resource: in a namespace if the right is for that namespace only, on a name if it is for that."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""


class Audit:
    """The audit log of one account, in files in a directory."""

    def __init__(self, directory: Path, account: str) -> None:
        self.account = account
        self._log = directory / "audit.log"
        self._policy = directory / "audit-policy.yaml"

    def options(self) -> tuple[str, ...]:
        """Options with which an API server writes the log; it also asks about owner references that block deletion."""
        named = {"users": [self.account]}
        owned = [
            {"group": "kueue.x-k8s.io", "resources": ["workloads"]},
            {"group": "autoscaling.x-k8s.io", "resources": ["provisioningrequests"]},
            {"group": "", "resources": ["podtemplates"]},
        ]
        rules = [
            {**named, "level": "Request", "verbs": ["create", "patch"], "resources": owned},
            {**named, "level": "Metadata"},
            {"level": "None"},
        ]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": rules}
        self._policy.write_text(json.dumps(policy))
        return (
            f"--audit-policy-file={self._policy}",
            f"--audit-log-path={self._log}",
            "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        )

    def denied(self) -> list[str]:
        """The requests that were denied for want of a right, each once."""
        return sorted(
            {
                f"{each['verb']} {each['requestURI'].partition('?')[0]}"
                for each in self._events()
                if each.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
                or (each.get("responseStatus", {}).get("code") == 403 and "finalizers" in str(each["responseStatus"]))
            }
        )

    def asked(self) -> set[Use]:
        """What was asked for: each use with its namespace and name, which no role need mention."""
        found = set()
        for event in self._events():
            about = event.get("objectRef") or {}
            if "resource" not in about:
                continue
            resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
            place = (about.get("namespace", ""), about.get("name", ""))
            found.add(Use(about.get("apiGroup", ""), resource, event["verb"], *place))
            found |= set(_blocked(event.get("requestObject")))
        return found

    def unused(self, plane: ControlPlane) -> set[Use]:
        """What the roles that are bound to the account grant, and it never asked for. A right to watch brings that to
        list along: an API server that cannot stream the first list is asked for it.
        """
        asked = self.asked()
        asked |= {each._replace(verb="list") for each in asked if each.verb == "watch"}
        exact = asked | {each._replace(name="") for each in asked}
        known = exact | {each._replace(namespace="") for each in exact}
        return set(granted(plane, self.account)) - known

    def _events(self) -> Iterator[Raw]:
        with self._log.open() as file:
            yield from map(json.loads, file)


def granted(plane: ControlPlane, account: str) -> Iterator[Use]:
    """Yields the rights of a service account that bindings to itself give it, without those of its groups."""
    _, _, namespace, name = account.split(":")
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    found = plane.kubectl("get", "clusterroles,roles,clusterrolebindings,rolebindings", "-A", "-o", "json", check=True)
    items = json.loads(found.stdout)["items"]
    roles = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in items}
    for binding in items:
        if subject not in (binding.get("subjects") or ()):
            continue
        within, role = binding["metadata"].get("namespace", ""), binding["roleRef"]
        place = "" if role["kind"] == "ClusterRole" else within
        for rule in roles[role["kind"], place, role["name"]]["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for each in rule.get("resourceNames") or ("",):
                            yield Use(group, resource, verb, within, each)


def _blocked(body: Raw | list[Raw] | None) -> Iterator[Use]:
    """Yields what the owner references of an object ask for."""
    metadata = (body.get("metadata") or {}) if isinstance(body, dict) else {}
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("blockOwnerDeletion"):
            resource = OWNERS[owner["apiVersion"].rpartition("/")[0], owner["kind"]]
            yield Use(resource.group, f"{resource.plural}/finalizers", "update")
