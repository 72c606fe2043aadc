"""`andon status`: what a person, a script and a spreadsheet see."""

import csv
import io
import json
import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from andon.cli.main import run
from andon.cli.show import csv_table
from andon.cli.show.entries import NamedDevice, entries, model_name, only_visible
from andon.cli.show.render import MOST_TROUBLES, render_status
from andon.cli.show.text import display_width, painted
from andon.model.device import Snapshot, State
from andon.model.lamp import DeviceLamp, Lamp
from andon.model.naming import range_of
from andon.model.verdict import DeviceVerdict, VerdictKind
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode
from tests.support.snapshots import AT


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    time.tzset()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield
    monkeypatch.undo()
    time.tzset()


def _text(snapshot: Snapshot, width: int = 80, **more: object) -> str:
    return painted(render_status(snapshot, width, now=AT, **more))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("make", ["farm", "masked", "faults", "no_gpu", "simulated"])
def test_no_line_wraps_at_any_width(make: str) -> None:
    snapshot = getattr(golden, make)()
    for width in range(40, 221, 3):
        for line in _text(snapshot, width).splitlines():
            assert display_width(line) <= width, (width, line)


def test_wide_names_do_not_push_the_columns() -> None:
    plain = golden.farm()
    first = replace(
        plain.devices[0],
        processes=(golden.work(1, "用户👩‍💻", "训练", 3.0), *plain.devices[0].processes),
    )
    lines = _text(replace(plain, devices=(first, *plain.devices[1:])), 200).splitlines()
    assert lines[2].index("612/700 W") == lines[3].index(" 76/700 W")


def test_old_numbers_of_a_silent_device_are_never_shown() -> None:
    for width in (80, 120, 200):
        shown = _text(golden.farm(), width).splitlines()
        silent = [line for line in shown if "not responding ·" in line or "lost for" in line]
        assert len(silent) == 2
        assert not any("77" in line for line in silent)
    rows = list(csv.DictReader(io.StringIO(_csv(golden.farm()))))
    assert rows[3]["state"] == "lost"
    assert rows[3]["utilization_percent"] == rows[3]["memory_percent"] == ""


def test_zero_is_a_reading_and_a_dash_is_none() -> None:
    lines = _text(golden.farm()).splitlines()
    assert "  0 % ──────" in lines[3]
    assert "–" not in lines[3]
    assert lines[8].split()[3] == "–"


def test_a_hot_device_has_another_lamp() -> None:
    lines = _text(golden.farm()).splitlines()
    assert [line[0] for line in lines[2:12]] == list("●●▲✕▲○●●●●")


def verdict(index: int, kind: VerdictKind, **more: str) -> dict[str, DeviceVerdict]:
    uuid = golden.uuid(index)
    return {uuid: DeviceVerdict(uuid, index, str(index), kind, **more)}  # type: ignore[arg-type]


def test_a_device_that_is_reserved_or_withheld_says_so_in_its_row() -> None:
    alice, bob = golden.work(1, "alice", "a", 1.0), golden.work(2, "bob", "b", 1.0)
    held = verdict(0, VerdictKind.HELD, by="alice", code="leased")
    cordoned = verdict(0, VerdictKind.WITHHELD, code="cordoned")
    silent = golden.silent(0, State.STALE, "stuck", None, 5)
    table = [
        (golden.h200(0), held, "held alice"),
        (golden.h200(0), cordoned, "cordoned"),
        (golden.busy(0, 9, 1.0, alice), held, "alice 1.0 GiB"),
        (golden.busy(0, 9, 1.0, bob), held, "held alice, bob 1.0 GiB"),
        (golden.busy(0, 9, 1.0, bob), cordoned, "cordoned, bob 1.0 GiB"),
        (golden.h200(0), verdict(0, VerdictKind.FREE), "5×16"),
        (silent, held, "stuck"),
    ]
    for status, known, end in table:
        seen = replace(golden.farm(), devices=(status,))
        row = painted(render_status(seen, 150, AT, verdicts=known)).splitlines()[2]
        assert row.rstrip().endswith(end), row


def test_what_is_wrong_stands_below_the_table_with_what_to_type() -> None:
    hot = golden.h200(2, temperature_celsius=91)
    seen = replace(golden.farm(), devices=(golden.h200(0), hot))
    (line,) = [
        one for one in painted(render_status(seen, 100, AT)).splitlines() if "andon why" in one
    ]
    assert line.startswith("GPU 2 is ")
    assert line.endswith(" · andon why 2")


def test_the_lines_about_many_troubled_devices_are_few() -> None:
    """A node of 64: the rows have scrolled away."""
    devices = [golden.h200(n, temperature_celsius=91 if n in (7, 8, 9, 60) else 30)
               for n in range(64)]  # fmt: skip
    seen = replace(golden.farm(), devices=tuple(devices))
    said = painted(render_status(seen, 100, AT)).splitlines()[66:]
    assert [one for one in said if "andon why" in one] == ["GPU 7–9, 60: too hot · andon why 7"]
    words = ["too hot", "lost", "slow", "full", "memory held", "Xid", "ECC"]
    lamps = [DeviceLamp(golden.uuid(n), n, Lamp.AMBER, words[n % 7]) for n in range(64)]
    said = painted(render_status(seen, 100, AT, lit=lamps)).splitlines()[66:]
    assert len([one for one in said if one.startswith("GPU ")]) == MOST_TROUBLES + 1


