"""Which kubeconfigs of worker clusters are used: Kueue's rules. Whoever may write the Secret must not be able to run
programs or read files with the rights of the controller. Two rules are stricter: see ``Allowed``.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import PurePosixPath
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from core.model import Raw

ALLOWED: Final = PurePosixPath("/etc/multikueue/kubeconfigs")
_HOST: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Allowed(NamedTuple):
    """What a kubeconfig may ask for: by default none of it. ``commands`` are those of the Configuration; ``http`` sends
    the token in clear; with ``proxy`` whoever writes the kubeconfig chooses where the manager connects to.
    """

    commands: bool = False
    http: bool = False
    proxy: bool = False


NOTHING: Final = Allowed()


def source(cluster: Raw) -> Raw:
    """Where a MultiKueueCluster says that its kubeconfig is."""
    found: Raw = (cluster.get("spec") or {}).get("clusterSource") or {}
    return found


def insecure(document: Raw, allowed: Allowed = NOTHING) -> str:
    """Returns why a kubeconfig is not used, '' if it may be."""
    if wrong := _misshapen(document):
        return wrong
    for entry in document.get("users") or ():
        user = entry.get("user") or {}
        for field, text in (
            ("tokenFile", "tokenFile is not allowed"),
            ("username", "basic auth is not allowed"),
            ("password", "basic auth is not allowed"),
            ("exec", "exec plugins are not allowed"),
            ("auth-provider", "auth providers are not allowed"),
            ("client-certificate", "client-certificate file paths are not allowed, use client-certificate-data"),
            ("client-key", "client-key file paths are not allowed, use client-key-data"),
        ):
            if user.get(field) and not (allowed.commands and field == "exec"):
                return text
    for entry in document.get("clusters") or ():
        name, cluster = entry.get("name"), entry.get("cluster") or {}
        if cluster.get("insecure-skip-tls-verify"):
            return f"insecure TLS verification is not allowed for cluster {name}"
        if cluster.get("certificate-authority"):
            path = "certificate-authority file paths are not allowed, use certificate-authority-data"
            return f"{path} for cluster {name}"
        if not cluster.get("server"):
            return f"server URL is required for cluster {name}"
        if not _is_host(str(cluster["server"])):
            return "untrusted server endpoint"
        if not allowed.http and not str(cluster["server"]).lower().startswith("https://"):
            why = "which sends the credentials in clear: use https, or set multiKueue.kubeConfigs.allowHttp"
            return f"server {cluster['server']} of cluster {name} is not https, {why}"
        if not allowed.proxy and cluster.get("proxy-url"):
            why = "is not allowed unless multiKueue.kubeConfigs.allowProxyUrl is set"
            return f"proxy-url {cluster['proxy-url']} of cluster {name} {why}"
    return ""


def outside(path: str, resolved: str, allowed: PurePosixPath = ALLOWED) -> str:
    """Returns why a kubeconfig file is not read, '' if it may be; ``resolved`` is the path without symbolic links."""
    refused = "kubeconfig path is not under the allowed prefix"
    if not path:
        return "kubeconfig path must not be empty"
    if ".." in PurePosixPath(path).parts:
        return f'{refused}: path contains ".."'
    if not PurePosixPath(path).is_absolute():
        return f"{refused}: path must be absolute"
    if not PurePosixPath(resolved).is_relative_to(allowed):
        return f'{refused}: "{resolved}" is not under "{allowed}"'
    return ""


def _misshapen(document: Raw) -> str:
    """Which part of a kubeconfig is no list or no mapping although it must be one."""
    for section, field in (("users", "user"), ("clusters", "cluster"), ("contexts", "context")):
        entries = document.get(section)
        if entries is not None and not isinstance(entries, list):
            return f"not a kubeconfig: {section} must be a list"
        for place, entry in enumerate(entries or ()):
            if not isinstance(entry, dict):
                return f"not a kubeconfig: {section}[{place}] must be a mapping"
            if not isinstance(entry.get(field) or {}, dict):
                return f"not a kubeconfig: {section}[{place}].{field} must be a mapping"
    return ""


def _is_host(server: str) -> bool:
    try:
        host = urlsplit(server.lower()).hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return len(host) <= 253 and _HOST.fullmatch(host) is not None
    return True
