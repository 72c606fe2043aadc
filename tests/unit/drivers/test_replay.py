"""A recording, played again: whole, torn, wrong, with holes, and never looking live."""

import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from andon.drivers.replay import RecordedHost, Replay
from andon.drivers.replay.backend import CARD, HINT, MARK, NOT_RECORDED
from andon.drivers.replay.recording import Recording
from andon.errors import AndonError, Denied, Invalid, Unavailable
from andon.host.system import System
from andon.model import wire
from andon.model.device import (
    SAMPLE_VALUES,
    Device,
    DeviceStatus,
    Fault,
    Host,
    Process,
    Reading,
    Sample,
    Snapshot,
    State,
)
from andon.sampling.rules.masks import Visibility
from andon.sampling.rules.readings import checked_host
from andon.sampling.rules.roster import BackendChoice
from andon.sampling.sampler import NodeIdentity, Sampler
from tests.support.replaced import fails

T0 = 1_700_000_000.0
NOW = 2_000_000_000.0


def sample(at: float, utilization: int = 50) -> Sample:
    return Sample(at=at, utilization_percent=utilization, energy_joules=7.0,
                  read_at={"energy_joules": at - 30})  # fmt: skip


def missing() -> dict[str, str]:
    known = ("utilization_percent", "energy_joules")
    return {name: "was not there" for name in SAMPLE_VALUES if name not in known}


def status(at: float, number: int = 0, utilization: int = 50) -> DeviceStatus:
    return DeviceStatus(
        device=Device(
            f"GPU-{number}", number, "nvidia", f"NVIDIA {number}", f"0000:0{number}:00.0"
        ),
        state=State.OK,
        since=at,
        sample=sample(at, utilization),
        missing=missing(),
        processes=(Process(os.getpid(), started=T0 - 100, name="train"),),
    )


def snapshot(at: float, *statuses: DeviceStatus, **fields: object) -> Snapshot:
    made = Snapshot(node="far", at=at, versions={"driver": "580.1"}, devices=statuses,
                    host=Host(cpu_percent=at - T0))  # fmt: skip
    return replace(made, **fields)


def line(shot: Snapshot) -> str:
    return wire.dumps(wire.snapshot_to_json(shot)) + "\n"


def film(count: int = 4, step: float = 1.0) -> list[str]:
    times = [T0 + step * index for index in range(count)]
    return [line(snapshot(at, status(at, utilization=10 + i))) for i, at in enumerate(times)]


