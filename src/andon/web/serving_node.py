"""The node of a running server, as one caller may see it: the rights of callers are applied here.

It is what routes ask. Its parts also have what only REST shows, such as pages with counts.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from andon.access.roles import (
    BLIND,
    Action,
    Identity,
    Role,
    check_silence,
    refusal_for,
    sight_of,
    signature,
)
from andon.alerts.rules.glance import lamps_now
from andon.alerts.rules.lamps import lamps_of
from andon.alerts.rules.messages import NO_NOTIFIER
from andon.alerts.rules.overview import AlertOverview
from andon.alerts.rules.past import Query, matches
from andon.alerts.rules.rule_page import RuleContext, rule_to_json, rules_to_json
from andon.errors import AndonError, Conflict, Gone, Invalid, Unavailable
from andon.explain.conditions.catalogue import condition_named
from andon.explain.conditions.rulebook import Rulebook
from andon.history.rules.series import HOST, HOST_METRICS
from andon.history.rules.throttle_shares import throttle_shares
from andon.leases.rules.occupants import Holder, holders
from andon.leases.rules.offer import Offer, offer_by
from andon.model.alert import Alert, Phase, Silence
from andon.model.device import SAMPLE_VALUES
from andon.model.naming import device_named
from andon.node.following import PolledSession, followed
from andon.web.answers import alert_payloads, lease_payloads
from andon.web.answers.sights import all_seen_by, narrowed, seen_by, uses_seen_by
from andon.web.serving_work import ServedJobs, ServedRuns

if TYPE_CHECKING:
    from andon.access.roles import Sight
    from andon.alerts.watcher import Watcher
    from andon.history.rules.intervals import UsageInterval
    from andon.history.rules.series import Bucket
    from andon.leases.network import NetworkLeases
    from andon.model.device import Device, Snapshot
    from andon.model.lamp import DeviceLamp
    from andon.model.lease import DeviceRequest
    from andon.model.lease_list import LeaseList, LeaseRow
    from andon.model.verdict import DeviceVerdict
    from andon.web.app_state import AppState

MOST_ALERTS = 1000
METRICS = tuple(name for name in SAMPLE_VALUES if name != "throttle")
"""The readings with a minimum, mean and maximum."""


class ServingNode:
    """The devices that this server watches. Made for each request; its parts keep nothing."""

    url: str | None = None

    def __init__(self, state: "AppState", who: Identity) -> None:
        self._state, self.who, self.sight = state, who, sight_of(who)

    @property
    def simulated(self) -> bool:
        return bool(self._state.feed.settings.simulate)

    @property
    def recording(self) -> bool:
        return bool(self._state.feed.settings.replay)

    @cached_property
    def live(self) -> "ServedLive":
        return ServedLive(self._state, self.sight)

    @cached_property
    def alerts(self) -> "ServedAlerts":
        return ServedAlerts(self._state, self.who, self.sight)

    @cached_property
    def leases(self) -> "ServedLeases":
        return ServedLeases(self._state, self.who, self.live)

    @cached_property
    def past(self) -> "ServedPast":
        return ServedPast(self._state, self.sight)

    @property
    def runs(self) -> ServedRuns:
        if self._state.runs is None:
            raise Unavailable(
                "this server has no runs", hint="andon runs lists those of this machine"
            )
        return ServedRuns(self._state.runs, self.sight)

    @property
    def jobs(self) -> ServedJobs:
        if self._state.jobs is None:
            raise Unavailable(
                "this server has no jobs", hint="andon jobs lists those of this machine"
            )
        return ServedJobs(self._state.jobs, self.who, self.sight)

    def shared(self) -> "ServingNode":
        return self

    def close(self) -> None:
        """Does nothing: the server closes its parts."""


class ServedLive:
    """The snapshots of the server's sampler, without command lines that are not the caller's."""

    def __init__(self, state: "AppState", sight: "Sight") -> None:
        self._state, self._sight, self._feed = state, sight, state.feed

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> "Snapshot":
        return seen_by(self._sight, self._feed.latest())

    read = latest

    def text(self) -> str:
        """Returns the latest snapshot as JSON. For the event loop: it is kept for everyone."""
        return self._state.texts.of(self._feed.latest(), self._sight)

    def placed(self) -> "Snapshot":
        return (self._state.placed or self._feed.latest)()

    def subscribe(self, interval_seconds: float, watching: bool = False) -> PolledSession:
        return PolledSession(self.latest, self.latest, interval_seconds)

    def minutes(self) -> "Sequence[Snapshot]":
        sight, past = self._minutes
        return all_seen_by(sight, past)

    def samples(self) -> "Sequence[Snapshot]":
        """Returns the same with everything in it: for what shows only readings of devices."""
        return self._minutes[1]

    @property
    def minutes_key(self) -> tuple[float, "Sight"]:
        """Returns what tells the minutes of this request from others."""
        sight, past = self._minutes
        return past[-1].at, sight

    @cached_property
    def _minutes(self) -> "tuple[Sight, list[Snapshot]]":
        """The snapshots and the caller's sight: a user without a process in any of them sees what
        anyone sees, and shares the answer."""
        past = self._feed.past()
        whole = any(narrowed(self._sight, one) == self._sight for one in past)
        return self._sight if whole else BLIND, past

    def with_driver_versions(self, snapshot: "Snapshot") -> "Snapshot":
        return snapshot

    def lamps(self, snapshot: "Snapshot") -> "tuple[DeviceLamp, ...]":
        watcher = self._state.watcher
        if watcher is None:
            return lamps_now(snapshot, Rulebook())
        shown = [alert_payloads.seen_by(self._sight, alert) for alert in watcher.alerts()]
        return lamps_of(snapshot, shown)


class ServedAlerts:
    """The alerts that the server judges. What a caller changes is signed with their name."""

    notifies = True

    def __init__(self, state: "AppState", who: Identity, sight: "Sight") -> None:
        self._feed, self._watching = state.feed, state.watcher
        self._who, self._sight = who, sight

    @property
    def _watcher(self) -> "Watcher":
        if self._watching is None:
            raise Unavailable("alerts are not available on this server", hint="start: andon serve")
        return self._watching

    @property
    def rulebook(self) -> Rulebook:
        return Rulebook() if self._watching is None else self._watching.rulebook

    def current(self) -> list[Alert]:
        """Returns the pending and the firing alerts."""
        return [self._seen(alert) for alert in self._watcher.alerts()]

    def page(
        self, since: float | None = None, devices: Sequence[str] = (), wanted: Query | None = None
    ) -> AlertOverview:
        """`wanted` has more conditions, such as a level."""
        snapshot, wanted = self._feed.latest(), wanted or Query(since, limit=MOST_ALERTS)
        each = [replace(wanted, subject=_subject(snapshot, name)) for name in devices]
        found, note = dict[str, Alert](), None
        for one in each or [wanted]:
            alerts, note = _found(self._watcher, one)
            found |= {alert.id: self._seen(alert) for alert in alerts}
        silences, simulated = self._watcher.silences(), snapshot.simulated
        return AlertOverview(
            snapshot.node, time.time(), tuple(found.values()), silences, simulated, note
        )

    def silences(self) -> tuple[Silence, ...]:
        return self._watcher.silences()

    def pages(self, devices: Sequence[str] = ()) -> Iterator[AlertOverview]:
        return followed(self, devices)

    def check_server(self) -> None:
        """Does nothing: it is one."""

    def alert(self, number: str) -> Alert:
        return self._seen(self._watcher.find(number))

    def rules(self) -> dict[str, Any]:
        watcher = self._watcher
        return rules_to_json(watcher.rulebook, self._feed.latest().devices, watcher.awake)

    def rule(self, name: str) -> dict[str, Any]:
        watcher, prefix = self._watcher, self._feed.settings.exporter_prefix
        devices = self._feed.latest().devices
        here = RuleContext(watcher.rulebook, devices, watcher.awake, prefix)
        return rule_to_json(condition_named(name), here)

    def acknowledge(self, number: str, by: str, note: str) -> Alert:
        who = self._who
        by, earlier = signature(who, by), self._watcher.find(number).acknowledged
        if earlier is not None and who.role is Role.USER and earlier.by != by:
            raise Conflict(
                f"this alert is already acknowledged by {earlier.by or 'another'}",
                hint=f"ask {earlier.by or 'root'}, or root",
            )
        return self._seen(self._watcher.acknowledge(number, by, note))

    def unacknowledge(self, number: str) -> Alert:
        found = self._watcher.find(number).acknowledged
        self._refuse(Action.UNACKNOWLEDGE, "" if found is None else found.by)
        return self._seen(self._watcher.unacknowledge(number))

    def silence(self, body: Mapping[str, Any]) -> Silence:
        subject, device, seconds = body.get("subject"), body.get("device"), body["seconds"]
        if device is not None and subject is not None:
            raise Invalid("device and subject cannot be combined", hint="give only one of them")
        if device is not None:
            subject = device_named(str(device), self._feed.latest().devices).device.uuid
        at, rule = time.time(), body.get("rule")
        refused = check_silence(self._who, seconds, (rule or subject) is not None)
        if refused is not None:
            raise refused
        by, note = signature(self._who, body.get("by", "")), body.get("note", "")
        made = Silence(secrets.token_hex(4), at + seconds, rule, subject, by, note, since=at)
        return self._watcher.silence(made)

    def unsilence(self, number: str) -> None:
        for one in self._watcher.silences():
            if one.id == number:
                self._refuse(Action.UNSILENCE, one.by)
        self._watcher.unsilence(number)

    def test(self, notifier: str | None) -> Mapping[str, Any]:
        outcomes = self._watcher.test(notifier)
        results = [_outcome(name, error) for name, error in outcomes.items()]
        return {"results": results, "note": None if results else NO_NOTIFIER}

    def _seen(self, alert: Alert) -> Alert:
        return alert_payloads.seen_by(self._sight, alert)

    def _refuse(self, action: Action, by: str) -> None:
        """Raises Denied unless the caller may change what the user `by` has done."""
        who = self._who
        refused = refusal_for(who, action, bool(by) and by == who.user, by)
        if refused is not None:
            raise refused


class ServedLeases:
    """The lease book that the server follows. A caller changes only what is theirs."""

    def __init__(self, state: "AppState", who: Identity, live: ServedLive) -> None:
        self._state, self._who, self._live = state, who, live

    @property
    def network(self) -> "NetworkLeases":
        """Grants leases; raises Unavailable where there are none, as in a recording."""
        if self._state.remote_leases is None:
            raise Unavailable("leases are not available on this server", hint="start: andon serve")
        return self._state.remote_leases

    @property
    def kept(self) -> bool:
        return self._state.remote_leases is not None

    @property
    def own_uid(self) -> int | None:
        """The only user whose leases the caller may change; None for an owner, who changes any."""
        return None if self._who.role is Role.OWNER else self._who.uid

    def listed(self) -> "LeaseList":
        server_user = self._state.keys.owner.user
        return lease_payloads.shown_to(self._who, self.network.listed(), server_user)

    def listing(
        self, mine: bool = False, snapshot: "Snapshot | None" = None
    ) -> "tuple[Snapshot, LeaseList, Sequence[str]]":
        return snapshot or self._live.latest(), self.listed(), ()

    def verdicts(self, snapshot: "Snapshot") -> "tuple[DeviceVerdict, ...]":
        leases = self._state.remote_leases
        return () if leases is None else leases.listed().devices

    def holders(self, snapshot: "Snapshot") -> tuple[dict[str, list[Holder]], str | None]:
        """Returns who holds each device, or why that is unknown."""
        if (tracker := self._state.leases) is None:
            return {}, None
        page, uuids = tracker.page(), [status.device.uuid for status in snapshot.devices]
        return {} if page is None else holders(page, uuids), tracker.why_not()

    def offer(self, request: "DeviceRequest") -> Offer:
        snapshot = self._live.latest()
        return offer_by(snapshot, {one.uuid: one for one in self.verdicts(snapshot)}, request)

    def release(self, name: str, note: str, fence: int | None = None) -> str:
        by = signature(self._who, "") or None
        return self.network.release(name, fence, note, by, self.own_uid).id

    def renew(self, name: str, seconds: float, fence: int | None) -> "LeaseRow":
        return self.network.renew(name, seconds, fence, self.own_uid)

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        row = self.renew(name, seconds, None)
        return row.id or "", row.until or 0.0


class ServedPast:
    """What the server has recorded; programs of others have no names."""

    def __init__(self, state: "AppState", sight: "Sight") -> None:
        self._history, self._sight = state.history, sight

    @property
    def recorded(self) -> bool:
        try:
            self._history.store()
        except AndonError:
            return False
        return True

    def devices(self) -> "Sequence[Device]":
        return self._history.store().devices()

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> "Sequence[Bucket]":
        store, known = self._history.store(), HOST_METRICS if device == HOST else METRICS
        if metric not in known:
            raise Invalid(f"{metric[:60]!r} is not recorded", hint=f"one of: {', '.join(known)}")
        _check_span(since, until)
        return store.history(device, metric, since, until, points)

    def usage(self, device: str | None, since: float, until: float) -> "Sequence[UsageInterval]":
        store = self._history.store()
        _check_span(since, until)
        return uses_seen_by(self._sight, store.usage(device, since, until))

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> "tuple[list[int], Mapping[str, list[float | None]]]":
        return throttle_shares(self._history.store(), device, since, until, points)


def _check_span(since: float, until: float) -> None:
    if since >= until:
        raise Invalid("the time range is empty", hint="from must be less than to")


def _found(watcher: "Watcher", wanted: Query) -> tuple[list[Alert], str | None]:
    """Returns current alerts from memory and past ones from the store, if it can be read."""
    now = [alert for alert in watcher.alerts() if matches(wanted, alert)]
    room = wanted.limit - len(now)
    if wanted.state not in (None, Phase.RESOLVED) or room <= 0:
        return now[: wanted.limit], None
    ids = {alert.id for alert in now}
    try:
        past = watcher.past(replace(wanted, state=Phase.RESOLVED, limit=room))
    except AndonError as error:
        return now, f"past alerts cannot be read: {error.reason}"
    return now + [alert for alert in past if alert.id not in ids], None


def _subject(snapshot: "Snapshot", device: str) -> str:
    """Returns the subject: a present device, a removed one, or node, store, sampler."""
    try:
        return device_named(device, snapshot.devices).device.uuid
    except Gone:
        if device.isdecimal():
            raise
        return device


def _outcome(name: str, error: AndonError | None) -> dict[str, Any]:
    return {
        "notifier": name,
        "ok": error is None,
        "reason": None if error is None else error.reason,
        "hint": (error.hint or None) if error is not None else None,
    }
