"""The public Python API: snapshots of this node, from one sampler per process.

Thread-safe and fork-safe: a child process starts with nothing and opens its own sampler.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable

from andon import app
from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.model.device import Snapshot
from andon.model.request import Ring, RunAccount
from andon.node.local.context import LocalContext
from andon.node.local.live import LocalLive
from andon.sampling.bus import Subscription
from andon.sampling.rules.server_snapshot import SILENT, with_known
from andon.sampling.rules.unread import why_none_is_read
from andon.sampling.sampler import Costs, Sampler
from andon.settings.resolution import Settings

log = logging.getLogger("andon")
LINGER_SECONDS = 30.0  # an open driver session keeps a laptop's GPU awake, so it is closed


class Shared:
    """The only sampler of this process: opened on first use, closed when no longer used."""

    def __init__(self) -> None:
        self.settings: Settings = load_settings({}).settings
        self._lock = threading.Lock()
        self._sampler: Sampler | None = None
        self._sessions = 0
        self._used = 0.0
        self._warned = False

    def once(
        self,
        expensive_fields: bool = False,
        with_host: bool = True,
        account: RunAccount = RunAccount.NONE,
    ) -> Snapshot:
        return self._opened().once(expensive_fields, with_host, account)

    def account(self, wanted: RunAccount) -> None:
        """Adds a run's memory account to the next sample."""
        self._opened().account(wanted)

    def ask_places(self) -> None:
        """Asks the devices once for their places in the machine: the next sample has them."""
        self._opened().ask_places()

    def rings(self) -> dict[str, Ring]:
        """Returns the drivers' own readings of utilisation, by uuid."""
        with self._lock:
            sampler = self._sampler
        return sampler.rings() if sampler else {}

    def subscribe(self, interval_seconds: float, watching: bool = False) -> Subscription:
        with self._lock:
            subscription = self._open().subscribe(interval_seconds, watching)
            self._sessions += 1
        subscription.on_close(self._left)
        return subscription

    def costs(self) -> Costs | None:
        """What sampling has cost so far; None while nothing is open."""
        with self._lock:
            sampler = self._sampler
        return sampler.costs() if sampler else None

    def close(self) -> None:
        with self._lock:
            sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.close()

    def forget(self) -> None:
        """Drops the sampler in a forked child. Takes no lock: the parent may have held it."""
        if self._sampler is not None:
            self._sampler.forget()

    def _opened(self) -> Sampler:
        with self._lock:
            return self._open()

    def _open(self) -> Sampler:
        self._used = time.monotonic()
        if self._sampler is None:
            self._sampler = open_sampler(self.settings, masks_may_change=True)
            self._sampler.on_long_wait = log.info
            self._sampler.on_snapshot = self._warn
            threading.Thread(target=self._linger, name="andon linger", daemon=True).start()
        return self._sampler

    def _warn(self, snapshot: Snapshot) -> None:
        """Logs once that no GPU is read although one may be there."""
        if not self._warned and (fault := why_none_is_read(snapshot)):
            self._warned = True
            log.warning("andon reads no GPU: %s · %s", fault.reason, fault.hint)

    def _left(self) -> None:
        with self._lock:
            self._sessions -= 1
            self._used = time.monotonic()

    def _linger(self) -> None:
        while True:
            time.sleep(LINGER_SECONDS / 4)
            with self._lock:
                sampler = self._sampler
                if sampler is not None and self._in_use():
                    continue
                self._sampler = None  # under the same lock: the next caller opens a new one
            if sampler is not None:
                sampler.close()
            return

    def _in_use(self) -> bool:
        return self._sessions > 0 or time.monotonic() - self._used < LINGER_SECONDS


_shared: Shared | None = None
_lock = threading.Lock()
_after_fork: list[Callable[[], None]] = []


def shared() -> Shared:
    """The sampler shared by everything in this process."""
    global _shared
    with _lock:
        if _shared is None:
            _shared = Shared()
        return _shared


def snapshot() -> Snapshot:
    """This node, read now; a device that does not answer as this machine's server knows it."""
    found = shared().once()
    if all(status.state not in SILENT for status in found.devices):
        return found
    reply = LocalLive(LocalContext(shared().settings, app, lambda _: None)).ask_server(
        commands=False
    )
    return found if reply is None else with_known(found, reply.reading.snapshot)


def watch(interval_seconds: float = 1.0) -> Subscription:
    """Snapshots at an interval: a context manager, and an iterator that never ends on its own."""
    return shared().subscribe(interval_seconds, watching=True)


def after_fork(reset: Callable[[], None]) -> None:
    """Register a function to call in every forked child, after the sampler is dropped there."""
    _after_fork.append(reset)


def _in_child() -> None:
    global _shared, _lock
    _lock = threading.Lock()
    if _shared is not None:
        _shared.forget()
        _shared = None
    for reset in _after_fork:
        reset()


def _at_exit() -> None:
    if _shared is not None:
        _shared.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
