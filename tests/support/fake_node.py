"""A node made of values, for tests of whatever asks a node."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.alerts.rules.overview import AlertOverview
from andon.errors import Gone, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.notes import EndedLease, HistoryNote
from andon.history.rules.series import Bucket
from andon.jobs.queue_desk import QueueDesk
from andon.jobs.rules.views import JobListing
from andon.leases.rules.capacity import Surroundings, capacities
from andon.leases.rules.offer import Offer, offer_by
from andon.leases.rules.rows import EMPTY
from andon.leases.rules.verdict import verdicts
from andon.model.alert import Acknowledgement, Alert, Silence
from andon.model.check import CardResult
from andon.model.codec import document
from andon.model.device import Device, Host, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobView
from andon.model.lamp import DeviceLamp
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.naming import devices_named
from andon.model.run.record import RunRow
from andon.model.verdict import DeviceVerdict
from andon.runs.rules.matching import RunListing, RunQuery, matches, select

T = TypeVar("T")


class FakeNode:
    """Plays the snapshots it was given; changes are made to its own values.

    With an `error` every part raises it, as a node that is away does. `interrupted` ends its
    sessions as Ctrl-C does.
    """

    simulated = recording = False

    def __init__(
        self,
        *snapshots: Snapshot,
        url: str | None = None,
        alerts: Sequence[Alert] = (),
        leases: Sequence[LeaseRow] = (),
        uses: Sequence[UsageInterval] | None = None,
        runs: Sequence[RunRow] = (),
        jobs: Sequence[JobView] = (),
        error: BaseException | None = None,
        interrupted: bool = False,
    ) -> None:
        self.url, self.error = url, error
        self._live = FakeLive(snapshots, interrupted)
        self._alerts = FakeAlerts(self._live, alerts)
        self._leases = FakeLeases(self._live, leases)
        self._past = FakePast(self._live, uses)
        self._runs, self._jobs = FakeRuns(runs), FakeJobs(jobs)

    @property
    def live(self) -> "FakeLive":
        return self._answered(self._live)

    @property
    def alerts(self) -> "FakeAlerts":
        return self._answered(self._alerts)

    @property
    def leases(self) -> "FakeLeases":
        return self._answered(self._leases)

    @property
    def past(self) -> "FakePast":
        return self._answered(self._past)

    @property
    def runs(self) -> "FakeRuns":
        return self._answered(self._runs)

    @property
    def jobs(self) -> "FakeJobs":
        return self._answered(self._jobs)

    def shared(self) -> "FakeNode | None":
        return self if self.url is not None else None

    def close(self) -> None:
        """Does nothing: there is nothing to close."""

    def _answered(self, part: T) -> T:
        if self.error is not None:
            raise self.error
        return part


class FakeLive:
    """Snapshots one after the other; a session ends after the last."""

    def __init__(self, snapshots: Sequence[Snapshot], interrupted: bool) -> None:
        self.snapshots, self.interrupted = snapshots, interrupted
        self.intervals: list[float] = []  # of the sessions that were begun

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        if meanwhile is not None:
            meanwhile()
        last = self.snapshots[-1] if twice else self.snapshots[0]
        return replace(last, host=self.snapshots[0].host)

    def read(self, expensive_fields: bool = False) -> Snapshot:
        return self.snapshots[0]

    def placed(self) -> Snapshot:
        return replace(self.snapshots[-1], host=Host())

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> "FakeSession":
        self.intervals.append(interval_seconds)
        return FakeSession(self.snapshots, self.interrupted)

    def minutes(self) -> Sequence[Snapshot]:
        return ()

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        return lamps_from_sample(snapshot, Rulebook())


class FakeSession:
    """A session over given snapshots."""

    dropped, playing = 0, None

    def __init__(self, snapshots: Sequence[Snapshot], interrupted: bool) -> None:
        self._snapshots, self._interrupted = [*snapshots], interrupted

    def get(self, timeout_seconds: float | None = None) -> Snapshot | None:
        return self._snapshots.pop(0) if self._snapshots else None

    def pace(self, interval_seconds: float) -> None:
        """Does nothing: they come as fast as they are taken."""

    def close(self) -> None:
        self._snapshots.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: there is nothing to close."""

    def __iter__(self) -> Iterator[Snapshot]:
        yield from self._snapshots
        if self._interrupted:
            raise KeyboardInterrupt


