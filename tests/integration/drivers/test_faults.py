"""What andon says when a driver fails: the rest goes on, and the person is told what and why."""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest

from andon.errors import Invalid
from andon.model.device import Snapshot, State
from andon.runs.rules.tallies import Summary
from andon.sampling.sampler import Sampler
from tests.conftest import REPOSITORY
from tests.integration.conftest import andon, is_alive, states, until
from tests.standin import (
    HANDLE_FUNCTIONS,
    StandIn,
    StandInMig,
    StandInProcess,
    crash,
    delay,
    hung,
    init_fails,
    lost,
)
from tests.support.replaced import constants
from tests.support.waiting import wait_for


def all_ok(snapshot: Snapshot) -> bool:
    return len(snapshot.devices) == 8 and set(states(snapshot)) == {State.OK}


def test_one_lost_and_one_hung_do_not_hide_the_other_six(node: StandIn) -> None:
    with node.broken(lost(2), hung(device=5)):
        done = andon("status", "--json")
    assert done.code == 0
    devices = {device["index"]: device for device in done.json()["devices"]}
    assert {i for i, device in devices.items() if device["state"] == "ok"} == {0, 1, 3, 4, 6, 7}
    assert all(devices[i]["sample"] is not None for i in (0, 1, 3, 4, 6, 7))
    assert (devices[2]["state"], devices[5]["state"]) == ("lost", "stale")
    assert "fallen off the bus" in devices[2]["reason"]
    assert "driver call stuck for" in devices[5]["reason"]
    assert all(devices[i]["hint"] for i in (2, 5))
    assert devices[2]["sample"] is devices[5]["sample"] is None, "nothing was ever read"


def test_a_card_that_hangs_when_it_is_looked_up_does_not_hide_the_others(node: StandIn) -> None:
    with node.broken(hung(*HANDLE_FUNCTIONS, device=5), lost(2, handle=True)):
        devices = andon("status", "--json").json()["devices"]
    found = [device["state"] for device in sorted(devices, key=lambda d: int(d["index"]))]
    assert found == ["ok", "ok", "lost", "ok", "ok", "stale", "ok", "ok"]


def test_when_every_call_hangs_every_device_is_stale(node: StandIn, kernel: Path) -> None:
    with node.broken(hung()):
        done = andon("status", "--json")
    assert done.code == 3
    snapshot = done.json()
    assert [device["state"] for device in snapshot["devices"]] == ["stale"] * 8
    assert {d["pci"] for d in snapshot["devices"]} == {p.name for p in kernel.glob("sys/*/*/*/*/*")}
    assert "has not responded" in snapshot["faults"][0]["reason"]


def test_when_the_driver_hangs_after_it_started_every_device_is_stale(node: StandIn) -> None:
    starts = ("nvmlInit_v2", "nvmlInitWithFlags", "nvmlDeviceGetCount_v2")
    rest = [f for f in _device_functions() if f not in starts]
    with node.broken(hung(*rest)):
        done = andon("status", "--json")
    assert done.code == 3
    assert [device["state"] for device in done.json()["devices"]] == ["stale"] * 8


def _device_functions() -> list[str]:
    return [*HANDLE_FUNCTIONS, "nvmlDeviceGetUUID", "nvmlDeviceGetUtilizationRates"]


def test_a_hung_device_recovers_when_the_call_returns(node: StandIn, sampler: Sampler) -> None:
    until(sampler, all_ok)
    node.set_faults(hung(device=3))
    stale = until(sampler, lambda s: State.STALE in states(s))
    assert states(stale).count(State.OK) == 7
    reader = sampler.reader_pids()
    node.set_faults()
    cured = until(sampler, all_ok)
    assert cured.devices[3].since > stale.devices[3].since
    assert sampler.reader_pids() == reader, "nothing had to be replaced"


def test_a_slow_device_is_waited_for(node: StandIn, sampler: Sampler) -> None:
    node.set_faults(delay(20_000, "nvmlDeviceGetTemperature", device=1))
    assert all_ok(sampler.once())


def test_who_waits_long_for_a_first_reading_is_told_once_what_for(
    node: StandIn, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, "andon.sampling.sampler", LONG_WAIT_SECONDS=0.0)
    told: list[str] = []
    sampler.on_long_wait = told.append
    until(sampler, all_ok)
    assert told == ["still waiting for the reader process of nvidia devices to start"]


def test_a_crash_in_the_library_costs_a_reader_and_not_an_answer(
    node: StandIn, sampler: Sampler
) -> None:
    before = until(sampler, all_ok)
    reader = sampler.reader_pids()
    node.set_faults(crash("nvmlDeviceGetTemperature", once=True))
    after = sampler.once()
    assert all_ok(after), "it was replaced within the tick"
    assert sampler.reader_pids() != reader
    same = [[(d.device.uuid, d.device.index) for d in one.devices] for one in (before, after)]
    assert same[0] == same[1]


