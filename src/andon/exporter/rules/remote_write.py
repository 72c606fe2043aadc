"""The metrics as a request of Prometheus' remote-write protocol 1.0, before its compression.

The message is small enough to be written by hand: `repeated TimeSeries = 1`, of which each has
`repeated Label = 1` (name 1, value 2) and `repeated Sample = 2` (a double 1, milliseconds 2).
"""

import struct
from collections.abc import Mapping

from andon.exporter.rules.series import name_and_labels, samples

HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
_STALE = struct.pack("<Q", 0x7FF0000000000002)  # a NaN that means: this series has ended
_DOUBLE = struct.Struct("<d").pack


class RemoteWriteMessages:
    """Makes a message of each rendering in turn. A series that is missing since the last one is
    marked as ended, as by a scrape; otherwise it would be shown for five minutes."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._known: dict[str, bytes] = {}
        self._stamp_bytes = 0

    def make(self, text: str, at: float) -> bytes:
        stamp = b"\x10" + varint(max(0, round(at * 1000)))
        if len(stamp) != self._stamp_bytes:  # once in 70 years
            self._known, self._stamp_bytes = {}, len(stamp)
        before, now = self._known, dict[str, bytes]()
        out: list[bytes] = []
        for start, value in samples(text):
            begin = now[start] = before.get(start) or self._begin(start)
            out += (begin, _DOUBLE(float(value)), stamp)
        for start in before.keys() - now.keys():
            out += (before[start], _STALE, stamp)
        self._known = now
        return b"".join(out)

    def _begin(self, start: str) -> bytes:
        """Returns the bytes of a series up to its value."""
        name, own = name_and_labels(start)
        labels = {**self._labels, **own, "__name__": name}
        pairs = b"".join(
            _field(b"\x0a", _field(b"\x0a", key.encode()) + _field(b"\x12", labels[key].encode()))
            for key in sorted(labels)  # the protocol wants them in order
        )
        rest = 8 + self._stamp_bytes
        sample = b"\x12" + varint(1 + rest) + b"\x09"
        return b"\x0a" + varint(len(pairs) + len(sample) + rest) + pairs + sample


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(tag: bytes, content: bytes) -> bytes:
    return tag + varint(len(content)) + content
