"""Each GPU of a node in a few words, as a hub lists it."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.errors import Invalid
from andon.fleet.rules.digest import (
    IDLE_RULES,
    MOST_BYTES,
    MOST_SPANS,
    NodeSpan,
    decoded,
    digest_of,
    encoded,
)
from andon.fleet.rules.gpu_states import MOST, STATES, gpu_states
from andon.model.check import CardResult, CheckVerdict, card_id, result_of
from andon.model.device import DeviceStatus, LastCheck, State
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.lease import Reservation, ReservedDevice
from andon.model.lease_list import LeaseList
from andon.model.verdict import DeviceVerdict, VerdictKind
from tests.support.checks import check_result
from tests.support.rows import rows
from tests.support.snapshots import farm, h200, uuid


def device(load: float | None = 87.4, memory: float | None = 0.62) -> DeviceStatus:
    status = h200(3)
    assert status.sample is not None
    total = status.device.memory_total_bytes or 0
    used = None if memory is None else int(total * memory)
    sample = replace(status.sample, utilization_percent=load, memory_used_bytes=used)
    return replace(status, sample=sample)


def lamp(colour: Lamp, rule: str = "thermal", handled: bool = False) -> DeviceLamp:
    return DeviceLamp(uuid(3), 3, colour, "hot", rule=rule, handled=handled)


@rows(
    "kind, load, lamps, text",
    [
        (VerdictKind.FREE, 0.0, (), "3 free 0 62"),
        (VerdictKind.HELD, 87.4, (), "3 held 87 62"),
        (VerdictKind.HELD, 0.0, (), "3 idle 0 62"),
        (VerdictKind.HELD, 1.0, (lamp(Lamp.AMBER, "idle_lease"),), "3 idle 1 62"),
        (VerdictKind.IN_USE, 12.0, (), "3 used 12 62"),
        (VerdictKind.WITHHELD, 0.0, (), "3 withheld 0 62"),
        (VerdictKind.HELD, 87.4, (lamp(Lamp.AMBER),), "3 troubled 87 62"),
        (VerdictKind.HELD, 87.4, (lamp(Lamp.RED),), "3 broken 87 62"),
        (VerdictKind.HELD, 87.4, (lamp(Lamp.RED, handled=True),), "3 held 87 62"),
        (VerdictKind.FREE, None, (), "3 free - 62"),
        (None, 5.0, (), "3 unknown 5 62"),
    ],
)
def test_the_words_of_a_gpu(
    kind: VerdictKind | None, load: float | None, lamps: tuple[DeviceLamp, ...], text: str
) -> None:
    verdicts = [] if kind is None else [DeviceVerdict(uuid(3), 3, "3", kind)]
    assert gpu_states([device(load)], verdicts, lamps, IDLE_RULES) == (text,)


def test_what_does_not_answer_is_unknown() -> None:
    held = DeviceVerdict(uuid(3), 3, "3", VerdictKind.HELD)
    silent = replace(device(), state=State.STALE)
    assert gpu_states([silent], [held], (), IDLE_RULES) == ("3 unknown - -",)
    assert gpu_states([device(memory=None)], [held], (), IDLE_RULES) == ("3 held 87 -",)


@given(st.none() | st.floats(allow_nan=False), st.sampled_from([None, *VerdictKind]))
def test_every_state_is_one_that_a_hub_reads(load: float | None, kind: VerdictKind | None) -> None:
    verdicts = [] if kind is None else [DeviceVerdict(uuid(3), 3, "3", kind)]
    (text,) = gpu_states([device(load)], verdicts, (), IDLE_RULES)
    assert re.fullmatch(rf"3 ({'|'.join(STATES)}) (\d{{1,3}}|-) 62", text)


def test_a_digest_has_them_and_leaves_them_out_before_it_is_too_long() -> None:
    found = decoded(encoded(digest_of(farm(), LeaseList(0.0), (), {}, {}, "m", "1.0")))
    assert len(found.gpu_states) == found.gpus
    long = replace(found, gpu_states=tuple(f"{'x' * 20} withheld 100 {n}" for n in range(64)))
    long = replace(long, reason="r" * (MOST_BYTES // 2))
    assert decoded(encoded(long)).gpu_states == ()


def test_a_digest_has_the_week_and_leaves_it_out_first() -> None:
    free = farm().devices[3].device
    mine = Reservation("r7", (ReservedDevice(free.uuid, 3),), 5.0, 9.0, uid=7, user="alice")
    gone = replace(mine, devices=(ReservedDevice("GPU-gone", 3),))
    found = LeaseList(0.0, reservations=(gone, mine))
    digest = digest_of(farm(), found, (), {}, {}, "m", "1.0")
    assert digest.spans == (NodeSpan("alice", "3", 5.0, 9.0, True),)
    many = replace(found, reservations=(mine,) * 99)
    assert len(digest_of(farm(), many, (), {}, {}, "m", "1.0").spans) == MOST_SPANS
    assert digest_of(farm(), None, (), {}, {}, "m", "1.0").spans == ()
    long = replace(digest, spans=digest.spans * MOST_SPANS, reason="r" * 200,
                   users=tuple(f"{n:0>80}" for n in range(24)))  # fmt: skip
    kept = decoded(encoded(long))
    assert (kept.spans, kept.users) == ((), long.users)


@pytest.mark.parametrize("text", ["3 held", "3 odd 1 1", "3 held 1000 1", "a b held 1 1", ""])
def test_what_another_machine_reports_is_checked(text: str) -> None:
    found = digest_of(farm(), None, (), {}, {}, "m", "1.0")
    with pytest.raises(Invalid, match="gpu_states"):
        decoded(encoded(replace(found, gpu_states=(text,))))


def figures(number: int) -> CardResult:
    return check_result(f"GPU-{number}", verdict=CheckVerdict.OK)


def test_a_digest_has_the_last_check_of_each_card_and_those_that_are_slow() -> None:
    snapshot = farm()
    slow = replace(snapshot.devices[1], check=LastCheck(1.0, "slow", "slow: memory"))
    devices = (snapshot.devices[0], slow, *snapshot.devices[2:])
    beside = [
        check_result("GPU-8", verdict=CheckVerdict.WRONG),
        check_result("GPU-9", verdict=CheckVerdict.OK, even_if_used=True),
    ]
    seen = replace(snapshot, devices=devices)
    digest = digest_of(seen, None, (), {}, {}, "m", "1", checks=[figures(0), *beside])
    found = decoded(encoded(digest))
    assert found.slow == ("1",)
    assert [one.card for one in found.checks] == [card_id("GPU-0")], "wrong or shared: no reference"
    result = result_of(found.checks[0])
    assert result.kind == figures(0).kind
    assert result.value("tensor") == figures(0).value("tensor")


def test_many_checks_are_left_out_before_the_states_of_the_gpus() -> None:
    every = [figures(number) for number in range(100)]
    digest = digest_of(farm(), None, (), {}, {}, "m", "1", checks=every)
    assert len(digest.checks) == MOST
    found = decoded(encoded(digest))
    assert (found.checks, found.gpu_states) == ((), digest.gpu_states)


@rows(
    "figure",
    [
        {"card": "../x"}, {"model": 7}, {"values": [1, 2, 3, 4]}, {"values": [-1]},
        {"values": ["fast"]}, {"values": [1e400]}, {"limit": -1}, {"model": "x" * 600},
    ],
)  # fmt: skip
def test_strange_checks_of_another_machine_are_refused(figure: dict[str, object]) -> None:
    good = {"card": "a1", "model": "H200", "driver": "1", "values": [1, None, 3]}
    digest = {"node": "n", "machine": "m", "version": "1", "checks": [good | figure]}
    with pytest.raises(Invalid):
        decoded(json.dumps(digest).encode())
    assert decoded(json.dumps(digest | {"checks": [good]}).encode()).checks[0].values[1] is None
