"""Slurm's reservations in its own words, and what is shown of them."""

from andon.leases.rules.slurm_reservations import bare_reservations, shown
from tests.support.rows import rows
from tests.support.sharing_parts import gpu

LINE = (
    "ReservationName=maint StartTime=1790000000 EndTime=1790007200 Duration=02:00:00 Nodes=n[1-2] "
    "NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=debug Flags=SPEC_NODES TRES=cpu=8 "
    "Users=alice,bob Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE"
)
DEVICES = [gpu(n).device for n in range(2)]


def test_a_reservation_is_of_every_device_of_its_nodes() -> None:
    [one] = bare_reservations(LINE)
    assert (one.nodes, one.whose) == ("n[1-2]", "alice, bob")
    [found] = shown([one], DEVICES, 1_790_000_100.0)
    assert (found.user, found.name, len(found.devices)) == ("alice, bob", "maint (Slurm)", 2)
    assert shown([one], DEVICES, 1_790_007_200.0) == (), "it is over"
    assert shown([one], [], 1_790_000_100.0) == ()


@rows(
    "old, new, whose",
    [
        ("Users=alice,bob", "Users=(null)", "Slurm"),
        ("Users=alice,bob Groups=(null) Accounts=(null)", "Users=(null) Accounts=lab", "lab"),
        ("Nodes=n[1-2]", "Nodes=(null)", None),  # of licences alone
        ("StartTime=1790000000", "StartTime=2026-09-21T14:13:20", None),
        ("EndTime=1790007200", "EndTime=Unknown", None),
        ("EndTime=1790007200", "EndTime=1790000000", None),
        ("ReservationName=maint ", "", None),
    ],
)
def test_what_is_not_complete_is_left_out(old: str, new: str, whose: str | None) -> None:
    assert [one.whose for one in bare_reservations(LINE.replace(old, new))] == [whose] * (
        whose is not None
    )


def test_no_reservations_are_none() -> None:
    assert list(bare_reservations("No reservations in the system\n")) == []
