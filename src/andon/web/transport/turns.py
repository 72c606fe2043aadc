"""Requests of strangers take turns, a few in each round of the loop; others do not queue with them.

A thousand requests that come at once would be one long round, and whoever connects then needs
several rounds until it is answered. What is looked at here is the bare head of a request: a right
key or `/healthz` go on at once.
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
    """First come, first served, a few at a time."""

    def __init__(self, knows: Callable[[str], bool] = lambda _key: False) -> None:
        self._knows = knows
        self._waiting: deque[Callable[[], None]] = deque()

    def is_first(self, data: bytes) -> bool:
        """Whether what begins so does not have to wait. The gate decides what it may do."""
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
