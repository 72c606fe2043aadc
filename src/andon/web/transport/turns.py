"""Anonymous requests take turns, a few in each turn of the event loop; others skip the queue.

A thousand requests at once would be one long turn, and a new connection needs several turns until
it is answered. Only the raw head of a request is examined here: with a valid key, or for
`/healthz`, it is not queued.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable

AT_ONCE = 8
LONGEST_HEAD = 8_192
_HEALTH = (b"GET /healthz ", b"HEAD /healthz ")
_KEY = re.compile(
    rb"\r\nauthorization:[ \t]{0,8}bearer[ \t]{1,8}([!-~]{1,200})[ \t]{0,8}\r\n", re.I
)


class RequestTurns:
    """A queue of requests: first come, first served, a few at a time."""

    def __init__(self, knows: Callable[[str], bool] = lambda _key: False) -> None:
        self._knows = knows
        self._waiting: deque[Callable[[], None]] = deque()

    def is_first(self, data: bytes) -> bool:
        """Whether a request with this head skips the queue. The gate decides what it may do."""
        if data.startswith(_HEALTH):
            return True
        found = _KEY.search(data[:LONGEST_HEAD])
        return found is not None and self._knows(found[1].decode("ascii"))

    def wait(self, turn: Callable[[], None]) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._round)
        self._waiting.append(turn)

    def _round(self) -> None:
        for _ in range(min(AT_ONCE, len(self._waiting))):
            self._waiting.popleft()()
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._round)
