"""Counts each user's GPU hours for the order of the queue, if this server may do so."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from andon.failures.log import FailureLog
from andon.host.clock import boot_seconds
from andon.leases.book import places
from andon.leases.book.contents import claim_writing, read_usage, write_usage
from andon.leases.rules.occupants import BookView
from andon.leases.rules.usage import RecentUsage, counted
from andon.model.device import Snapshot
from andon.sampling.bus import Subscription
from andon.sampling.follower import Follower, SnapshotDelivery

COUNT_SECONDS = 30.0
CLOSE_SECONDS = 1.0


class UsageMeter:
    """Counts usage in one server: root's or that of the book's owner, and of several the first.

    `page` is what the lease tracker knows: this thread never reads a lease.
    """

    def __init__(
        self,
        subscription: Subscription,
        page: Callable[[], BookView | None],
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._page, self._env, self._clock = page, os.environ if env is None else env, clock
        self._lock: int | None = None
        self._book: Path | None = None
        self._counted_at: float | None = None
        self._follower = Follower(
            subscription,
            self._count,
            "usage meter",
            FailureLog("andon.usage_meter", "GPU hours cannot be counted; trying again"),
            taking=SnapshotDelivery.NEWEST,
            end=self._let_go,
        )
        self._follower.start()

    def close(self) -> None:
        self._follower.close(CLOSE_SECONDS)

    def _count(self, snapshot: Snapshot) -> None:
        page, now = self._page(), self._clock()
        last, self._counted_at = self._counted_at, now
        if page is None or last is None or not self._is_writer():
            return
        book = self._book
        if book is not None and (page.claims or (book / "usage.json").exists()):
            usage: RecentUsage = counted(read_usage(book), page.claims, snapshot.at, now - last)
            write_usage(book, usage)

    def _is_writer(self) -> bool:
        """Whether this process counts usage; tried again until it may, and after the book moved."""
        book = places.book_path(self._env)
        there = places.is_folder(book / places.LEASES)  # not yet: nobody has leased anything
        if self._book != book or not there:
            self._let_go()
        if self._lock is None and there:
            self._lock, self._book = claim_writing(book), book
        return self._lock is not None

    def _let_go(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = self._book = None
