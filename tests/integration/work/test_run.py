"""`andon run` and `andon lease` as people use them, over the stand-in driver."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.main import run as cli
from andon.host.users import user_name
from andon.leases.book.lease_book import Book
from tests.integration.conftest import andon, is_alive
from tests.integration.leasing import (
    ENVIRONMENT,
    FOREVER,
    end_of,
    entries,
    held,
    kill,
    leases,
    line,
    records,
    running,
    work_pid,
)
from tests.standin import StandIn, StandInProcess
from tests.support.waiting import wait_for

PYTHON = sys.executable

pytestmark = pytest.mark.usefixtures("node", "own_places")


def test_a_command_sees_its_devices_alone_and_leaves_nothing(tmp_path: Path) -> None:
    done = andon("run", "--gpus", "2", "--", PYTHON, "-c", ENVIRONMENT)
    uuids = done.out.strip().split(",")
    assert (done.code, len(uuids)) == (0, 2)
    first, last = done.err.splitlines()
    assert re.fullmatch(r"andon: running on GPU \d, \d \(lease \w{5}\)", first)
    told = re.fullmatch(
        r"andon: [\d.]+ m?s on GPU \d, \d: mean \d+ %.*; run python\S*: andon runs report (\w+)",
        last,
    )
    assert told
    assert andon("runs", "report", told[1]).code == 0
    assert all(uuid.startswith("GPU-") and len(uuid) == 40 for uuid in uuids)
    assert entries() == []
    [record] = records(tmp_path / "state")
    assert [event["event"] for event in record][:2] == ["begin", "sample"]
    begin, end = record[0], record[-1]
    assert [device["uuid"] for device in begin["devices"]] == uuids
    assert (begin["kind"], begin["world_size"], begin["allocation_method"]) == (
        "command", 2, "best score: most free memory, least busy",
    )  # fmt: skip
    assert len(begin["candidates"]) == 8
    [facts] = [line for line in record if line["event"] == "facts"]
    assert facts["versions"] or facts["versions_reason"], "of the command's own Python"
    assert (end["event"], end["exit_code"], end["state"]) == ("end", 0, "succeeded")
    assert set(end["summary"]) == set(uuids)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "kill -9 $$"), 137),
        (("no-such-command",), 127),
        (("/etc/passwd",), 126),
        (("/etc",), 126),
        (("",), 127),
    ],
)
def test_the_exit_code_is_the_commands(command: tuple[str, ...], code: int) -> None:
    assert andon("run", "--", *command).code == code
    assert entries() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gpus", "-1"), "not a number of GPUs"),
        (("--gpus", "9"), "only 8 visible"),
        (("--memory", "500GiB"), "no GPU can satisfy this"),
        (("--memory", "much"), "not a size"),
        (("--model", "B200"), "no device here is of model"),
        (("--devices", "12"), "there is no device '12'"),
        (("--label", "fast"), "no device has the label"),
        (("--shared",), "a shared device needs an amount of memory"),
        (("--timeout", "soon"), "'--timeout' / '-t': 'soon' is not a duration"),
        (("--for", "0s"), "duration must be greater than 0"),
        (("--memory", "0"), "memory '0' has no unit"),
        (("--memory", "0GiB"), "not greater than 0"),
        (("--memory", "90000"), "memory '90000' has no unit"),
        (("--gpus", "4..2"), "not a number of GPUs"),
        (("--exclude", "0,1,2,3,4,5,6,7"), "no GPU can satisfy this"),
        (("--exclude", "12"), "there is no device '12'"),
        (("--retry-oom", "0"), "not a whole number"),
        (("--nonsense",), "No such option"),
        (("--lease", "zzzzz"), "there is no lease"),
    ],
)
def test_a_mistake_is_told_at_once_and_nothing_is_half_done(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["run", *arguments, "--", "true"]) == 125
    assert words in capsys.readouterr().err
    assert entries() == []


def test_a_missing_command_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["run", "--gpus", "2"]) == 125
    assert "Missing argument 'COMMAND" in capsys.readouterr().err


def test_no_device_is_an_empty_mask_and_no_lease(tmp_path: Path) -> None:
    done = andon("run", "--gpus", "0", "--", PYTHON, "-c", ENVIRONMENT)
    assert (done.code, done.out) == (0, "\n")
    assert not (tmp_path / "book").exists()


def test_an_outer_mask_is_narrowed_and_never_widened(
    node: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = [device.uuid for device in StandIn.devices(8)][2:4]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(inside))
    done = andon("run", "--gpus", "2", "--", PYTHON, "-c", ENVIRONMENT)
    assert set(done.out.strip().split(",")) == set(inside)
    refused = andon("run", "--gpus", "3", "--no-wait", "--", "true")
    assert refused.code == 125
    assert "only 2 visible" in refused.err


def test_a_signal_reaches_the_whole_group() -> None:
    script = f"{PYTHON} -c 'import time; time.sleep(1000)' & echo $!; wait"
    with running("run", "--", "sh", "-c", script) as process:
        child = int(line(process))
        assert is_alive(child)
        kill(process.pid, signal.SIGTERM)
        assert end_of(process).code == 143
        wait_for(lambda: not is_alive(child))
    assert entries() == []


PRINTS_A_BAR = """
import os, sys, time
sys.stderr.write(" 45%|####5     | 450/1000 [01:23<01:41,  5.40it/s]\\r")
sys.stderr.flush()
until = time.monotonic() + 60
while b'"progress":{"step":450,"total":1000' not in open(os.environ["ANDON_RECORD"], "rb").read():
    if time.monotonic() > until:
        sys.exit("the record does not say it")
