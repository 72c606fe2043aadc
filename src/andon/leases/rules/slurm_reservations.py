"""What `scontrol -o show reservation` prints, as reservations of this machine's devices; pure."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from andon.model.device import Device
from andon.model.lease import LONGEST_NAME, Reservation, ReservedDevice

NO_UID = -1
"""Of a reservation that is not andon's."""


class BareReservation(Struct, frozen=True):
    """A reservation of Slurm's, which is of nodes."""

    name: str
    nodes: str
    begins: float
    ends: float
    whose: str


def bare_reservations(text: str) -> Iterator[BareReservation]:
    """Yields the reservations in a text whose times are UTC seconds; others are left out."""
    for line in text.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        name, nodes = fields.get("ReservationName", ""), _given(fields.get("Nodes"))
        times = [fields.get(one, "") for one in ("StartTime", "EndTime")]
        if not (name and nodes and all(one.isdecimal() for one in times)):
            continue
        begins, ends = map(float, times)
        whose = _given(fields.get("Users")) or _given(fields.get("Accounts")) or "Slurm"
        if begins < ends:
            yield BareReservation(name, nodes, begins, ends, whose.replace(",", ", "))


def shown(
    found: Iterable[BareReservation], devices: Sequence[Device], at: float
) -> tuple[Reservation, ...]:
    """Returns those that are not over: of every device, because Slurm reserves whole nodes."""
    reserved = tuple(ReservedDevice(one.uuid, one.index) for one in devices)
    return tuple(
        Reservation(
            f"slurm{number}", reserved, one.begins, one.ends, f"{one.name} (Slurm)"[:LONGEST_NAME],
            uid=NO_UID, user=one.whose[:LONGEST_NAME], used=True,
        )
        for number, one in enumerate(found, 1)
        if reserved and at < one.ends
    )  # fmt: skip


def _given(text: str | None) -> str | None:
    return None if text in (None, "", "(null)") else text
