"""How a worker cluster is reached by its ClusterProfile (cluster inventory API): the kubeconfig that it describes.

The profile has the address of the cluster, by the name of a provider; the Configuration has the command that prints
the credentials of that provider. So whoever may write a ClusterProfile cannot choose the command.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from core.model import Raw

_EXEC: Final = "client.authentication.k8s.io/exec"
"""The extension of a cluster whose value is passed to the command."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of the Configuration: its name and the ``exec`` section of a kubeconfig's user."""

    name: str
    command: Raw


def kubeconfig(profile: Raw, providers: Sequence[Provider]) -> tuple[Raw, str]:
    """Returns the kubeconfig of the cluster, or why there is none.

    Of several providers that the profile names the first one of the Configuration is used; of the profile's two lists
    ``accessProviders`` before the older ``credentialProviders``.
    """
    if not providers:
        return {}, "no access provider configured"
    found = _clusters(profile)
    provider = next((each for each in providers if each.name in found), None)
    if provider is None:
        name = profile["metadata"]["name"]
        return {}, f'no matching cluster accessor found for cluster profile "{name}"'
    cluster = found[provider.name]
    kept = ("server", "certificate-authority-data", "proxy-url", "tls-server-name", "extensions")
    extensions = {each.get("name"): each.get("extension") for each in cluster.get("extensions") or ()}
    command = {**provider.command, "interactiveMode": "Never"}
    if _EXEC in extensions:
        command["config"] = extensions[_EXEC]
    name = provider.name
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {key: cluster[key] for key in kept if cluster.get(key)}}],
        "users": [{"name": name, "user": {"exec": command}}],
    }, ""


def _clusters(profile: Raw) -> Mapping[str, Raw]:
    """The clusters that a profile describes, by provider."""
    status = profile.get("status") or {}
    lists = (status.get("credentialProviders") or (), status.get("accessProviders") or ())
    return {str(each.get("name")): each.get("cluster") or {} for every in lists for each in every}
