"""Which devices are free: the verdict of this node's lease book, or of a server."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from andon.cli.show.cells import WITHHELD
from andon.cli.show.entries import NO_VERDICTS
from andon.cli.show.text import UNKNOWN, Text, say
from andon.cli.snapshot_source import recent_snapshot, told_snapshot
from andon.cli.sources import availability_of, sampling_ahead, settings_of
from andon.cli.terminal import Choices
from andon.errors import AndonError, Invalid
from andon.model.device import DeviceStatus, Snapshot
from andon.model.naming import device_labels, range_of
from andon.model.verdict import DeviceVerdict, VerdictKind
from andon.node.usual_server import may_be_running
from andon.units import human_bytes

if TYPE_CHECKING:
    from andon.cli.show.offer import Offer, OfferRow
    from andon.leases.availability import Availability, Candidates
    from andon.model.lease import DeviceRequest
    from andon.model.lease_list import LeaseList
    from andon.sampling.rules.told import ServerSnapshot


def verdicts_of(choices: Choices, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
    """Whether each device of a snapshot is available for a request of one whole device."""
    if choices.url is not None:
        return server_leases(choices).devices
    from andon.leases.book.places import is_empty

    # No server reports on simulated devices.
    broken = dict if snapshot.simulated or not may_be_running() else None
    if broken is not None and is_empty(os.environ):
        return _by_readings(snapshot)
    from andon.app import open_availability
    from andon.leases.availability import BookContents
    from andon.leases.book.lease_book import Book

    availability = open_availability(
        settings_of(choices), lambda: snapshot, simulated=True, broken=broken
    )
    view = availability.view_of(snapshot)
    pages = BookContents.of(Book(make=False))
    capacities = availability.capacities(view, pages)
    return availability.verdicts(snapshot, capacities, pages, snapshot.at)


def _by_readings(snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
    """Returns verdicts from the readings alone: nothing is leased, queued or cordoned here."""
    from andon.leases.rules.capacity import Surroundings, capacities
    from andon.leases.rules.verdict import all_masked, verdicts
    from andon.sampling.rules.masks import doubt_about

    found = capacities(snapshot.devices, Surroundings())
    doubt = doubt_about(snapshot.devices, os.environ)
    return verdicts(found, {} if doubt is None else all_masked(found, doubt))


def server_leases(choices: Choices) -> "LeaseList":
    """The leases and verdicts of the server that --url names."""
    from andon.cli.lease_source import leases_of_server
    from andon.cli.snapshot_source import connected

    return leases_of_server(connected(choices, choices.url or ""))


class KnownVerdicts(Struct, frozen=True):
    """The verdict on each device; or why there is none, where devices can be leased at all."""

    verdicts: Mapping[str, DeviceVerdict] = NO_VERDICTS
    unknown: str | None = None
    leasable: bool = True


def availability_in(
    choices: Choices, snapshot: Snapshot, told: "ServerSnapshot | None" = None
) -> KnownVerdicts:
    """Returns the server's verdicts, unless the lease book has changed since; none where devices
    cannot be leased, as in a recording or without kernel locks."""
    if "replay" in snapshot.versions or sys.platform == "win32" or not snapshot.devices:
        return KnownVerdicts(leasable=False)
    try:
        found = _told(told) or verdicts_of(choices, snapshot)
        return KnownVerdicts({one.uuid: one for one in found})
    except (AndonError, OSError) as error:
        return KnownVerdicts(unknown=error.reason if isinstance(error, AndonError) else str(error))


def _told(told: "ServerSnapshot | None") -> tuple[DeviceVerdict, ...]:
    if told is None or told.verdicts is None:
        return ()
    from andon.leases.book.places import has_changed

    return () if has_changed(os.environ, told.listed_at) else told.verdicts


def availability_lines(found: KnownVerdicts, shown: Snapshot) -> list[Text]:
    """`not free: GPU 5 (held by alice)` and `free: GPU 4, 6`."""
    if not found.leasable or not shown.devices:
        return []
    if found.unknown is not None:
        return [say("free: ", "dim") + say(f"not known: {found.unknown}", "yellow")]
    return [*_taken(found.verdicts, shown), _free(found.verdicts, device_labels(shown.devices))]


def _taken(found: Mapping[str, DeviceVerdict], shown: Snapshot) -> list[Text]:
    """The devices that look idle in the table and are not available, each with the reason."""
    labels, names = device_labels(shown.devices), dict[str, list[str]]()
    for status in shown.devices:
        one = found.get(status.device.uuid)
        if one is None or not status.answered or status.processes:
            continue
        if one.kind is VerdictKind.HELD:
            names.setdefault(f"held by {one.by or UNKNOWN}", []).append(labels[one.uuid])
        elif one.code in WITHHELD:
            names.setdefault(WITHHELD[one.code], []).append(labels[one.uuid])
    if not names:
        return []
    parts = [f"GPU {range_of(gpus)} ({why})" for why, gpus in names.items()]
    return [say("not free: ", "dim") + say(", ".join(parts))]


def _free(found: Mapping[str, DeviceVerdict], labels: Mapping[str, str]) -> Text:
    known = [label for uuid, label in labels.items() if uuid in found]
    free = [
        label
        for uuid, label in labels.items()
        if uuid in found and found[uuid].kind is VerdictKind.FREE
    ]
    if labels and not known:
        return say("free: ", "dim") + say("unknown: the server does not report it", "yellow")
    if not free:
        return say("free: ", "dim") + say("none") + say("  (andon free says why)", "dim")
    return say("free: ", "dim") + say(f"GPU {range_of(free)}", "bold green")


@contextmanager
def availability_now(
    choices: Choices, links: bool = False, commands: bool = True
) -> "Iterator[Availability]":
    """What is available by the latest snapshot of this machine's server, else by a new one.

    `links`: whether it matters how the devices are linked, which a snapshot does not say;
    `commands`: whether the command lines of processes do.
    """
    told = told_snapshot(choices, commands)
    found = None if links else recent_snapshot(choices, told)
    if told is not None and found is not None:
        from andon.app import open_availability

        broken = _broken(told.verdicts) if told.verdicts is not None else None
        yield open_availability(settings_of(choices), lambda: found, simulated=False, broken=broken)
        return
    with sampling_ahead(choices) as sampler:
        fresh = availability_of(choices, sampler)
        if told is None:
            yield fresh
            return
        from andon.sampling.rules.told import remembering

        yield replace(fresh, sample=lambda: remembering(fresh.sample(), told.snapshot))


def _broken(told: Iterable[DeviceVerdict]) -> Callable[[], Mapping[str, str]]:
    found = {one.uuid: one.reason or "" for one in told if one.code == "broken"}
    return lambda: found


def candidates_here(choices: Choices, request: "DeviceRequest") -> "Candidates":
    """Returns the devices that a request would get on this node now."""
    from andon.leases.book.lease_book import Book

    with sampling_ahead(choices) as sampler:
        return availability_of(choices, sampler).offer(Book(make=False), request)


def offer_here(choices: Choices, request: "DeviceRequest") -> "Offer":
    from andon.cli.show.offer import Offer, OfferRow
    from andon.leases.book.lease_book import Book

    with availability_now(choices, request.most > 1, commands=False) as availability:
        found = availability.offer(Book(make=False), request)
    models = {s.device.uuid: s.device.name for s in found.snapshot.devices}
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
    snapshot, least = found.snapshot, found.need.least
    return Offer(snapshot.at, snapshot.simulated, _asked(request), least, rows, found.choice.reason)


def offer_there(choices: Choices, request: "DeviceRequest") -> "Offer":
    """Returns a server's offer: its verdict on each device, narrowed to the request."""
    from andon.cli.show.offer import Offer, OfferRow
    from andon.cli.snapshot_source import server_of
    from andon.leases.rules.eligibility import need_of, no_gpu, obstacles_of
    from andon.leases.rules.verdict import verdict

    if request.shared or request.labels or request.prefer or request.even_if_used:
        hint = "a server answers --gpus, --memory, --model, --devices and --exclude"
        raise Invalid("--url cannot be combined with these options", hint=hint)
    snapshot = server_of(choices, choices.url or "").once()
    if not snapshot.devices:
        raise no_gpu(snapshot.faults)
    # A mask of this process does not apply to a server's devices.
    statuses = tuple(replace(status, visible=True) for status in snapshot.devices)
    never = obstacles_of(statuses, request, {})
    need = need_of(statuses, request, never)
    known, labels = {v.uuid: v for v in server_leases(choices).devices}, device_labels(statuses)
    rows = []
    for status in statuses:
        uuid, bar = status.device.uuid, never[status.device.uuid]
        found = known.get(uuid) if bar is None else verdict(status.device, labels[uuid], bar)
        row = OfferRow(
            found or _unknown(status, labels[uuid]),
            status.device.name,
            _free_bytes(status),
            status.sample.utilization_percent if status.sample and status.answered else None,
        )
        rows.append(_if_large_enough(row, request.memory_bytes))
    free = [place for place, row in enumerate(rows) if row.is_free]
    if len(free) >= need.least:
        for place in free[: need.most]:
            rows[place] = replace(rows[place], chosen=True)
    return Offer(snapshot.at, snapshot.simulated, _asked(request), need.least, tuple(rows))


def _unknown(status: DeviceStatus, label: str) -> DeviceVerdict:
    device, words = status.device, "the server does not report it"
    return DeviceVerdict(
        device.uuid, device.index, label, VerdictKind.WITHHELD, code="unknown", reason=words
    )


def _if_large_enough(row: "OfferRow", size: int | None) -> "OfferRow":
    """Returns the row, as in use if a free device has too little free memory for the request."""
    if size is None or not row.is_free or (row.free_bytes or 0) >= size:
        return row
    left = UNKNOWN if row.free_bytes is None else human_bytes(row.free_bytes)
    reason = f"{left} free, {human_bytes(size)} requested"
    return replace(
        row, verdict=replace(row.verdict, kind=VerdictKind.IN_USE, code="full", reason=reason)
    )


def _free_bytes(status: DeviceStatus) -> int | None:
    return status.sample.memory_free_bytes if status.sample and status.answered else None


def _asked(request: "DeviceRequest") -> str:
    from andon.leases.rules.eligibility import count_words

    size = request.memory_bytes
    return count_words(request) + ("" if size is None else f" with {human_bytes(size)}")
