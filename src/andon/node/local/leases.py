"""The leases of this machine: the lease book matched with the devices as they are now."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from andon.errors import AndonError, Gone
from andon.host.users import user_name
from andon.leases.book.places import is_empty
from andon.model.device import Snapshot
from andon.model.verdict import DeviceVerdict
from andon.node.local.context import LocalContext
from andon.node.local.live import LocalLive
from andon.node.usual_server import may_be_running
from andon.sampling.rules.masks import doubt_about

if TYPE_CHECKING:
    from andon.leases.availability import Availability
    from andon.leases.book.lease_book import Book
    from andon.leases.rules.offer import Offer
    from andon.model.job.device_request import DeviceRequest
    from andon.model.lease_list import LeaseList


class LocalLeases:
    """Judges by this machine's book; uses a server's verdicts until the book changes."""

    def __init__(self, context: LocalContext, live: LocalLive) -> None:
        self._context, self._live = context, live
        self._availability: Availability | None = None

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> "tuple[Snapshot, LeaseList, Sequence[str]]":
        from andon.leases.book.lease_book import Book
        from andon.leases.listing import read_listing
        from andon.leases.releaser import overdue

        if snapshot is not None:
            availability = self._availability_in(snapshot)
            view = availability.view_of(snapshot)
            seen = read_listing(availability, view, Book(make=False))
            return snapshot, seen.leases, seen.remarks
        with self._available_now() as availability:
            seen = read_listing(availability, availability.view(), Book(make=False))
        for _, text in overdue(Book(make=False), seen.claims, time.time()):
            self._context.notify(text)
        if not mine:
            return seen.snapshot, seen.leases, seen.remarks
        return seen.snapshot, seen.leases.of(os.getuid(), user_name(os.getuid())), ()

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        found = self.beyond_readings(snapshot)
        if found is not None:
            return found
        from andon.leases.rules.verdict import by_readings

        return by_readings(snapshot.devices)

    def beyond_readings(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...] | None:
        """Returns the verdicts; None where they follow from the readings alone: nothing is leased,
        queued or cordoned here."""
        reply = self._live.reply
        if reply is not None and (found := reply.verdicts()) is not None:
            return found
        if (snapshot.simulated or not may_be_running()) and is_empty(os.environ):
            return _masked(snapshot)
        from andon.leases.availability import BookContents
        from andon.leases.book.lease_book import Book

        availability = self._availability_in(snapshot)
        view = availability.view_of(snapshot)
        pages = BookContents.of(Book(make=False))
        capacities = availability.capacities(view, pages)
        return availability.verdicts(snapshot, capacities, pages, snapshot.at)

    def _availability_in(self, snapshot: Snapshot) -> "Availability":
        """Opens the availability; only real devices are checked for earlier faults."""
        if self._availability is None:
            broken = dict if snapshot.simulated or not may_be_running() else None
            self._availability = self._context.parts.open_availability(
                self._context.settings, lambda: snapshot, simulated=True, broken=broken
            )
        return self._availability

    def offer(self, request: "DeviceRequest") -> "Offer":
        from andon.leases.book.lease_book import Book
        from andon.leases.rules.eligibility import request_text
        from andon.leases.rules.offer import Offer, OfferRow

        with self._available_now(request.most > 1, commands=False) as availability:
            found = availability.offer(Book(make=False), request)
        snapshot = found.snapshot
        models = {status.device.uuid: status.device.name for status in snapshot.devices}
        rows = tuple(
            OfferRow(
                verdict,
                models[one.uuid],
                one.free_bytes,
                one.utilization_percent,
                one.score,
                one.chosen,
            )
            for one, verdict in zip(found.choice.candidates, found.verdicts, strict=True)
        )
        text, least = request_text(request), found.need.least
        return Offer(snapshot.at, snapshot.simulated, text, least, rows, found.choice.reason)

    def release(self, name: str, note: str) -> str:
        from andon.leases import releaser
        from andon.leases.book.lease_book import Book
        from andon.leases.own import numbers_of, own_leases

        book = Book(make=False)
        try:
            return releaser.release(book, name, note=note).id
        except Gone as exc:
            if (orphan := _orphaned(book, name)) is not None:
                raise orphan from exc
            held = [one for one in own_leases(book) if name in numbers_of(one)]
            if not held:
                raise
            hint = f"GPU {name} is in your lease {held[0].id}: andon release {held[0].id}"
            raise Gone(exc.reason, hint=hint) from exc

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        from andon.leases import releaser
        from andon.leases.book.lease_book import Book

        held = releaser.extend(Book(make=False), name, seconds)
        return held.id, held.until or 0.0

    @contextmanager
    def _available_now(
        self, links: bool = False, commands: bool = True
    ) -> "Iterator[Availability]":
        """Yields what is available by the server's latest snapshot, or else by a new one.

        `links`: whether it matters how the devices are linked, which a snapshot does not say;
        `commands`: whether the command lines of processes do.
        """
        context, reply = self._context, self._live.ask_server(commands)
        found = None if links else self._live.recent(reply)
        if reply is not None and found is not None:
            verdicts = reply.verdicts()
            broken = None if verdicts is None else _broken(verdicts)
            yield context.parts.open_availability(
                context.settings, lambda: found, simulated=found.simulated, broken=broken
            )
            return
        with context.parts.open_sampler(context.settings) as sampler:
            sampler.on_long_wait = context.notify
            sampler.begin()
            fresh = context.parts.open_availability(
                context.settings,
                lambda: sampler.once(with_host=False),
                simulated=context.leases_simulated,
                ask_places=sampler.ask_places,
            )
            if reply is None:
                yield fresh
                return
            from andon.sampling.rules.server_snapshot import with_known

            yield replace(fresh, sample=lambda: with_known(fresh.sample(), reply.reading.snapshot))


def _orphaned(book: "Book", name: str) -> AndonError | None:
    """Returns why an orphaned lease cannot be ended; None if `name` is not one."""
    from andon.leases.own import this_requester
    from andon.leases.rules.rights import barred
    from andon.model.lease import Claim, LeaseState

    for one in book.entries():
        if not one.locked and one.left and one.lease is not None and one.lease.id == name:
            claim = Claim(one.lease, LeaseState.ORPHANED, one.uid, one.user, one.file, one.left)
            return barred(claim, this_requester())
    return None


def _masked(snapshot: Snapshot) -> tuple[DeviceVerdict, ...] | None:
    """Returns verdicts with every device masked if the masks are unclear; else None."""
    if (doubt := doubt_about(snapshot.devices, os.environ)) is None:
        return None
    from andon.leases.rules.capacity import Surroundings, capacities
    from andon.leases.rules.verdict import all_masked, verdicts

    found = capacities(snapshot.devices, Surroundings())
    return verdicts(found, all_masked(found, doubt))


def _broken(verdicts: Iterable[DeviceVerdict]) -> Callable[[], Mapping[str, str]]:
    found = {one.uuid: one.reason or "" for one in verdicts if one.code == "broken"}
    return lambda: found
