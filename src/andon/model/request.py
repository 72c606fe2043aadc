"""What a reader is asked for."""

from typing import NamedTuple, Self

UNDECIDED = "-"
"""In the place of a backend: the reader is told on its standard input which one it is."""


class ReaderRequest(NamedTuple):
    """A line that the parent writes. Twelve plain bytes: this is read once a second, cold."""

    tick: int
    watched: bool

    def encoded(self) -> bytes:
        return b"%d %d\n" % self

    @classmethod
    def decoded(cls, line: bytes) -> Self:
        tick, _, watched = line.partition(b" ")
        return cls(int(tick), watched == b"1\n")
