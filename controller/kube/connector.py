"""The connector of every connection that may be given up: to the API server, to a worker, to a receiver."""

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey


class ClosingConnector(aiohttp.TCPConnector):
    """Closes at once each connection that is given up; with ``force_close`` each one, after its answer.

    aiohttp would send a close notification of TLS and wait half a minute for the answer, which a frozen or careless
    server never sends. What is still to be sent is lost: the caller has its answer, or wants none. A connection that
    nobody needed for the keep-alive time is closed as aiohttp does it.
    """

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        # As aiohttp decides, e.g. after an answer that was not read whole.
        closes = should_close or self.force_close or protocol.should_close
        if closes:
            protocol.abort()
        super()._release(key, protocol, should_close=closes)
