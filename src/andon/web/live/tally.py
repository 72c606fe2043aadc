"""What strangers cost the live side: counters for /api/health, and a log that they cannot fill."""

import logging
from collections.abc import Awaitable
from dataclasses import dataclass

from andon.web.live.frames import MalformedFrame
from andon.web.transport.log_throttle import throttled

log = throttled("andon.web.live.events", logging.WARNING)


@dataclass(slots=True)
class LiveTally:
    """Since the start."""

    dropped: int = 0  # clients that did not keep up
    refused: int = 0  # handshakes without a place
    malformed: int = 0  # packets
    errors: int = 0  # unexpected ones: mistakes of ours or of the library

    def drop(self) -> None:
        self.dropped += 1
        log.warning("a live client does not keep up and is dropped")

    def refuse(self) -> None:
        self.refused += 1
        log.warning("a live client was refused: all places are in use, or all without a key")

    def ignore(self, wrong: MalformedFrame) -> None:
        self.malformed += 1
        log.warning(f"a live client sent {wrong}: ignored")

    async def tried(self, what: str, work: Awaitable[None]) -> bool:
        """Whether the work was done; what goes wrong is counted and costs no one else anything."""
        try:
            await work
        except Exception:
            self.errors += 1
            log.exception(f"live events: {what} failed")
            return False
        return True
