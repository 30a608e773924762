"""What the authority signs is what a peer will accept."""

from __future__ import annotations

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509 import verification

from devcluster.certificates import Authority, write_private


def _store(authority: Authority) -> verification.PolicyBuilder:
    store = verification.Store([x509.load_pem_x509_certificate(authority.pair.certificate)])
    return verification.PolicyBuilder().store(store)


@pytest.mark.parametrize("host", ["localhost", "kubernetes.default.svc"])
def test_a_serving_certificate_is_valid_for_each_of_its_hosts(host: str) -> None:
    authority = Authority("test")
    leaf = x509.load_pem_x509_certificate(authority.server("localhost", "kubernetes.default.svc").certificate)
    chain = _store(authority).build_server_verifier(x509.DNSName(host)).verify(leaf, [])
    assert len(chain) == 2


def test_a_client_certificate_carries_user_and_groups() -> None:
    authority = Authority("test")
    leaf = x509.load_pem_x509_certificate(authority.client("ann", "system:masters").certificate)
    names = {attribute.rfc4514_attribute_name: attribute.value for attribute in leaf.subject}
    assert names == {"O": "system:masters", "CN": "ann"}


def test_certificates_hold_on_a_clock_that_is_a_little_behind() -> None:
    leaf = x509.load_pem_x509_certificate(Authority("test").client("ann").certificate)
    assert leaf.not_valid_before_utc < datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=4)


def test_a_key_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    write_private(tmp_path / "key", b"secret")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
