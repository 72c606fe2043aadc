"""Counters for live events: dropped and refused clients, malformed packets, errors."""

import logging
from collections.abc import Awaitable

from msgspec import Struct

from andon.web.live.frames import MalformedFrame

log = logging.getLogger("andon.web.live.events")


class LiveTally(Struct):
    """Counts since the server started, shown by /api/health."""

    dropped: int = 0  # clients that read too slowly
    refused: int = 0  # handshakes beyond the limit
    malformed: int = 0  # packets
    errors: int = 0  # unexpected: bugs of ours or of the library

    def drop(self) -> None:
        self.dropped += 1
        log.warning("disconnected a live client that reads too slowly")

    def refuse(self) -> None:
        self.refused += 1
        log.warning("refused a live client: the limit, or the limit without a token, is reached")

    def ignore(self, wrong: MalformedFrame) -> None:
        self.malformed += 1
        log.warning("ignored a frame from a live client: %s", wrong, extra={"kind": str(wrong)})

    async def tried(self, what: str, work: Awaitable[None]) -> bool:
        """Runs the work; returns whether it succeeded. A failure is counted and logged."""
        try:
            await work
        except Exception:
            self.errors += 1
            log.exception("live events: %s failed", what, extra={"kind": what})
            return False
        return True