class FakeAlerts:
    """Given alerts; those of a machine without a server are judged elsewhere."""

    notifies = True

    def __init__(self, live: FakeLive, alerts: Sequence[Alert]) -> None:
        self._live, self._alerts = live, {alert.id: alert for alert in alerts}
        self._silences: dict[str, Silence] = {}

    def page(self, since: float | None = None, devices: Sequence[str] = ()) -> AlertOverview:
        now, silences = self._live.read(), tuple(self._silences.values())
        wanted = {uuid for name in devices for uuid in devices_named(name, now.devices)}
        found = self._alerts.values()
        alerts = tuple(one for one in found if not devices or one.subject in wanted)
        return AlertOverview(now.node, now.at, alerts, silences, now.simulated)

    def pages(self, devices: Sequence[str] = ()) -> Iterator[AlertOverview]:
        for _ in self._live.snapshots:
            yield self.page(None, devices)

    def check_server(self) -> None:
        """Does nothing: it keeps what people say."""

    def alert(self, number: str) -> Alert:
        if number not in self._alerts:
            raise Gone(f"there is no alert {number!r}", hint="list them: andon alerts")
        return self._alerts[number]

    def rules(self) -> dict[str, Any]:
        from andon.alerts.rules.rule_page import rule_list

        return document(rule_list(Rulebook(), self._live.read().devices))

    def rule(self, name: str) -> dict[str, Any]:
        from andon.alerts.rules.rule_page import RuleContext, rule_page
        from andon.explain.conditions.catalogue import condition_named

        statuses = self._live.read().devices
        return document(rule_page(condition_named(name), RuleContext(Rulebook(), statuses)))

    def acknowledge(self, number: str, by: str, note: str) -> Alert:
        seen = Acknowledgement(self._live.read().at, by, note)
        return self._changed(replace(self.alert(number), acknowledged=seen))

    def unacknowledge(self, number: str) -> Alert:
        return self._changed(replace(self.alert(number), acknowledged=None))

    def silence(self, body: Mapping[str, Any]) -> Silence:
        name, at = f"s{len(self._silences) + 1}", self._live.read().at
        rule, subject = body.get("rule"), body.get("subject")
        made = self._silences[name] = Silence(name, at + body["seconds"], rule, subject, since=at)
        return made

    def unsilence(self, number: str) -> None:
        if self._silences.pop(number, None) is None:
            raise Gone(f"there is no silence {number!r}", hint="list them: andon alerts")

    def test(self, notifier: str | None) -> Mapping[str, Any]:
        return {"results": [], "note": "no notifier is configured"}

    def _changed(self, alert: Alert) -> Alert:
        self._alerts[alert.id] = alert
        return alert


class FakeLeases:
    """Given leases; what is available follows from the readings."""

    def __init__(self, live: FakeLive, rows: Sequence[LeaseRow]) -> None:
        self._live, self._rows = live, list(rows)
        self.released: dict[str, str] = {}  # the note for each

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        now = snapshot or self._live.read()
        note = None if self._rows else EMPTY
        devices = self.verdicts(now)
        return now, LeaseList(now.at, tuple(self._rows), devices=devices, note=note), ()

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        return verdicts(capacities(snapshot.devices, Surroundings()), {})

    def offer(self, request: DeviceRequest) -> Offer:
        now = self._live.read()
        return offer_by(now, {one.uuid: one for one in self.verdicts(now)}, request)

    def release(self, name: str, note: str) -> str:
        self._rows.remove(self._row(name))
        self.released[name] = note
        return name

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        row = self._row(name)
        until = (row.until or self._live.read().at) + seconds
        self._rows[self._rows.index(row)] = replace(row, until=until)
        return name, until

    def _row(self, name: str) -> LeaseRow:
        for row in self._rows:
            if row.id == name:
                return row
        raise Gone(f"there is no lease {name!r}", hint="list them: andon leases")


class FakePast:
    """Given intervals of use; nothing is recorded without any."""

    def __init__(self, live: FakeLive, uses: Sequence[UsageInterval] | None) -> None:
        self._live, self._uses = live, uses

    @property
    def recorded(self) -> bool:
        return self._uses is not None

    def devices(self) -> Sequence[Device]:
        self._check()
        return [status.device for status in self._live.read().devices]

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        self._check()
        step = (until - since) / points
        return [Bucket(since + step * i, since + step * (i + 1)) for i in range(points)]

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        return [one for one in self._check() if device in (None, one.device)]

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], Mapping[str, list[float | None]]]:
        self._check()
        return [0] * points, {}

    def checks(self) -> Sequence[CardResult]:
        return ()

    def notes(self, device: str | None, since: float, until: float) -> Sequence[HistoryNote]:
        return ()

    def ended_leases(self, device: str | None, since: float, until: float) -> Sequence[EndedLease]:
        return ()

    def add_note(self, note: HistoryNote) -> HistoryNote:
        raise Unavailable("no server runs", hint="start: andon serve")

    def remove_note(self, number: str) -> None:
        raise Unavailable("no server runs", hint="start: andon serve")

    def _check(self) -> Sequence[UsageInterval]:
        if self._uses is None:
            raise Unavailable("no history yet", hint="start: andon serve")
        return self._uses


class FakeRuns:
    """Given runs; their records are where they say."""

    def __init__(self, rows: Sequence[RunRow]) -> None:
        self._rows = rows

    def listed(self, query: RunQuery) -> RunListing:
        total = sum(matches(row, query) for row in self._rows)
        return RunListing(select(self._rows, query), total)

    def find(self, query: RunQuery) -> Sequence[RunRow]:
        return select(self._rows, query)

    def is_id(self, word: str) -> bool:
        return any(row.id == word for row in self._rows)

    def resolve(self, word: str) -> RunRow:
        for row in select(self._rows, RunQuery()):
            if row.id.startswith(word) or word in (row.name, "last", "@"):
                return row
        raise Gone(f"there is no run {word!r}", hint="list them: andon runs")

    def record(self, row: RunRow) -> Path:
        return Path(row.path)


class FakeJobs(QueueDesk):
    """Given jobs."""

    def __init__(self, views: Sequence[JobView]) -> None:
        super().__init__()
        self._views = views

    def listing(self, everyone: bool = False) -> JobListing:
        return JobListing.of(self._views)
