"""All Protocols on one page: the interfaces that adapters implement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from andon.model.device import Card, Device, Host, Process, Reading

if TYPE_CHECKING:  # imported at every start; history and alerts are not
    from andon.core.alerting.past import Query
    from andon.core.history.intervals import UsageInterval
    from andon.core.history.series import Bucket, NodeReadings
    from andon.core.history.tiers import Maintenance
    from andon.core.notifying.outbox import Delivery, SavedAlerts
    from andon.model.alert import Alert, Event, Notice


class Backend(Protocol):
    """Reads one vendor's cards. Calls may block forever, so only a reader process makes them.

    `open`, `describe` and `read` raise `Unavailable` when the vendor as a whole cannot be read, and
    `Gone` when one card is lost; a single value that fails is None with a reason in `missing`.
    """

    name: str

    def glance(self) -> Sequence[Card]:
        """The cards that the operating system lists; wakes no device and calls no driver."""

    def open(self) -> Sequence[Card]:
        """Load what is needed and list the cards."""

    def describe(self, card: Card) -> Sequence[Device]:
        """The card's device and its partitions; asked again about once a minute."""

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        """One reading per device of the card; expensive fields only when they are due."""

    def versions(self) -> Mapping[str, str]:
        """Driver and library versions, by name."""

    def close(self) -> None:
        """Release what `open` acquired. May be called twice."""


@runtime_checkable
class Announcing(Protocol):
    """A backend whose devices also report events between readings."""

    def announce(self, report: Callable[[Sequence[Event]], None]) -> None:
        """Called once, before `open`; report events as they happen, from any thread."""


class EventSource(Protocol):
    """Another source of device events, such as the kernel log."""

    def read(self) -> Sequence[Event]:
        """The events since the last call; never blocks."""

    def close(self) -> None:
        """Release it. May be called twice."""


class ProcessSource(Protocol):
    """Looks up the operating system's processes."""

    def attribute(self, processes: Iterable[Process]) -> tuple[Process, ...]:
        """Fill in what the vendor's library did not report."""

    expecting: bool
    """Whether names requested by the latest call may arrive shortly."""

    @property
    def note(self) -> str | None:
        """Why processes of the latest call have no name, other than having just ended."""


class HostSource(Protocol):
    """Reads the node's own values."""

    def read(self, spared_seconds: float = 0.0) -> Host:
        """The current values; `spared_seconds` of CPU time since the last read are not counted."""


class Store(Protocol):
    """Stores readings and device usage. A call that returns has been committed.

    Raises `Unavailable`, `Denied` or `Conflict` when it cannot; then nothing was written, and the
    same call may be made again.
    """

    def write(
        self,
        ticks: Sequence[NodeReadings],
        uses: Sequence[UsageInterval] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        """Store ticks and intervals; writing the same one twice stores it once."""

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        """The span in `points` buckets of equal length; one without a reading has count 0."""

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        """Who used a device, or any device, within the span; earliest first."""

    def maintain(self, at: float) -> Maintenance:
        """Do some of the work that is due: pack, roll up, delete. Call again until it is idle."""

    def size_bytes(self) -> int:
        """The space it uses on disk, or in memory."""

    def close(self) -> None:
        """Close files and connections. May be called twice."""


class Directory(Protocol):
    """A store that can list its contents."""

    def devices(self) -> Sequence[Device]:
        """Every recorded device, by index."""

    def metrics(self, device: str) -> Sequence[str]:
        """The metrics stored for a device."""


class Notifier(Protocol):
    """Notifies people, or another program. It may block: each has a thread of its own.

    `send` returns when the other side has acknowledged, and otherwise raises an AndonError whose
    text contains no secrets; the same call is then made again. One that has `refresh_seconds` is
    also sent what is firing at that interval, without any change.
    """

    name: str

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        """Send all of these as one message; `firing` is every alert this notifier knows of."""

    def close(self) -> None:
        """Abort what is in progress. May be called twice, and from another thread."""


class AlertStore(Protocol):
    """Stores alerts and pending notifications. A call that returns has been committed.

    Raises `Unavailable`, `Denied` or `Conflict` when it cannot; then nothing was written.
    """

    def load(self) -> SavedAlerts | None:
        """The last saved state; None if there is none."""

    def save(
        self, state: Mapping[str, Any], changed: Sequence[Alert], deliveries: Sequence[Delivery]
    ) -> None:
        """Save the state, the changed alerts and all pending notifications in one transaction."""

    def episodes(self, query: Query) -> Sequence[Alert]:
        """Firing and past alerts, newest first."""

    def prune(self, at: float) -> int:
        """Delete the oldest episodes where there are too many; returns how many."""

    def close(self) -> None:
        """Close files and connections. May be called twice."""
