"""Checks several cards at once: their leases, their processes, the verdicts, and what is stored."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from andon.checks.rules.choosing import by_itself, divided_boards, refusal
from andon.checks.rules.judging import References, judged
from andon.checks.rules.plan import (
    END_SECONDS,
    SILENT_SECONDS,
    START_SECONDS,
    CheckMode,
    CheckPlan,
    plan_for,
)
from andon.checks.session import READING_SECONDS, CardCheck, Readings, measure_peers
from andon.checks.store import store_check, stored_checks
from andon.errors import AndonError
from andon.leases.availability import Availability
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.placement import Grant, Placement
from andon.model.check import CardResult, CheckPart, CheckVerdict, PeerSpeed
from andon.model.device import DeviceStatus, Snapshot, State
from andon.model.job.device_request import DeviceRequest
from andon.model.naming import device_labels
from andon.sampling.bus import Subscription

JOIN_SECONDS = 0.2  # between two looks at the keyboard
COMMAND = "andon check"


class SnapshotSource(Protocol):
    """A sampler, or what a program shares one by."""

    def once(self, *, with_host: bool = True) -> Snapshot: ...

    def subscribe(self, interval_seconds: float) -> Subscription: ...


class CardToCheck(Struct, frozen=True):
    """A card, and the locks of the lease that holds it."""

    begin: CardResult
    descriptors: tuple[int, ...] = ()
    grant: Grant | None = None  # that ends with the check

    def done(self, stuck: bool) -> None:
        """Releases the lease, unless a process that cannot be ended still has the card."""
        if self.grant is None:
            return
        if stuck:
            self.grant.held.hold.close()
        else:
            self.grant.release()


class Checker:
    """Checks cards of this machine with one plan."""

    def __init__(
        self,
        sampler: SnapshotSource,
        plan: CheckPlan,
        even_if_used: bool = False,
        earlier: Callable[[], Sequence[CardResult]] = stored_checks,
        store: Callable[[CardResult], object] = store_check,
        fleet: Callable[[Sequence[CardResult]], Sequence[CardResult]] = lambda found: (),
    ) -> None:
        """`fleet` returns checks of other nodes' cards of the same models."""
        self._sampler, self._plan, self._even_if_used = sampler, plan, even_if_used
        self._earlier, self._store, self._fleet = earlier, store, fleet
        self.peers: Sequence[PeerSpeed] = ()  # of a full check
        self.troubles = list[str]()  # what a person is told besides the results
        self.stuck = False  # whether a process cannot be ended, and keeps the locks that it has

    def candidates(
        self, snapshot: Snapshot, wanted: Sequence[str] | None
    ) -> tuple[list[DeviceStatus], list[CardResult]]:
        """Returns the cards that may be checked, and a result for each that may not: of those with
        these UUIDs, or of all."""
        divided, found, refused = divided_boards(snapshot.devices), [], []
        for status in snapshot.devices:
            uuid = status.device.uuid
            if wanted is not None and uuid not in wanted:
                continue
            named, board = wanted is not None, uuid in divided
            reason = refusal(status, board, named, self._even_if_used) or by_itself(status)
            if reason is None:
                found.append(status)
            else:
                begin = not_checked(_with_link(self.begin(snapshot, status), status), reason)
                lost = status.visible and status.state is State.LOST
                refused.append(replace(begin, verdict=CheckVerdict.LOST) if lost else begin)
        return found, refused

    def begin(self, snapshot: Snapshot, status: DeviceStatus) -> CardResult:
        """Returns the result of a card before anything was measured."""
        device, sample = status.device, status.sample
        return CardResult(
            node=snapshot.node,
            uuid=device.uuid,
            label=device_labels(snapshot.devices)[device.uuid],
            model=device.name,
            at=time.time(),
            mode=str(self._plan.mode),
            verdict=CheckVerdict.UNJUDGED,
            vendor=device.vendor,
            driver=snapshot.versions.get("driver", ""),
            pcie_generation=device.limits.link_generation,
            pcie_width=device.limits.link_width,
            power_limit_watts=None if sample is None else sample.power_limit_watts,
            power_default_watts=device.limits.power_default_watts,
            memory_total_bytes=device.memory_total_bytes,
            even_if_used=self._even_if_used and bool(status.processes),
            instance=device.parent is not None,
            simulated=snapshot.simulated,
        )

    def lease(
        self, availability: Availability, snapshot: Snapshot, statuses: Iterable[DeviceStatus]
    ) -> tuple[list[CardToCheck], list[CardResult]]:
        """Takes a lease for each card; returns those, and a result for each that someone has."""
        # With an end: what others have reserved for later is free until then.
        terms = LeaseTerms(command=COMMAND, seconds=_longest(self._plan), usual=True)
        cards, refused, granter = list[CardToCheck](), list[CardResult](), Granter(
            Book(), availability
        )  # fmt: skip
        try:
            for status in statuses:
                request = DeviceRequest(
                    devices=(status.device.uuid,), even_if_used=self._even_if_used
                )
                begin = self.begin(snapshot, status)
                try:
                    grant = granter.grant(request, terms, 0.0)
                except AndonError as error:
                    refused.append(not_checked(begin, "; ".join(error.mistakes) or error.reason))
                    continue
                cards.append(CardToCheck(begin, grant.descriptors(), grant))
        except BaseException:
            for card in cards:
                card.done(stuck=False)
            raise
        return cards, refused

    def run(
        self,
        cards: Sequence[CardToCheck],
        is_unwanted: Callable[[], bool] = lambda: False,
    ) -> list[CardResult]:
        """Checks them at once, but their links one after the other; returns what was found, judged
        and stored. Those that are not done end once they are unwanted."""
        link, together = threading.Lock(), self._plan.mode is CheckMode.FULL and len(cards) > 1
        with self._sampler.subscribe(READING_SECONDS) as session:
            readings = Readings(session)
            checks = [
                CardCheck(card.begin, self._plan, readings, link, card.descriptors)
                for card in cards
            ]
            # Not by Thread.join: a Ctrl-C in it makes Python take the thread for ended.
            ends = [threading.Event() for _ in cards]
            begun = 0
            try:
                for card, check, ended in zip(cards, checks, ends, strict=True):
                    begun += 1
                    arguments = card, check, ended, not together
                    threading.Thread(target=self._one, args=arguments, daemon=True).start()
                for ended in ends:
                    while not ended.wait(JOIN_SECONDS):
                        if is_unwanted():
                            _stop(checks)
                if together:
                    self._measure_peers(list(zip(cards, checks, strict=True)))
            except BaseException:
                _stop(checks)
                for ended in ends[:begun]:
                    ended.wait(START_SECONDS)
                first = 0 if together else begun
                for card, check in zip(cards[first:], checks[first:], strict=True):
                    card.done(check.stuck)
                raise
        self.stuck = any(check.stuck for check in checks)
        return self._judged([check.result for check in checks])

    def _measure_peers(self, checked: Sequence[tuple[CardToCheck, CardCheck]]) -> None:
        """Copies between the cards that are well, then releases the leases of all."""
        # A process sees one instance of a divided board at most.
        well = [one for one in checked if one[1].is_well and not one[0].begin.instance]
        stuck = False
        if len(well) > 1:
            uuids = [check.result.uuid for _, check in well]
            labels = [card.begin.label for card, _ in well]
            locks = [each for card, _ in well for each in card.descriptors]
            self.peers, why, stuck = measure_peers(uuids, labels, locks)
            self.troubles += [f"copies between cards were not all measured: {why}"] if why else []
        for card, check in checked:
            card.done(check.stuck or (stuck and (card, check) in well))

    def _one(
        self, card: CardToCheck, check: CardCheck, ended: threading.Event, releases: bool
    ) -> None:
        try:
            check.result = check.run()
        except (AndonError, OSError) as error:  # of this side: memory, a full disk
            check.result = replace(
                check.result, verdict=CheckVerdict.FAILED, text=str(error) or repr(error)
            )
        finally:
            if releases:
                card.done(check.stuck)
            ended.set()

    def _judged(self, results: list[CardResult]) -> list[CardResult]:
        earlier, out = list(self._earlier()), []
        fleet = self._fleet([one for one in results if one.parts and not one.instance])
        for result in results:
            past = [one for one in earlier if one.uuid == result.uuid]
            local = [*(one for one in earlier if one.node == result.node), *results]
            one = judged(result, References(_measured(local), fleet, past))
            out.append(one)
        for one in out:
            if one.verdict not in (CheckVerdict.NOT_CHECKED, CheckVerdict.STOPPED):
                self._keep(one)
        return out

    def _keep(self, result: CardResult) -> None:
        try:
            self._store(result)
        except (AndonError, OSError) as error:
            self.troubles.append(str(error))