"""


def test_a_bar_on_the_error_output_is_the_progress_of_the_run_and_is_passed_on() -> None:
    done = andon("run", "--", PYTHON, "-c", PRINTS_A_BAR)
    assert done.code == 0, done.err
    assert " 45%|####5     | 450/1000 [01:23<01:41,  5.40it/s]" in done.err


def test_a_second_interrupt_kills_what_ignores_the_first() -> None:
    # Not `print`: a handler must not write where the program is just writing.
    stubborn = "import os, signal, time; signal.signal(2, lambda *a: os.write(1, b'no\\n')); "
    with running("run", "--", PYTHON, "-c", stubborn + FOREVER + "; time.sleep(1000)") as process:
        assert line(process) == "started"
        kill(process.pid, signal.SIGINT)
        assert line(process) == "no"
        kill(process.pid, signal.SIGINT)
        assert end_of(process).code == 137
    assert entries() == []


def test_the_lease_outlives_a_killed_holder_and_ends_with_the_command() -> None:
    with running("run", "--gpus", "8", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        pid = work_pid()
        kill(process.pid)
        process.wait()
        assert len(held()) == 1
        refused = andon("run", "--no-wait", "--", "true")
        assert refused.code == 125
        assert refused.err.count("held by lease") == 8
        kill(pid)
        wait_for(lambda: not is_alive(pid))
        assert held() == []
    assert andon("run", "--gpus", "8", "--no-wait", "--", "true").code == 0
    assert entries() == []


def test_work_that_outlives_its_lock_is_orphaned_and_withheld() -> None:
    """A worker that was started without the descriptors, as Python does by default."""
    worker = f"import subprocess; p = subprocess.Popen([{PYTHON!r}, '-c', {FOREVER!r}]); p.wait()"
    with running("run", "--gpus", "8", "--", PYTHON, "-c", worker) as process:
        assert line(process) == "started"
        pid = work_pid()
        kill(process.pid)
        process.wait()
        kill(pid)
        wait_for(lambda: not is_alive(pid))
        assert held() == []
        assert [found["state"] for found in leases()] == ["orphaned"]
        refused = andon("run", "--no-wait", "--", "true")
        assert "whose job is still running" in refused.err
        os.killpg(pid, signal.SIGKILL)
        wait_for(lambda: leases() == [])
    assert andon("run", "--gpus", "8", "--no-wait", "--", "true").code == 0
    assert entries() == []


def test_a_daemon_that_the_command_leaves_behind_keeps_nothing() -> None:
    done = andon(
        "run", "--gpus", "8", "--", "sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"
    )
    daemon = int(done.out)
    try:
        assert is_alive(daemon)
        assert entries() == []
        assert andon("run", "--gpus", "8", "--no-wait", "--", "true").code == 0
    finally:
        kill(daemon)


def test_a_lease_ends_at_its_time_and_can_be_given_more() -> None:
    with running("run", "--for", "1h", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        [name] = held()
        assert andon("lease", "extend", name, "--for", "2h").code == 0
        assert andon("lease", "extend", name, "--for", "100ms").code == 0
        done = end_of(process)
    assert done.code == 143
    assert f"lease {name} expired" in done.err
    assert entries() == []


def test_a_lease_is_given_back_when_its_owner_says_so() -> None:
    with running("lease", "--gpus", "2", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        [name] = held()
        found = leases()[0]
        assert [share["index"] for share in found["devices"]] == [0, 1]
        assert andon("release", name[:4]).code == 0  # three digits would be a GPU
        assert end_of(process).code == 143
    assert entries() == []
    assert andon("release", name).code == 5


def test_a_lease_is_used_by_what_runs_inside_it() -> None:
    inner = [PYTHON, "-m", "andon.cli", "run", "--", PYTHON, "-c", ENVIRONMENT]
    done = andon("lease", "--gpus", "2", "--", *inner)
    assert done.code == 0
    assert len(done.out.strip().split(",")) == 2
    assert entries() == []


def test_the_simulated_node_is_the_same_for_every_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of five devices: the sixth is free for as long as its program, which leaks, starts anew."""
    monkeypatch.delenv("ANDON_SIMULATE_SCENARIO", raising=False)
    shown = andon("status", "--simulate", "5", "--json").json()["devices"]
    free = andon("free", "--simulate", "5", "--json").json()
    assert [d["name"] for d in free["devices"]] == [d["name"] for d in shown]
    assert free["free"] == [1]
    assert andon("status", "--simulate", "5").out.splitlines()[-1] == "free: GPU 1"
    done = andon("run", "--simulate", "5", "--", PYTHON, "-c", ENVIRONMENT)
    assert done.code == 0, done.err
    assert done.out.strip() == shown[1]["uuid"]
    assert "running on GPU 1" in done.err
    assert andon("run", "-q", "--simulate", "2", "--", "true").err == ""
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "training")
    for words in (("run", "--", "true"), ("wait",)):
        refused = andon(words[0], "--simulate", "2", *words[1:])
        assert refused.code == (125 if words[0] == "run" else 6)
        assert refused.err.count("without a lease") == 2
        assert "ANDON_SIMULATE_SCENARIO=idle" in refused.err
    assert entries() == []