def test_a_library_that_always_crashes_is_told_and_not_hammered(
    node: StandIn, sampler: Sampler
) -> None:
    until(sampler, all_ok)
    node.set_faults(crash("nvmlDeviceGetTemperature", once=False))
    broken = until(sampler, lambda s: State.STALE in states(s))
    assert "SIGSEGV" in broken.faults[0].reason
    assert all("SIGSEGV" in (d.reason or "") for d in broken.devices)
    node.set_faults()
    until(sampler, all_ok)


def test_a_driver_that_is_unloaded_and_loaded_again_needs_no_restart(
    node: StandIn, sampler: Sampler
) -> None:
    until(sampler, all_ok)
    node.set_faults(init_fails(9))
    node.uninitialise()
    gone = until(sampler, lambda s: "not loaded" in "".join(f.reason for f in s.faults))
    assert set(states(gone)) == {State.LOST}
    assert len(gone.devices) == 8, "lost devices stay visible"
    node.set_faults()
    back = until(sampler, all_ok)
    assert back.faults == ()
    assert len(back.devices) == 8


def test_an_upgraded_driver_is_explained(node: StandIn) -> None:
    with node.broken(init_fails(18)):
        done = andon("status")
    assert done.code == 3
    assert "versions differ" in done.out
    assert "eboot" in done.out


def test_no_permission_is_explained(node: StandIn) -> None:
    with node.broken(init_fails(4)):
        done = andon("status", "--json")
    assert done.code == 3
    assert "no permission" in done.json()["faults"][0]["reason"]


def test_a_lost_device_that_comes_back_is_ok_again(node: StandIn, sampler: Sampler) -> None:
    until(sampler, all_ok)
    node.set_faults(lost(6))
    gone = until(sampler, lambda s: State.LOST in states(s))
    assert gone.devices[6].sample is not None, "the last sample stays"
    assert gone.devices[6].sample.at <= gone.devices[6].since
    assert not gone.devices[6].answered
    node.set_faults()
    until(sampler, all_ok)


def test_a_reader_that_is_killed_is_replaced(node: StandIn, sampler: Sampler) -> None:
    until(sampler, all_ok)
    (pid,) = sampler.reader_pids()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(pid))
    until(sampler, all_ok)
    assert sampler.reader_pids() != [pid]


def test_closing_ends_the_reader(node: StandIn, sampler: Sampler) -> None:
    sampler.once()
    (pid,) = sampler.reader_pids()
    sampler.close()
    wait_for(lambda: not is_alive(pid))


def test_a_reader_does_not_outlive_a_parent_that_is_killed(node: StandIn) -> None:
    code = (
        "from andon.app.sampler import open_sampler; from andon.app.settings import load_settings;"
        "s = open_sampler(load_settings({}).settings); s.once();"
        "print(s.reader_pids()[0], flush=True); import time; time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    reader = int(parent.stdout.readline())
    assert is_alive(reader)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not is_alive(reader))


def test_processes_are_named_and_a_stranger_is_shown_without_a_name(
    node: StandIn, sampler: Sampler
) -> None:
    node.change(0, processes=(StandInProcess(os.getpid()), StandInProcess(2**22 - 7)))
    mine, stranger = sampler.once().devices[0].processes
    assert mine.name is not None
    assert "python" in mine.name or "pytest" in mine.name
    assert mine.started is not None
    assert stranger.name is None
    assert stranger.memory_bytes == 1 << 30


def test_a_partition_that_appears_while_running_is_shown(node: StandIn) -> None:
    node.change(1, mig_mode=1, migs=(StandInMig("MIG-11111111-2222-3333-4444-555555555555"),))
    devices = andon("status", "--json").json()["devices"]
    assert [d["uuid"] for d in devices if d["parent"]] == [
        "MIG-11111111-2222-3333-4444-555555555555"
    ]
    assert len(devices) == 9


def test_sessions_do_not_disturb_each_other(node: StandIn, sampler: Sampler) -> None:
    with sampler.subscribe(0.1) as fast, sampler.subscribe(0.3) as slow:
        first = [fast.get(10) for _ in range(6)]
        assert slow.get(10) is not None
        assert slow.get(10) is not None
    assert all(snapshot is not None and all_ok(snapshot) for snapshot in first)


