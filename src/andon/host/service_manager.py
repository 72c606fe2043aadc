"""What this process says to the service manager (systemd) that started it, and what it was given.

Each message is a datagram; where nobody listens, nothing is said.
"""

import os
import socket
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress

from msgspec import Struct

from andon.host.rules.service_variables import (
    VARIABLES,
    given_sockets,
    notify_address,
    watchdog_seconds,
)

FEEDS = 3  # times that the watchdog is fed before it would bite


class WatchdogFeed(Struct, frozen=True):
    """What is called how often while a process works."""

    every_seconds: float
    call: Callable[[], None]


class ServiceManager(Struct, frozen=True):
    """The service manager of this process; without one, all is empty."""

    address: str | None = None
    watchdog_seconds: float | None = None
    sockets: tuple[int, ...] = ()

    @property
    def feed_seconds(self) -> float | None:
        return None if self.watchdog_seconds is None else self.watchdog_seconds / FEEDS

    def ready(self, status: str) -> None:
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def works(self) -> None:
        """Feeds the watchdog."""
        self._send("WATCHDOG=1")

    def feed_by_turns(self) -> Callable[[], None]:
        """Returns what a loop calls at each of its turns: it feeds the watchdog when it is time."""
        due = 0.0

        def turn() -> None:
            nonlocal due
            now = time.monotonic()
            if self.feed_seconds is not None and now >= due:
                due = now + self.feed_seconds
                self.works()

        return turn

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, *lines: str) -> None:
        if self.address is None:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)  # a manager that hangs must not hang this process
            sender.sendto("\n".join(lines).encode(errors="replace"), self.address)


def taken(environment: MutableMapping[str, str] = os.environ) -> ServiceManager:
    """Returns the service manager of the variables, which are removed: processes that this one
    starts are not the service, and must not speak for it."""
    pid = os.getpid()
    found = ServiceManager(
        notify_address(environment),
        watchdog_seconds(environment, pid),
        given_sockets(environment, pid),
    )
    for name in VARIABLES:
        environment.pop(name, None)
    for descriptor in found.sockets:
        os.set_inheritable(descriptor, False)
    return found
