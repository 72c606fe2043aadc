"""A lease for a process that already runs: which processes and devices it is for."""

from collections.abc import Callable

from msgspec.structs import replace

from andon.errors import AndonError, Conflict, Invalid
from andon.leases.rules.around import (
    check_pid,
    check_unleased,
    devices_around,
    left_to,
)
from andon.leases.rules.membership import BY_ITSELF, BY_USER, believed, bond
from andon.model.device import DeviceStatus, Process
from andon.model.lease import Claim, Kin, LeaseKind, LeaseState, PidScope, Work
from tests.support.rows import rows
from tests.support.sharing_parts import claim, gpu, kin, lease

HERE = PidScope("b", "n")
ALICES, BOBS = 1000, 1001


@rows(
    "pid, wrong",
    [(4711, ""), (0, "0 is not the pid"), (-1, "-1 is not the pid"), (1, "as long as the machine"),
     (77, "this andon itself")],
)  # fmt: skip
def test_a_pid_that_means_no_process_to_wait_for_is_refused(pid: int, wrong: str) -> None:
    found = raised(lambda: check_pid(pid, 77))
    assert (found is None) == (not wrong)
    if found is not None:
        assert isinstance(found, Invalid)
        assert wrong in found.reason


MINE, CHILD, OTHER = Process(300), Process(301), Process(302)
BOARD = gpu(6, processes=[MINE])
PART = gpu(7, processes=[MINE])
PARTITION = replace(PART, device=replace(PART.device, parent="GPU-6"))


@rows(
    "statuses, names, taken",
    [
        ([gpu(0, processes=[OTHER]), gpu(1, processes=[OTHER, CHILD]), gpu(2, processes=[MINE])],
         (), ("GPU-1", "GPU-2")),
        ([gpu(0), gpu(1, processes=[MINE])], ("0",), ("GPU-0",)),
        ([gpu(0), gpu(1)], ("1", "0"), ("GPU-0", "GPU-1")),
        ([gpu(0), gpu(1, processes=[OTHER])], (), ()),
        ([BOARD, PARTITION], (), ("GPU-7",)),
        ([BOARD, PARTITION], ("6",), ("GPU-7",)),
    ],
)  # fmt: skip
def test_the_devices_are_those_named_or_those_that_the_family_uses(
    statuses: list[DeviceStatus], names: tuple[str, ...], taken: tuple[str, ...]
) -> None:
    assert devices_around(statuses, {300, 301}, names) == taken


AROUND = lease(0, work=Work(300, 50, None), since_ticks=50, kind=LeaseKind.LIBRARY)
UNREADABLE = Claim(None, LeaseState.UNREADABLE, 1000, "alice", "x.lease")


@rows(
    "claims, uuids, refused",
    [
        ([claim(AROUND)], ("GPU-0",), True),
        ([claim(AROUND, LeaseState.ORPHANED)], ("GPU-0",), True),
        ([claim(AROUND)], ("GPU-1",), False),
        ([claim(lease(0, since_ticks=60))], ("GPU-0",), False),  # older than that lease
        ([UNREADABLE], ("GPU-0",), False),
    ],
)
def test_a_process_under_a_lease_of_its_user_is_told_which(
    claims: list[Claim], uuids: tuple[str, ...], refused: bool
) -> None:
    process = kin(300, started_ticks=50)
    found = raised(lambda: check_unleased(claims, uuids, process, HERE))
    assert (found is not None) == refused
    if found is not None:
        assert isinstance(found, Conflict)
        assert found.reason == "process 300 is already under lease k7qm2 (alice)"


OLD = lease(0, 1, since_ticks=10)


@rows(
    "state, uid, left, processes, taken",
    [
        (LeaseState.ORPHANED, 1000, (), [MINE], True),  # its user's process is all that is left
        (LeaseState.ORPHANED, 1000, (300,), [], True),
        (LeaseState.ORPHANED, 1000, (300, 302), [], False),  # its job lives without a device
        (LeaseState.ORPHANED, 1000, (300,), [MINE, OTHER], False),
        (LeaseState.ORPHANED, 1001, (), [MINE], False),
        (LeaseState.HELD, 1000, (), [MINE], False),
    ],
)
def test_a_lease_takes_the_place_of_one_that_is_left_to_its_family(
    state: LeaseState, uid: int, left: tuple[int, ...], processes: list[Process], taken: bool
) -> None:
    orphan = Claim(OLD, state, uid, "alice", "k7qm2.lease", left)
    known = {pid: kin(pid) for pid in (300, 302)}
    statuses = [gpu(1, processes=processes)]
    found = left_to([orphan], statuses, known, HERE, 1000, frozenset({300, 301}))
    assert found == ((orphan,) if taken else ())


def test_what_the_process_started_before_the_lease_belongs_to_it() -> None:
    """Its start is that of the process: an ordinary lease has only what began after it."""
    assert bond(AROUND, kin(300, started_ticks=50), HERE) == BY_ITSELF
    assert bond(AROUND, kin(301, started_ticks=55), HERE) == BY_USER
    assert bond(AROUND, kin(299, started_ticks=49), HERE) == 0
    assert bond(AROUND, kin(302, uid=BOBS, started_ticks=55), HERE) == 0
    led = lease(0, work=Work(300, 50, 300), since_ticks=50)
    assert bond(led, kin(301, group=300, started_ticks=55), HERE) == BY_ITSELF


@rows(
    "process, left",
    [
        (kin(300, started_ticks=50), (300,)),
        (kin(300, started_ticks=51), ()),  # a later process with its pid
        (kin(300, uid=BOBS, started_ticks=50), ()),
        (kin(301, started_ticks=50), ()),
    ],
)
def test_a_process_without_a_group_of_its_own_is_left_of_its_lease(
    process: Kin, left: tuple[int, ...]
) -> None:
    assert believed(Work(300, 50, None), ALICES, [process]) == left


def raised(check: Callable[[], None]) -> AndonError | None:
    try:
        check()
    except AndonError as error:
        return error
    return None
