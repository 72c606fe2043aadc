"""The host is short of memory while devices wait: judged cheaply, and never from unknown values."""

import pytest
from msgspec.structs import replace

from andon.alerts.rules.commands import current
from andon.alerts.rules.state import EMPTY
from andon.alerts.rules.state_machine import step
from andon.explain.conditions.catalogue import DEFAULTS
from andon.explain.conditions.finding import NEITHER, UNKNOWN
from andon.explain.conditions.node.host_memory_starves import judge
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.explain.why import explain
from andon.model.device import (
    Device,
    DeviceStatus,
    Host,
    Process,
    ProcessKind,
    Sample,
    Snapshot,
    State,
)
from andon.units import GIB

AT = 1_790_000_000.0
WORK = Process(41, user="alice", name="train.py", memory_bytes=GIB)
SCREEN = Process(42, ProcessKind.GRAPHICS, user="root", name="Xorg")
FULL = Host(memory_used_bytes=97, memory_total_bytes=100, memory_pressure_percent=0.0)
SWAPS = Host(memory_used_bytes=50, memory_total_bytes=100, memory_pressure_percent=40.0)
CALM = Host(memory_used_bytes=50, memory_total_bytes=100, memory_pressure_percent=1.0)


def device(
    index: int, busy: int | None, *processes: Process, state: State = State.OK
) -> DeviceStatus:
    sample = Sample(AT, utilization_percent=busy)
    held = Device(f"GPU-{index}", index, "nvidia", "H200")
    return DeviceStatus(held, state, AT, sample=sample, processes=processes)


WAITS, WORKS = device(0, 0, WORK), device(1, 90, WORK)
CASES = {
    "it swaps and one waits": (SWAPS, (WAITS,), "holds"),
    "it is full and one waits": (FULL, (WAITS,), "holds"),
    "half of them wait": (SWAPS, (WAITS, WORKS), "holds"),
    "fewer than half wait": (SWAPS, (WAITS, WORKS, device(2, 50, WORK)), "calm"),
    "calm": (CALM, (WAITS,), "calm"),
    "between": (replace(SWAPS, memory_pressure_percent=12.0), (WAITS,), "between"),
    "as shown, to a tenth": (replace(SWAPS, memory_pressure_percent=19.96), (WAITS,), "holds"),
    "no device has work": (SWAPS, (device(0, 0),), "calm"),
    "only a screen": (SWAPS, (device(0, 0, SCREEN),), "calm"),
    "no device": (SWAPS, (), "calm"),
    "utilisation unknown": (SWAPS, (device(0, None, WORK),), "calm"),
    "they do not answer": (SWAPS, (device(0, 0, WORK, state=State.STALE),), "unknown"),
    "nothing known of the host": (Host(), (WAITS,), "unknown"),
    "pressure unknown, full": (replace(FULL, memory_pressure_percent=None), (WAITS,), "holds"),
    "pressure unknown, free": (replace(CALM, memory_pressure_percent=None), (WAITS,), "calm"),
    "memory unknown, it swaps": (Host(memory_pressure_percent=40.0), (WAITS,), "holds"),
}  # fmt: skip


def test_it_holds_only_where_the_host_is_short_and_devices_with_work_wait() -> None:
    wrong = {}
    for name, (host, devices, expected) in CASES.items():
        found = judge(Snapshot("n", AT, host=host, devices=devices), DEFAULTS)
        said = {None: "calm", NEITHER: "between", UNKNOWN: "unknown"}.get(found, "holds")
        if said != expected:
            wrong[name] = said
    assert wrong == {}


def test_the_alert_says_how_short_and_names_who_waits() -> None:
    snapshot = Snapshot("n1", AT, host=SWAPS, devices=(WAITS, WORKS))
    state = step(EMPTY, Observation(snapshot), Moment(AT, 1.0), Rulebook()).state
    (alert,) = [one for one in current(state) if one.rule == "host_memory_starves"]
    assert alert.message == (
        "The memory of node n1 is 50 % full and makes processes wait 40 % of the time, while 1 of "
        "2 devices with work waits"
    )
    assert [party.user for party in alert.affected] == ["alice"]
    assert alert.evidence == {
        "host.memory_percent": 50.0,
        "host.memory_pressure_percent": 40.0,
        "devices_waiting": 1,
        "devices_with_work": 2,
    }
    assert "ps aux --sort -rss" in alert.advice


@pytest.mark.parametrize(("host", "told"), [(SWAPS, True), (FULL, True), (CALM, False)])
def test_why_says_it_of_the_device_that_waits_and_of_no_other(host: Host, told: bool) -> None:
    snapshot = Snapshot("n1", AT, host=host, devices=(WAITS, WORKS))
    codes = {n: [r.code for r in explain([snapshot], f"GPU-{n}")] for n in (0, 1)}
    assert ("host_memory_starves" in codes[0]) is told
    assert "host_memory_starves" not in codes[1]
