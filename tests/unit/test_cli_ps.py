"""`andon ps` and `andon devices`: who uses what, and what it is."""

import csv
import io
import json
from dataclasses import dataclass, replace

import pytest

from andon.cli import looking
from andon.cli.facts import devices_to_json, render_devices
from andon.cli.main import run
from andon.cli.status import as_json_text
from andon.cli.text import display_width
from andon.cli.uses import HostLook, between, elapsed, render_uses, uses, uses_to_csv, uses_to_json
from andon.model.device import Snapshot
from andon.units import GIB
from tests.unit import test_cli_golden_snapshots as golden
from tests.unit.test_cli_golden_snapshots import FakeSampler, assert_golden

HOSTS = {4101: HostLook(312.5, 9 * GIB), 5012: HostLook(None, 3 * GIB), 6001: HostLook(0.0, GIB)}


def _office() -> Snapshot:
    """The farm, with a container and a Slurm job among its processes."""
    farm = golden.farm()
    alice, bob = farm.devices[0].processes
    first = replace(
        farm.devices[0],
        processes=(
            replace(alice, job="slurm 4711", utilization_percent=80),
            replace(bob, container="jupyter-bob", utilization_percent=7),
        ),
    )
    return replace(farm, devices=(first, *farm.devices[1:]))


@dataclass(frozen=True)
class Counted:
    cpu_seconds: float
    memory_bytes: int | None


@pytest.mark.parametrize("width", [80, 120, 200])
def test_processes_look_as_drawn(width: int) -> None:
    text = render_uses(uses(_office(), HOSTS, None, "memory"), width, color=False)
    assert_golden(f"ps-{width}.txt", text)


def test_processes_speak_json() -> None:
    value = uses_to_json(_office(), uses(_office(), HOSTS, None, "memory"))
    assert_golden("ps.json", as_json_text(value, live=True))


def test_processes_speak_csv() -> None:
    text = uses_to_csv(_office(), uses(_office(), HOSTS, None, "memory"))
    assert_golden("ps.csv", text)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[-1]["pid"] == ""
    assert int(rows[-1]["memory_bytes"]) == 38 * GIB


def test_no_row_of_processes_wraps() -> None:
    for width in range(40, 200, 7):
        text = render_uses(uses(_office(), HOSTS, None, "memory"), width, color=False)
        assert all(display_width(line) <= width for line in text.splitlines())


@pytest.mark.parametrize(
    ("sort", "first"), [("memory", 5012), ("gpu", 4101), ("cpu", 4101), ("pid", 901)]
)
def test_the_largest_comes_first(sort: str, first: int) -> None:
    process = uses(_office(), HOSTS, None, sort)[0].process
    assert process is not None
    assert process.pid == first


def test_one_users_processes_leave_out_what_belongs_to_nobody() -> None:
    found = uses(_office(), HOSTS, "bob", "memory")
    assert [use.process and use.process.user for use in found] == ["bob", "bob"]


def test_a_device_that_does_not_answer_has_no_processes() -> None:
    lost = golden.silent(0, golden.State.LOST, "gone", None, 5)
    lost = replace(lost, processes=(golden.work(1, "a", "b", 1.0),))
    assert uses(replace(golden.farm(), devices=(lost,)), {}, None, "memory") == []


def test_host_cpu_is_the_difference_of_two_looks() -> None:
    first = {1: Counted(10.0, 5), 2: Counted(3.0, 5)}
    second = {1: Counted(10.5, 6), 3: Counted(9.0, None), 2: Counted(2.0, 7)}
    assert between(first, second, 0.25) == {
        1: HostLook(200.0, 6),
        3: HostLook(None, None),  # not there at the first look
        2: HostLook(None, 7),  # the pid belongs to another process now
    }


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(None, "–"), (5.0, "0:00:05"), (12005.0, "3:20:05"), (2 * 86400 + 4 * 3600, "2d04h")],
)
def test_elapsed_time_reads_like_ps(seconds: float | None, words: str) -> None:
    assert elapsed(seconds).plain == words


def test_ps_filters_by_device_and_user(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looking, "sampling", lambda choices: FakeSampler(_office()))
    monkeypatch.setattr(looking, "host_use", lambda pids, seconds: HOSTS)
    assert run(["ps", "--json", "-d", "0", "--user", "alice"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema"] == "andon.processes/1"
    assert [process["host_cpu_percent"] for process in value["processes"]] == [312.5]


def test_ps_without_a_gpu_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looking, "sampling", lambda choices: FakeSampler(golden.no_gpu()))
    monkeypatch.setattr(looking, "host_use", lambda pids, seconds: {})
    assert run(["ps"]) == 3
    assert "libnvidia-ml.so.1 is not installed" in " ".join(capsys.readouterr().out.split())


def test_processes_that_cannot_be_listed_are_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = replace(golden.h200(0, 9.0), missing={"processes": "no permission"})
    snapshot = replace(golden.farm(), devices=(odd,))
    monkeypatch.setattr(looking, "sampling", lambda choices: FakeSampler(snapshot))
    monkeypatch.setattr(looking, "host_use", lambda pids, seconds: {})
    assert run(["ps"]) == 0
    assert capsys.readouterr().out == "no process uses a device\n– processes: no permission\n"


@pytest.mark.parametrize(("name", "make"), [("", "farm"), ("-masked", "masked"), ("-none", "no_gpu")])
def test_devices_look_as_drawn(name: str, make: str) -> None:
    assert_golden(f"devices{name}.txt", render_devices(getattr(golden, make)(), 80, color=False))


def test_devices_speak_json() -> None:
    assert_golden("devices.json", as_json_text(devices_to_json(golden.masked()), live=True))


def test_devices_exits_with_3_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looking, "sampling", lambda choices: FakeSampler(golden.no_gpu()))
    assert run(["devices", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["faults"][0]["source"] == "nvidia"