def check_placement(
    sampler: SnapshotSource, placement: Placement, is_unwanted: Callable[[], bool] = lambda: False
) -> tuple[list[CardResult], bool]:
    """Checks the cards of a lease that this process holds, quickly. The second value says whether a
    process that cannot be ended keeps its lock."""
    checker = Checker(sampler, plan_for(CheckMode.QUICK))
    snapshot = placement.snapshot or sampler.once(with_host=False)
    statuses, results = checker.candidates(snapshot, placement.uuids)
    descriptors = placement.descriptors()
    cards = [CardToCheck(checker.begin(snapshot, one), descriptors) for one in statuses]
    results += checker.run(cards, is_unwanted)
    return results, checker.stuck


def _measured(results: Iterable[CardResult]) -> list[CardResult]:
    """Returns those with numbers that are right; the other cards of the same check have no verdict
    yet."""
    return [one for one in results if one.verdict.is_measured and one.parts and not one.wrong]


def _stop(checks: Iterable[CardCheck]) -> None:
    for check in checks:
        with suppress(AndonError):
            check.stop()


def _with_link(begin: CardResult, status: DeviceStatus) -> CardResult:
    """Adds the link as it is now."""
    if status.sample is None or status.sample.pcie_width is None:
        return begin
    now = status.sample.pcie_generation, status.sample.pcie_width
    part = CheckPart("to_device", pcie_generation=now[0], pcie_width=now[1])
    return replace(begin, parts=(part,))


def not_checked(begin: CardResult, reason: str) -> CardResult:
    return replace(begin, verdict=CheckVerdict.NOT_CHECKED, text=reason)


def seconds_of(plan: CheckPlan) -> float:
    """Returns about how long a check lasts, for a person who waits."""
    parts = plan.fp32_seconds + plan.tensor_seconds + plan.memory_seconds + plan.link_seconds
    return parts + 1.0 + plan.passes * 0.3


def _longest(plan: CheckPlan) -> float:
    """Returns after how many seconds a check is over, also if its card hangs."""
    return 2 * seconds_of(plan) + START_SECONDS + SILENT_SECONDS + END_SECONDS
