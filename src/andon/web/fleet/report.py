"""One heartbeat of a node, read when someone asks for it."""

from functools import cached_property
from typing import Any

from msgspec.structs import replace

from andon.alerts.rules.handover import HandedNotice, HandedNotices, of_node
from andon.errors import Invalid
from andon.explain.conditions.rulebook import Override, Rulebook
from andon.fleet.rules.heartbeat import NOTICES, PART, inflated
from andon.fleet.rules.nodes import Heartbeat
from andon.fleet.rules.states import clock_trouble
from andon.fleet.rules.thresholds import rulebook_with
from andon.history.rules.notes import KnownNotes
from andon.model.alert import Alert, Silence
from andon.model.check import CardResult
from andon.model.codec import Wrong, read, read_valid
from andon.model.device import Snapshot
from andon.model.job.facts import JobView
from andon.model.lease_list import LeaseList
from andon.model.wire import Json
from andon.model.wire_in import snapshot_from_json
from andon.sampling.rules.readings import checked_snapshot

MOST_CHECKS = 1024


class Report:
    """One heartbeat, read. Its parts are as untrusted as any other input."""

    def __init__(self, beat: Heartbeat) -> None:
        self.beat, self._document = beat, inflated(beat.snapshot, PART)

    @cached_property
    def snapshot(self) -> Snapshot:
        found = checked_snapshot(snapshot_from_json(_part(self._document, "snapshot")))
        found = replace(found, node=self.beat.node)  # whose token it came with
        if clock_trouble(self.beat.at, self.beat.sent) is None:
            return found
        return replace(found, at=self.beat.at - max(0.0, self.beat.sent - found.at))

    @cached_property
    def leases(self) -> LeaseList | None:
        found: LeaseList | None = _read(LeaseList, self._document.get("leases"))
        return found

    @cached_property
    def alerts(self) -> tuple[Alert, ...]:
        return tuple(read_valid(Alert, one) for one in self._items("alerts"))

    @cached_property
    def silences(self) -> tuple[Silence, ...]:
        return tuple(read_valid(Silence, one) for one in self._items("silences"))

    @cached_property
    def rulebook(self) -> Rulebook | None:
        """None if the node does not say which thresholds it has."""
        found = _read(tuple[Override, ...], self._document.get("thresholds"))
        return rulebook_with(found) if found else None

    @cached_property
    def jobs(self) -> tuple[JobView, ...]:
        found = [_read(JobView, one) for one in self._items("jobs")]
        return tuple(one for one in found if one is not None)

    @cached_property
    def checks(self) -> tuple[CardResult, ...]:
        """The last few checks of each card, as `node`'s."""
        found = [_read(CardResult, one) for one in self._items("checks")[:MOST_CHECKS]]
        return tuple(replace(one, node=self.beat.node) for one in found)

    @cached_property
    def noted(self) -> KnownNotes | None:
        """The latest notes and leases that ended; None of a node that does not report them."""
        found: KnownNotes | None = _read(KnownNotes, self._document.get("noted"))
        return found and found.latest()

    def _items(self, name: str) -> list[Json]:
        found = self._document.get(name)
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def notices_in(beat: Heartbeat) -> tuple[HandedNotice, ...]:
    """Returns the notices for people, without the rest of the report."""
    found: tuple[HandedNotice, ...] = ()
    found = _read(HandedNotices, inflated(beat.notices, NOTICES).get("notices")) or ()
    return tuple(of_node(one, beat.node) for one in found)


def _part(document: Json, name: str) -> Json:
    found = document.get(name)
    if not isinstance(found, dict):
        raise Invalid(f"the report has no {name}")
    return found


def _read(kind: Any, value: object) -> Any:
    if value is None:
        return None
    try:
        return read(kind, value)
    except Wrong as wrong:
        raise Invalid(f"the report of the node is not valid: {wrong}") from wrong
