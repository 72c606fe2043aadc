"""`andon watch`: a stream that stays in its columns, and a file beside it."""

import json
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.main import run
from andon.cli.show import csv_table
from andon.cli.show.text import display_width
from andon.cli.show.watch import Stream
from andon.cli.terminal import Choices, Terminal
from andon.model import wire_in
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode
from tests.support.snapshots import assert_golden, ticks

watch_module = import_module(
    "andon.cli.commands.watch.watch"
)  # its name in the package is the command's, too


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    time.tzset()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    yield
    monkeypatch.undo()
    time.tzset()


def test_the_heading_comes_back_with_every_screenful() -> None:
    stream = Stream(80, 12, color=False)
    one = replace(golden.farm(), devices=golden.farm().devices[:1])
    text = "".join(stream.tick(one) for _ in range(30))
    lines = text.splitlines()
    assert [n for n, line in enumerate(lines) if "UTIL" in line] == [0, 11, 22]


def test_columns_stay_where_they_are_when_values_grow() -> None:
    stream = Stream(80, 24, color=False)
    lines = "".join(map(stream.tick, ticks(12))).splitlines()
    assert len({line.index(" W") for line in lines if "/700 W" in line}) == 1


def test_no_line_of_the_stream_wraps() -> None:
    for width in (40, 60, 80, 100, 133):
        stream = Stream(width, 24, color=False)
        lines = "".join(map(stream.tick, [*ticks(3), golden.masked()])).splitlines()
        assert all(display_width(line) <= width for line in lines)


def test_a_silent_device_leaves_a_gap_in_its_trend() -> None:
    stream = Stream(80, 50, color=False)
    up = replace(golden.farm(), devices=(golden.busy(0, 100, 1.0),))
    lost = replace(golden.farm().devices[3], device=up.devices[0].device)
    text = "".join(map(stream.tick, [up, replace(up, devices=(lost,)), up]))
    assert "█ █" in text.splitlines()[-1]


def test_simulated_streams_say_so() -> None:
    assert "SIMULATED" in Stream(80, 24, color=False).tick(golden.simulated()).splitlines()[0]


def test_a_node_without_devices_says_so_in_each_tick() -> None:
    assert "no GPU can be read" in Stream(80, 24, color=False).tick(golden.no_gpu())


def test_what_is_wrong_is_told_with_the_first_empty_tick_and_when_it_changes() -> None:
    stream, empty = Stream(80, 24, color=False), golden.no_gpu()
    (fault,) = empty.faults
    first = stream.tick(empty)
    assert_golden("watch-no-gpu.txt", first)
    assert stream.tick(empty).count("\n") == 1
    other = replace(empty, faults=(replace(fault, reason="silent for 3 s", hint="wait"),))
    assert stream.tick(other).splitlines()[1:] == ["nvidia: silent for 3 s · wait"]
    later = replace(empty, faults=(replace(fault, reason="silent for 4 s", hint="wait"),))
    assert stream.tick(later).count("\n") == 1, "only the clock went on"


def test_what_is_wrong_beside_devices_is_told_once_and_again_when_they_are_gone() -> None:
    stream = Stream(80, 24, color=False)
    seen = golden.faults()
    assert "amd: no permission to read /dev/kfd" in stream.tick(seen)
    assert "amd:" not in stream.tick(seen)
    assert "amd:" in stream.tick(replace(seen, devices=()))


def test_devices_that_come_later_get_their_heading() -> None:
    stream = Stream(80, 24, color=False)
    assert "UTIL" not in stream.tick(golden.no_gpu())
    assert "UTIL" in stream.tick(golden.farm())


def test_another_width_gets_other_columns_under_a_new_heading() -> None:
    stream = Stream(133, 50, color=False)
    stream.tick(golden.farm())
    stream.resize(60, 50)
    lines = stream.tick(golden.farm()).splitlines()
    assert "UTIL" in lines[0]
    assert all(display_width(line) <= 60 for line in lines)
    stream.resize(60, 40)
    assert "UTIL" not in stream.tick(golden.farm()), "the same width keeps its columns"


