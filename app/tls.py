"""The Configuration's `tls` in OpenSSL's words. Kueue names ciphers as Go does."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import Final

from api.configuration.model import Tls

_MINIMUM: Final = {
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Ciphers with forward secrecy and authenticated encryption; TLS 1.3 has its own, which cannot be configured."""


def minimum(tls: Tls | None) -> ssl.TLSVersion:
    """The default is 1.3, which the API server supports. 1.0 and 1.1 are raised to 1.2."""
    if tls is None or not tls.min_version:
        return ssl.TLSVersion.TLSv1_3
    return _MINIMUM.get(tls.min_version, ssl.TLSVersion.TLSv1_2)


def ciphers(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """OpenSSL's names of those that are known and safe, and the names, as given, of those that are left out."""
    given = tuple(names)
    return tuple(_CIPHERS[name] for name in given if name in _CIPHERS), tuple(n for n in given if n not in _CIPHERS)
