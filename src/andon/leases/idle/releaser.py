"""Releases idle leases where root's policy says so, after two warnings.

A warning counts only once somebody took it: without a notifier nothing is ever released.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping
from itertools import chain

from andon.errors import AndonError
from andon.leases.book.lease_book import Book
from andon.leases.idle.rules.ending import IdleLease, IdleStep, followed, is_idle
from andon.leases.policy_file import ROOT, limits_for, read_policy
from andon.leases.releaser import release
from andon.leases.rules.occupants import BookView
from andon.leases.rules.policy import Policy
from andon.model.device import DeviceStatus, Snapshot
from andon.model.lease import Claim
from andon.units import human_seconds

log = logging.getLogger("andon.idle_leases")
CHECK_SECONDS = 10.0  # between two checks of the leases
BY = "andon"

Warn = Callable[[Claim, str], bool]
"""Sends a warning to the owner of a lease; whether somebody took it."""


class IdleReleaser:
    """Checks each snapshot; only root's server may end what others hold."""

    def __init__(
        self,
        page: Callable[[], BookView | None],
        warn: Warn,
        policy: Callable[[], Policy] = read_policy,
        end: Callable[[str, str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._page, self._warn, self._policy = page, warn, policy
        self._end, self._clock = end or _release, clock
        self._idle: dict[str, IdleLease] = {}

    def check(self, snapshot: Snapshot) -> None:
        """Warns of idle leases, and releases those whose time is over."""
        at, policy, page = self._clock(), self._policy(), self._page()
        if page is None or not _releases(policy):
            self._idle = {}
            return
        claims = tuple(one for one in page.claims if _is_of(one, snapshot))
        statuses = {one.device.uuid: one for one in snapshot.devices}
        self._idle = followed(self._idle, claims, statuses, at)
        for claim in claims:
            if claim.lease is not None and claim.lease.id in self._idle:
                self._judge(claim, policy, statuses, at)

    def _judge(
        self, claim: Claim, policy: Policy, statuses: Mapping[str, DeviceStatus], at: float
    ) -> None:
        assert claim.lease is not None
        name, allowed = claim.lease.id, limits_for(policy, claim.uid).release_idle_after
        if allowed is None:
            return
        known = self._idle[name]
        step, idle = known.step(at, allowed), human_seconds(at - known.since)
        if step is IdleStep.WARN:
            left = human_seconds(max(0.0, allowed - (at - known.since)))
            text = f"lease {name} has been idle for {idle}; {policy.path} ends it in {left}"
            if self._warn(claim, f"{text} unless it is used"):
                self._idle[name] = known.warned_at(at)
        elif step is IdleStep.RELEASE and is_idle(claim, statuses):
            log.info("lease %s of %s is released: idle for %s", name, claim.user, idle)
            try:
                self._end(name, f"idle for {idle}, as {policy.path} says")
            except AndonError as error:
                log.warning("lease %s is not released: %s", name, error.reason)


def may_release() -> bool:
    """Whether this process may end what others hold."""
    return os.geteuid() == ROOT


def _releases(policy: Policy) -> bool:
    own = chain(*policy.users.values(), *(one.limits for one in policy.groups.values()))
    return policy.everyone.release_idle_after is not None or "release_idle_after" in own


def _is_of(claim: Claim, snapshot: Snapshot) -> bool:
    return claim.lease is not None and claim.lease.simulated == snapshot.simulated


def _release(name: str, note: str) -> None:
    release(Book(make=False), name, note=note, by=BY, insist=False)