class Player:
    """A replay whose clock stands at NOW, and which closes its file."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        path.write_text(text, encoding="utf-8")
        self.opened: list[Replay] = []

    def play(self, speed: float = 1.0, loop: bool = False) -> Replay:
        made = Replay(str(self.path), speed, loop, origin=NOW, clock=lambda: NOW)
        made.open()
        self.opened.append(made)
        return made

    def close(self) -> None:
        for replay in self.opened:
            replay.close()


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    made = Player(tmp_path / "look.jsonl", "".join(film()))
    yield made
    made.close()


def at(replay: Replay, seconds: float) -> list[Reading]:
    return list(replay.read(CARD, NOW + seconds, False))


def utilization(replay: Replay, seconds: float) -> int | None:
    [reading] = at(replay, seconds)
    assert reading.sample is not None
    return reading.sample.utilization_percent


# Identity.


def test_a_device_keeps_its_identity_and_says_that_it_is_replayed(player: Player) -> None:
    [device] = player.play().describe(CARD)
    assert (device.uuid, device.index, device.vendor) == ("GPU-0", 0, "nvidia")
    assert device.pci == "0000:00:00.0"
    assert device.name == f"NVIDIA 0{MARK}"


def test_a_replay_of_a_replay_says_so_once(player: Player) -> None:
    shown = status(T0)
    marked = replace(shown, device=replace(shown.device, name=f"X{MARK}"))
    player.path.write_text(line(snapshot(T0, marked)))
    assert player.play().describe(CARD)[0].name == f"X{MARK}"


def test_the_versions_are_the_recorded_ones_and_name_the_file(player: Player) -> None:
    versions = player.play().versions()
    assert versions["driver"] == "580.1"
    assert versions["replay"] == "look.jsonl, recorded on far at 2023-11-14 22:13:20+00:00"


# Time.


def test_each_look_is_shown_at_its_time(player: Player) -> None:
    replay = player.play()
    assert [utilization(replay, s) for s in (0.0, 0.9, 1.0, 2.5, 3.0)] == [10, 10, 11, 12, 13]


def test_it_can_go_back(player: Player) -> None:
    replay = player.play()
    assert [utilization(replay, s) for s in (3.0, 0.0, 2.0, -5.0)] == [13, 10, 12, 10]


def test_a_speed_makes_it_faster(player: Player) -> None:
    replay = player.play(speed=2.0)
    assert [utilization(replay, s) for s in (0.0, 0.5, 1.5)] == [10, 11, 13]


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    with pytest.raises(Invalid):
        Replay("x", speed=speed)


def test_times_move_onto_the_play_and_ages_stay(player: Player) -> None:
    [reading] = at(player.play(speed=2.0), 1.2)
    found = reading.sample
    assert found is not None
    assert found.at == NOW + 1.0  # the look at two recorded seconds
    assert found.read_at == {"energy_joules": NOW + 1.0 - 30}


def test_a_process_starts_at_one_time_in_every_look(player: Player) -> None:
    replay = player.play(speed=2.0)
    starts = {process.started for s in (0.0, 1.0, 1.5) for process in at(replay, s)[0].processes}
    assert starts == {NOW - 100}


def test_a_loop_begins_again_and_time_goes_on(player: Player) -> None:
    replay = player.play(loop=True)
    assert [utilization(replay, s) for s in (3.0, 4.0, 5.0, 8.5)] == [13, 10, 11, 10]
    [reading] = at(replay, 8.5)
    assert reading.sample is not None
    assert reading.sample.at == NOW + 8.0
    assert reading.state is State.OK


def test_after_its_end_the_last_look_is_stale(player: Player) -> None:
    replay = player.play()
    assert at(replay, 4.9)[0].state is State.OK
    [reading] = at(replay, 60.0)
    assert (reading.state, reading.reason) == (State.STALE, "the recording has ended")
    assert reading.hint == HINT
    assert reading.sample is not None
    assert reading.sample.at == NOW + 3.0


def test_a_gap_is_not_filled_with_the_look_before_it(player: Player) -> None:
    later = T0 + 3600
    player.path.write_text("".join([*film(3), line(snapshot(later, status(later)))]))
    replay = player.play()
    [reading] = at(replay, 100.0)
    assert (reading.state, reading.reason) == (
        State.STALE, "the recording has a gap of 1 h here",
    )  # fmt: skip
    assert at(replay, 3600.0)[0].state is State.OK


def test_a_clock_that_was_set_back_does_not_stop_the_play(player: Player) -> None:
    times = (T0, T0 + 1, T0 - 500, T0 - 499)
    shots = [snapshot(t, status(t, utilization=10 + i)) for i, t in enumerate(times)]
    player.path.write_text("".join(map(line, shots)))
    replay = player.play()
    assert [utilization(replay, s) for s in (0.0, 1.0, 2.0)] == [10, 12, 13]


def test_a_single_snapshot_is_a_picture_without_an_end(player: Player) -> None:
    shot = snapshot(T0, status(T0))
    for text in (line(shot), line(shot).rstrip("\n"), json.dumps(json.loads(line(shot)), indent=2)):
        player.path.write_text(text)
        [reading] = at(player.play(), 1e6)
        assert reading.state is State.OK


# States.


@pytest.mark.parametrize("state", [State.STALE, State.LOST, State.ASLEEP])
def test_recorded_trouble_is_played_with_its_reason(player: Player, state: State) -> None:
    troubled = replace(status(T0), state=state, reason="it was so", hint="do this", processes=())
    player.path.write_text(line(snapshot(T0, troubled, status(T0, 1))))
    first, second = at(player.play(), 0.0)
    assert (first.state, first.reason, first.hint) == (state, "it was so", "do this")
    assert first.sample is not None
    assert second.state is State.OK


def test_a_device_that_never_answered_has_no_sample(player: Player) -> None:
    silent = replace(status(T0), state=State.STALE, reason="x", sample=None, missing={})
    player.path.write_text(line(snapshot(T0, silent)))
    [reading] = at(player.play(), 0.0)
    assert (reading.sample, reading.missing) == (None, {})


def test_a_device_that_the_recording_loses_sight_of_is_lost(player: Player) -> None:
    part = status(T0, 2)
    part = replace(part, device=replace(part.device, parent="GPU-0"))
    shots = [snapshot(T0, status(T0), status(T0, 1), part), snapshot(T0 + 1, status(T0 + 1))]
    player.path.write_text("".join(map(line, shots)))
    replay = player.play()
    assert len(at(replay, 0.0)) == 3
    states = {reading.uuid: reading.state for reading in at(replay, 1.0)}
    assert states == {"GPU-0": State.OK, "GPU-1": State.LOST, "GPU-2": State.LOST}
    assert {device.uuid for device in replay.describe(CARD)} == {"GPU-0", "GPU-1"}


def test_values_of_another_version_get_a_reason(player: Player) -> None:
    value = json.loads(line(snapshot(T0, status(T0))))
    value["devices"][0]["missing"] = {"utilization_percent": "nonsense", "fan_percent": "no fan"}
    del value["devices"][0]["sample"]["power_watts"]
    player.path.write_text(json.dumps(value))
    [reading] = at(player.play(), 0.0)
    assert reading.missing["fan_percent"] == "no fan"
    assert reading.missing["power_watts"] == NOT_RECORDED
    assert "utilization_percent" not in reading.missing


def test_a_node_without_devices_is_played_as_its_fault(player: Player) -> None:
    fault = Fault("nvidia", "the driver is not loaded", "load it")
    player.path.write_text(line(snapshot(T0, faults=(fault,))))
    with pytest.raises(Unavailable) as caught:
        at(player.play(), 0.0)
    assert caught.value.reason == "recorded from nvidia: the driver is not loaded"
    assert caught.value.hint == "load it"


def test_a_node_without_devices_or_faults_has_none(player: Player) -> None:
    player.path.write_text(line(snapshot(T0)))
    assert at(player.play(), 0.0) == []


# Files.


def test_a_torn_last_line_is_no_line(player: Player) -> None:
    lines = film()
    player.path.write_text("".join(lines[:3]) + lines[3][:200])
    replay = player.play()
    assert utilization(replay, 2.0) == 12
    assert at(replay, 60.0)[0].reason == "the recording has ended"


def test_a_file_that_is_still_written_goes_on(player: Player) -> None:
    lines = film()
    player.path.write_text("".join(lines[:2]) + lines[2][:50])
    replay = player.play()
    assert utilization(replay, 3.0) == 11
    with player.path.open("a") as file:
        file.write(lines[2][50:] + lines[3])
    assert utilization(replay, 3.0) == 13


@pytest.mark.parametrize("bad", ["not JSON\n", "{}\n", "[1]\n", film()[2][:300] + "\n"])
def test_a_line_that_is_no_snapshot_is_told_with_its_number(player: Player, bad: str) -> None:
    lines = [*film(2), bad, line(snapshot(T0 + 30, status(T0 + 30)))]
    player.path.write_text("".join(lines))
    replay = player.play()
    assert at(replay, 1.0)[0].state is State.OK
    [reading] = at(replay, 20.0)
    assert reading.state is State.STALE
    assert reading.reason is not None
    assert "line 3 of the recording is not a snapshot" in reading.reason
    assert at(replay, 30.0)[0].state is State.OK


def test_an_empty_line_is_no_mistake(player: Player) -> None:
    player.path.write_text("\n".join(film()))
    assert utilization(player.play(), 3.0) == 13


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "is empty"),
        ("time,gpu\n1,2\n", "line 1: not valid JSON"),
        ('{"schema":"andon.snapshot/9","at":1}\n', "line 1: the schema is 'andon.snapshot/9'"),
        ('{"schema":"andon.snapshot/1","node":"n","at":1,"devices":[{"index":1e999}]}\n', "line 1"),
        ("\x00\x01", "line 1"),
    ],
)
def test_a_wrong_file_is_told_at_once(player: Player, text: str, word: str) -> None:
    player.path.write_text(text)
    with pytest.raises(Invalid) as caught:
        player.play()
    assert word in caught.value.reason
    assert caught.value.hint


def test_a_missing_file_is_told_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        Replay(str(tmp_path / "none.jsonl")).open()
    assert "no such file" in caught.value.reason
    assert "andon watch --out" in caught.value.hint


def test_a_folder_or_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(Invalid):
            Replay(str(path)).open()


def test_a_file_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_text("{}")
    # Root may read everything.
    fails(monkeypatch, Path, "open", PermissionError(13, "Permission denied"))
    with pytest.raises(Denied):
        Replay(str(tmp_path / "x")).open()


@pytest.mark.slow
def test_a_long_recording_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        for index in range(20_000):
            file.write(line(snapshot(T0 + index)))
    replay = Replay(str(path), origin=NOW, clock=lambda: NOW)
    replay.open()
    tracemalloc.start()
    assert at(replay, 19_999.0) == []
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    replay.close()
    assert grown < path.stat().st_size / 2
    assert grown < 30 * 20_000


def test_reading_before_opening_is_refused() -> None:
    with pytest.raises(Unavailable):
        Replay("x").read(CARD, NOW, False)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_file_is_played_or_refused(player: Player, data: st.DataObject) -> None:
    content = "".join(film(3)).encode()
    for _ in range(data.draw(st.integers(0, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = min(len(content), start + data.draw(st.integers(0, 80)))
        content = content[:start] + data.draw(st.binary(max_size=20)) + content[end:]
    player.path.write_bytes(content)
    try:
        replay = player.play()
        for seconds in (0.0, 1.5, 1e6):
            for reading in at(replay, seconds):
                absent = {n for n in SAMPLE_VALUES if getattr(reading.sample, n, 0) is None}
                assert absent == set(reading.missing) - {"processes"}
        replay.versions()
    except AndonError:
        pass


# The host, and the whole way.


def test_the_host_is_the_recorded_one(player: Player) -> None:
    now = [NOW]
    host = RecordedHost(str(player.path), checked_host, origin=NOW, clock=lambda: now[0])
    assert host.first.node == "far"
    assert host.read().cpu_percent == 0.0
    now[0] = NOW + 2.0
    assert host.read().cpu_percent == 2.0
    host.close()


@pytest.mark.process
def test_through_a_reader_process_no_pid_is_looked_up_here(player: Player, tmp_path: Path) -> None:
    """The recorded pid is this very process's: its name must come from the recording."""
    shown = status(T0)
    nameless = Process(os.getpid())
    shot = snapshot(T0, replace(shown, processes=(*shown.processes, nameless)))
    player.path.write_text(line(shot))
    empty = tmp_path / "empty"
    with Sampler(
        vendors={
            "replay": [BackendChoice("replay", {"path": str(player.path), "root": str(empty)})]
        },
        host=System(tmp_path),
        node=NodeIdentity("here", None),
        visibility=lambda devices: Visibility({device.uuid: None for device in devices}),
        deadline_seconds=10.0,
    ) as sampler:
        [found] = sampler.once().devices
    assert found.device.name.endswith(MARK)
    first, second = found.processes
    assert (first.name, first.user, first.command) == ("train", None, None)
    assert (second.name, second.user, second.started) == (None, None, None)


def test_times_that_contradict_each_other_stay_within_the_calendar(player: Player) -> None:
    odd = replace(status(2.4e11), sample=replace(sample(5.0), at=5.0, read_at={}))
    player.path.write_text(line(snapshot(2.4e11, odd)))
    [reading] = at(player.play(), 0.0)
    assert reading.sample is not None
    assert reading.sample.at == 0.0
    assert reading.processes[0].started == 0.0


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="reads /proc")
def test_a_file_that_cannot_be_read_is_one_line() -> None:
    with pytest.raises(Unavailable, match="/proc/self/mem cannot be read: Input/output error"):
        Recording("/proc/self/mem")
