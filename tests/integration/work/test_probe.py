"""`andon probe` over the stand-in driver, with a command that plays a program on a device."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.cli.main import run as cli
from tests.conftest import REPOSITORY
from tests.integration.conftest import andon, is_alive
from tests.integration.leasing import end_of, entries, held, running, work_pid
from tests.standin import StandIn
from tests.support.device_player import DevicePlayer
from tests.support.waiting import wait_for

PYTHON = sys.executable
GIB = 1 << 30
TOTAL = 140 * GIB

pytestmark = pytest.mark.usefixtures("node", "own_places")


@pytest.fixture
def player(node: StandIn, tmp_path: Path) -> Iterator[DevicePlayer]:
    with DevicePlayer(node, 0, tmp_path / "player") as player:
        yield player


def playing(player: DevicePlayer) -> tuple[str, ...]:
    """3 GiB and 2 GiB for each unit of the size: 68 fits, 69 does not."""
    sizes = (str(3 * GIB), str(2 * GIB), str(TOTAL))
    return (PYTHON, str(player.program), str(player.folder), "{n}", *sizes)


@pytest.mark.timeout(200)  # twelve trials, on a busy machine too
def test_the_largest_size_is_found_measured_stored_and_printed(
    player: DevicePlayer,
) -> None:
    found = andon(
        "probe", "-d", "0", "--max", "512", "--metric", r"samples/s: ([\d.]+)", "--json",
        "--name", "resnet", "--", *playing(player), timeout_seconds=180,
    )  # fmt: skip
    assert found.code == 0, found.err
    result = found.json()
    assert (result["schema"], result["largest"], result["too_large"], result["recommended"]) == (
        "andon.probe/1", 68, 72, 61,
    )  # fmt: skip
    assert (result["model"], result["devices"], result["complete"]) == ("NVIDIA H200", 1, True)
    sizes = {one["size"]: one for one in result["trials"]}
    assert list(sizes) == [1, 2, 4, 8, 16, 32, 64, 128, 96, 80, 72, 68]
    for size in (1, 2, 4, 8, 16, 32, 64, 68):
        assert sizes[size]["peak_memory_bytes"] == (3 + 2 * size) * GIB
        assert sizes[size]["throughput"] == 10.0 * size
    assert sizes[72]["state"] == "device_out_of_memory"
    assert sizes[72]["missing"]["throughput"]
    assert sizes[1]["energy_joules"] is not None
    assert result["line"]["bytes_per_unit"] == pytest.approx(2 * GIB, rel=1e-6)
    assert result["line"]["fixed_bytes"] == pytest.approx(3 * GIB, rel=1e-6)
    assert [one["note"] for one in result["trials"]] == [None] * 12
    assert "probing on GPU 0 (lease" in found.err
    assert entries() == []
    assert andon("probes", "best", "resnet").out == "61\n"
    assert andon("probes", "best", "resnet", "--largest").out == "68\n"
    [kept] = andon("probes", "--json").json()["probes"]
    assert kept == {name: value for name, value in result.items() if name != "schema"}
    assert "resnet" in andon("probes").out


BAD = [
    (("--", "echo", "hi"), 2, "the command has no {n}"),
    (("--min", "5", "--max", "2", "--", "echo", "{n}"), 2, "smallest size (5) is above"),
    (("--", "no-such-command", "{n}"), 127, "no-such-command: command not found"),
    (("--shared", "-m", "1GiB", "--", "echo", "{n}"), 2, "whole devices"),
    (("--ready", "(", "--", "echo", "{n}"), 2, "not a regular expression"),
    (("--ready", "x", "--seconds", "1s", "--", "echo", "{n}"), 2, "cannot be combined"),
    (("--margin", "100", "--", "echo", "{n}"), 2, "margin of 100 %"),
    (("--gpus", "0", "--", "echo", "{n}"), 2, "at least one GPU"),
]


def test_bad_input_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for arguments, code, words in BAD:
        ended = cli(["probe", *arguments])
        done = capsys.readouterr()
        first = done.err.splitlines()[0] if done.err else ""
        if ended != code or words not in first or "Traceback" in done.err or done.out:
            wrong.append((arguments, ended, done))
    assert wrong == []
    assert entries() == []


def test_a_size_that_never_fits_is_one_clear_line(player: DevicePlayer) -> None:
    done = andon("probe", "-d", "0", "--min", "70", "-q", "--", *playing(player))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("andon: even the smallest size, 70, does not fit on GPU 0: out of")
    assert andon("probes").out.startswith("nothing was probed yet")


def test_a_trial_that_fails_for_another_reason_ends_the_search_with_its_output() -> None:
    script = "import sys; n = int(sys.argv[1]); print('reading', n); sys.exit(3 * (n > 2))"
    done = andon("probe", "--", PYTHON, "-c", script, "{n}")
    assert done.code == 1
    assert "\nreading 4\n" in done.err
    assert "the trial with 4 failed, and not for lack of memory: exit code 3" in done.err
    assert "largest size that fits: 2 so far" in done.out
    assert andon("probes").out.startswith("nothing was probed yet")


@pytest.mark.timeout(120)  # ten seconds between SIGTERM and SIGKILL
def test_a_hung_trial_is_ended_with_its_whole_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ignores SIGTERM, and so does its child."""
    monkeypatch.setenv("ANDON_WORK_GRACE", "1s")
    pids = tmp_path / "pids"
    script = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork(); "
        f"open({str(pids)!r}, 'a').write(f'{{os.getpid()}}\\n'); time.sleep(1000)"
    )
    done = andon("probe", "--timeout", "1s", "--", PYTHON, "-c", script, "{n}", timeout_seconds=100)
    assert done.code == 75
    assert "the trial with 1 did not end within" in done.err
    found = [int(line) for line in pids.read_text().split()]
    assert len(found) == 2
    wait_for(lambda: not any(is_alive(pid) for pid in found))
    assert entries() == []


