"""The address and the credentials for the API server: kubeconfig files and the pod's service account.

Static credentials (certificates, tokens, passwords) are read here, and ``exec`` commands are run; ``auth-provider``
plugins (``oidc``) go through the ``kubernetes`` package, which need not be installed and is imported only if needed: it
costs half a second and tens of megabytes.
"""

import asyncio
import base64
import os
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote

import yaml

from api.objects import Raw
from controller.kube import command
from controller.kube.errors import Unreachable
from core.wire.timestamps import maybe_epoch

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
SERVICE_ACCOUNT_VARIABLE = "SEIRETSU_SERVICE_ACCOUNT"
"""Names another directory with these files, where a pod's container runs as a process of a machine."""
TOKEN_LIFE_SECONDS = 60.0
PLUGIN_LIFE_SECONDS = 300.0
"""How long the credentials of a plugin are used if it gives no end of them."""
LEAST_LIFE_SECONDS = 10.0
"""A plugin whose clock is wrong, or that gives credentials that have ended, is run no more often than this, and after a
401.
"""


class ConfigError(Exception):
    """The connection settings are not usable; the message names the file and the field."""


class Credentials(Protocol):
    """Returns the ``Authorization`` header; ``fresh`` after a 401, when the present one was refused."""

    async def authorization(self, *, fresh: bool = False) -> str | None:
        """Returns the header's value, or None if the TLS certificate is the only credential."""


@dataclass(frozen=True, slots=True)
class StaticCredentials:
    """A header that never changes, or none."""

    header: str | None = None

    async def authorization(self, *, fresh: bool = False) -> str | None:
        """Returns the fixed header; a refused one cannot be renewed."""
        return self.header


@dataclass(slots=True)
class FileToken:
    """A bearer token in a file that something else renews (the kubelet does, hourly): read again every minute."""

    path: Path
    clock: Callable[[], float] = time.monotonic
    _header: str | None = None
    _read_at: float = float("-inf")

    async def authorization(self, *, fresh: bool = False) -> str | None:
        """The current token. A file that is gone for a moment leaves the last one in use."""
        now = self.clock()
        if fresh or now - self._read_at >= TOKEN_LIFE_SECONDS:
            try:
                token = self.path.read_text().strip()
            except OSError:
                token = ""
            if token:
                self._header, self._read_at = f"Bearer {token}", now
        return self._header


class Renewed(NamedTuple):
    """The header that a plugin gives, and for how many seconds it is used."""

    header: str | None
    seconds: float = PLUGIN_LIFE_SECONDS


@dataclass(slots=True)
class PluginCredentials:
    """What the ``exec`` or ``auth-provider`` plugin of a kubeconfig user gives: ``renew`` runs it."""

    renew: Callable[[], Awaitable[Renewed]]
    clock: Callable[[], float] = time.monotonic
    _header: str | None = None
    _read_at: float = float("-inf")
    _ends_at: float = float("-inf")
    _failed_at: float = float("-inf")
    _failure: str = ""
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def authorization(self, *, fresh: bool = False) -> str | None:
        """Returns the plugin's token, which is renewed when it ends and after a 401. Raises ``Unreachable`` if the
        plugin fails; requests that waited for the same run share its result.
        """
        asked = self.clock()
        async with self._lock:
            if asked < self._failed_at:
                raise Unreachable(0, "Credentials", self._failure)
            if asked >= self._ends_at or (fresh and asked >= self._read_at):
                try:
                    self._header, seconds = await self.renew()
                except Exception as error:
                    self._failed_at, self._failure = self.clock(), f"no credentials: {error or type(error).__name__}"
                    raise Unreachable(0, "Credentials", self._failure) from error
                self._read_at = self.clock()
                self._ends_at = self._read_at + max(seconds, LEAST_LIFE_SECONDS)
            return self._header


class Overrides(NamedTuple):
    """What replaces settings of a kubeconfig, like the options of kubectl with these names. Empty: nothing."""

    cluster: str = ""
    user: str = ""
    server: str = ""
    token: str = ""
    tls_server_name: str = ""
    certificate_authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    insecure_skip_tls_verify: bool = False

    def of_cluster(self, cluster: Raw) -> Raw:
        """Returns an entry of ``clusters`` with what replaces its fields."""
        ca = self.certificate_authority
        given = {
            "server": self.server,
            "tls-server-name": self.tls_server_name,
            "certificate-authority": str(Path(ca).absolute()) if ca else "",
            "insecure-skip-tls-verify": self.insecure_skip_tls_verify,
        }
        kept = {key: value for key, value in cluster.items() if not (ca and key == "certificate-authority-data")}
        return kept | {key: value for key, value in given.items() if value}

    def of_user(self, user: Raw) -> Raw:
        """Returns an entry of ``users`` with what replaces its fields; a token replaces all other credentials but a
        certificate.
        """
        files = {"client-certificate": self.client_certificate, "client-key": self.client_key}
        given = {key: str(Path(value).absolute()) for key, value in files.items() if value}
        gone = {f"{key}-data" for key in given}
        if self.token:
            gone |= {"auth-provider", "exec", "tokenFile", "username", "password"}
            given["token"] = self.token
        return {key: value for key, value in user.items() if key not in gone} | given


