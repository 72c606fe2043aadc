"""The readings of this machine's devices: its server's latest snapshot, or new readings."""

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
from andon.node.local.context import LocalContext
from andon.units import human_seconds

if TYPE_CHECKING:
    from andon.node.latest_snapshot import ServerReply
    from andon.node.port import SnapshotSession
    from andon.node.remote.alerts import RemoteAlerts

BETWEEN_SECONDS = 0.1  # activity over less says nothing
QUEUE_SIZE, VIEWER_QUEUE_SIZE = 64, 2  # snapshots that wait to be taken


class LocalLive:
    """Takes the server's latest snapshot where it will do, and otherwise starts a reader."""

    def __init__(self, context: LocalContext) -> None:
        self._context = context
        self.reply: ServerReply | None = None
        """The answer of the server that the last `latest` returned; None if it read itself."""
        self._alerts: RemoteAlerts | None = None
        self._alerts_requested = False

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        reply, more = self.ask_server(commands), expensive_fields or twice
        found = self.recent(reply)
        if reply is not None and found is not None and (not more or reply.reading.has_everything):
            self.reply = reply
            return found
        self.reply = None
        fresh = self._twice() if twice else self.read(expensive_fields, meanwhile)
        return fresh if reply is None else _remembering(fresh, reply)

    def read(
        self, expensive_fields: bool = False, meanwhile: Callable[[], None] | None = None
    ) -> Snapshot:
        with self._context.parts.open_sampler(self._context.settings) as sampler:
            if meanwhile is not None:
                sampler.begin()
                meanwhile()
            return leased(sampler.once(expensive_fields))

    def placed(self) -> Snapshot:
        with self._context.parts.open_sampler(self._context.settings) as sampler:
            sampler.ask_places()
            return sampler.once(with_host=False)

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> "SnapshotSession":
        if stays and self._context.settings.replay:
            from andon.node.local.playing import PlayedSession

            return PlayedSession(self._context.settings)
        reply = self.ask_server()
        simulated = reply is not None and reply.reading.snapshot.simulated
        server = self._context.watching_server() if simulated else None
        if server is not None:
            return server.live.subscribe(interval_seconds, watching)
        return SamplerSession(self._context, interval_seconds, watching, stays, reply)

    def minutes(self) -> Sequence[Snapshot]:
        reply = self.ask_server()
        watching = None if reply is None else self._context.watching_server()
        if reply is None or watching is None or self.recent(reply) is None:
            return ()
        try:
            return watching.live.minutes()
        except AndonError:  # it ends, or remembers more than it may say at once
            return ()

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        return self._context.parts.with_driver_versions(snapshot, self._context.settings)

    def lamps(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...]:
        if found := self._lamps_by_server(snapshot):
            return found
        from andon.alerts.rules.lamps_from_sample import lamps_from_sample

        return lamps_from_sample(snapshot, self._context.rulebook)

    def lamps_beyond_readings(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...] | None:
        """Returns the lamps; None where they follow from the readings by the usual thresholds."""
        found = self._lamps_by_server(snapshot)
        return found if found or self._context.usual_thresholds else self.lamps(snapshot)

    def _lamps_by_server(self, snapshot: Snapshot) -> tuple[DeviceLamp, ...] | None:
        """Returns the server's lamps; None, and no further request, once it does not answer or
        watches other devices."""
        if self.reply is not None and (lamps := self.reply.lamps()) is not None:
            return lamps
        if not self._alerts_requested:
            self._alerts_requested = True
            if not self._context.own_thresholds and (server := self._context.watching_server()):
                self._alerts = server.alerts
        if self._alerts is None or not snapshot.devices:
            return None
        from andon.node.remote.live import lamps_by

        if (found := lamps_by(self._alerts, snapshot)) is None:
            self._alerts = None
        return found

    def ask_server(self, commands: bool = True) -> "ServerReply | None":
        """Returns the snapshot of this machine's server; None if these devices are not the
        machine's, must be read, or no server answers. `commands`: whether to add the command
        lines that the server withholds and this user may see."""
        from andon.node.usual_server import may_be_running

        context = self._context
        if context.fresh or not context.is_real or not may_be_running():
            return None
        from andon.node.latest_snapshot import server_snapshot

        settings = context.settings
        return server_snapshot(settings.node, context.root, settings.interval_seconds, commands)

    def recent(self, reply: "ServerReply | None") -> Snapshot | None:
        """Returns the server's snapshot, unless it is old; then prints a notice."""
        if reply is None:
            return None
        if not reply.reading.is_old(now := time.time()):
            return reply.reading.snapshot
        age = human_seconds(reply.reading.age_seconds(now))
        self._context.notify(f"the server's last reading is {age} old; reading the devices here")
        return None

    def _twice(self) -> Snapshot:
        with self._context.parts.open_sampler(self._context.settings) as sampler:
            first = sampler.once(expensive_fields=True)
            time.sleep(BETWEEN_SECONDS)
            again = sampler.once(expensive_fields=True, with_host=False)
        return leased(replace(again, host=first.host))


class SamplerSession:
    """A session with a sampler of its own."""

    playing = None

    def __init__(
        self,
        context: LocalContext,
        interval_seconds: float,
        watching: bool,
        stays: bool,
        reply: "ServerReply | None",
    ) -> None:
        self._context, self._reply = context, reply
        with ExitStack() as stack:
            self._sampler = stack.enter_context(context.parts.open_sampler(context.settings))
            size = VIEWER_QUEUE_SIZE if stays else QUEUE_SIZE
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
        return found if self._reply is None else _remembering(found, self._reply)

    def _follow_leases(self) -> None:
        """Opens the lease tracker, after the first snapshot: its imports would delay that."""
        self._leases_wanted = False
        tracker = self._context.parts.open_lease_tracker(self._context.settings, self._sampler)
        if tracker is not None:
            self._stack.callback(tracker.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Snapshot]:
        while (found := self.get()) is not None:
            yield found


def _remembering(fresh: Snapshot, reply: "ServerReply") -> Snapshot:
    from andon.sampling.rules.server_snapshot import with_known

    return with_known(fresh, reply.reading.snapshot)


def leased(snapshot: Snapshot) -> Snapshot:
    """Adds each process's lease to a snapshot that this process read; others stay as they are."""
    there = any(status.processes for status in snapshot.devices)
    if not there or "replay" in snapshot.versions or sys.platform == "win32":
        return snapshot
    from andon.leases.book import places

    if not places.may_hold_leases(os.environ):
        return snapshot
    from andon.leases.tracker import with_leases

    return with_leases(snapshot)
