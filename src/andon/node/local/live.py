"""The readings of this machine's devices: the latest of its server, or new ones."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from andon.errors import AndonError
from andon.model.device import Snapshot
from andon.model.lamp import DeviceLamp
from andon.node.local.context import Here
from andon.units import human_seconds

if TYPE_CHECKING:
    from andon.node.latest_snapshot import Told
    from andon.node.port import SnapshotSession
    from andon.node.remote.alerts import RemoteAlerts

BETWEEN_SECONDS = 0.1  # activity over less says nothing
KEPT, KEPT_FOR_VIEWER = 64, 2  # snapshots that wait to be taken


class LocalLive:
    """Asks this machine's server where it may, and otherwise starts a reader."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self.told: Told | None = None
        """The answer of the server that the last `latest` returned; None if it read itself."""
        self._alerts: RemoteAlerts | None = None
        self._asked_for_alerts = False

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        told, more = self.told_now(commands), expensive_fields or twice
        found = self.recent(told)
        if told is not None and found is not None and (not more or told.reading.has_everything):
            self.told = told
            return found
        self.told = None
        fresh = self._twice() if twice else self.read(expensive_fields, meanwhile)
        return fresh if told is None else _remembering(fresh, told)

    def read(
        self, expensive_fields: bool = False, meanwhile: Callable[[], None] | None = None
    ) -> Snapshot:
        with self._here.parts.open_sampler(self._here.settings) as sampler:
            if meanwhile is not None:
                sampler.begin()
                meanwhile()
            return leased(sampler.once(expensive_fields))

    def placed(self) -> Snapshot:
        with self._here.parts.open_sampler(self._here.settings) as sampler:
            sampler.ask_places()
            return sampler.once(with_host=False)

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> "SnapshotSession":
        if stays and self._here.settings.replay:
            from andon.node.local.playing import PlayedSession

            return PlayedSession(self._here.settings)
        told = self.told_now()
        simulated = told is not None and told.reading.snapshot.simulated
        server = self._here.watching_server() if simulated else None
        if server is not None:
            return server.live.subscribe(interval_seconds, watching)
        return SamplerSession(self._here, interval_seconds, watching, stays, told)

    def minutes(self) -> Sequence[Snapshot]:
        told = self.told_now()
        watching = None if told is None else self._here.watching_server()
        if told is None or watching is None or self.recent(told) is None:
            return ()
        try:
            return watching.live.minutes()
        except AndonError:  # it ends, or remembers more than it may say at once
            return ()

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        return self._here.parts.with_driver_versions(snapshot, self._here.settings)

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        if found := self._lamps_by_server(snapshot):
            return found
        from andon.alerts.rules.lamps_from_sample import lamps_from_sample

        return lamps_from_sample(snapshot, self._here.rulebook)

    def lamps_beyond_readings(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...] | None:
        """Returns the lamps; None where they follow from the readings by the usual thresholds."""
        found = self._lamps_by_server(snapshot)
        return found if found or self._here.usual_thresholds else self.lamps(snapshot)

    def _lamps_by_server(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...] | None:
        """A server that stops answering, or watches other devices, is not asked again."""
        if self.told is not None and (told := self.told.lamps()) is not None:
            return told
        if not self._asked_for_alerts:
            self._asked_for_alerts = True
            if not self._here.own_thresholds and (server := self._here.watching_server()):
                self._alerts = server.alerts
        if self._alerts is None or not snapshot.devices:
            return None
        from andon.node.remote.live import lamps_by

        if (found := lamps_by(self._alerts, snapshot)) is None:
            self._alerts = None
        return found

    def told_now(self, commands: bool = True) -> "Told | None":
        """Returns what this machine's server says; None if these devices are not the machine's,
        must be read, or no server answers. `commands`: whether to add the command lines that the
        server withholds and this user may see."""
        from andon.node.usual_server import may_be_running

        here = self._here
        if here.fresh or not here.is_real or not may_be_running():
            return None
        from andon.node.latest_snapshot import server_snapshot

        settings = here.settings
        return server_snapshot(settings.node, here.root, settings.interval_seconds, commands)

    def recent(self, told: "Told | None") -> Snapshot | None:
        """Returns the server's snapshot, unless it is old; then prints a notice."""
        if told is None:
            return None
        if not told.reading.is_old(now := time.time()):
            return told.reading.snapshot
        age = human_seconds(told.reading.age_seconds(now))
        self._here.notify(f"the server's last reading is {age} old; reading the devices here")
        return None

    def _twice(self) -> Snapshot:
        with self._here.parts.open_sampler(self._here.settings) as sampler:
            first = sampler.once(expensive_fields=True)
            time.sleep(BETWEEN_SECONDS)
            again = sampler.once(expensive_fields=True, with_host=False)
        return leased(replace(again, host=first.host))


class SamplerSession:
    """A sampler of its own for one session."""

    playing = None

    def __init__(
        self, here: Here, interval_seconds: float, watching: bool, stays: bool, told: "Told | None"
    ) -> None:
        self._here, self._told = here, told
        with ExitStack() as stack:
            self._sampler = stack.enter_context(here.parts.open_sampler(here.settings))
            size = KEPT_FOR_VIEWER if stays else KEPT
            session = self._sampler.subscribe(interval_seconds, watching, size)
            self._session, self.pace = stack.enter_context(session), session.pace
            self._stack = stack.pop_all()
        self.close = self._stack.close
        self._is_first, self._leases_wanted = True, stays

    @property
    def dropped(self) -> int:
        return self._session.dropped

    def get(self, timeout_seconds: float | None = None) -> Snapshot | None:
        if self._leases_wanted and not self._is_first:
            self._follow_leases()
        if (found := self._session.get(timeout_seconds)) is None:
            return None
        self._is_first = False
        return found if self._told is None else _remembering(found, self._told)

    def _follow_leases(self) -> None:
        """After the first snapshot, which would wait for the imports."""
        self._leases_wanted = False
        tracker = self._here.parts.open_lease_tracker(self._here.settings, self._sampler)
        if tracker is not None:
            self._stack.callback(tracker.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Snapshot]:
        while (found := self.get()) is not None:
            yield found


def _remembering(fresh: Snapshot, told: "Told") -> Snapshot:
    from andon.sampling.rules.server_snapshot import with_known

    return with_known(fresh, told.reading.snapshot)


def leased(snapshot: Snapshot) -> Snapshot:
    """Adds the leases of the processes; a server has added them, and a recording's are old."""
    there = any(status.processes for status in snapshot.devices)
    if not there or "replay" in snapshot.versions or sys.platform == "win32":
        return snapshot
    from andon.leases.book import places

    if not places.may_hold_leases(os.environ):
        return snapshot
    from andon.leases.tracker import with_leases

    return with_leases(snapshot)
