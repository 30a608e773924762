"""Maintains the CA, the serving certificate and every client's bundle: one level-based pass, repeated.

A pass reads the store, takes the step of `certs.plan`, renews the leaf when it is due, and publishes the bundle where
it is missing. After any failure the last valid certificate is still served and the next pass tries again. Any number of
processes may run a keeper on one store: writes are compare-and-swap, and the same data leads all of them to the same
step.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

import structlog

from certs import pki, record
from certs.live import LiveContext
from certs.pki import Certificate, CertificateError, KeyPair
from certs.plan import RenewalPolicy, RotationStep, decide
from certs.record import CertificateRecord
from certs.store import BundleTarget, CertificateStore

log = structlog.get_logger("seiretsu.certs")

PASS_EVERY = 4.0
"""Seconds between passes: a bundle that was changed or removed is restored within 5. The wall clock decides what is
due, not this timer, so a machine that was suspended during a renewal renews at its first pass.
"""

FIRST_PAUSE, PAUSE_GROWTH = 0.1, 1.25
"""Seconds after a pass for which the keeper was woken, and their growth while it is woken again, up to `PASS_EVERY`:
two programs that write their bundles into one object would otherwise do so as fast as the API server answers. A bundle
that is lost five times in succession is still restored within a second.
"""

ATTEMPTS = 20


class Keeper:
    """Runs the passes for one serving process. `names` are the host names of clients, the most important one first.

    `steps` counts the steps that this process has stored, `writes` how often it wrote a target, `restored` how often it
    repaired what was stored.

    `published`: when last read, every target had the bundle; an API server that does not answer since does not change
    that.
    """

    def __init__(
        self,
        store: CertificateStore,
        live: LiveContext,
        names: Sequence[str],
        *,
        targets: Sequence[BundleTarget] = (),
        clock: Callable[[], datetime],
        policy: RenewalPolicy | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.store = store
        self.live = live
        self.names = tuple(names)
        self.targets = list(targets)
        self.clock = clock
        self.policy = policy or RenewalPolicy()
        self.record: CertificateRecord | None = None  # the last good one
        self.published = False
        self.steps: Counter[RotationStep] = Counter()
        self.writes = 0
        self.restored = 0
        self._issuer: Certificate | None = None
        self._woken = asyncio.Event()
        self._sleep = sleep

    @property
    def bundle(self) -> bytes:
        """The certificates that clients must trust; empty before the first pass."""
        return self.record.bundle if self.record else b""

    def add_target(self, target: BundleTarget) -> None:
        """Keep another client in step, from the next pass on; until then the bundle does not count as published."""
        self.targets.append(target)
        self.published = False

    def wake(self) -> None:
        """Make the next pass now, e.g. because a watched Secret or webhook configuration changed."""
        self._woken.set()

    async def run(self) -> None:
        """Pass after pass until cancelled. A pass that fails is logged and tried again: it never ends the server."""
        pause = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PASS_EVERY - pause):
                    await self._woken.wait()
            pause = min(max(PAUSE_GROWTH * pause, FIRST_PAUSE), PASS_EVERY) if self._woken.is_set() else 0.0
            self._woken.clear()
            try:
                await self.tick()
            except Exception as error:
                log.warning("Certificates could not be checked, the last valid one is still served", error=str(error))
            if pause:
                await self._sleep(pause)

    async def tick(self) -> None:
        """Runs one pass. Raises the errors of the store; after any error the live context serves what it served
        before.
        """
        carried = self.bundle
        published = bool(carried) and await self._carried(carried)
        self.published = self.published and published
        self.record = await self._settle(published=published)
        if not self._changes_issuer(self.record):
            self._renew_leaf(self.record)  # nothing that a client would have to learn first
        if not published or self.bundle != carried:
            await self._publish()
        self.published = True
        self._renew_leaf(self.record)

    async def _settle(self, *, published: bool) -> CertificateRecord:
        """Read, step and write until the stored record asks for nothing more; returns the record as stored."""
        for _ in range(ATTEMPTS):
            content = await self.store.read()
            found, complaints = record.read(content.data)
            now = self.clock()
            repaired = self._repaired(found, complaints, now)
            step = decide(repaired.stored, now, self.policy, published=published and repaired.bundle == self.bundle)
            wanted = record.after(repaired, step, now, self.policy)
            if wanted.data() == record.ours(content.data):
                return wanted
            if await self.store.write(wanted.data(), content.version):
                self.steps[step] += 1
                self.restored += repaired is not found
                log.info("Stored the CA", step=step.name, trusted=len(pki.read_certificates(wanted.bundle)))
                if step in (RotationStep.KEEP, RotationStep.PRUNE, RotationStep.RECORD_PUBLICATION):
                    return wanted
                published = False
        raise CertificateError(f"the CA could not be stored in {ATTEMPTS} attempts: other writers were always first")

    def _repaired(self, found: CertificateRecord, complaints: Sequence[str], now: datetime) -> CertificateRecord:
        """Returns what was found, repaired from memory: a lost CA is restored, and the CA of the leaf in use stays
        trusted.
        """
        if complaints:
            log.error("Part of the stored CA cannot be used", complaints=complaints)
        if self.record is None:
            return found
        if complaints or found.signing is None:
            log.warning("The stored CA is missing or invalid: storing the one in use again")
            return self.record
        if now < found.signing.certificate.not_before and self.record.signs_at(now):
            log.warning(
                "The stored CA is not valid yet, because a clock was wrong: storing the one in use again",
                valid_from=found.signing.certificate.not_before.isoformat(),
                now=now.isoformat(),
            )
            return self.record.retaining(found.signing.certificate, now)
        in_service = self._issuer if self.live.pair is not None and self.live.pair.certificate.valid_at(now) else None
        if in_service is not None and now < in_service.not_after and not found.trusts(in_service):
            log.warning("The stored CA was replaced: the one in use stays trusted too")
            return found.retaining(in_service, now)
        return found

    def _renew_leaf(self, current: CertificateRecord) -> None:
        authority, now = current.signing, self.clock()
        if authority is None or not self._leaf_due(authority, now):
            return
        leaf = pki.new_leaf(authority, self.names, now, self.policy.leaf_life)
        self.live.load(leaf, current.bundle, self.names[0], now)
        self._issuer = authority.certificate
        log.info("Serving a new certificate", names=self.names, expires=leaf.certificate.not_after.isoformat())

    def _changes_issuer(self, current: CertificateRecord) -> bool:
        """A good leaf is in service, of another CA than the one that signs now."""
        if self.live.pair is None or self._issuer is None or current.signing is None:
            return False
        if self._issuer.fingerprint == current.signing.certificate.fingerprint:
            return False
        return self.live.pair.certificate.valid_at(self.clock())

    def _leaf_due(self, authority: KeyPair, now: datetime) -> bool:
        if self.live.pair is None or self._issuer is None:
            return True
        if self._issuer.fingerprint != authority.certificate.fingerprint:
            return True
        served = self.live.pair.certificate
        return not served.valid_at(now) or now >= served.due_at(self.policy.renew_fraction)

    async def _carried(self, bundle: bytes) -> bool:
        """Every target has just been read and carries the bundle."""
        for target in self.targets:
            if not await target.carries(bundle):
                return False
        return True

    async def _publish(self) -> None:
        for target in self.targets:
            if not await target.carries(self.bundle):
                await target.publish(self.bundle)
                self.writes += 1
                log.info("Published the CA bundle", target=target.name)
