"""Requests to a reader process, and the one kind of answer that is not part of a snapshot."""

from enum import IntEnum
from typing import Self

from msgspec import Struct

UNDECIDED = "-"
"""Used instead of a backend's name: the reader gets the name on its standard input."""


class RunAccount(IntEnum):
    """What a request also reads, for the record of a run."""

    NONE = 0
    ACTIVITY = 1  # since the last such request: every few seconds
    ENERGY = 2  # that, and the energy counters: at begin and end


class ReaderRequest(Struct, frozen=True):
    """A line from the parent. A few plain bytes, because it is read once a second."""

    tick: int
    watched: bool
    account: RunAccount = RunAccount.NONE
    places: bool = False  # also where each device is in the machine; each card says so once

    def encoded(self) -> bytes:
        return b"%d %d %d %d\n" % (self.tick, self.watched, self.account, self.places)

    @classmethod
    def decoded(cls, line: bytes) -> Self:
        tick, watched, account, places = line.split()
        return cls(int(tick), watched == b"1", RunAccount(int(account)), places == b"1")


Ring = tuple[tuple[float, float], ...]
"""Recent readings of utilisation that a driver keeps itself, closer together than samples: time and
percent, oldest first."""
