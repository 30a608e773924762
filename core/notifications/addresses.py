"""Decides which addresses may be called for a receiver.

The name of a receiver is resolved for each connection, and whoever controls that name could have it point into the
cluster, to the node or to the metadata service of a cloud. So the address itself is judged when a connection is opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

from core.notifications.model import Network

IPAddress = IPv4Address | IPv6Address

_NAT64: Final = IPv6Network("64:ff9b::/96")


def refused(text: str, networks: Iterable[Network]) -> str:
    """Returns why an address may not be called; empty if it may."""
    try:
        address = _meant(ip_address(text.partition("%")[0]))
    except ValueError:
        return f"{text} is no IP address"
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return f"{address} is link-local, multicast or unspecified, which is never called"
    public = address.is_global and not (isinstance(address, IPv6Address) and address.is_site_local)
    if not public and not any(address.version == network.version and address in network for network in networks):
        return f"{address} is not public and in none of the receiver's networks"
    return ""


def _meant(address: IPAddress) -> IPAddress:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    embedded = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if embedded is None and address in _NAT64:
        embedded = IPv4Address(int(address) & 0xFFFFFFFF)
    return embedded if embedded is not None else address
