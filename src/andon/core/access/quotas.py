"""How many connections may be open, how they are shared out, and which one goes when all are taken.

Nobody can tell a stranger from the owner before a request is there, and all may come from the same
address. So whoever says nothing gives way to whoever comes later, requests without a right key
may fill only their share, and the rest is kept for those who show one.
"""

from dataclasses import dataclass
from enum import StrEnum

MOST = 2000
RESERVED_FILES = 512  # for the store, the readers, the log and whatever a request opens
FEWEST = 16


class PeerStanding(StrEnum):
    """How far a connection is, and what it is used for."""

    SILENT = "silent"  # nothing was sent yet
    BEGUN = "begun"  # in a TLS handshake or a request, or between two requests of a stranger
    KEPT = "kept"  # between two requests of someone who has shown a right key
    STRANGER = "stranger"  # at work for a request without a right key
    LIVE = "live"  # the same, and it waits for live events
    OWNER = "owner"  # at work for someone who has shown a right key


AT_WORK = (PeerStanding.STRANGER, PeerStanding.LIVE, PeerStanding.OWNER)
WAITING = (PeerStanding.SILENT, PeerStanding.BEGUN, PeerStanding.KEPT)
"""Those that nobody works for, in the order in which they give way."""


@dataclass(frozen=True, slots=True)
class Quotas:
    """The most connections of each kind; what is left is kept for the token."""

    most: int = MOST

    @property
    def tenth(self) -> int:
        return max(2, self.most // 10)

    @property
    def at_work(self) -> int:
        """Two tenths stay for those who have not asked yet, so that anybody can."""
        return self.most - 2 * self.tenth

    @property
    def strangers(self) -> int:
        """Of those at work without a right key; one tenth stays for those with one."""
        return self.at_work - self.tenth

    @property
    def live(self) -> int:
        """Of the strangers that wait for live events; one tenth stays for plain requests."""
        return self.strangers - self.tenth


def places_for(files: int | None) -> int:
    """As many connections as there are files for; None is no limit."""
    if files is None:
        return MOST
    return max(FEWEST, min(MOST, files - min(RESERVED_FILES, files // 2)))


def may_work(quotas: Quotas, counts: dict[PeerStanding, int], wanted: PeerStanding) -> bool:
    """Whether one more may be worked for, where so many are of each kind."""
    strangers = counts[PeerStanding.STRANGER] + counts[PeerStanding.LIVE]
    if strangers + counts[PeerStanding.OWNER] >= quotas.at_work:
        return False
    if wanted is PeerStanding.OWNER:
        return True
    if strangers >= quotas.strangers:
        return False
    return wanted is PeerStanding.STRANGER or counts[PeerStanding.LIVE] < quotas.live


def gives_way(quotas: Quotas, counts: dict[PeerStanding, int]) -> PeerStanding | None:
    """Of which kind the oldest is closed when one more has come; None where there is room.

    The silent go first, but for a tenth: a flood of those who begin a request and do not end it
    must not take away the moment that a new connection needs for its first byte.
    """
    if sum(counts.values()) <= quotas.most:
        return None
    if counts[PeerStanding.SILENT] > quotas.tenth:
        return PeerStanding.SILENT
    for standing in (PeerStanding.BEGUN, PeerStanding.SILENT, PeerStanding.KEPT):
        if counts[standing]:
            return standing
    return None
