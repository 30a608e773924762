"""The connections to worker clusters: one for each MultiKueueCluster, by its kubeconfig, and its condition Active.

Every replica has them, because its webhooks use the queues of the workers; only the leader follows and writes more.

A kubeconfig that changes replaces the connection; the time since which the worker is lost goes on. A worker that does
not answer is asked again by the reflectors of its connection, with backoff.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from api import resources
from api.objects import Key, Raw
from controller.cache.caches import Caches
from controller.cache.writes import Writer
from controller.kube import config
from controller.kube.client import Client
from controller.kube.errors import ApiError, Forbidden, NotFound, leaves
from controller.kube.reflector import Reflector
from controller.kube.size_limit import Pool
from controller.kube.store import Store, verbatim
from controller.kube.workqueue import WorkQueue
from controller.multikueue import memory
from controller.multikueue.files import FileError, Files
from controller.multikueue.remote import Remote
from core.jobs.mirrored import Mirrored
from core.multikueue import kubeconfig, profile
from core.multikueue.conditions import CONNECTED
from core.multikueue.group import Worker
from core.multikueue.kubeconfig import NOTHING, Allowed
from core.multikueue.profile import Provider
from core.wire import active
from core.wire.active import Active

log = structlog.get_logger(__name__)

SECRET_KEY: Final = "kubeconfig"
FILES_SECONDS: Final = 5.0
"""How often kubeconfig files are read again."""
LARGEST_KUBECONFIG: Final = 256 * 1024
"""In characters: some kilobytes are usual, and its YAML is parsed in one step."""
FAILED_SECONDS: Final = 30.0
"""When a cluster is connected again whose connection failed by a defect of ours."""


class UnusableError(Exception):
    """A cluster cannot be connected; ``reason`` is that of its condition."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class UnknownError(Exception):
    """It is not known yet how to connect a cluster."""


@dataclass(slots=True)
class WorkerCluster:
    """What is known of one MultiKueueCluster. ``text`` is the kubeconfig of ``remote``, or one that may not be used.

    After a failure it is not connected again ``not_before`` a time.
    """

    text: str | None = None
    remote: Remote | None = None
    task: asyncio.Task[None] | None = None
    lost_since: float = 0.0
    trouble: Active | None = None
    not_before: float = 0.0


