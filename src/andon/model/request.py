"""Requests to a reader process."""

from typing import NamedTuple, Self

UNDECIDED = "-"
"""Used instead of a backend's name: the reader gets the name on its standard input."""


class ReaderRequest(NamedTuple):
    """A line from the parent. Twelve plain bytes, because it is read once a second."""

    tick: int
    watched: bool

    def encoded(self) -> bytes:
        return b"%d %d\n" % self

    @classmethod
    def decoded(cls, line: bytes) -> Self:
        tick, _, watched = line.partition(b" ")
        return cls(int(tick), watched == b"1\n")
