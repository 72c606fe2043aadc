"""A node's readings, without command lines that are not the caller's."""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

from andon.access.roles import BLIND, Sight
from andon.model.device import Snapshot
from andon.node.following import PolledSession
from andon.node.seen.sights import narrowed, seen_by
from andon.node.watched.live import ServedLive


class SeenLive:
    """The readings for one request; the snapshots of the last minutes are read once."""

    def __init__(self, live: ServedLive, sight: Sight) -> None:
        self._live, self._sight = live, sight
        self.interval_seconds, self.lamps = live.interval_seconds, live.lamps

    def latest(
        self,
        expensive_fields: bool = False,
        twice: bool = False,
        commands: bool = True,
        meanwhile: Callable[[], None] | None = None,
    ) -> Snapshot:
        return seen_by(self._sight, self._live.latest(expensive_fields))

    def read(self, expensive_fields: bool = False) -> Snapshot:
        return seen_by(self._sight, self._live.read(expensive_fields))

    def text(self, snapshot: Snapshot | None = None) -> str:
        """Returns a snapshot, the latest unless one is given, as JSON. For the event loop: the
        text is cached for all who see the same."""
        return self._live.texts.of(snapshot or self._live.latest(), self._sight)

    def placed(self) -> Snapshot:
        return seen_by(self._sight, self._live.placed())

    def subscribe(
        self, interval_seconds: float, watching: bool = False, stays: bool = False
    ) -> PolledSession:
        return PolledSession(self.read, interval_seconds)

    def minutes(self) -> Sequence[Snapshot]:
        return [seen_by(self._sight_of_minutes, one) for one in self.samples]

    @cached_property
    def samples(self) -> Sequence[Snapshot]:
        """The snapshots of the last minutes with every command line; only for views that show no
        processes."""
        return self._live.minutes()

    @property
    def minutes_key(self) -> tuple[Hashable, Sight]:
        """Returns a key of the snapshots that this caller sees. It is called in the event loop, so
        a node of a hub, whose snapshots are in its database, does not read them for it."""
        if (moment := self._live.minutes_key()) is not None:
            return moment, self._sight
        return self.samples[-1].at, self._sight_of_minutes

    @property
    def _sight_of_minutes(self) -> Sight:
        """Returns the caller's sight; BLIND, whose answers are cached for all, if the caller has no
        process in the last minutes."""
        own = any(narrowed(self._sight, one) == self._sight for one in self.samples)
        return self._sight if own else BLIND

    def with_driver_versions(self, snapshot: Snapshot) -> Snapshot:
        return snapshot
