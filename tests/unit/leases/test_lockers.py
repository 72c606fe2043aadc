"""Whose lock counts: what the kernel's list of locks proves, and what it leaves open."""

from andon.leases.book.locks import parse_locks
from andon.leases.rules.validity import Locker, are_strangers
from andon.model.lease import LeaseKind, Work
from tests.support.rows import rows
from tests.support.sharing_parts import lease, owner

ALICE, MALLORY = 1000, 1002
HELD = lease(0, owner=owner(pid=100), work=Work(200, 7, 200))
LENT = lease(0, owner=owner(pid=100), kind=LeaseKind.NETWORK)


@rows(
    ("lockers", "strange"),
    [
        ((Locker(300, MALLORY),), True),
        ((Locker(300, MALLORY), Locker(301, MALLORY)), True),
        ((Locker(300, None),), True),  # it took the lock, and a child of it keeps it
        ((Locker(300, ALICE),), False),
        ((Locker(300, 0),), False),
        ((Locker(300, MALLORY), Locker(301, ALICE)), False),
        ((Locker(100, MALLORY),), False),  # the holder's own number: a child may have inherited it
        ((Locker(200, None),), False),
        ((Locker(0, None),), False),  # of another pid namespace
        ((), False),
    ],
)
def test_only_a_lock_that_is_proved_to_be_anothers_does_not_count(
    lockers: tuple[Locker, ...], strange: bool
) -> None:
    assert are_strangers(HELD, ALICE, lockers) is strange


def test_a_server_that_took_a_lock_may_be_gone() -> None:
    assert not are_strangers(LENT, ALICE, (Locker(300, None),))
    assert are_strangers(LENT, ALICE, (Locker(300, MALLORY),))


def test_the_kernels_list_is_read_by_file() -> None:
    text = """1: FLOCK  ADVISORY  WRITE 24667 fe:00:16513154 0 EOF
1: -> FLOCK  ADVISORY  WRITE 24668 fe:00:16513154 0 EOF
2: FLOCK  ADVISORY  READ 24667 fe:00:16513151 0 EOF
3: POSIX  ADVISORY  WRITE 24561 fe:00:16513154 128 128
4: FLOCK  ADVISORY  WRITE 24669 fe:00:16513154 0 EOF
5: FLOCK  ADVISORY  WRITE x fe:00:9 0 EOF
6: FLOCK ADVISORY"""
    assert parse_locks(text) == {(0xFE, 0, 16513154): [24667, 24669]}
