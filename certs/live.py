"""The TLS context that serves, and how its certificate is replaced.

`SSLContext.load_cert_chain` on a context in use gives every later handshake the new certificate and does not affect
open connections. A pair that does not match breaks that context for every later handshake, so each pair is first loaded
into a separate context and verified with the bundle.
"""

from __future__ import annotations

import contextlib
import ssl
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from certs import pki
from certs.directory import replace_file
from certs.pki import CertificateError, KeyPair


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
        self._minimum, self._ciphers = minimum, tuple(ciphers)
        self._others: weakref.WeakSet[ssl.SSLContext] = weakref.WeakSet()
        self.context = self._made(client_ca)
        self.pair: KeyPair | None = None
        self.bundle = b""

    def load(self, pair: KeyPair, bundle: bytes, name: str, now: datetime) -> None:
        """Serves `pair` from the next handshake on. Raises `CertificateError` if it is not usable; the old pair is then
        still served.

        `bundle` is what clients trust, empty if that is unknown (a public CA); `name` is their host name for this
        server.
        """
        if bundle:
            pki.verify_chain(pair, bundle, name, now)
        with _files(pair) as files:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*files)
            except ssl.SSLError as error:
                raise CertificateError(f"certificate and key cannot be served: {error}") from error
            for context in (self.context, *self._others):
                context.load_cert_chain(*files)
        self.pair, self.bundle = pair, bundle

    def for_clients_of(self, client_ca: bytes) -> ssl.SSLContext:
        """Returns another context that serves the same pair, now and after each ``load``: its clients may send a
        certificate of this CA (PEM; empty: of none).
        """
        made = self._made(client_ca)
        if self.pair is not None:
            with _files(self.pair) as files:
                made.load_cert_chain(*files)
        self._others.add(made)
        return made

    def _made(self, client_ca: bytes) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._minimum
        context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        # A resumed session would outlive the certificate it was made with.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        context.set_alpn_protocols(["http/1.1"])
        if self._ciphers:
            context.set_ciphers(":".join(self._ciphers))
        if client_ca:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(cadata=client_ca.decode())
        return context


@contextlib.contextmanager
def _files(pair: KeyPair) -> Iterator[tuple[Path, Path]]:
    """The pair in files, which ``load_cert_chain`` needs."""
    with tempfile.TemporaryDirectory(prefix="seiretsu-tls-") as directory:
        chain, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
        replace_file(chain, pair.chain_pem)
        replace_file(key, pair.key_pem)
        yield chain, key
