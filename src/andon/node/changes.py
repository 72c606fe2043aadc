"""What else changed in a range of a node's history: gathers the facts from its ports."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from andon.errors import AndonError, Invalid
from andon.history.rules.changes import (
    MOST_CHANGES,
    NOT_COMPARED,
    ChangeKind,
    ChangeList,
    RangeFacts,
    RecordedWork,
    changes,
    shares_as_readings,
)
from andon.history.rules.series import HOST, HOST_METRICS, METRICS, Bucket
from andon.model.alert import Alert
from andon.model.run.record import RunState
from andon.node.local.alerts import LocalAlerts
from andon.node.port import Node
from andon.node.remote.past import RemotePast
from andon.runs.rules.matching import RunQuery
from andon.units import human_seconds

MOST_RUNS = 200
NODE_SUBJECT = "node"
NOT_FAILED = (RunState.RUNNING, RunState.SUCCEEDED, RunState.STOPPED, RunState.ENDED)
T = TypeVar("T")


def changes_of(node: Node, device: str, since: float, until: float) -> ChangeList:
    """Compares a range of a device, or of `host`, with the one before it; what cannot be read is
    left out and said. `Unavailable` if there is no history."""
    past = node.past
    if isinstance(past, RemotePast):
        return past.changes(device, since, until)
    if since >= until:
        raise Invalid("the time range is empty", hint="since must be before until")
    before, unknown = max(0.0, since - (until - since)), list[str]()

    def known(what: str, ask: Callable[[], Sequence[T]]) -> Sequence[T]:
        try:
            return ask()
        except AndonError as error:
            unknown.append(f"{what}: {error.reason}")
            return ()

    readings = _readings(node, device, before, until)
    if not any(bucket.count for both in readings.values() for bucket in both):
        unknown.append("readings: nothing was read in either range")
    facts = RangeFacts(
        since,
        until,
        time.time(),
        readings,
        () if device == HOST else past.usage(device, since, until),
        [
            *known("runs", lambda: list(_runs(node, device, until))),
            *known("leases", lambda: list(_leases(node, device, since, until))),
        ],
        known("alerts", lambda: _alerts(node, device, since, unknown)),
        known("notes", lambda: past.notes(device, since, until)),
    )
    found = changes(facts)
    left_out = max(0, len(found) - MOST_CHANGES)
    return ChangeList(
        device, before, since, until, tuple(found[:MOST_CHANGES]), left_out, tuple(unknown)
    )


def _readings(
    node: Node, device: str, before: float, until: float
) -> Mapping[str, tuple[Bucket, Bucket]]:
    past, found = node.past, dict[str, tuple[Bucket, Bucket]]()
    for name in HOST_METRICS if device == HOST else METRICS:
        if name not in NOT_COMPARED:
            first, last = past.history(device, name, before, until, 2)
            found[name] = first, last
    if device != HOST:
        counts, shares = past.throttle_shares(device, before, until, 2)
        found |= dict(shares_as_readings(shares, counts))
    return found


def _runs(node: Node, device: str, until: float) -> Iterator[RecordedWork]:
    for row in node.runs.find(RunQuery(until=until, limit=MOST_RUNS)):
        if device == HOST or any(one.uuid == device for one in row.devices):
            ended = None if row.ended is None else float(row.ended)
            failed = row.state not in NOT_FAILED
            label = f"run {row.id} ({row.name}) of {row.user or 'an unknown user'}"
            outcome = f": {row.state.replace('_', ' ')}"
            yield RecordedWork(ChangeKind.RUN, label, row.began, ended, outcome, failed)


def _leases(node: Node, device: str, since: float, until: float) -> Iterator[RecordedWork]:
    """Yields those that are held now, and those whose end a server saw since then."""
    wanted = None if device == HOST else device
    for over in node.past.ended_leases(wanted, since, max(until, time.time())):
        lasted = f" after {human_seconds(over.ended - over.since)}"
        label = f"a lease of {over.holder}"
        yield RecordedWork(ChangeKind.LEASE, label, over.since, over.ended, lasted)
    for lease in node.leases.listing()[1].leases:
        mine = device == HOST or any(share.uuid == device for share in lease.devices)
        if mine and lease.since is not None:
            label = f"a lease of {lease.holder}, which is still held,"
            yield RecordedWork(ChangeKind.LEASE, label, lease.since)


def _alerts(node: Node, device: str, since: float, unknown: list[str]) -> Sequence[Alert]:
    if isinstance(node.alerts, LocalAlerts):
        node.alerts.check_server()  # raises: one reading says nothing of the past
    page = node.alerts.page(since)
    if page.note:
        unknown.append(f"alerts: {page.note}")
    return [one for one in page.alerts if one.subject in (device, NODE_SUBJECT)]