class Clusters:
    """Keeps one ``Remote`` for each MultiKueueCluster. ``run`` it in its own task; ``lead`` when this process leads."""

    def __init__(
        self,
        caches: Caches,
        writer: Writer,
        client: Client,
        kinds: Sequence[Mirrored],
        *,
        namespace: str,
        origin: str,
        reconcile: Callable[[Remote, Key], Awaitable[float | None]],
        changed: Callable[[Remote, Key], None],
        turned: Callable[[str], None],
        any_path: bool = False,
        allowed: Allowed = NOTHING,
        profiles: Sequence[Provider] | None = None,
        requoted: Callable[[], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``reconcile`` is called for keys in the queue of a Remote, ``turned`` when a cluster is lost or back.
        ``profiles`` are the providers for ClusterProfiles; None if these are not used. ``requoted`` is called when a
        queue of a worker changes; None if queues are not followed.
        """
        self.store: Store[Raw] = caches.stores[resources.MULTIKUEUE_CLUSTERS]
        self.writer = writer
        self.client = client
        self.kinds = tuple(kinds)
        self.rows = tuple(caches.rows.values())
        self.namespace = namespace
        self.origin = origin
        self.clock = clock
        self.queue = WorkQueue[str]("multikueue-clusters", longest_seconds=30.0)
        self._reconcile = reconcile
        self._changed_there = changed
        self._turned = turned
        self._any_path = any_path
        self._allowed = allowed
        self._files = Files()
        self._workloads = caches.workloads
        self._most, together = memory.shares(memory.limit())
        self._pool = Pool(together)
        self._providers = profiles
        self._requoted = requoted
        self._profiles: Reflector[Raw] | None = None
        self._profiles_denied = ""
        self._known: dict[str, WorkerCluster] = {}
        self._missing: dict[str, float] = {}
        """Since when clusters that were asked for are not known."""
        self._secrets: dict[str, tuple[Reflector[Raw], asyncio.Task[None]]] = {}
        self._unreadable: dict[str, str] = {}
        """Why Secrets may not be read."""
        self._group: asyncio.TaskGroup | None = None
        self._leading = asyncio.Event()

    def lead(self) -> None:
        """This process leads: the state of jobs in the workers is followed, and a worker may be lost from now on."""
        now = self.clock()
        self._missing.clear()
        for cluster in self._known.values():
            cluster.lost_since = now
            if cluster.remote is not None:
                cluster.remote.lost_since = now
        self._leading.set()
        self.all_changed()

    def remotes(self) -> tuple[Remote, ...]:
        """The connections, also those that are lost."""
        return tuple(each.remote for each in self._known.values() if each.remote is not None)

    def remote(self, name: str) -> Remote | None:
        """The connection to a cluster, if there is one."""
        found = self._known.get(name)
        return found.remote if found is not None else None

    def seen(self, name: str, key: Key, of: Key | None = None) -> Worker:
        """Returns what is seen of a Workload in a cluster; ``of`` is the object of which it is one of several."""
        found = self._known.get(name)
        if found is None:
            return Worker(name, connected=False, lost_since=self._missing.setdefault(name, self.clock()))
        if found.remote is None:
            return Worker(name, connected=False, lost_since=found.lost_since)
        return found.remote.seen(key, of)

    def lost_since(self, name: str) -> float | None:
        """Since when a cluster is not connected; None if it is."""
        return self.seen(name, Key("", "")).lost_since

    def changed(self, name: str) -> None:
        """Queues this cluster."""
        self.queue.add(name)

    def all_changed(self) -> None:
        """Queues all clusters."""
        keys = self.store.keys()
        for key in keys:
            self.queue.add(key.name)

    async def run(self) -> None:
        """Connects clusters until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self.store.on_change(lambda old, new: self.changed(((new or old) or {})["metadata"]["name"]))
            group.create_task(self.queue.run(1, self.reconcile), name="multikueue-clusters")
            group.create_task(self._read_files(), name="multikueue-files")

    async def reconcile(self, name: str) -> float | None:
        """Connects a cluster as its kubeconfig says, and writes its condition. Returns when to look again, in
        seconds.
        """
        raw = self.store.get(("", name))
        if raw is None or "deletionTimestamp" in raw["metadata"]:
            await self._drop(name)
            self._forget_secrets()
            return None
        if name not in self._known:
            self._known[name] = WorkerCluster(lost_since=self._missing.pop(name, self.clock()))
        cluster = self._known[name]
        text, wait = None, cluster.not_before - self.clock()
        try:
            text = await self._kubeconfig(raw)
            if text != cluster.text and wait <= 0:
                commands = bool(kubeconfig.source(raw).get("clusterProfileRef"))
                made = connection(name, text, self._allowed._replace(commands=commands))
                await self._disconnect(cluster)
                self._connect(name, cluster, text, made)
        except UnknownError:
            self._forget_secrets()
            return None
        except UnusableError as error:
            cluster.text, cluster.trouble = text, Active(False, error.reason, f"load client config failed: {error}")
            if cluster.remote is not None:
                await self._disconnect(cluster)
                self._turned(name)
        await self._report(raw, cluster)
        self._forget_secrets()
        return wait if wait > 0 else None

    def _connect(self, name: str, cluster: WorkerCluster, text: str, made: config.Connection) -> None:
        remote = Remote(
            name,
            made,
            self.kinds,
            self.origin,
            rows=self.rows,
            may_write=lambda: self.client.may_write(),  # noqa: PLW0108 - the leader's fence is set later
            changed=self._changed_there,
            turned=lambda remote: self._remote_turned(cluster, remote),
            requoted=self._requoted,
            leading=self._leading,
            local=self._workloads.get,
            most=self._most,
            pool=self._pool,
            lost_since=cluster.lost_since,
            clock=self.clock,
        )
        cluster.text, cluster.remote, cluster.trouble = text, remote, None
        cluster.task = self._start(self._run(cluster, remote), name)
        log.info("connecting worker cluster", cluster=name, server=made.server)

    async def _run(self, cluster: WorkerCluster, remote: Remote) -> None:
        """Follows a worker. An error in what reads its answers is ours, and ends neither the process nor the others."""
        try:
            await remote.run(self._reconcile)
        except* Exception as errors:
            log.error("worker cluster failed", cluster=remote.name, exc_info=errors)
            if cluster.remote is remote:
                now, why = self.clock(), next(leaves(errors))
                cluster.lost_since = now if remote.lost_since is None else remote.lost_since
                cluster.task = cluster.remote = cluster.text = None
                cluster.trouble = Active(False, "ClientConnectionFailed", f"its answers cannot be read: {why!r}")
                cluster.not_before = now + FAILED_SECONDS
                self.queue.add(remote.name)
                self._turned(remote.name)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        assert self._group is not None
        try:
            return self._group.create_task(work, name=f"multikueue-{name}")
        except RuntimeError:  # the group ends, and this task is not cancelled yet
            work.close()
            raise

    def _remote_turned(self, cluster: WorkerCluster, remote: Remote) -> None:
        if cluster.remote is remote:
            log.info("worker cluster", cluster=remote.name, connected=remote.connected, error=remote.trouble)
            self.queue.add(remote.name)
            self._turned(remote.name)

    async def _disconnect(self, cluster: WorkerCluster) -> None:
        task, remote = cluster.task, cluster.remote
        cluster.task = cluster.remote = None
        if remote is not None:
            cluster.lost_since = self.clock() if remote.lost_since is None else remote.lost_since
        if task is not None:
            task.cancel()
            await asyncio.wait({task})  # to await the task itself would hide that this one was cancelled, too

    async def _drop(self, name: str) -> None:
        cluster = self._known.pop(name, None)
        if cluster is not None:
            await self._disconnect(cluster)
            self._missing[name] = cluster.lost_since
            self._turned(name)

    async def _report(self, raw: Raw, cluster: WorkerCluster) -> None:
        remote, found = cluster.remote, cluster.trouble
        if remote is not None and remote.connected:
            found = CONNECTED
        elif remote is not None and remote.trouble:
            found = Active(False, "ClientConnectionFailed", remote.trouble)
        patch = active.patch(raw, found, self.clock()) if found is not None and self._leading.is_set() else None
        if patch is not None:
            with contextlib.suppress(NotFound):
                key = Key("", raw["metadata"]["name"])
                await self.writer.patch(resources.MULTIKUEUE_CLUSTERS, key, patch, subresource="status")

    async def _kubeconfig(self, raw: Raw) -> str:
        place = kubeconfig.source(raw)
        if place.get("clusterProfileRef"):
            return self._of_profile(place["clusterProfileRef"]["name"])
        found = place.get("kubeConfig")
        if not found:
            raise UnusableError("BadKubeConfig", "kubeconfig reference is nil")
        if found.get("locationType", "Secret") == "Secret":
            return self._of_secret(found["location"])
        return await self._of_file(found["location"])

    def _of_secret(self, name: str) -> str:
        if name not in self._secrets:
            self._follow(name)
        reflector, _ = self._secrets[name]
        if not reflector.synced.is_set():
            if name in self._unreadable:
                add = f"add {name} to the chart's value multiKueue.secrets"
                raise UnusableError(
                    "BadKubeConfig", f'Secret "{name}" may not be read: {add}. {self._unreadable[name]}'
                )
            raise UnknownError
        secret = reflector.store.get((self.namespace, name))
        if secret is None:
            raise UnusableError("BadKubeConfig", f'Secret "{name}" not found')
        data = (secret.get("data") or {}).get(SECRET_KEY)
        if data is None:
            raise UnusableError("BadKubeConfig", f'key "{SECRET_KEY}" not found in secret "{name}"')
        try:
            return base64.b64decode(data).decode()
        except ValueError as error:
            raise UnusableError("BadKubeConfig", f'key "{SECRET_KEY}" of secret "{name}": {error}') from None

    def _of_profile(self, name: str) -> str:
        if self._providers is None:
            raise UnusableError(
                "MultiKueueClusterProfileFeatureDisabled", "MultiKueueClusterProfile feature gate is disabled"
            )
        if self._profiles is None:
            self._profiles = self._follow_profiles()
        if not self._profiles.synced.is_set():
            if self._profiles_denied:
                raise UnusableError("BadClusterProfile", self._profiles_denied)
            raise UnknownError
        found = self._profiles.store.get((self.namespace, name))
        if found is None:
            resource = resources.CLUSTER_PROFILES
            raise UnusableError("BadClusterProfile", f'{resource.kind}.{resource.group} "{name}" not found')
        document, wrong = profile.kubeconfig(found, self._providers)
        if wrong:
            raise UnusableError("BadClusterProfile", wrong)
        return json.dumps(document, sort_keys=True)

    def _follow_profiles(self) -> Reflector[Raw]:
        """Follows the ClusterProfiles of the namespace, from the first MultiKueueCluster on that refers to one."""
        store: Store[Raw] = Store(resources.CLUSTER_PROFILES.plural, verbatim)
        reflector = Reflector(
            self.client,
            resources.CLUSTER_PROFILES,
            store,
            namespace=self.namespace,
            optional=True,
            on_synced=self.all_changed,
            on_connection=self._profiles_read,
        )
        store.listen(lambda old, new: self.all_changed())
        self._start(reflector.run(), "clusterprofiles")
        return reflector

    def _profiles_read(self, error: ApiError | None) -> None:
        if isinstance(error, Forbidden) and not self._profiles_denied:
            self._profiles_denied = str(error)
            self.all_changed()
        elif error is None:
            self._profiles_denied = ""

    async def _of_file(self, path: str) -> str:
        try:
            return await self._files.read(path, LARGEST_KUBECONFIG, any_path=self._any_path)
        except FileError as error:
            raise UnusableError("BadKubeConfig", str(error)) from None
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise UnusableError("BadKubeConfig", f"open {path}: {why}") from None
        except UnicodeDecodeError as error:
            raise UnusableError("BadKubeConfig", str(error)) from None

    def _follow(self, secret: str) -> None:
        """Follows one Secret; all others of the namespace are not read."""
        store: Store[Raw] = Store(f"secret-{secret}", verbatim)
        reflector = Reflector(
            self.client,
            resources.SECRETS,
            store,
            namespace=self.namespace,
            field_selector=f"metadata.name={secret}",
            on_synced=self.all_changed,
            on_connection=lambda error: self._secret_read(secret, error),
        )
        store.listen(lambda old, new: self.all_changed())
        task = self._start(reflector.run(), f"secret-{secret}")
        self._secrets[secret] = reflector, task

    def _secret_read(self, secret: str, error: ApiError | None) -> None:
        if isinstance(error, Forbidden) and secret not in self._unreadable:
            self._unreadable[secret] = str(error)
            self.all_changed()
        elif error is None:
            self._unreadable.pop(secret, None)

    def _forget_secrets(self) -> None:
        used = {(kubeconfig.source(raw).get("kubeConfig") or {}).get("location") for raw in self.store}
        for name in [name for name in self._secrets if name not in used]:
            _, task = self._secrets.pop(name)
            self._unreadable.pop(name, None)
            task.cancel()

    async def _read_files(self) -> None:
        while True:
            await asyncio.sleep(FILES_SECONDS)
            for raw in self.store:
                if (kubeconfig.source(raw).get("kubeConfig") or {}).get("locationType") == "Path":
                    self.queue.add(raw["metadata"]["name"])


def connection(name: str, text: str, allowed: Allowed = NOTHING) -> config.Connection:
    """Returns the connection that the kubeconfig of a worker describes. Raises ``UnusableError``."""
    path, reason = Path(f"kubeconfig of {name}"), "BadRestConfig" if allowed.commands else "InsecureKubeConfig"
    if len(text) > LARGEST_KUBECONFIG:
        raise UnusableError(reason, f"more than {LARGEST_KUBECONFIG} characters are no kubeconfig")
    try:
        document = config.parsed(path, text)
        wrong = kubeconfig.insecure(document, allowed)
        if wrong:
            raise UnusableError(reason, wrong)
        return config.from_documents([(path, document)])
    except config.ConfigError as error:
        raise UnusableError(reason, f"failed to parse kubeconfig(apiconfig): {error}") from None
