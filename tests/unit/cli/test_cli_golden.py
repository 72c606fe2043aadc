"""What every surface of the command line looks like; UPDATE_GOLDEN=1 draws it anew."""

import csv
import io
import time
from collections.abc import Iterator

import pytest

from andon.cli.catalogue import COMMANDS
from andon.cli.commands.setup.cost import render_cost
from andon.cli.main import run
from andon.cli.show import csv_table
from andon.cli.show.facts import devices_to_json, render_devices
from andon.cli.show.process_rows import PROCESSES, uses, uses_to_json
from andon.cli.show.process_table import forest, render_tree, render_uses
from andon.cli.show.render import Mask, render_status
from andon.cli.show.text import painted
from andon.cli.show.watch import Stream
from andon.cli.terminal import Terminal
from andon.model import wire
from andon.model.device import Snapshot
from andon.units import GIB
from tests.support import snapshots as golden
from tests.support.snapshots import (
    ANCESTORS,
    AT,
    COSTS,
    FAMILY,
    HOSTS,
    assert_golden,
    launched,
    office,
    ticks,
)


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _text(snapshot: Snapshot, width: int = 80, **more: object) -> str:
    return painted(render_status(snapshot, width, now=AT, **more))  # type: ignore[arg-type]


def _csv(snapshot: Snapshot) -> str:
    return csv_table.DEVICES.header + "".join(csv_table.device_rows(snapshot))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_farm_looks_as_drawn(width: int) -> None:
    assert_golden(f"status-{width}.txt", _text(golden.farm(), width))


def test_the_farm_in_colour_looks_as_drawn() -> None:
    assert_golden(
        "status-80-color.txt", painted(render_status(golden.farm(), 80, now=AT), color=True)
    )


def test_a_node_without_a_gpu_says_why_and_what_to_try() -> None:
    text = _text(golden.no_gpu())
    assert_golden("status-no-gpu.txt", text)
    assert text.endswith("try: andon status --simulate 4\n")


def test_faults_stand_below_with_their_hints() -> None:
    assert_golden("status-faults.txt", _text(golden.faults()))


@pytest.mark.parametrize("width", [80, 120])
def test_a_mask_is_told_with_its_numbers(width: int) -> None:
    mask = Mask(source="CUDA_VISIBLE_DEVICES=2,0")
    assert_golden(f"status-masked-{width}.txt", _text(golden.masked(), width, mask=mask))


def test_simulated_devices_say_so() -> None:
    assert_golden("status-simulated.txt", _text(golden.simulated()))


def test_verbose_gives_every_reason() -> None:
    assert_golden("status-verbose.txt", _text(golden.farm(), verbose=True))


def test_json_is_one_line_for_a_program_and_indented_for_a_person() -> None:
    value = wire.snapshot_to_json(golden.farm())
    assert Terminal(80, 24, color=False, live=False).json_text(value).count("\n") == 1
    assert_golden("status.json", Terminal(80, 24, color=False, live=True).json_text(value))


def test_csv_is_flat_with_units_in_the_names() -> None:
    assert_golden("status.csv", _csv(golden.farm()))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_stream_looks_as_drawn(width: int) -> None:
    stream = Stream(width, 24, color=False)
    assert_golden(f"watch-{width}.txt", "".join(map(stream.tick, ticks(6))))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_processes_look_as_drawn(width: int) -> None:
    text = painted(render_uses(uses(office(), HOSTS), width))
    assert_golden(f"ps-{width}.txt", text)


@pytest.mark.parametrize("width", [80, 120])
def test_the_tree_of_processes_looks_as_drawn(width: int) -> None:
    found = uses(launched(), {})
    branches = forest(FAMILY, [use.process.pid for use in found if use.process])
    assert_golden(f"ps-tree-{width}.txt", painted(render_tree(found, branches, ANCESTORS, width)))


def test_processes_speak_json() -> None:
    value = uses_to_json(office(), uses(office(), HOSTS))
    assert_golden("ps.json", Terminal(80, 24, color=False, live=True).json_text(value))


def test_processes_speak_csv() -> None:
    text = PROCESSES.text((office(), one) for one in uses(office(), HOSTS))
    assert_golden("ps.csv", text)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[-1]["pid"] == ""
    assert int(rows[-1]["memory_bytes"]) == 38 * GIB


@pytest.mark.parametrize(
    ("name", "make"), [("", "farm"), ("-masked", "masked"), ("-none", "no_gpu")]
)
def test_devices_look_as_drawn(name: str, make: str) -> None:
    assert_golden(f"devices{name}.txt", painted(render_devices(getattr(golden, make)(), 80)))


def test_devices_speak_json() -> None:
    assert_golden(
        "devices.json",
        Terminal(80, 24, color=False, live=True).json_text(devices_to_json(golden.masked())),
    )


def test_help_is_grouped_by_job_and_ends_with_the_exit_codes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    assert_golden("help.txt", capsys.readouterr().out)


def test_cost_stands_beside_nvidia_smi() -> None:
    assert_golden("cost.txt", painted(render_cost(COSTS, 80)))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_commands_help_reads_as_written(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run([name, "--help"]) == 0
    assert_golden(f"help/{name}.txt", capsys.readouterr().out)
