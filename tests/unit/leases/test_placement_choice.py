"""Which devices are chosen, and the words about every one that is not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Gone, Unavailable
from andon.leases.rules.choice import can_come, choose, obstacle, pick, rank
from andon.leases.rules.eligibility import ObstacleKind, need_of, obstacles_of, preferred
from andon.model.device import DeviceStatus, Process, ProcessKind, State
from andon.model.job.device_request import PlacementOrder
from andon.model.lease import Claim, Cordon, LeaseState
from andon.model.naming import devices_named
from andon.units import GIB
from tests.support.sharing_parts import capacities_of, claim, gpu, lease, need, request

STRANGER = Process(4711, user="bob", memory_bytes=22 * GIB)


@pytest.mark.parametrize(
    ("status", "claims", "more", "bar", "words"),
    [
        (gpu(0), [], {}, None, ""),
        (gpu(0, used_gib=5, processes=[Process(9, ProcessKind.GRAPHICS, memory_bytes=5 * GIB)]),
         [], {}, None, ""),
        (gpu(0, state=State.ASLEEP), [], {}, None, ""),
        (gpu(0), [claim(lease(0))], {}, ObstacleKind.LEASED, "held by lease k7qm2 (alice)"),
        (gpu(0), [claim(lease(0), LeaseState.ORPHANED)], {}, ObstacleKind.ORPHANED,
         "orphaned by lease k7qm2 (alice), whose job is still running"),
        (gpu(0), [claim(None, LeaseState.UNREADABLE)], {}, ObstacleKind.UNREADABLE,
         "alice holds a lease that cannot be read (k7qm2.lease)"),
        (gpu(0), [claim(lease(0, memory_gib=31))], {}, ObstacleKind.LEASED,
         "31.0 GiB held by lease k7qm2 (alice)"),
        (gpu(0), [claim(lease(0, memory_gib=71))], {"shared": True, "memory_bytes": 20 * GIB},
         ObstacleKind.FULL,
         "71.0 GiB held by lease k7qm2 (alice); 9.0 GiB free, 20.0 GiB requested"),
        (gpu(0), [claim(lease(0, memory_gib=31))], {"shared": True, "memory_bytes": 20 * GIB},
         None, ""),
        (gpu(0, used_gib=22, processes=[STRANGER]), [], {}, ObstacleKind.UNLEASED_PROCESS,
         "pid 4711 (bob) uses 22.0 GiB without a lease"),
        (gpu(0, used_gib=22, processes=[STRANGER]), [], {"even_if_used": True}, None, ""),
        (gpu(0, processes=[STRANGER]), [claim(lease(0))], {"even_if_used": True},
         ObstacleKind.LEASED,
         "held by lease k7qm2 (alice)"),
        (gpu(0, state=State.LOST), [], {}, ObstacleKind.LOST, "lost: it is lost"),
        (gpu(0, state=State.STALE), [], {"even_if_used": True},
         ObstacleKind.STALE, "not responding: it is stale"),
        (gpu(0, busy=None, missing={"utilization_percent": "no permission"}), [], {},
         ObstacleKind.UNKNOWN,
         "its utilisation cannot be read: no permission"),
        (gpu(0, missing={"processes": "no permission"}), [], {}, ObstacleKind.UNKNOWN,
         "its processes cannot be read: no permission"),
        (gpu(0, total=None), [], {},
         ObstacleKind.UNKNOWN, "its free memory cannot be read: no reading"),
        (gpu(0, busy=80), [], {},
         ObstacleKind.BUSY, "80 % busy, but no visible process uses it"),
        (gpu(0, used_gib=12), [], {},
         ObstacleKind.UNATTRIBUTED_MEMORY, "12.0 GiB used by no visible process"),
        (gpu(0, ecc_uncorrected=3), [], {}, ObstacleKind.ECC, "3 uncorrected memory errors (ECC)"),
        (gpu(0, used_gib=1), [], {"memory_bytes": 80 * GIB}, ObstacleKind.FULL,
         "79.0 GiB free, 80.0 GiB requested"),
    ],
)  # fmt: skip
def test_every_device_that_is_not_free_says_why(
    status: DeviceStatus,
    claims: list[Claim],
    more: dict[str, Any],
    bar: ObstacleKind | None,
    words: str,
) -> None:
    found = obstacle(capacities_of([status], *claims)[0], need(**more))
    assert (found.kind if found else None, found.reason if found else "") == (bar, words)


def test_a_cordon_and_an_ailment_withhold_a_device() -> None:
    cordoned = capacities_of([gpu(0)], cordons=(Cordon("GPU-0", 1.0, "root", "new fan"),))[0]
    broken = capacities_of([gpu(0)], broken={"GPU-0": "Xid 79"})[0]
    told = [obstacle(capacity, need(even_if_used=True)) for capacity in (cordoned, broken)]
    assert [o.reason for o in told if o] == ["cordoned by root: new fan", "Xid 79"]


def test_an_instance_needs_no_utilisation_and_its_board_is_not_taken() -> None:
    board, part = gpu(6), gpu(7, busy=None)
    part = replace(part, device=replace(part.device, index=6, parent="GPU-6"))
    found = obstacles_of([board, part], request(), {})
    assert found["GPU-7"] is None
    assert found["GPU-6"] is not None
    assert found["GPU-6"].kind is ObstacleKind.PARTITIONED
    assert devices_named("6:0", [board, part]) == {"GPU-7"}
    assert pick(capacities_of([board, part]), need_of([board, part], request(), found))


def test_memory_that_was_promised_and_is_not_used_counts_as_used() -> None:
    first, second = lease(0, name="a", memory_gib=30), lease(0, name="b", memory_gib=20)
    capacity = capacities_of([gpu(0, used_gib=5)], claim(first), claim(second))[0]
    assert capacity.free_bytes == (80 - 50 - 5) * GIB  # the 5 GiB are of nobody that is known


def test_the_filters_name_what_they_leave_out() -> None:
    statuses = [gpu(0), gpu(1, name="NVIDIA T4", total=16 * GIB), gpu(2), gpu(3, visible=False)]
    asked = request(models=("h100",), exclude=("2",), memory_bytes=40 * GIB)
    told = {uuid: o.reason for uuid, o in obstacles_of(statuses, asked, {}).items() if o}
    assert told == {
        "GPU-1": "not of model h100",
        "GPU-2": "excluded",
        "GPU-3": "hidden from this process by a mask",
    }
    small = obstacles_of(statuses, request(memory_bytes=40 * GIB), {})["GPU-1"]
    assert small is not None
    assert small.reason == "has 16.0 GiB, 40.0 GiB requested"
    labels = {"quiet": ["2"]}
    kept = obstacles_of(statuses, request(labels=("quiet",)), labels)
    assert [uuid for uuid, o in kept.items() if o is None] == ["GPU-2"]
    assert preferred(statuses, request(prefer=("T4", "quiet", "0")), labels) == {
        "GPU-0", "GPU-1", "GPU-2",
    }  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [{"models": ("B200",)}, {"devices": ("9",)}, {"labels": ("fast",)}, {"exclude": ("GPU-9",)}],
)
def test_a_name_that_nothing_has_is_an_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(Gone):
        obstacles_of([gpu(0)], request(**wrong), {})


@pytest.mark.parametrize(
    ("statuses", "asked", "words"),
    [
        ([], request(), "no GPU found here"),
        ([gpu(0)], request(2), "2 GPUs requested, only 1 visible"),
        ([gpu(0), gpu(1)], request(memory_bytes=99 * GIB), "no GPU can satisfy this"),
        ([gpu(0), gpu(1, total=16 * GIB)], request(2),
         "2 GPUs requested, but no such group has similar memory sizes"),
    ],
)  # fmt: skip
def test_what_can_never_be_met_is_refused_at_once(
    statuses: list[DeviceStatus], asked: object, words: str
) -> None:
    with pytest.raises(Unavailable, match=words):
        need_of(statuses, asked, obstacles_of(statuses, asked, {}))  # type: ignore[arg-type]


def test_the_best_score_comes_first_and_a_pack_takes_what_just_suffices() -> None:
    desktop = Process(9, ProcessKind.GRAPHICS, memory_bytes=40 * GIB)
    found = capacities_of([gpu(0, used_gib=40, processes=[desktop]), gpu(1), gpu(2)])
    spread, packed = rank(), rank(layout=PlacementOrder.PACK)
    assert [r.uuid for r in pick(found, need(), order=spread)] == ["GPU-1"]
    assert [r.uuid for r in pick(found, need(), order=packed)] == ["GPU-0"]
    assert [r.uuid for r in pick(found, need(), order=rank({"GPU-2"}))] == ["GPU-2"]


def test_a_group_is_balanced_or_says_that_it_cannot_be() -> None:
    desktop = Process(9, ProcessKind.GRAPHICS, memory_bytes=40 * GIB)
    found = capacities_of([gpu(0, used_gib=40, processes=[desktop]), gpu(1), gpu(2, busy=20)])
    assert [r.uuid for r in pick(found, need(2))] == ["GPU-1", "GPU-2"]
    assert pick(found, need(3)) == ()
    assert len(pick(found, need(3, balanced=False))) == 3
    choice = choose(found, need(3), {}, {})
    assert choice.chosen == ()
    assert "40.0 GiB to 80.0 GiB" in (choice.reason or "")


def test_as_many_as_possible_are_taken_of_a_range() -> None:
    found = capacities_of([gpu(0), gpu(1), gpu(2)], claim(lease(2)))
    assert len(pick(found, need(1, most=4))) == 2
    assert not can_come(found, need(4, range(3)))
    assert can_come(found, need(4))  # another may see more devices than we do
    assert can_come(found, need(3, range(3)))


gigabytes = st.integers(0, 80)


@given(st.lists(gigabytes, min_size=1, max_size=8), st.integers(1, 8), st.integers(1, 80))
def test_no_group_is_ever_unbalanced_too_small_or_of_the_wrong_size(
    used: list[int], count: int, least_gib: int
) -> None:
    desktop = [Process(9, ProcessKind.GRAPHICS, memory_bytes=u * GIB) for u in used]
    found = capacities_of([gpu(i, used_gib=u, processes=[desktop[i]]) for i, u in enumerate(used)])
    group = pick(found, need(count, memory_bytes=least_gib * GIB))
    sizes = sorted(80 - u for u in used if 80 - u >= least_gib)
    windows = zip(sizes, sizes[count - 1 :], strict=False)
    possible = any(low >= 0.8 * high for low, high in windows)
    assert len(group) == (count if possible else 0)
    free = [capacity.free_bytes or 0 for capacity in group]
    assert all(size >= least_gib * GIB for size in free)
    assert not free or min(free) >= 0.8 * max(free)


@given(st.lists(st.integers(1, 40), max_size=6), st.integers(0, 60), st.integers(1, 80))
def test_promises_never_exceed_the_memory(
    promised: list[int], used_gib: int, asked_gib: int
) -> None:
    claims = [claim(lease(0, name=str(n), memory_gib=size)) for n, size in enumerate(promised)]
    capacity = capacities_of([gpu(0, used_gib=used_gib)], *claims)[0]
    asked = need(shared=True, memory_bytes=asked_gib * GIB)
    if obstacle(capacity, asked) is None:
        assert sum(promised) + asked_gib <= 80
        assert sum(promised) + asked_gib + used_gib <= 80 or not promised
