"""A container of a pod as a process of this machine, which simulated nodes do not run: its arguments and environment,
its ConfigMaps and Secrets as files, and the login of its service account, as a kubelet gives them.

The image is not used: the caller knows the program. Paths of mounts are replaced by those of the files.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devcluster.controlplane import ControlPlane

Raw = dict[str, Any]

ACCOUNT = "SEIRETSU_SERVICE_ACCOUNT"
"""The environment variable with the directory of the service account's files, which a pod always has at one path."""
TOKEN_LIFE = "24h"
"""Nothing renews the token here."""


@dataclass(frozen=True, slots=True)
class Container:
    """What a container is started with; ``command`` is empty where the image has the program. ``mounts`` are the
    directories of its files by the names of their volumes.
    """

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: dict[str, str]
    mounts: dict[str, Path]


def of_deployment(plane: ControlPlane, name: str, namespace: str, directory: Path) -> Container:
    """Returns the only container of a Deployment, whose files are written into a directory."""
    return of_pod(plane, _get(plane, "deployment", name, namespace)["spec"]["template"]["spec"], namespace, directory)


def of_pod(plane: ControlPlane, pod: Raw, namespace: str, directory: Path) -> Container:
    """Returns the only container of the spec of a pod, whose files are written into a directory."""
    (container,) = pod["containers"]
    volumes = {volume["name"]: volume for volume in pod.get("volumes", ())}
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    mounts, paths = {}, {}
    for mount in container.get("volumeMounts", ()):
        files = _files(plane, volumes[mount["name"]], namespace)
        if files:
            mounts[mount["name"]] = folder = _written(files, directory / mount["name"])
            paths[mount["mountPath"]] = folder

    def here(text: str) -> str:
        for path, folder in paths.items():
            text = text.replace(f"{path}/", f"{folder}/")
        return text

    environment = {each["name"]: here(each.get("value", "")) for each in container.get("env", ())}
    if pod.get("automountServiceAccountToken", True):
        environment |= _login(plane, pod.get("serviceAccountName", "default"), namespace, directory / "serviceaccount")
    command, arguments = (tuple(map(here, container.get(part, ()))) for part in ("command", "args"))
    return Container(command, arguments, environment, mounts)


def _login(plane: ControlPlane, account: str, namespace: str, directory: Path) -> dict[str, str]:
    """Writes the files of a service account; returns the variables by which a program finds them and the API server."""
    words = ("create", "token", account, "-n", namespace, "--duration", TOKEN_LIFE)
    plane.kubectl("wait", "--for=create", "configmap/kube-root-ca.crt", "-n", namespace, check=True)
    files = {
        "token": plane.kubectl(*words, check=True).stdout.strip().encode(),
        "ca.crt": _get(plane, "configmap", "kube-root-ca.crt", namespace)["data"]["ca.crt"].encode(),
        "namespace": namespace.encode(),
    }
    host, _, port = plane.server.removeprefix("https://").rpartition(":")
    folder = _written(files, directory)
    # without KUBECONFIG, which a pod has not either
    return {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, ACCOUNT: str(folder), "KUBECONFIG": ""}


def _files(plane: ControlPlane, volume: Raw, namespace: str) -> dict[str, bytes]:
    """Returns the files of a volume; none if it is neither a ConfigMap nor a Secret."""
    if "configMap" in volume:
        data = _get(plane, "configmap", volume["configMap"]["name"], namespace)["data"]
        return {name: text.encode() for name, text in data.items()}
    if "secret" in volume:
        secret = volume["secret"]
        data = _get(plane, "secret", secret["secretName"], namespace)["data"]
        items = secret.get("items") or [{"key": name, "path": name} for name in data]
        return {each["path"]: base64.b64decode(data[each["key"]]) for each in items}
    return {}


def _written(files: dict[str, bytes], directory: Path) -> Path:
    directory.mkdir(mode=0o700, exist_ok=True)
    for name, content in files.items():
        (directory / name).write_bytes(content)
    return directory


def _get(plane: ControlPlane, kind: str, name: str, namespace: str) -> Raw:
    found: Raw = json.loads(plane.kubectl("get", kind, name, "-n", namespace, "-o", "json", check=True).stdout)
    return found
