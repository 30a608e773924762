"""The stored CA: read back as written, broken parts left out, and never an untrusted leaf on the way through a
rotation.
"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import pki, record
from certs.pki import Certificate, CertificateError, KeyPair
from certs.plan import RenewalPolicy, RotationStep, decide
from certs.record import CertificateRecord
from tests.effort import cases

NOW = datetime(2026, 6, 1, tzinfo=UTC)
POLICY = RenewalPolicy()
NAMES = ("seiretsu.example.svc", "127.0.0.1")


def created(now: datetime = NOW) -> CertificateRecord:
    return record.after(CertificateRecord(), RotationStep.CREATE, now, POLICY)


def rotating(now: datetime = NOW) -> CertificateRecord:
    return record.after(created(now), RotationStep.START_ROTATION, now, POLICY)


def test_what_was_written_is_read_back() -> None:
    written = record.after(rotating(), RotationStep.RECORD_PUBLICATION, NOW, POLICY)
    promoted = record.after(written, RotationStep.PROMOTE, NOW, POLICY)
    for one in (created(), written, promoted):
        assert record.read(one.data()) == (one, [])


def test_nothing_is_read_as_no_ca_and_no_complaint() -> None:
    assert record.read({}) == (CertificateRecord(), [])


GARBAGE = [
    ("a signing key of another CA", {"signing.key": created().data()["signing.key"]}, "does not belong"),
    ("garbage for a certificate", {"signing.crt": b"\xff not pem"}, "signing.crt"),
    ("an empty key", {"signing.key": b""}, "signing.crt, signing.key"),
    ("garbage for the bundle", {"ca.crt": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, "ca.crt"),
    ("garbage for the moments", {"rotation.json": b"[1]"}, "rotation.json"),
    ("a moment without its zone", {"rotation.json": b'{"promotedAt": "2026-06-01T00:00:00"}'}, "zone"),
]


@pytest.mark.parametrize(("broken", "complaint"), [case[1:] for case in GARBAGE], ids=[case[0] for case in GARBAGE])
def test_a_broken_part_is_named_and_left_out(broken: dict[str, bytes], complaint: str) -> None:
    found, complaints = record.read({**created().data(), **broken})
    assert len(complaints) == 1
    assert complaint in complaints[0]
    if "signing" in complaint or "belong" in complaint:
        assert found.signing is None
        assert len(pki.read_certificates(found.bundle)) == 1, "the CA is still trusted for leaves in service"


def test_a_leaf_where_a_ca_belongs_is_refused() -> None:
    authority = created().signing
    assert authority is not None
    leaf = pki.new_leaf(authority, NAMES, NOW, POLICY.leaf_life)
    found, complaints = record.read({"signing.crt": leaf.chain_pem, "signing.key": leaf.key_pem})
    assert found.signing is None
    assert complaints == ["signing.crt: not a CA certificate"]


@settings(max_examples=cases(100, 1_000))
@given(st.dictionaries(st.sampled_from(record.KEYS), st.binary(max_size=200)))
def test_any_bytes_are_read_without_raising(data: dict[str, bytes]) -> None:
    found, _ = record.read(data)
    assert found.signing is None


def leaves_alive(leaves: list[KeyPair], now: datetime) -> list[KeyPair]:
    return [leaf for leaf in leaves if leaf.certificate.valid_at(now)]


@given(st.lists(st.tuples(st.integers(0, 25 * 86400), st.booleans()), min_size=5, max_size=60))
def test_whatever_the_pace_every_living_leaf_verifies_and_no_ca_signs_unpublished(
    passes: list[tuple[int, bool]],
) -> None:
    """Passes at random times, the publication seen or not: rotation is safe at every one of them."""
    leaves: list[KeyPair] = []
    now, current, published = NOW, created(), frozenset[str]()
    for seconds, seen in passes:
        now += timedelta(seconds=seconds)
        if seen:
            published = frozenset(found.fingerprint for found in pki.read_certificates(current.bundle))
        step = decide(current.stored, now, POLICY, published=seen)
        outage = current.signing is None or not current.signing.certificate.valid_at(now)
        current = record.after(current, step, now, POLICY)
        assert current.signing is not None
        if step is RotationStep.PROMOTE and not outage:
            assert current.signing.certificate.fingerprint in published
        leaves = [*leaves_alive(leaves, now), pki.new_leaf(current.signing, NAMES, now, POLICY.leaf_life)]
        for leaf in leaves:
            pki.verify_chain(leaf, current.bundle, NAMES[0], now)


def test_a_chain_that_does_not_verify_is_an_error() -> None:
    ours, theirs = created().signing, created().signing
    assert ours is not None and theirs is not None
    leaf = pki.new_leaf(ours, NAMES, NOW, POLICY.leaf_life)
    with pytest.raises(CertificateError, match="does not verify against the bundle"):
        pki.verify_chain(leaf, theirs.chain_pem, NAMES[0], NOW)
    with pytest.raises(CertificateError, match=r"for other\.example does not verify"):
        pki.verify_chain(leaf, ours.chain_pem, "other.example", NOW)
    with pytest.raises(CertificateError, match="does not verify"):
        pki.verify_chain(leaf, ours.chain_pem, NAMES[0], NOW + timedelta(days=31))
    with pytest.raises(CertificateError, match="holds no certificate"):
        pki.verify_chain(leaf, b"", NAMES[0], NOW)


def test_every_name_is_verifiable_dns_and_address_alike() -> None:
    authority = created().signing
    assert authority is not None
    leaf = pki.new_leaf(authority, NAMES, NOW, POLICY.leaf_life)
    for name in NAMES:
        pki.verify_chain(leaf, authority.chain_pem, name, NOW)


def test_the_bundle_is_the_same_bytes_whatever_the_order() -> None:
    found: list[Certificate] = [pair.certificate for pair in (created().signing, created().signing) if pair]
    assert pki.bundle_pem(found) == pki.bundle_pem([*reversed(found), found[0]])
