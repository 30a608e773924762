"""Connections that are given up are closed at once."""

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey


class ClosingConnector(aiohttp.TCPConnector):
    """Closes TLS connections that are given up at once, instead of waiting half a minute for a close notification that
    a frozen or careless server never sends.
    """

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        # As aiohttp decides, e.g. after an answer that was not read whole.
        closes = should_close or self.force_close or protocol.should_close
        if closes:
            protocol.abort()
        super()._release(key, protocol, should_close=closes)