def test_the_size_is_asked_at_every_tick(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream, lamps = Stream(200, 50, color=False), FakeNode(golden.farm()).live.lamps
    for width, snapshot in zip(("120", "60"), ticks(2), strict=True):
        monkeypatch.setenv("COLUMNS", width)
        watch_module._show_tick(snapshot, stream, Terminal.of(Choices()), lamps)
    headings = [line for line in capsys.readouterr().out.splitlines() if "UTIL" in line]
    assert len(headings) == 2
    assert display_width(headings[0]) > 60 >= display_width(headings[1])


def test_so_many_looks_without_a_device_exit_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(golden.no_gpu(), golden.no_gpu())
    assert run(["watch", "-n", "2"], node) == 3
    assert capsys.readouterr().out.count("start the container with --gpus all") == 1


def test_one_answer_in_so_many_looks_is_enough() -> None:
    node = FakeNode(golden.no_gpu(), golden.farm(), golden.no_gpu())
    assert run(["watch", "-n", "3"], node) == 0


def test_ctrl_c_is_no_failure_without_a_device() -> None:
    node = FakeNode(golden.no_gpu(), interrupted=True)
    assert run(["watch", "-n", "5"], node) == 0


def test_jsonl_lines_are_snapshots(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(*ticks(3))
    assert run(["watch", "--format", "jsonl", "-n", "2"], node) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [wire_in.snapshot_from_json(json.loads(line)) for line in lines] == ticks(2)


def test_csv_has_one_header(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(*ticks(2))
    assert run(["watch", "--format", "csv"], node) == 0
    out = capsys.readouterr().out
    assert out.count("at,at_iso,node,index") == 1
    assert out.startswith(csv_table.DEVICES.header)


def test_the_ending_of_the_file_names_its_format_and_the_screen_keeps_the_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node = FakeNode(*ticks(2))
    path = tmp_path / "gpu.jsonl"
    assert run(["watch", "--out", str(path)], node) == 0
    assert [json.loads(line)["schema"] for line in path.read_text().splitlines()] == [
        "andon.snapshot/1"
    ] * 2
    assert "UTIL" in capsys.readouterr().out


def test_quiet_with_a_file_shows_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node = FakeNode(*ticks(2))
    assert run(["watch", "--quiet", "--out", str(tmp_path / "gpu.csv")], node) == 0
    assert capsys.readouterr().out == ""


def test_another_ending_takes_the_format_that_was_named(tmp_path: Path) -> None:
    node = FakeNode(*ticks(1))
    path = tmp_path / "gpu.log"
    assert run(["watch", "--format", "csv", "--out", str(path)], node) == 0
    assert path.read_text().startswith("at,at_iso,node,index")


def test_an_ending_that_says_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["watch", "--out", str(tmp_path / "gpu.log")]) == 2
    assert "does not imply a format" in capsys.readouterr().err


def test_a_file_with_other_columns_is_a_conflict(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "gpu.csv"
    path.write_text("time,temp\n")
    assert run(["watch", "--out", str(path)]) == 6
    assert path.read_text() == "time,temp\n"


def test_ctrl_c_ends_a_watch_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    node = FakeNode(*ticks(2), interrupted=True)
    path = tmp_path / "gpu.jsonl"
    assert run(["watch", "--out", str(path)], node) == 0
    assert path.read_text().endswith("}\n")
    assert capsys.readouterr().err == ""


def test_only_the_named_devices_are_watched(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(*ticks(1))
    assert run(["watch", "--format", "jsonl", "-d", "1,6", "-d", "GPU-00000002"], node) == 0
    devices = json.loads(capsys.readouterr().out)["devices"]
    assert [device["name"][-8:] for device in devices] == [
        "DIA H200", "DIA H200", "XM4-80GB", " 3g.40gb", " 3g.40gb",
    ]  # fmt: skip


def test_a_device_that_does_not_exist_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(*ticks(1))
    assert run(["watch", "-d", "17"], node) == 5
    assert "the devices here: 0, 1, 2" in capsys.readouterr().err


def test_a_device_that_disappears_later_does_not_end_the_watch() -> None:
    first = ticks(1)[0]
    node = FakeNode(first, replace(first, devices=first.devices[1:]))
    assert run(["watch", "-d", "0"], node) == 0


@pytest.mark.parametrize(("given", "seconds"), [("2", 2.0), ("500ms", 0.5), ("1m", 60.0)])
def test_intervals_have_units(given: str, seconds: float) -> None:
    node = FakeNode(*ticks(1))
    assert run(["watch", "-i", given], node) == 0
    assert node.live.intervals == [seconds]


@pytest.mark.parametrize("given", ["0", "10ms", "soon", "-1"])
def test_a_senseless_interval_is_a_usage_error(given: str) -> None:
    assert run(["watch", "-i", given]) == 2