def test_waiting_ends_when_it_comes_free() -> None:
    with running("run", "--gpus", "8", "--", PYTHON, "-c", FOREVER) as first:
        assert line(first) == "started"
        with running("run", "--", "echo", "at last") as second:
            assert second.stderr is not None
            assert "1st in queue" in second.stderr.readline()
            kill(first.pid, signal.SIGTERM)
            assert line(second) == "at last"
            assert end_of(second).code == 0


def test_a_waiter_that_is_killed_leaves_no_ticket() -> None:
    with running("run", "--gpus", "8", "--", PYTHON, "-c", FOREVER) as first:
        assert line(first) == "started"
        with running("run", "--gpus", "8", "--", "true") as second:
            assert second.stderr is not None
            assert "in queue" in second.stderr.readline()
            kill(second.pid)
            second.wait()
        found = andon("leases", "--json").json()
        assert (len(found["leases"]), found["waiting"]) == (1, [])


def test_a_stranger_makes_a_device_busy_and_is_named(node: StandIn) -> None:
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        busy = StandInProcess(stranger.pid, memory=22 << 30)
        devices = list(StandIn.devices(2))
        node.write([replace(devices[0], processes=(busy,), used=22 << 30), devices[1]])
        found = andon("free", "--gpus", "2")
        assert found.code == 1
        assert found.out.startswith("no: 2 GPUs requested, 1 free\n")
        assert f"in use by {user_name(os.getuid())} without a lease" in found.out
        done = andon("run", "--", PYTHON, "-c", ENVIRONMENT)
        assert done.out.strip() == devices[1].uuid
        forced = andon("run", "--gpus", "2", "--even-if-used", "--", "true")
        assert forced.code == 0
    finally:
        stranger.kill()
        stranger.wait()


def test_a_cordoned_device_is_given_to_nobody_until_it_is_uncordoned() -> None:
    assert andon("cordon", *"0123456", "--reason", "new fans").code == 0
    assert andon("run", "--gpus", "2", "--no-wait", "--", "true").code == 125
    assert "new fans" in andon("free", "--gpus", "8").out
    assert andon("uncordon", *"0123456").code == 0
    assert andon("run", "--gpus", "8", "--no-wait", "--", "true").code == 0


