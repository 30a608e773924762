"""Keys and certificates: creates a CA and leaves, parses PEM, verifies a chain. The only module that uses
`cryptography`.

P-256 only: a key costs 0.1 ms, while RSA-2048 costs 10-70 ms of a stalled event loop. `NotBefore` is one hour earlier,
so that an API server whose clock is behind accepts a certificate immediately.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import verification
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATE = timedelta(hours=1)
"""How long before its making a certificate is valid, for clients whose clocks are late; at most half of its life, so
that a short-lived one is not due for renewal at once.
"""


class CertificateError(Exception):
    """A certificate or key that cannot be used; the text names it and the reason."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """One certificate with the fields that the rules use. `fingerprint` (SHA-256 of the DER form) identifies it
    everywhere.
    """

    pem: bytes
    fingerprint: str
    not_before: datetime
    not_after: datetime
    is_authority: bool

    def valid_at(self, now: datetime) -> bool:
        """Whether `now` is within the validity."""
        return self.not_before <= now < self.not_after

    def due_at(self, fraction: float) -> datetime:
        """The moment `fraction` of the life is spent: renewal is due from then on."""
        return self.not_before + (self.not_after - self.not_before) * fraction


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (first of `chain_pem` when intermediates follow) and the private key that belongs to it."""

    certificate: Certificate
    chain_pem: bytes
    key_pem: bytes


def read_certificates(pem: bytes) -> tuple[Certificate, ...]:
    """Returns every certificate of a PEM text, in order, each once. Raises `CertificateError` for other text."""
    if not pem.strip():
        return ()
    try:
        loaded = x509.load_pem_x509_certificates(pem)
        found = {certificate.fingerprint: certificate for certificate in map(_facts, loaded)}
    except ValueError as error:
        raise CertificateError(f"not a PEM certificate: {error}") from error
    return tuple(found.values())


def read_pair(chain_pem: bytes, key_pem: bytes) -> KeyPair:
    """A certificate with its key. Raises `CertificateError` unless both parse and belong together."""
    certificates = read_certificates(chain_pem)
    if not certificates:
        raise CertificateError("no certificate found")
    try:
        key = serialization.load_pem_private_key(key_pem, password=None)
        leaf = x509.load_pem_x509_certificate(certificates[0].pem)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"not a PEM private key: {error}") from error
    if _spki(key.public_key()) != _spki(leaf.public_key()):
        raise CertificateError("the private key does not belong to the certificate")
    return KeyPair(certificates[0], chain_pem, key_pem)


def bundle_pem(certificates: Iterable[Certificate]) -> bytes:
    """The certificates as one PEM text, each once, ordered by fingerprint: every replica writes the same bytes."""
    by_fingerprint = {certificate.fingerprint: certificate.pem for certificate in certificates}
    return b"".join(by_fingerprint[fingerprint] for fingerprint in sorted(by_fingerprint))


def new_authority(now: datetime, life: timedelta) -> KeyPair:
    """A self-signed CA, valid for `life` from `now` on, that signs leaves only (path length 0)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"seiretsu-ca-{now:%Y%m%d%H%M%S}")])
    ski = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - min(BACKDATE, life / 2))
        .not_valid_after(now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(ski, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ski), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def new_leaf(authority: KeyPair, names: Sequence[str], now: datetime, life: timedelta) -> KeyPair:
    """A serving certificate for `names` (DNS names and IP addresses), signed by `authority` and never outliving it."""
    issuer = x509.load_pem_x509_certificate(authority.certificate.pem)
    issuer_key = serialization.load_pem_private_key(authority.key_pem, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise CertificateError("the CA's key is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(max(now - min(BACKDATE, life / 2), authority.certificate.not_before))
        .not_valid_after(min(now + life, authority.certificate.not_after))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_authority_key(issuer), critical=False)
    )
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def verify_chain(pair: KeyPair, bundle: bytes, name: str, now: datetime) -> None:
    """Raise `CertificateError` unless a client that trusts `bundle` would accept `pair` as `name` at `now`."""
    if not bundle.strip():
        raise CertificateError("the bundle holds no certificate")
    try:
        chain = x509.load_pem_x509_certificates(pair.chain_pem)
        store = verification.Store(x509.load_pem_x509_certificates(bundle))
        subject = _general_name(name)
        verifier = verification.PolicyBuilder().store(store).time(now).build_server_verifier(subject)
        verifier.verify(chain[0], chain[1:])
    except (ValueError, verification.VerificationError) as error:
        raise CertificateError(f"the certificate for {name} does not verify against the bundle: {error}") from error


def _facts(certificate: x509.Certificate) -> Certificate:
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    return Certificate(
        pem=certificate.public_bytes(serialization.Encoding.PEM),
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        is_authority=is_authority,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    facts = _facts(certificate)
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(facts, facts.pem, key_pem)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _authority_key(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    ski = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ski)


def _general_name(name: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _spki(key: object) -> bytes:
    public_bytes = getattr(key, "public_bytes", None)
    if public_bytes is None:
        raise CertificateError("unsupported kind of key")
    encoded: bytes = public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return encoded
