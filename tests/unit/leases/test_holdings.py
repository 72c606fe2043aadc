"""Which lease a process belongs to, and which leases of the book still stand."""

import pytest

from andon.leases.rules.membership import (
    BY_FAMILY,
    BY_ITSELF,
    BY_USER,
    BY_WORD,
    believed,
    bond,
    judge,
    occupancy,
)
from andon.model.device import Process, ProcessKind
from andon.model.lease import Kin, LeaseState, PidScope, Work
from andon.units import GIB
from tests.support.rows import rows
from tests.support.sharing_parts import claim, entry, gpu, kin, lease, owner

HERE = PidScope("b", "n")


@rows(
    ("found", "strength"),
    [
        (kin(100, started_ticks=50), BY_ITSELF),  # the holder itself
        (kin(100, uid=7, started_ticks=51), 0),  # a later process of the same number
        (kin(200, group=150), BY_ITSELF),  # of the work's group
        (kin(200, uid=7, group=150, started_ticks=59), 0),  # of an earlier group of that number
        (kin(200, session=90), BY_FAMILY),
        (kin(200, uid=7, session=90, started_ticks=1), 0),  # the person's shell
        (kin(200), BY_USER),  # the same user, begun after the grant
        (kin(200, started_ticks=59), 0),
        (kin(200, uid=1001), 0),
        (kin(200, container="c1", started_ticks=59), BY_FAMILY),
        (kin(200, uid=7, container="c1"), BY_WORD),  # what is another user's, the file alone says
        (kin(200, uid=7, group=150), BY_WORD),
        (kin(200, uid=7, session=90), BY_WORD),
        (kin(100, uid=7, started_ticks=50), BY_WORD),
        (None, 0),
    ],
)
def test_a_process_belongs_to_a_lease_by_itself_its_family_or_its_user(
    found: object, strength: int
) -> None:
    held = lease(0, work=Work(150, 61, 150), owner=owner(container="c1"))
    assert bond(held, found, HERE) == strength  # type: ignore[arg-type]


def test_numbers_of_another_pid_namespace_say_nothing() -> None:
    held = lease(0, work=Work(150, 61, 150))
    elsewhere = PidScope("b", "another")
    assert bond(held, kin(100, uid=7, started_ticks=50), elsewhere) == 0
    assert bond(held, kin(200, uid=7, group=150, session=90), elsewhere) == 0
    assert bond(held, kin(200), elsewhere) == BY_USER


def test_what_is_locked_is_held_and_what_cannot_be_read_may_hold_anything() -> None:
    held, unreadable = judge([entry(lease(0)), entry(None)], [gpu(0)], {}, HERE)
    assert held.state is LeaseState.HELD
    assert unreadable.state is LeaseState.UNREADABLE
    assert unreadable.lease is None


def test_what_is_unlocked_is_free_unless_its_work_lives() -> None:
    left = gpu(0, processes=[Process(300)])
    cases = [
        (entry(lease(0), locked=False), gpu(0), {}, 0),
        (entry(None, locked=False), left, {300: kin(300)}, 0),
        (entry(lease(0), locked=False, left=(150,)), gpu(0), {}, 1),
        (entry(lease(0), locked=False), left, {300: kin(300, session=90, started_ticks=60)}, 1),
        # Whoever wrote the file can name any session, group or process of another user's.
        (entry(lease(0), locked=False), left, {300: kin(300, session=90, uid=7)}, 0),
        (entry(lease(0, work=Work(300, 70, 300)), locked=False), left, {300: kin(300, uid=7)}, 0),
        (entry(lease(0), locked=False), left, {300: kin(300)}, 1),
        (entry(lease(0), locked=False), left, {300: kin(300, uid=1001)}, 0),
        (entry(lease(1), locked=False), left, {300: kin(300)}, 0),  # on another device
        (entry(lease(0, owner=owner(boot="last week")), False, (9,)), left, {300: kin(300)}, 0),
    ]
    for found, status, known, standing in cases:
        claims = judge([found], [status], known, HERE)
        assert [c.state for c in claims] == [LeaseState.ORPHANED] * standing, (found, known)


def test_a_process_of_a_lease_that_is_held_makes_no_orphan_of_an_older_one() -> None:
    dead = entry(lease(0, name="dead"), locked=False)
    held = entry(lease(0, name="held"))
    claims = judge([dead, held], [gpu(0, processes=[Process(300)])], {300: kin(300)}, HERE)
    assert [c.lease.id for c in claims if c.lease] == ["held"]


def test_processes_are_counted_for_the_lease_they_are_nearest_to() -> None:
    mine = lease(0, name="mine", memory_gib=10, work=Work(150, 61, 150))
    other = lease(0, name="other", memory_gib=10, since=2000.0)
    processes = [
        Process(300, memory_bytes=3 * GIB),
        Process(301, memory_bytes=2 * GIB),
        Process(302, memory_bytes=None),
        Process(303, memory_bytes=GIB),
        Process(304, kind=ProcessKind.GRAPHICS),
        Process(305),
    ]
    known = {
        300: kin(300, group=150),
        301: kin(301),
        302: kin(302),
        303: kin(303, uid=1001),
        304: kin(304, uid=1001),
        305: kin(305, uid=1001),
    }
    found = occupancy(
        gpu(0, processes=processes), [claim(mine), claim(other)], known, HERE, frozenset({305})
    )
    assert found.used_bytes == {"mine": 3 * GIB, "other": 2 * GIB}
    assert found.unmeasured == {"other"}
    assert [p.pid for p in found.strangers] == [303]


def test_a_lease_of_roots_may_speak_for_a_process_of_another_user() -> None:
    roots = lease(0, owner=owner("root", 0), work=Work(150, 61, 150))
    assert bond(roots, kin(200, group=150), HERE) == BY_ITSELF
    assert bond(roots, kin(200), HERE) == 0


def test_only_living_members_of_the_owners_are_left_of_a_group() -> None:
    work = Work(150, 61, 150)
    mine, other = kin(200, group=150), kin(201, uid=7, group=150)
    dead = Kin(202, 1000, 70, 9, 150, ended=True)
    assert believed(work, 1000, [mine, other, dead]) == (200,)
    assert believed(work, 0, [mine, other, dead]) == (200, 201)
    assert believed(work, 7, [mine, dead]) == ()
    assert believed(work, 1000, []) == ()


def test_a_later_group_of_the_same_number_is_not_believed() -> None:
    leader, child = kin(150, group=150, started_ticks=61), kin(200, group=150)
    assert believed(Work(150, 61, 150), 1000, [leader, child]) == (150, 200)
    assert believed(Work(150, 60, 150), 1000, [leader, child]) == ()
    assert believed(Work(149, 60, 150), 1000, [leader, child]) == (150, 200)


@pytest.mark.parametrize("group", [None, 0, 1, -1])
def test_a_number_that_kill_takes_for_everything_is_no_group(group: int | None) -> None:
    everyone = [kin(pid, group=group or 0) for pid in (2, 3)]
    assert believed(Work(5, 5, group), 1000, everyone) == ()
