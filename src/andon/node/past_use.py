"""The past use of a node: the history of the devices, and recorded runs."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from andon.errors import AndonError
from andon.history.rules.usage import Days, Holding, UsePeriod, add_runs, by_day

if TYPE_CHECKING:
    from andon.model.run.record import RunRow
    from andon.node.port import Node, NodePast


class RecordedRuns(Struct, frozen=True):
    """The runs that began in the span, and what is not known of them."""

    rows: tuple["RunRow", ...] = ()
    notes: tuple[str, ...] = ()


class PastUse(Struct):
    """Use by day and user, of real devices and of simulated ones."""

    recorded: bool = False  # whether there is any history
    real: Days = field(default_factory=dict)
    simulated: Days = field(default_factory=dict)


def day_of(at: float) -> str:
    """Returns the local date of a time."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def read_runs(node: "Node", since: float) -> RecordedRuns:
    """Returns the runs that this user may see; other users' records are private."""
    from andon.runs.rules.matching import RunQuery

    try:
        rows = tuple(node.runs.find(RunQuery(since=since)))
    except AndonError as exc:
        return RecordedRuns(notes=(f"– runs, waits: {exc.reason}",))
    if node.url is not None:
        return RecordedRuns(rows, ("Runs and waits are those that the server shows you.",))
    return RecordedRuns(rows, ("Runs and waits are those that you recorded on this machine.",))


def past_use(
    past: "NodePast",
    since: float,
    uuids: set[str] | None,
    runs: Sequence["RunRow"],
    until: float | None = None,
) -> PastUse:
    """Returns the use by day and user, up to now by default. `uuids`: only these devices; None
    means all."""
    found, now = PastUse(), time.time() if until is None else until
    if past.recorded:
        found.recorded = True
        found.real = _days(past, since, now, uuids, False, runs)
        found.simulated = _days(past, since, now, uuids, True, runs)
    for simulated, days in ((False, found.real), (True, found.simulated)):
        mine = [row for row in runs if row.simulated == simulated and _on(row, uuids)]
        add_runs(days, ((row.began, row.user, row.waited_seconds) for row in mine), day_of)
    return found


def _days(
    past: "NodePast",
    since: float,
    now: float,
    uuids: set[str] | None,
    simulated: bool,
    runs: Sequence["RunRow"],
) -> Days:
    known = [d for d in past.devices() if uuids is None or d.uuid in uuids]
    kind = {d.uuid for d in known if (d.vendor == "sim") == simulated}
    period = UsePeriod.of(since, now)
    uses = [use for use in past.usage(None, period.since, now) if use.device in kind]
    held = [one for one in _holdings(runs, now) if one.device in kind]
    used = {use.device for use in uses} | {one.device for one in held}
    period = period.beginning_with([*uses, *held])
    read = {uuid: period.read(past, uuid) for uuid in used}
    return by_day(uses, read, day_of, held)


def _holdings(runs: Sequence["RunRow"], now: float) -> list[Holding]:
    return [
        Holding(device.uuid, row.user, row.began, now if row.ended is None else row.ended)
        for row in runs
        for device in row.devices
    ]


def _on(row: "RunRow", uuids: set[str] | None) -> bool:
    return uuids is None or any(device.uuid in uuids for device in row.devices)
