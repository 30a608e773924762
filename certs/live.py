"""The TLS context that serves, and how its certificate is replaced.

`SSLContext.load_cert_chain` on a context in use gives every later handshake the new certificate and does not affect
open connections. A pair that does not match breaks that context for every later handshake, so each pair is first loaded
into a separate context and verified with the bundle.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from certs import pki
from certs.directory import replace_file
from certs.pki import CertificateError, Pair

TLS_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}


class LiveContext:
    """The server's `ssl` context, HTTP/1.1 only in ALPN, and the pair it serves (None until the first `load`).

    With `client_ca` (PEM) a client may send a certificate; one that this CA has not signed ends the handshake.
    """

    def __init__(
        self,
        *,
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        ciphers: Sequence[str] = (),
        client_ca: bytes = b"",
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = minimum
        self.context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        # A resumed session would outlive the certificate it was made with.
        self.context.options |= ssl.OP_NO_TICKET
        self.context.num_tickets = 0
        self.context.set_alpn_protocols(["http/1.1"])
        if ciphers:
            self.context.set_ciphers(":".join(ciphers))
        if client_ca:
            self.context.verify_mode = ssl.CERT_OPTIONAL
            self.context.load_verify_locations(cadata=client_ca.decode())
        self.pair: Pair | None = None
        self.bundle = b""

    def load(self, pair: Pair, bundle: bytes, name: str, now: datetime) -> None:
        """Serves `pair` from the next handshake on. Raises `CertificateError` if it is not usable; the old pair is then
        still served.

        `bundle` is what clients trust, empty if that is unknown (a public CA); `name` is their host name for this
        server.
        """
        if bundle:
            pki.verify_chain(pair, bundle, name, now)
        scratch = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="seiretsu-tls-") as directory:
            chain, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
            replace_file(chain, pair.chain_pem)
            replace_file(key, pair.key_pem)
            try:
                scratch.load_cert_chain(chain, key)
            except ssl.SSLError as error:
                raise CertificateError(f"certificate and key cannot be served: {error}") from error
            self.context.load_cert_chain(chain, key)
        self.pair, self.bundle = pair, bundle