def test_a_busy_full_and_capped_gpu_keeps_its_green_lamp() -> None:
    busy = golden.busy(0, 99, 139.0, golden.work(1, "a", "python", 138.9))
    text = painted(render_status(replace(golden.farm(), devices=(busy,)), 80, now=AT), color=True)
    assert text.splitlines()[2].startswith("\x1b[32m●")
    assert "\x1b[31m" not in text


def test_memory_that_no_process_explains_is_named() -> None:
    assert "unaccounted 38.0 GiB" in _text(golden.farm(), 200)


def test_memory_of_a_divided_board_is_not_unexplained() -> None:
    board = next(line for line in _text(golden.farm(), 200).splitlines() if line[2:4] == "6 ")
    assert "unaccounted" not in board


def test_a_process_on_an_instance_is_not_shown_on_its_board_again() -> None:
    board, part, other = golden.mig_board(0)
    board = replace(board, processes=part.processes)
    shown = entries(replace(golden.farm(), devices=(board, part, other)))
    assert [len(entry.status.processes) for entry in shown] == [0, 1, 0]


def test_a_little_memory_of_the_driver_is_not_worth_a_word() -> None:
    devices = (golden.busy(0, 5, 100.0, golden.work(1, "alice", "python", 98.0)),)
    assert "unaccounted" not in _text(replace(golden.farm(), devices=devices), 200)


def test_shared_memory_is_not_unexplained() -> None:
    assert "unaccounted 44" not in _text(golden.faults(), 200)


def test_the_mean_is_over_those_that_answered() -> None:
    devices = (golden.busy(0, 90, 1.0), golden.farm().devices[3], golden.busy(2, 60, 1.0))
    assert "mean utilisation of 2/3 GPUs: 75 %" in _text(replace(golden.farm(), devices=devices))


def _csv(snapshot: Snapshot) -> str:
    return csv_table.DEVICES.header + "".join(csv_table.device_rows(snapshot))


def test_a_csv_row_is_one_line_whatever_a_name_holds() -> None:
    odd = golden.h200(0)
    odd = replace(odd, device=replace(odd.device, name='a "GPU",\r\nof sorts'))
    rows = csv_table.device_rows(replace(golden.farm(), devices=(odd,)))
    assert rows[0].count("\n") == 1
    assert next(csv.reader(rows))[6] == 'a "GPU", of sorts'


@pytest.mark.parametrize(
    ("name", "brief", "full"),
    [
        ("NVIDIA H100 80GB HBM3", "H100", "H100 80GB HBM3"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4", "A100-SXM4-80GB"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090", "RTX 4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", "RTX 6000 Ada"),
        ("Tesla T4", "T4", "T4"),
        ("AMD Instinct MI300X", "MI300X", "MI300X"),
        ("AMD Radeon RX 7900 XTX", "RX 7900 XTX", "RX 7900 XTX"),
        ("Intel(R) Data Center GPU Max 1100", "Max 1100", "Max 1100"),
        ("NVIDIA", "NVIDIA", "NVIDIA"),
    ],
)
def test_model_names_lose_their_maker(name: str, brief: str, full: str) -> None:
    status = golden.h200(0)
    entry = NamedDevice(replace(status, device=replace(status.device, name=name)), "0")
    assert (model_name(entry, brief=True), model_name(entry, brief=False)) == (brief, full)


def test_instances_stand_below_their_board() -> None:
    shuffled = replace(golden.farm(), devices=tuple(reversed(golden.farm().devices)))
    labels = [entry.label for entry in entries(shuffled)]
    assert labels == ["7", "6", "6:0", "6:1", "5", "4", "3", "2", "1", "0"]


def test_consecutive_numbers_are_a_range() -> None:
    assert range_of(["0", "1", "2", "5", "6", "6:0"]) == "0–2, 5, 6, 6:0"


def test_only_visible_leaves_out_what_the_mask_hides() -> None:
    assert [s.device.index for s in only_visible(golden.masked()).devices] == [0, 2]


def test_status_exits_with_0_when_a_device_answers(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(golden.farm())
    assert run(["status"], node) == 0
    assert capsys.readouterr().out.startswith("node17 · driver 580.159.04")


def test_status_exits_with_3_without_a_device_and_its_json_still_parses(
    capsys: pytest.CaptureFixture[str],
) -> None:
    node = FakeNode(golden.no_gpu())
    assert run(["status", "--json"], node) == 3
    assert json.loads(capsys.readouterr().out)["devices"] == []


def test_status_exits_with_3_when_every_device_is_lost() -> None:
    node = FakeNode(replace(golden.farm(), devices=(golden.farm().devices[3],)))
    assert run(["status"], node) == 3


def test_status_exits_with_0_when_all_devices_sleep() -> None:
    asleep = golden.laptop(0)
    assert asleep.state is State.ASLEEP
    node = FakeNode(replace(golden.farm(), devices=(asleep,)))
    assert run(["status"], node) == 0


def test_hiding_every_device_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    hidden = tuple(replace(s, visible=False) for s in golden.masked().devices)
    node = FakeNode(replace(golden.masked(), devices=hidden))
    assert run(["status", "--only-visible"], node) == 3
    assert "CUDA_VISIBLE_DEVICES=-1 hides all 3" in capsys.readouterr().out


def test_json_and_csv_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--json", "--csv"]) == 2
    assert capsys.readouterr().err.startswith("andon: --json and --csv cannot be combined\nhint:")


def test_andon_alone_is_the_status(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(golden.farm())
    assert run([], node) == 0
    assert "MODEL" in capsys.readouterr().out