NOTHING = Overrides()


class Impersonation(NamedTuple):
    """The account that a client acts as (impersonation): its own rights must allow that."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, str], ...] = ()

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of each request."""
        named = [("Impersonate-User", self.user), *(("Impersonate-Group", group) for group in self.groups)]
        named += [("Impersonate-Uid", self.uid)] if self.uid else []
        return (*named, *((f"Impersonate-Extra-{quote(key, safe='')}", value) for key, value in self.extra))


@dataclass(frozen=True, slots=True)
class Connection:
    """All settings of a client. ``tls`` is None for plain HTTP; ``namespace`` is that of the pod or the context;
    ``account`` is whom the client acts as, None for its own account.
    """

    server: str
    tls: ssl.SSLContext | None = None
    credentials: Credentials = field(default_factory=StaticCredentials)
    namespace: str = "default"
    server_name: str | None = None
    proxy: str | None = None
    account: Impersonation | None = None


def load(
    kubeconfig: str | Path | None = None, context: str | None = None, overrides: Overrides = NOTHING
) -> Connection:
    """Returns the connection that kubectl would use: the file given, else ``KUBECONFIG``, else the pod's account, else
    ``~/.kube/config``. Nothing replaces settings of the pod's account.
    """
    if kubeconfig is not None:
        return from_kubeconfig([Path(kubeconfig)], context, overrides)
    named = [Path(name) for name in os.environ.get("KUBECONFIG", "").split(os.pathsep) if name]
    if named:
        return from_kubeconfig(named, context, overrides)
    account = Path(os.environ.get(SERVICE_ACCOUNT_VARIABLE) or SERVICE_ACCOUNT)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists():
        return in_cluster(account)
    return from_kubeconfig([Path.home() / ".kube" / "config"], context, overrides)