def test_a_server_that_is_ready_fits_and_is_stopped(player: DevicePlayer) -> None:
    script = "import sys, time; print('listening', sys.argv[1], flush=True); time.sleep(1000)"
    done = andon(
        "probe", "--max", "2", "--ready", r"listening \d", "--json", "--", PYTHON, "-c", script,
        "{n}", timeout_seconds=100,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert [one["state"] for one in done.json()["trials"]] == ["fits", "fits"]
    assert done.json()["trials"][0]["message"].startswith("ready after")
    assert done.json()["largest"] == 2


@pytest.mark.timeout(150)
def test_ctrl_c_ends_the_trial_and_the_search() -> None:
    script = "import time; time.sleep(1000)"
    with running("probe", "--seconds", "900s", "--", PYTHON, "-c", script, "{n}") as process:
        pid = work_pid()
        os.kill(process.pid, signal.SIGINT)
        done = end_of(process, 100)
    assert done.code == 130
    assert "stopped on request; nothing was stored" in done.err
    assert not is_alive(pid)
    assert entries() == []


def test_a_killed_probe_leaves_its_trial_with_its_lease() -> None:
    script = "import time; time.sleep(1000)"
    with running("probe", "--seconds", "900s", "--", PYTHON, "-c", script, "{n}") as process:
        pid = work_pid()
        process.kill()
        process.wait()
        assert is_alive(pid)
        assert len(held()) == 1
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not held())


def test_the_environment_of_a_trial_is_that_of_a_run() -> None:
    script = "import json, os; print('env', json.dumps(dict(os.environ))); raise SystemExit(3)"
    done = andon("probe", "-d", "1", "--", PYTHON, "-c", script, "{n}")
    line = next(line for line in done.err.splitlines() if line.startswith("env "))
    seen = json.loads(line[4:])
    assert seen["CUDA_VISIBLE_DEVICES"].startswith("GPU-")
    assert seen["ANDON_LEASE"]


PROGRAM = """
import json
from andon import probe
from andon.errors import Conflict, Invalid
from tests.support.carried_functions import breaks_at_4, never_fits, stops_at_20

told = []
found = probe(stops_at_20, high=64, gpus=2, on_trial=lambda trial: told.append(trial.size))
out = {"sizes": [found.largest, found.recommended, found.too_large], "told": told}
out["throughput"] = {one.size: one.throughput for one in found.trials}
out["on"] = [found.devices, found.model]
for function, error in ((breaks_at_4, KeyError), (never_fits, Conflict)):
    try:
        probe(function)
    except error as raised:
        out[function.__name__] = str(raised)
class Model:  # as in a notebook: what __main__ has travels with the function
    limit = 1

    def step(self, size):
        if size > self.limit:
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")


def step(size):
    Model().step(size)


async def later(size):
    return size


out["in main"] = str(probe(step, high=2))
for refused in ({"low": 3, "high": 2, "function": step}, {"function": later}):
    try:
        probe(**refused)
    except Invalid as why:
        out.setdefault("refused", []).append(str(why))
print(json.dumps(out))
"""


@pytest.mark.timeout(200)
def test_a_function_is_probed_in_spawned_children_and_what_it_raises_is_raised_here() -> None:
    folders = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    done = subprocess.run(
        [PYTHON, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["sizes"] == [20, 18, 21]
    assert found["told"][:6] == [1, 2, 4, 8, 16, 32]
    assert found["throughput"]["16"] == 160.0
    assert found["on"] == [2, "NVIDIA H200"]
    assert found["breaks_at_4"] == "'labels'"
    assert found["never_fits"].startswith("even the smallest size, 1, does not fit")
    assert found["in main"] == (
        "step on NVIDIA H200: 1 fits (2 does not), recommended 1 (10 % less)"
    )
    above, later = found["refused"]
    assert "above the largest" in above
    assert later == "__main__.later is asynchronous"
    assert entries() == []
    assert andon("probes", "best", "stops_at_20").out == "18\n"