def test_variables_for_eval_name_free_devices_or_those_of_a_lease() -> None:
    free = andon("env", "--gpus", "2")
    assert free.code == 0
    assert "export CUDA_DEVICE_ORDER=PCI_BUS_ID\n" in free.out
    with running("lease", "--gpus", "2", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        [name] = held()
        mine = andon("env", "--lease", name)
        assert f"export ANDON_LEASE={name}\n" in mine.out
    assert andon("wait", "--gpus", "8").code == 0


def test_memory_that_ran_out_is_recognised_told_and_tried_again(tmp_path: Path) -> None:
    words = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."
    failing = f"import sys; sys.exit({words!r})"
    done = andon("run", "--", PYTHON, "-c", failing)
    assert done.code == 1
    assert words in done.err  # the command's own words still come through
    assert "out of GPU memory: PyTorch" in done.err
    [record] = records(tmp_path / "state")
    assert (record[-1]["state"], record[-1]["reported_by"]) == ("device_out_of_memory", "PyTorch")
    again = andon("run", "--retry-oom", "1", "--", PYTHON, "-c", failing)
    assert again.code == 1, "the command's own: no device here has more than the one it had"
    assert "retrying" not in again.err
    assert "cannot retry with more memory: it had 140 GiB, and no GPU here has more" in again.err


def test_a_record_has_the_name_that_was_given_and_csv_on_request(tmp_path: Path) -> None:
    script = "import os; print(os.environ['ANDON_RECORD'])"
    words = ("--name", "night run", "--csv", "--telemetry-dir", str(tmp_path / "kept"))
    done = andon("run", *words, "--", PYTHON, "-c", script)
    [record] = (tmp_path / "kept").glob("night-run_*.jsonl")
    assert done.out.strip() == str(record)
    begin = json.loads(record.read_text().splitlines()[0])
    assert f"andon runs report {begin['id']}" in done.err
    assert begin["name"] == "night run"
    assert all(one["name"].startswith("NVIDIA") for one in begin["candidates"])
    table = record.with_suffix(".csv")
    assert table.stat().st_mode & 0o777 == 0o600
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["uuid"] for row in rows} == {device["uuid"] for device in begin["devices"]}
    assert rows[0]["at_iso"].endswith("Z")


def test_the_whole_machine_can_be_asked_for() -> None:
    done = andon("run", "--gpus", "all", "--", PYTHON, "-c", ENVIRONMENT)
    assert len(done.out.strip().split(",")) == 8
    with running("run", "-q", "--", PYTHON, "-c", FOREVER) as other:
        assert line(other) == "started"
        refused = andon("run", "--gpus", "all", "--no-wait", "--", "true")
        assert "all GPUs requested, 7 available" in refused.err


def test_who_is_ended_by_another_reads_by_whom_and_why() -> None:
    with running("run", "--", PYTHON, "-c", FOREVER) as mine:
        assert line(mine) == "started"
        [name] = held()
        assert andon("release", name, "--note", "maintenance\tat noon").code == 0
        done = end_of(mine)
    me = user_name(os.getuid())
    said = f"andon: {me} released lease {name}: maintenance at noon; your command was sent SIGTERM"
    assert said in done.err.splitlines()
    assert done.code == 143
    assert not list(Book(make=False).path.rglob("*.note")), "nothing is left behind"


def test_a_note_is_bounded() -> None:
    refused = andon("release", "k7qm2", "--note", "x" * 201)
    assert (refused.code, "at most 200" in refused.err) == (2, True)


def test_a_record_that_cannot_be_written_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = andon("run", "--telemetry-dir", str(tmp_path / "file"), "--", "echo", "ran")
    assert (done.code, done.out) == (0, "ran\n")
    assert "the run is not recorded" in done.err


def test_a_record_survives_a_killed_holder(tmp_path: Path) -> None:
    with running("run", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        pid = work_pid()
        wait_for(lambda: [e["event"] for e in records(tmp_path / "state")[0]].count("sample") >= 2)
        kill(process.pid)
        process.wait()
        kill(pid)
    [record] = records(tmp_path / "state")
    assert {event["event"] for event in record} <= {"begin", "sample", "facts"}
