"""Requests to a reader process."""

from enum import IntEnum
from typing import NamedTuple, Self

UNDECIDED = "-"
"""Used instead of a backend's name: the reader gets the name on its standard input."""


class RunAccount(IntEnum):
    """What a request reads besides, for the record of a run."""

    NONE = 0
    ACTIVITY = 1  # since the last such request: every few seconds
    ENERGY = 2  # that, and the energy counters: at begin and end


class ReaderRequest(NamedTuple):
    """A line from the parent. A few plain bytes, because it is read once a second."""

    tick: int
    watched: bool
    account: RunAccount = RunAccount.NONE

    def encoded(self) -> bytes:
        return b"%d %d %d\n" % self

    @classmethod
    def decoded(cls, line: bytes) -> Self:
        tick, watched, account = line.split()
        return cls(int(tick), watched == b"1", RunAccount(int(account)))
