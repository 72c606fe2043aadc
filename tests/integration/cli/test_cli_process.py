"""The command as a process of its own: what it imports, and streams that nobody can write."""

import json
import os
import subprocess
import sys
from importlib.util import resolve_name
from pathlib import Path

import pytest

from andon.cli.catalogue import COMMANDS
from andon.cli.main import run
from andon.units import human_bytes

pytestmark = pytest.mark.cold  # it is about the start itself


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")


HEAVY = (
    *(
        resolve_name(place.target.partition(":")[0], "andon.cli.commands")
        for place in COMMANDS.values()
    ),
    *(
        "andon.app",
        "andon.explain",
        "andon.leases",
        "andon.model",
        "andon.sampling",
        "json",
        "psutil",
        "pynvml",
    ),
)


def _andon(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "andon.cli", *args],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        timeout=120,
        check=False,
    )


def test_python_runs_the_package_as_the_command() -> None:
    """G15: `python -m andon` is `andon`."""
    for words in ((), ("version",), ("status", "-d", "0", "--json")):
        done = subprocess.run(
            [sys.executable, "-m", "andon", *words],
            capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "ANDON_SIMULATE": "2", "COLUMNS": "80"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        if words == ("version",):
            assert done.stdout == _andon("version").stdout
        elif words:
            assert [one["index"] for one in json.loads(done.stdout)["devices"]] == [0]
        else:
            assert "SIMULATED" in done.stdout


def test_help_imports_no_command_and_no_engine() -> None:
    script = (
        "import sys\n"
        "from andon.cli.main import run\n"
        "run(['--help'])\n"
        "print(*(m for m in sys.modules if m.startswith(HEAVY)))".replace("HEAVY", repr(HEAVY))
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.cold
def test_help_answers_at_once() -> None:
    """CPU time, because other work on this machine must not fail it."""
    assert min(_cpu_seconds("--help") for _ in range(3)) < 0.15


def _cpu_seconds(*args: str) -> float:
    before = os.times()
    assert _andon(*args).returncode == 0
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


HOG = "import time\nend = time.monotonic() + 120\nwhile time.monotonic() < end: pass"


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="reads /proc")
def test_a_busy_machine_is_busy_in_the_first_sample() -> None:
    """At least what the hogs take: other work only adds to it."""
    commands = (("status", "--json"), ("watch", "-n", "1", "--format", "jsonl"))
    hogs = min(2, len(os.sched_getaffinity(0)))
    least = 85.0 * hogs / (os.cpu_count() or 1)
    running = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(hogs)]
    try:
        for command in commands:
            percent = _cpu_percent(*command)
            assert percent >= least or _cpu_percent(*command) >= least, (command, percent)
    finally:
        for hog in running:
            hog.kill()
            hog.wait()


def _cpu_percent(*command: str) -> float:
    done = _andon(*command, "--simulate", "1")
    assert done.returncode == 0, done.stderr
    return float(json.loads(done.stdout)["host"]["cpu_percent"])


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from andon.app import node\n"
        "from tests.support.fake_node import FakeNode\n"
        "from tests.support.snapshots import farm\n"
        "node.find_node = lambda *_: FakeNode(*[farm()] * 500)\n"
        "from andon.cli.main import run; sys.exit(run(['watch', '--format', 'jsonl']))\n"
    )
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "$0" | head -1; echo "${{PIPESTATUS[0]}}"', script],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        timeout=120,
        check=True,
    )
    first, code = done.stdout.splitlines()
    assert json.loads(first)["node"] == "node17"
    assert (code, done.stderr) == ("0", "")


def test_completion_offers_the_commands() -> None:
    done = _andon(_ANDON_COMPLETE="bash_complete", COMP_WORDS="andon st", COMP_CWORD="1")
    assert done.stdout == "plain,status\n"


# Output that nobody can write.

EVERY_SURFACE = (
    "status", "status --json", "watch -n 2", "why --quiet --seconds 0", "ps --csv", "doctor",
    "config show", "--help", "status --help", "--version", "completion bash",
)  # fmt: skip


def _in_shell(words: str) -> subprocess.CompletedProcess[str]:
    program = f'{sys.executable} -c "from andon.cli.entry import main; main()"'
    return subprocess.run(
        ["bash", "-c", words.replace("andon", program)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("args", EVERY_SURFACE)
def test_a_full_disk_is_told_in_one_line(args: str) -> None:
    done = _in_shell(f"andon {args} > /dev/full")
    assert done.stderr == "andon: standard output: No space left on device\n"
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_that_cannot_be_told_is_still_a_failure() -> None:
    assert _in_shell("andon --help > /dev/full 2>&1").returncode == 1
    assert _in_shell("andon sttus 2> /dev/full").returncode == 2


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_as_if_nobody_looked(closed: str) -> None:
    done = _in_shell(f"andon status --simulate 2 {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_help_is_ascii_where_the_stream_knows_nothing_better() -> None:
    done = _andon("--help", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert "watch - what the GPUs are doing" in done.stdout


# A past.


def test_a_seeded_past_is_there_and_says_that_it_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, url = tmp_path / "a b.db", f"sqlite:{tmp_path}/a%20b.db"
    assert run(["seed", "--days", "12", "--devices", "1", "--store", url]) == 0
    size = human_bytes(sum(part.stat().st_size for part in tmp_path.glob(f"{file.name}*")))
    assert f"{file}: 1 simulated device, 12 days, {size}, in" in capsys.readouterr().out
    monkeypatch.setenv("ANDON_HISTORY", str(file))
    assert run(["seed", "--days", "12", "--devices", "1"]) == 6
    assert f"{file} already exists" in capsys.readouterr().err
    assert run(["history", "--since", "12d", "--points", "12", "-m", "energy_joules"]) == 0
    assert "SIMULATED" in capsys.readouterr().out
    asked = ["--since", "11d", "-n", "100", "-m", "energy_joules,utilization_percent", "--json"]
    assert run(["history", *asked]) == 0
    energy, load = json.loads(capsys.readouterr().out)["series"]
    assert all(bucket["count"] for bucket in load["buckets"])
    means = [bucket["mean"] for bucket in energy["buckets"]]
    assert means[0] < means[50] < means[-1]
