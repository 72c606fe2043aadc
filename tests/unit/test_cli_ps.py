"""`andon ps` and `andon devices`: who uses what, and what it is."""

import csv
import io
import json
from dataclasses import dataclass, replace

import pytest

from andon.cli import looking
from andon.cli.main import run
from andon.cli.text import display_width
from andon.cli.uses import HostLook, between, elapsed, render_uses, uses, uses_to_csv
from andon.model.device import State
from tests.unit import test_cli_golden_snapshots as golden
from tests.unit.test_cli_golden_snapshots import HOSTS, FakeSampler, office


@dataclass(frozen=True)
class Counted:
    cpu_seconds: float
    memory_bytes: int | None


def test_simulated_processes_say_so() -> None:
    snapshot = replace(
        golden.simulated(),
        devices=(replace(golden.simulated().devices[0], processes=(golden.work(7, "a", "b", 1),)),),
    )
    found = uses(snapshot, {}, None, "memory")
    assert "SIMULATED" in render_uses(found, 80, color=False, simulated=True).splitlines()[0]
    assert next(csv.DictReader(io.StringIO(uses_to_csv(snapshot, found))))["vendor"] == "sim"


def test_no_row_of_processes_wraps() -> None:
    for width in range(40, 200, 7):
        text = render_uses(uses(office(), HOSTS, None, "memory"), width, color=False)
        assert all(display_width(line) <= width for line in text.splitlines())


@pytest.mark.parametrize(
    ("sort", "first"), [("memory", 5012), ("gpu", 4101), ("cpu", 4101), ("pid", 901)]
)
def test_the_largest_comes_first(sort: str, first: int) -> None:
    process = uses(office(), HOSTS, None, sort)[0].process
    assert process is not None
    assert process.pid == first


def test_one_users_processes_leave_out_what_belongs_to_nobody() -> None:
    found = uses(office(), HOSTS, "bob", "memory")
    assert [use.process and use.process.user for use in found] == ["bob", "bob"]


def test_a_device_that_does_not_answer_has_no_processes() -> None:
    lost = golden.silent(0, State.LOST, "gone", None, 5)
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
    monkeypatch.setattr(looking, "sampling", lambda choices: FakeSampler(office()))
    monkeypatch.setattr(looking, "host_use", lambda *_: HOSTS)
    assert run(["ps", "--json", "-d", "0", "--user", "alice"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["schema"] == "andon.processes/1"
    assert [process["host_cpu_percent"] for process in value["processes"]] == [312.5]


def test_ps_without_a_gpu_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looking, "sampling", lambda choices: FakeSampler(golden.no_gpu()))
    monkeypatch.setattr(looking, "host_use", lambda *_: {})
    assert run(["ps"]) == 3
    assert "libnvidia-ml.so.1 is not installed" in " ".join(capsys.readouterr().out.split())


def test_processes_that_cannot_be_listed_are_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = replace(golden.h200(0, 9.0), missing={"processes": "no permission"})
    snapshot = replace(golden.farm(), devices=(odd,))
    monkeypatch.setattr(looking, "sampling", lambda choices: FakeSampler(snapshot))
    monkeypatch.setattr(looking, "host_use", lambda *_: {})
    assert run(["ps"]) == 0
    assert capsys.readouterr().out == "no process uses a device\n– processes: no permission\n"


def test_devices_exits_with_3_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looking, "sampling", lambda choices: FakeSampler(golden.no_gpu()))
    assert run(["devices", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["faults"][0]["source"] == "nvidia"