def test_a_sampler_without_sessions_rests(node: StandIn, sampler: Sampler) -> None:
    with sampler.subscribe(0.1) as session:
        assert session.get(10) is not None
    wait_for(lambda: not any(t.name == "sampler" for t in threading.enumerate()))
    ticks = sampler.costs().snapshots
    assert sampler.costs().snapshots == ticks


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_no_gpu_still_prints_what_parses(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    done = andon("status", form)
    assert done.code == 3
    if form == "--json":
        assert done.json()["devices"] == []
        assert "was not found" in done.json()["faults"][0]["reason"]
        assert done.json()["host"]["memory_total_bytes"] > 0
    else:
        assert done.out.startswith("at,")


def test_a_hang_is_counted_from_when_it_began_and_not_from_the_readers_birth(
    node: StandIn, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, "andon.sampling.rules.timing", ABANDON_SECONDS=1.5)
    until(sampler, all_ok)
    wait_for(lambda: sampler.once().at and _age_of_reader(sampler) > 3.0)
    node.set_faults(hung())
    stale = until(sampler, lambda s: set(states(s)) == {State.STALE})
    began = stale.devices[0].since
    first = sampler.reader_pids()
    late = until(sampler, lambda s: sampler.reader_pids() not in ([], first))
    for _ in range(3):
        late = sampler.once()
    told = re.search(r"for (\d+) s", late.devices[0].reason or "")
    assert told is not None
    assert int(told[1]) <= late.at - began + 3.0, "not the age of the reader"
    node.set_faults()
    cured = until(sampler, all_ok)
    assert cured.faults == ()


def _age_of_reader(sampler: Sampler) -> float:
    (pid,) = sampler.reader_pids()
    ticks = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    return uptime - ticks / os.sysconf("SC_CLK_TCK")


def test_a_late_answer_is_taken_even_when_the_next_tick_comes_much_later(
    node: StandIn, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, "andon.sampling.rules.timing", ABANDON_SECONDS=1.2)
    until(sampler, all_ok)
    node.set_faults(delay(1_300_000, "nvmlDeviceGetUtilizationRates", device=0))
    reader = sampler.reader_pids()
    before = sampler.once().devices[0].sample
    wait_for(lambda: sampler._wait_for_answers(0.0))
    wait_for(lambda: time.monotonic() > _LONG_AFTER.setdefault("end", time.monotonic() + 1.5))
    after = sampler.once().devices[0].sample
    assert before is not None
    assert after is not None
    assert after.at > before.at
    assert sampler.reader_pids() == reader, "it had answered, and was not given up"


_LONG_AFTER: dict[str, float] = {}


def test_a_stuck_card_costs_one_thread_and_not_one_per_tick(
    node: StandIn, sampler: Sampler
) -> None:
    until(sampler, all_ok)
    node.set_faults(hung(device=3))
    until(sampler, lambda s: State.STALE in states(s))
    (pid,) = sampler.reader_pids()
    before = sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    for _ in range(20):
        sampler.once()
    assert sum(1 for _ in Path(f"/proc/{pid}/task").iterdir()) == before
    node.set_faults()


def test_a_card_that_is_lost_for_long_is_looked_for_by_a_new_reader(
    node: StandIn, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, "andon.sampling.rules.timing", RENEW_SECONDS=0.5)
    until(sampler, all_ok)
    reader = sampler.reader_pids()
    node.set_faults(lost(6))
    until(sampler, lambda s: sampler.reader_pids() not in ([], reader))
    node.set_faults()
    until(sampler, all_ok)


@pytest.mark.parametrize("interval", [0, -1.0, float("nan"), 1e-9, 1e9])
def test_an_interval_that_makes_no_sense_is_refused_and_disturbs_nobody(
    node: StandIn, sampler: Sampler, interval: float
) -> None:
    with sampler.subscribe(0.1) as session:
        assert session.get(10) is not None
        with pytest.raises(Invalid):
            sampler.subscribe(interval)
        assert session.get(10) is not None


def test_a_reader_finds_andon_where_its_parent_found_it(tmp_path: Path) -> None:
    installed = sysconfig.get_path("purelib")
    code = (
        f"import sys; sys.path[:0] = {[str(REPOSITORY / 'src'), installed]!r}; import andon;"
        "print(len(andon.snapshot().devices))"
    )
    env = {**os.environ, "ANDON_SIMULATE": "2", "PYTHONPATH": ""}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    assert done.stdout == "2\n", done.stderr


def test_a_mig_board_keeps_its_place_in_a_summary(node: StandIn, sampler: Sampler) -> None:
    node.change(0, used=40 << 30, mig_mode=1, migs=(StandInMig("MIG-1", used=2 << 30),))
    summary = Summary()
    summary.add(until(sampler, lambda s: len(s.devices) == 9))
    stats = summary.result(1.0)["gpu_stats"]
    assert stats["0"]["name"] == "NVIDIA H200"
    assert stats["0"]["memory_used_mb"]["max"] == 40 * 1024
