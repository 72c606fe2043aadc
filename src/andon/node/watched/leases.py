"""The leases of a server, from the book that it follows or from a node's reports."""

from collections.abc import Callable, Sequence

from andon.errors import Gone, Unavailable
from andon.leases.network import NetworkLeases
from andon.leases.rules.occupants import Holder, holders, holders_in
from andon.leases.rules.offer import Offer, offer_by
from andon.leases.tracker import LeaseTracker
from andon.model.device import Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.lease_list import LeaseList
from andon.model.verdict import DeviceVerdict

RECENT_SECONDS = 14.0
"""How old a list of leases may be for reports and readers, as long as no lease and no process has
changed."""


class ServedLeases:
    """Fills NodeLeases."""

    def __init__(
        self,
        listed: Callable[[float], LeaseList] | None,
        latest: Callable[[], Snapshot],
        book: "NetworkLeases | None" = None,
        tracker: "LeaseTracker | None" = None,
        elsewhere: str = "",
    ) -> None:
        """`listed` takes the greatest age of the list. `elsewhere` is the node whose leases are
        shown here and changed there."""
        self._listed, self._latest, self._elsewhere = listed, latest, elsewhere
        self._book, self._tracker = book, tracker

    @property
    def supported(self) -> bool:
        """Whether there are leases; there are none in a recording."""
        return self._listed is not None

    @property
    def book(self) -> "NetworkLeases":
        """What takes and changes leases."""
        if self._book is not None:
            return self._book
        if node := self._elsewhere:
            raise Unavailable(f"leases of {node} are changed there", hint=f"on {node}: andon lease")
        raise Unavailable("leases are not available on this server", hint="start: andon serve")

    def book_with(self, name: str) -> "NetworkLeases":
        """Returns the book for a change of this lease; raises Gone if it is not in the list."""
        if self._elsewhere and all(row.id != name for row in self.listed().leases):
            raise Gone(f"there is no lease {name[:40]!r}", hint="to list them: andon leases")
        return self.book

    def listed(self, within_seconds: float = 0.0) -> LeaseList:
        """Returns the whole list; a cached one may be this old."""
        return (self._listed or self.book.listed)(within_seconds)

    def listing(
        self, mine: bool = False, snapshot: Snapshot | None = None
    ) -> tuple[Snapshot, LeaseList, Sequence[str]]:
        return snapshot or self._latest(), self.listed(), ()

    def verdicts(self, snapshot: Snapshot) -> tuple[DeviceVerdict, ...]:
        return self.listed().devices if self.supported else ()

    def held(self) -> int | None:
        """Returns how many leases there are, from memory; None if that is unknown."""
        page = None if self._tracker is None else self._tracker.page()
        return None if page is None else len(page.claims)

    def holders(self, snapshot: Snapshot) -> tuple[dict[str, list[Holder]], str | None]:
        """Returns who holds each device, or why that is unknown."""
        uuids = [status.device.uuid for status in snapshot.devices]
        if self._tracker is None:
            return holders_in(self.listed().leases, uuids) if self._elsewhere else {}, None
        page = self._tracker.page()
        return {} if page is None else holders(page, uuids), self._tracker.why_not()

    def offer(self, request: DeviceRequest) -> Offer:
        snapshot = self._latest()
        return offer_by(snapshot, {one.uuid: one for one in self.verdicts(snapshot)}, request)

    def release(self, name: str, note: str) -> str:
        return self.book_with(name).release(name, None, note).id

    def extend(self, name: str, seconds: float) -> tuple[str, float]:
        row = self.book_with(name).renew(name, seconds, None)
        return row.id or "", row.until or 0.0
