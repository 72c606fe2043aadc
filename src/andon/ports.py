"""Every Protocol on one page: what andon asks of the world, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from andon.model.device import Card, Device, Host, Process, Reading

if TYPE_CHECKING:  # every start imports this page; history and alerts are not for every start
    from andon.core.alerting.past import Query
    from andon.core.history.intervals import UsageInterval
    from andon.core.history.series import Bucket, NodeReadings
    from andon.core.history.tiers import Maintenance
    from andon.core.notifying.outbox import Errand, Saved
    from andon.model.alert import Alert, Event, Notice


class Backend(Protocol):
    """Reads one vendor's cards. Calls may block for ever: only a reader process makes them.

    `open`, `describe` and `read` raise `Unavailable` when the vendor as a whole cannot be read, and
    `Gone` when one card is lost; a single value that fails is None with a reason in `missing`.
    """

    name: str

    def glance(self) -> Sequence[Card]:
        """The cards that the operating system alone knows of; wakes nothing, calls no driver."""

    def open(self) -> Sequence[Card]:
        """Load what is needed and list the cards."""

    def describe(self, card: Card) -> Sequence[Device]:
        """The card's device and its partitions; asked again about once a minute."""

    def read(self, card: Card, at: float, watched: bool) -> Sequence[Reading]:
        """One reading per device of the card; dear fields only when they are due."""

    def versions(self) -> Mapping[str, str]:
        """Driver and library versions, by name."""

    def close(self) -> None:
        """Give back what `open` took. May be called twice."""


@runtime_checkable
class Announcing(Protocol):
    """A backend whose devices also report by themselves, between two readings."""

    def announce(self, tell: Callable[[Sequence[Event]], None]) -> None:
        """Called once, before `open`: tell of each event when it happens, from any thread."""


class EventSource(Protocol):
    """Another place where a device's troubles are told, such as the kernel's log."""

    def read(self) -> Sequence[Event]:
        """What came since the last call; never waits."""

    def close(self) -> None:
        """Give it back. May be called twice."""


class ProcessSource(Protocol):
    """Knows the operating system's processes."""

    def attribute(self, processes: Iterable[Process]) -> tuple[Process, ...]:
        """Fill in what the vendor's library did not say."""

    expecting: bool
    """Whether names that the latest call asked for are worth a moment's wait."""

    @property
    def note(self) -> str | None:
        """Why processes of the latest call have no name, unless they have just ended."""


class HostSource(Protocol):
    """Knows the node's own values."""

    def read(self, spared_seconds: float = 0.0) -> Host:
        """What can be read now; of the CPU's time since the last read, some may be left out."""


class Store(Protocol):
    """Remembers readings and who used what. A call that returns has been committed.

    Raises `Unavailable`, `Denied` or `Conflict` when it cannot; then nothing of the call was
    kept, and the same call may be made again.
    """

    def write(
        self,
        ticks: Sequence[NodeReadings],
        uses: Sequence[UsageInterval] = (),
        devices: Sequence[Device] = (),
    ) -> None:
        """Keep ticks and intervals; what is written twice is kept once."""

    def history(
        self, device: str, metric: str, since: float, until: float, points: int
    ) -> Sequence[Bucket]:
        """The span in so many buckets of equal length; one without a reading has count 0."""

    def usage(self, device: str | None, since: float, until: float) -> Sequence[UsageInterval]:
        """Who was on a device, or on any, within the span; earliest first."""

    def maintain(self, at: float) -> Maintenance:
        """Some of what is due: pack, roll up, delete. Call again until it did nothing."""

    def size_bytes(self) -> int:
        """What it takes on disk, or in memory."""

    def close(self) -> None:
        """Give back files and connections. May be called twice."""


class Directory(Protocol):
    """A store that can say what it holds."""

    def devices(self) -> Sequence[Device]:
        """Every device that was ever recorded, by its index."""

    def metrics(self, device: str) -> Sequence[str]:
        """The readings that are kept of a device."""


class Notifier(Protocol):
    """Tells people, or another program. It may block: a thread of its own waits for it.

    `send` returns when the other side has acknowledged, and raises an AndonError, without secrets
    in its words, when it has not; the same call is then made again. One that has `refresh_seconds`
    is also told what is firing that often, without any news.
    """

    name: str

    def send(self, notices: Sequence[Notice], firing: Sequence[Alert]) -> None:
        """Tell all of these as one; `firing` is everything that this notifier knows to be wrong."""

    def close(self) -> None:
        """End what is under way. May be called twice, and from another thread."""


class AlertStore(Protocol):
    """Remembers what is wrong and what has been told. A call that returns has been committed.

    Raises `Unavailable`, `Denied` or `Conflict` when it cannot; then nothing of the call was kept.
    """

    def load(self) -> Saved | None:
        """What was last saved; None where there is nothing."""

    def save(
        self, state: Mapping[str, Any], changed: Sequence[Alert], errands: Sequence[Errand]
    ) -> None:
        """The whole state, the alerts that changed and everything still to be told, as one."""

    def episodes(self, query: Query) -> Sequence[Alert]:
        """What fires, and what fired, the newest first."""

    def prune(self, at: float) -> int:
        """Let go of the oldest episodes, where there are too many; returns how many went."""

    def close(self) -> None:
        """Give back files and connections. May be called twice."""
