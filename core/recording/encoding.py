"""A recording as bytes: chunks, each compressed alone with a checksum, so that what a killed process wrote last is left
out and the rest is read.

Pod sets are most of a Workload and equal in most: each is written once, as a ``PodSetsShared``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from typing import Final

from msgspec import DecodeError, msgpack

from core.model import PodSet
from core.recording.entries import (
    MAGIC,
    PodSetsShared,
    RecordingEntry,
    WorkloadSet,
    without_pod_sets,
)

LEVEL: Final = 1
"""Of compression: the second level takes a third more time for a twentieth less."""
LARGEST: Final = 2**28
"""A longer chunk was not written by this program."""
_HEAD: Final = Layout("<II")
_DECODER: Final = msgpack.Decoder(list[RecordingEntry])


class RecordingEncoder:
    """Encodes the entries of one recording, in their order."""

    def __init__(self) -> None:
        self._encoder = msgpack.Encoder()
        self._by_identity: dict[int, tuple[tuple[PodSet, ...], int]] = {}
        self._by_content: dict[bytes, int] = {}

    def chunk(self, entries: Iterable[RecordingEntry]) -> bytes:
        """Returns some entries as one chunk."""
        found: list[RecordingEntry] = []
        for entry in entries:
            if isinstance(entry, WorkloadSet):
                found += self._with_shape(entry)
            else:
                found.append(entry)
        packed = zlib.compress(self._encoder.encode(found), LEVEL)
        return _HEAD.pack(len(packed), zlib.crc32(packed)) + packed

    def _with_shape(self, entry: WorkloadSet) -> Iterator[RecordingEntry]:
        pod_sets = entry.workload.pod_sets
        known = self._by_identity.get(id(pod_sets))
        if known is None:
            content = self._encoder.encode(pod_sets)
            number = self._by_content.get(content)
            if number is None:
                number = self._by_content[content] = len(self._by_content)
                yield PodSetsShared(number, pod_sets)
            if len(self._by_identity) > MOST_KNOWN:
                self._by_identity.clear()
            known = self._by_identity[id(pod_sets)] = (pod_sets, number)  # alive, so that no other has its identity
        yield WorkloadSet(without_pod_sets(entry.workload), known[1])


MOST_KNOWN: Final = 10_000


def decoded(data: bytes) -> Iterator[RecordingEntry]:
    """Yields the entries of a file up to the first chunk that is not whole. Raises ``ValueError`` for other files."""
    if not data.startswith(MAGIC):
        raise ValueError("this is no recording, or one of another version")
    at = len(MAGIC)
    while at + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, at)
        packed = data[at + _HEAD.size : at + _HEAD.size + length]
        if length > LARGEST or len(packed) < length or zlib.crc32(packed) != checksum:
            return
        try:
            yield from _DECODER.decode(_inflated(packed))
        except (DecodeError, zlib.error) as error:
            raise ValueError(f"the recording has entries that this version does not know: {error}") from None
        at += _HEAD.size + length


def _inflated(packed: bytes) -> bytes:
    """The content of a chunk, which another person may have made: it is not larger than what is ever written."""
    inflater = zlib.decompressobj()
    found = inflater.decompress(packed, LARGEST)
    if inflater.unconsumed_tail:
        raise zlib.error("a chunk is larger than 256 MiB")
    return found
