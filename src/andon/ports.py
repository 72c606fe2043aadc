"""Every Protocol on one page: what andon asks of the world, and nothing more."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from andon.model.device import Card, Device, Host, Process, Reading


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


class ProcessSource(Protocol):
    """Knows the operating system's processes."""

    def attribute(self, processes: Iterable[Process]) -> tuple[Process, ...]:
        """Fill in what the vendor's library did not say."""

    @property
    def note(self) -> str | None:
        """Why processes of the latest call have no name, unless they have just ended."""


class HostSource(Protocol):
    """Knows the node's own values."""

    def read(self, spared_seconds: float = 0.0) -> Host:
        """What can be read now; of the CPU's time since the last read, some may be left out."""
