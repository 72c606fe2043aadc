"""Reservations of devices g0, g1, … for tests."""

from collections.abc import Iterable

from andon.model.lease import Reservation, ReservedDevice

AT, HOUR = 1_790_000_000.0, 3600.0


def reservation(
    uuids: Iterable[str] = ("g0",), begins: float = AT + HOUR, hours: float = 2.0, uid: int = 1,
    id_: str = "r1", used: bool = False,
) -> Reservation:  # fmt: skip
    devices = tuple(ReservedDevice(uuid, int(uuid[1:])) for uuid in uuids)
    ends = begins + hours * HOUR
    return Reservation(id_, devices, begins, ends, uid=uid, user=f"u{uid}", used=used)