def in_cluster(account: Path = SERVICE_ACCOUNT) -> Connection:
    """The pod's service account: token and CA from files, the address from the environment the kubelet sets."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("KUBERNETES_SERVICE_HOST is not set: this is no pod; give a kubeconfig")
    if not (account / "token").exists():
        raise ConfigError(f"{account / 'token'} does not exist: mount a service account token, or give a kubeconfig")
    tls = _context(ca_file=account / "ca.crt")
    namespace = (account / "namespace").read_text().strip() if (account / "namespace").exists() else "default"
    address = f"[{host}]" if ":" in host else host
    return Connection(f"https://{address}:{port}", tls, FileToken(account / "token"), namespace)


def from_kubeconfig(files: list[Path], context: str | None = None, overrides: Overrides = NOTHING) -> Connection:
    """The connection of a context, from one or several kubeconfig files; as kubectl merges them, the first mention
    wins.
    """
    documents = [(path, _read(path)) for path in files if path.exists()]
    if not documents:
        raise ConfigError(f"{', '.join(map(str, files))}: no such kubeconfig file")
    return from_documents(documents, context, overrides)


def from_documents(
    documents: list[tuple[Path, Raw]], context: str | None = None, overrides: Overrides = NOTHING
) -> Connection:
    """The connection of a context, from kubeconfigs that were read already; messages name the path of each."""
    named = context or next((doc["current-context"] for _, doc in documents if doc.get("current-context")), None)
    if not named:
        raise ConfigError(f"{documents[0][0]}: no current-context: choose one of its contexts")
    _, chosen = _entry(documents, "contexts", "context", named)
    origin, cluster = _entry(documents, "clusters", "cluster", overrides.cluster or str(chosen.get("cluster", "")))
    named_user = overrides.user or chosen.get("user")
    home, user = _entry(documents, "users", "user", named_user) if named_user else (origin, {})
    cluster, user = overrides.of_cluster(cluster), overrides.of_user(user)
    server = str(cluster.get("server") or "")
    if not server.startswith(("https://", "http://")):
        raise ConfigError(f"{origin}: clusters[{chosen.get('cluster')!r}].server: not an http(s) address: {server!r}")
    tls = _tls(origin, cluster, home, user) if server.startswith("https://") else None
    return Connection(
        server.rstrip("/"),
        tls,
        _credentials(documents, named, origin, cluster, home, user, tls),
        chosen.get("namespace") or "default",
        cluster.get("tls-server-name"),
        cluster.get("proxy-url"),
        Impersonation(str(user["as"]), tuple(map(str, user.get("as-groups") or ())), str(user.get("as-uid") or ""))
        if user.get("as")
        else None,
    )


def _read(path: Path) -> Raw:
    try:
        return parsed(path, path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not readable as kubeconfig: {error}") from error


def parsed(path: Path, text: str) -> Raw:
    """The kubeconfig in a text; ``path`` is what messages call it."""
    try:
        document = yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not readable as kubeconfig: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not a kubeconfig: a mapping is expected")
    return document


def _entry(documents: list[tuple[Path, Raw]], section: str, field_name: str, name: str) -> tuple[Path, Raw]:
    seen: list[str] = []
    for path, document in documents:
        for item in document.get(section) or ():
            if not isinstance(item, dict):
                raise ConfigError(f"{path}: {section}: each entry must be a mapping, found {item!r}")
            if item.get("name") == name:
                return path, item.get(field_name) or {}
            seen.append(str(item.get("name")))
    raise ConfigError(f"{documents[0][0]}: {section}: no {name!r}, only {', '.join(seen) or 'nothing'}")


def _tls(origin: Path, cluster: Raw, home: Path, user: Raw) -> ssl.SSLContext:
    ca_file = _beside(origin, cluster.get("certificate-authority"))
    ca_data = _decoded(origin, "certificate-authority-data", cluster)
    tls = _context(ca_file=ca_file, ca_data=ca_data, verify=not cluster.get("insecure-skip-tls-verify"))
    cert_file, key_file = _beside(home, user.get("client-certificate")), _beside(home, user.get("client-key"))
    cert_data, key_data = _decoded(home, "client-certificate-data", user), _decoded(home, "client-key-data", user)
    if not (cert_file or cert_data):
        return tls
    try:
        _load_certificate(tls, cert_file, key_file, cert_data, key_data)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{home}: client certificate and key do not load: {error}") from error
    return tls


def _load_certificate(
    tls: ssl.SSLContext, cert_file: Path | None, key_file: Path | None, cert_data: bytes | None, key_data: bytes | None
) -> None:
    with tempfile.TemporaryDirectory() as scratch:  # SSLContext reads files only; they are gone before we return
        if cert_data:
            cert_file = Path(scratch, "client.crt")
            cert_file.write_bytes(cert_data)
        if key_data:
            key_file = Path(scratch, "client.key")
            key_file.touch(mode=0o600)
            key_file.write_bytes(key_data)
        tls.load_cert_chain(str(cert_file), str(key_file) if key_file else None)


def _credentials(
    documents: list[tuple[Path, Raw]],
    context: str,
    origin: Path,
    cluster: Raw,
    home: Path,
    user: Raw,
    tls: ssl.SSLContext | None,
) -> Credentials:
    if user.get("auth-provider"):
        files = tuple(path for path, _ in documents)
        return PluginCredentials(lambda: _of_auth_provider(files, context, tls))
    if user.get("exec"):
        return PluginCredentials(lambda: _of_command(user["exec"], origin, cluster, home, tls))
    if token_file := _beside(home, user.get("tokenFile")):
        return FileToken(token_file)
    if user.get("token"):
        return StaticCredentials(f"Bearer {str(user['token']).strip()}")
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password') or ''}".encode()
        return StaticCredentials(f"Basic {base64.b64encode(pair).decode()}")
    return StaticCredentials()


async def _of_command(run: Raw, origin: Path, cluster: Raw, home: Path, tls: ssl.SSLContext | None) -> Renewed:
    """Runs the ``exec`` command of a user. A certificate that it prints is added to ``tls``."""
    info = command.cluster_info(cluster, origin.parent) | ({"config": run["config"]} if run.get("config") else {})
    found = await command.credential(run, info, home.parent)
    certificate, key, token = (found.get(each) for each in ("clientCertificateData", "clientKeyData", "token"))
    if bool(certificate) != bool(key) or not (certificate or token):
        raise command.CommandError(f"{run['command']}: printed no token, and no certificate with its key")
    if certificate and key and tls is not None:
        _load_certificate(tls, None, None, certificate.encode(), key.encode())
    header, ends = f"Bearer {str(token).strip()}" if token else None, maybe_epoch(found.get("expirationTimestamp"))
    return Renewed(header) if ends is None else Renewed(header, ends - time.time())


async def _of_auth_provider(files: tuple[Path, ...], context: str, tls: ssl.SSLContext | None) -> Renewed:
    try:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import kube_config
    except ImportError:
        raise ConfigError("auth-provider needs the package kubernetes: pip install 'seiretsu[kubernetes]'") from None

    found = type.__call__(Configuration)
    names = os.pathsep.join(str(path) for path in files)
    await kube_config.load_kube_config(names, context, found, persist_config=False)  # type: ignore[no-untyped-call]
    if found.cert_file and tls is not None:
        tls.load_cert_chain(found.cert_file, found.key_file)
    return Renewed(found.api_key.get("authorization") or found.api_key.get("BearerToken"))


def _beside(origin: Path, name: str | None) -> Path | None:
    """Paths in a kubeconfig are relative to it."""
    return origin.parent / name if name else None


def _decoded(origin: Path, name: str, entry: Raw) -> bytes | None:
    if not entry.get(name):
        return None
    try:
        return base64.b64decode(entry[name], validate=True)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{origin}: {name}: not base64: {error}") from error


def _context(*, ca_file: Path | None = None, ca_data: bytes | None = None, verify: bool = True) -> ssl.SSLContext:
    try:
        tls = ssl.create_default_context(
            cafile=str(ca_file) if ca_file and not ca_data else None, cadata=ca_data.decode() if ca_data else None
        )
    except (OSError, ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(f"certificate authority {ca_file or '(inline)'} does not load: {error}") from error
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Python 3.13's default refuses CAs that kubeadm and kubectl accept
    if not verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls
