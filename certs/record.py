"""The stored CA: its form as a Secret's data, parsing it, and applying one step.

A Secret and a directory's file use the same names: `ca.crt` is the bundle that clients trust, `signing.crt` and
`signing.key` the CA that signs, `next.crt` and `next.key` the next CA, `rotation.json` the times of the steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from certs import pki
from certs.pki import Certificate, CertificateError, KeyPair
from certs.plan import RenewalPolicy, RotationStep, Stored, Validity

BUNDLE = "ca.crt"
SIGNING = "signing"
NEXT = "next"
ROTATION = "rotation.json"
KEYS = (BUNDLE, ROTATION, *(f"{name}.{part}" for name in (SIGNING, NEXT) for part in ("crt", "key")))


@dataclass(frozen=True, slots=True)
class CertificateRecord:
    """The CAs with their keys; `retired` are certificates that are trusted still but sign no more."""

    signing: KeyPair | None = None
    next: KeyPair | None = None
    retired: tuple[Certificate, ...] = ()
    published_at: datetime | None = None
    promoted_at: datetime | None = None

    @property
    def bundle(self) -> bytes:
        """Returns what clients must trust: every CA of the record, in the same order in every replica."""
        pairs = [pair.certificate for pair in (self.signing, self.next) if pair is not None]
        return pki.bundle_pem([*pairs, *self.retired])

    @property
    def stored(self) -> Stored:
        """The record as the table of `certs.plan` reads it."""
        return Stored(
            signing=_validity(self.signing.certificate) if self.signing else None,
            next=_validity(self.next.certificate) if self.next else None,
            retired=tuple(_validity(certificate) for certificate in self.retired),
            published_at=self.published_at,
            promoted_at=self.promoted_at,
        )

    def signs_at(self, now: datetime) -> bool:
        """There is a CA that signs, and it is valid `now`."""
        return self.signing is not None and self.signing.certificate.valid_at(now)

    def trusts(self, certificate: Certificate) -> bool:
        """`certificate` is one of the bundle's."""
        return certificate.fingerprint in {found.fingerprint for found in pki.read_certificates(self.bundle)}

    def retaining(self, certificate: Certificate, now: datetime) -> CertificateRecord:
        """Returns the record with `certificate` trusted as well, for as long as a CA that was replaced `now` would
        be.
        """
        if self.trusts(certificate):
            return self
        return replace(self, retired=(*self.retired, certificate), promoted_at=now)

    def data(self) -> dict[str, bytes]:
        """The form it is stored in."""
        data = {BUNDLE: self.bundle}
        for name, pair in ((SIGNING, self.signing), (NEXT, self.next)):
            if pair is not None:
                data[f"{name}.crt"] = pair.chain_pem
                data[f"{name}.key"] = pair.key_pem
        moments = {"publishedAt": self.published_at, "promotedAt": self.promoted_at}
        data[ROTATION] = json.dumps({name: at.isoformat() for name, at in moments.items() if at is not None}).encode()
        return data


def ours(data: Mapping[str, bytes]) -> dict[str, bytes]:
    """Returns the part of a store's data that is the record; a Secret may have other keys too."""
    return {key: data[key] for key in KEYS if key in data}


def read(data: Mapping[str, bytes]) -> tuple[CertificateRecord, list[str]]:
    """Parses the stored data; returns the record and a sentence for each part that is not usable (and left out).

    Never raises: an invalid part counts as absent, valid parts are kept, so that leaves in use can still be verified.
    """
    complaints: list[str] = []
    signing = _read_authority(data, SIGNING, complaints)
    following = _read_authority(data, NEXT, complaints)
    own = {pair.certificate.fingerprint for pair in (signing, following) if pair is not None}
    try:
        bundled = pki.read_certificates(data.get(BUNDLE, b""))
    except CertificateError as error:
        complaints.append(f"{BUNDLE}: {error}")
        bundled = ()
    retired = tuple(found for found in bundled if found.is_authority and found.fingerprint not in own)
    published_at, promoted_at = _read_moments(data.get(ROTATION, b"{}"), complaints)
    return CertificateRecord(signing, following, retired, published_at if following else None, promoted_at), complaints


def after(record: CertificateRecord, step: RotationStep, now: datetime, policy: RenewalPolicy) -> CertificateRecord:
    """Returns the record after `step`. Creates keys if the step needs a new CA."""
    match step:
        case RotationStep.KEEP:
            return record
        case RotationStep.CREATE:
            old = (record.signing.certificate,) if record.signing else ()
            retired = tuple(found for found in (*old, *record.retired) if now < found.not_after)
            return CertificateRecord(
                pki.new_authority(now, policy.authority_life), None, retired, None, now if retired else None
            )
        case RotationStep.START_ROTATION:
            return replace(record, next=pki.new_authority(now, policy.authority_life), published_at=None)
        case RotationStep.RECORD_PUBLICATION:
            return replace(record, published_at=now)
        case RotationStep.PROMOTE:
            old = (record.signing.certificate,) if record.signing else ()
            return CertificateRecord(record.next, None, (*old, *record.retired), None, now)
        case RotationStep.PRUNE:
            if record.promoted_at is None or now - record.promoted_at >= policy.retire_after:
                return replace(record, retired=(), promoted_at=None)
            return replace(record, retired=tuple(found for found in record.retired if now < found.not_after))
    assert_never(step)


def _read_authority(data: Mapping[str, bytes], name: str, complaints: list[str]) -> KeyPair | None:
    chain, key = data.get(f"{name}.crt", b""), data.get(f"{name}.key", b"")
    if not chain and not key:
        return None
    try:
        pair = pki.read_pair(chain, key)
    except CertificateError as error:
        complaints.append(f"{name}.crt, {name}.key: {error}")
        return None
    if not pair.certificate.is_authority:
        complaints.append(f"{name}.crt: not a CA certificate")
        return None
    return pair


def _read_moments(text: bytes, complaints: list[str]) -> tuple[datetime | None, datetime | None]:
    try:
        moments = json.loads(text)
        found = [moments.get(name) for name in ("publishedAt", "promotedAt")]
        published_at, promoted_at = (datetime.fromisoformat(value) if value else None for value in found)
        if any(at is not None and at.tzinfo is None for at in (published_at, promoted_at)):
            raise ValueError("a time without its zone")
    except (ValueError, TypeError, AttributeError) as error:
        complaints.append(f"{ROTATION}: {error}")
        return None, None
    return published_at, promoted_at


def _validity(certificate: Certificate) -> Validity:
    return Validity(certificate.not_before, certificate.not_after)
