"""The node of a running server, as one caller may see it: the rights of callers are applied here.

It is what routes ask. Its parts also have what only REST shows, such as pages with counts.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from andon.access.roles import BLIND, Identity, Role, Sight, sight_of, signature
from andon.alerts.rules.glance import lamps_now
from andon.alerts.rules.lamps import lamps_of
from andon.errors import AndonError, Invalid, Unavailable
from andon.explain.conditions.rulebook import Rulebook
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import HOST, HOST_METRICS, USED, Bucket
from andon.history.rules.throttle_shares import throttle_shares
from andon.leases.rules.occupants import Holder, holders
from andon.leases.rules.offer import Offer, offer_by
from andon.model.device import SAMPLE_VALUES, Device, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lamp import DeviceLamp
from andon.model.lease_list import LeaseList, LeaseRow
from andon.model.verdict import DeviceVerdict
from andon.node.following import PolledSession
from andon.ports import Store
from andon.web.answers import alert_payloads, lease_payloads
from andon.web.answers.sights import all_seen_by, narrowed, seen_by, uses_seen_by
from andon.web.jobs.seen import ServerJobs
from andon.web.served.alerts import ServedAlerts
from andon.web.served.work import ServedRuns

if TYPE_CHECKING:
    from andon.leases.network import NetworkLeases
    from andon.web.app_state import AppState

METRICS = (*(name for name in SAMPLE_VALUES if name != "throttle"), *USED)
"""The readings with a minimum, mean and maximum."""


class ServingNode:
    """The devices that this server watches. Made for each request; its parts keep nothing."""

    url: str | None = None

    def __init__(self, state: "AppState", who: Identity) -> None:
        self._state, self.who, self.sight = state, who, sight_of(who)

    @property
    def features(self) -> dict[str, bool]:
        return self._state.features

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
    def alerts(self) -> ServedAlerts:
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
    def jobs(self) -> ServerJobs:
        if self._state.jobs is None:
            raise Unavailable(
                "this server has no jobs", hint="andon jobs lists those of this machine"
            )
        return self._state.jobs.seen_by(self.sight, self.who)

    def shared(self) -> "ServingNode":
        return self

    def close(self) -> None:
        """Does nothing: the server closes its parts."""


class ServedLive:
    """The snapshots of the server's sampler, without command lines that are not the caller's."""

    def __init__(self, state: "AppState", sight: Sight) -> None:
        self._state, self._sight, self._feed = state, sight, state.feed

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        return seen_by(self._sight, self._feed.latest())

    read = latest

    def text(self) -> str:
        """Returns the latest snapshot as JSON. For the event loop: it is kept for everyone."""
        return self._state.texts.of(self._feed.latest(), self._sight)

    @property
    def interval_seconds(self) -> float:
        return self._feed.settings.interval_seconds

    def placed(self) -> Snapshot:
        return (self._state.placed or self._feed.latest)()

    def subscribe(self, interval_seconds: float, watching: bool = False) -> PolledSession:
        return PolledSession(self.latest, self.latest, interval_seconds)

    def minutes(self) -> Sequence[Snapshot]:
        sight, past = self._minutes
        return all_seen_by(sight, past)

    def samples(self) -> Sequence[Snapshot]:
        """Returns the same with everything in it: for what shows only readings of devices."""
        return self._minutes[1]

    @property
    def minutes_key(self) -> tuple[Hashable, "Sight"]:
        """Returns what tells the minutes of this request from others. Those of a node of a hub are
        in its database, which is not read here: this is called in the event loop."""
        if (moment := getattr(self._feed, "minutes_moment", None)) is not None:
            return moment, self._sight
        sight, past = self._minutes
        return past[-1].at, sight

    @cached_property
    def _minutes(self) -> tuple[Sight, list[Snapshot]]:
        """The snapshots and the caller's sight: a user without a process in any of them sees what
        anyone sees, and shares the answer."""
        past = self._feed.past()
        whole = any(narrowed(self._sight, one) == self._sight for one in past)
        return self._sight if whole else BLIND, past

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        return snapshot

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        watcher = self._state.watcher
        if watcher is None:
            return lamps_now(snapshot, Rulebook())
        shown = [alert_payloads.seen_by(self._sight, alert) for alert in watcher.alerts()]
        return lamps_of(snapshot, shown)


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

    def listed(self) -> LeaseList:
        server_user = self._state.keys.owner.user
        return lease_payloads.shown_to(self._who, self.network.listed(), server_user)

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        return snapshot or self._live.latest(), self.listed(), ()

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        leases = self._state.remote_leases
        return () if leases is None else leases.listed().devices

    def holders(self, snapshot: Snapshot) -> tuple[dict[str, list[Holder]], str | None]:
        """Returns who holds each device, or why that is unknown."""
        if (tracker := self._state.leases) is None:
            return {}, None
        page, uuids = tracker.page(), [status.device.uuid for status in snapshot.devices]
        return {} if page is None else holders(page, uuids), tracker.why_not()

    def offer(self, request: DeviceRequest) -> Offer:
        snapshot = self._live.latest()
        return offer_by(snapshot, {one.uuid: one for one in self.verdicts(snapshot)}, request)

    def release(self, name: str, note: str, fence: int | None = None) -> str:
        by = signature(self._who, "") or None
        return self.network.release(name, fence, note, by, self.own_uid).id

    def renew(self, name: str, seconds: float, fence: int | None) -> LeaseRow:
        return self.network.renew(name, seconds, fence, self.own_uid)

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        row = self.renew(name, seconds, None)
        return row.id or "", row.until or 0.0


class ServedPast:
    """What the server has recorded; programs of others have no names."""

    def __init__(self, state: "AppState", sight: Sight) -> None:
        self._history, self._sight = state.history, sight

    @property
    def recorded(self) -> bool:
        try:
            self._history.store()
        except AndonError:
            return False
        return True

    def store(self) -> Store:
        """Returns all of it, for what names nobody's programs."""
        return self._history.store()

    def devices(self) -> Sequence[Device]:
        return self._history.store().devices()

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        store, known = self._history.store(), HOST_METRICS if device == HOST else METRICS
        if metric not in known:
            raise Invalid(f"{metric[:60]!r} is not recorded", hint=f"one of: {', '.join(known)}")
        _check_span(since, until)
        return store.history(device, metric, since, until, points)

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        store = self._history.store()
        _check_span(since, until)
        return uses_seen_by(self._sight, store.usage(device, since, until))

    def throttle_shares(
        self, device: str, since: float, until: float, points: int
    ) -> tuple[list[int], Mapping[str, list[float | None]]]:
        return throttle_shares(self._history.store(), device, since, until, points)


def _check_span(since: float, until: float) -> None:
    if since >= until:
        raise Invalid("the time range is empty", hint="from must be less than to")
