"""A reader that is started before it is known what it will read."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import pytest

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.sampling import spawning
from andon.sampling.spawning import Spawned, start_ahead
from tests.integration.conftest import andon
from tests.standin import StandIn
from tests.support.replaced import fails

pytestmark = pytest.mark.cold  # it is about the start itself

SIMULATED = {"simulate": 2}


@pytest.fixture
def ahead() -> Iterator[Spawned]:
    start_ahead()
    [started] = spawning._ahead
    yield started
    spawning._ahead.clear()
    with suppress(ProcessLookupError):
        started.process.kill()
    started.process.wait()
    started.forget()


def test_the_first_that_is_needed_is_the_one_that_was_started(ahead: Spawned) -> None:
    with open_sampler(load_settings(SIMULATED).settings) as sampler:
        sampler.begin()
        snapshot = sampler.once(with_host=False)
        assert len(snapshot.devices) == 2
        assert all(status.answered for status in snapshot.devices)
        assert sampler.reader_pids() == [ahead.process.pid]


def test_one_that_has_died_is_replaced(ahead: Spawned) -> None:
    ahead.process.kill()
    ahead.process.wait()
    with open_sampler(load_settings(SIMULATED).settings) as sampler:
        assert len(sampler.once(with_host=False).devices) == 2
        assert sampler.reader_pids() != [ahead.process.pid]


def test_one_that_nobody_needs_ends_with_its_parent(ahead: Spawned) -> None:
    spawning._ahead.clear()
    ahead.forget()
    assert ahead.process.wait(30) == 0


def test_where_none_can_be_started_ahead_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    fails(monkeypatch, spawning, "process_command", FileNotFoundError("no Python was found"))
    start_ahead()
    assert spawning._ahead == []


FORKED = """
import os, sys
from pathlib import Path
from andon.sampling import spawning
kept = os.open(os.devnull, os.O_RDONLY)
os.dup2(kept, 700)
spawning.start_ahead(fork=True)
[reader] = spawning._ahead
spawning.decide_ahead("sim", '{"count": 1}')
line = b""
while b"opened" not in line:
    line += os.read(reader.answers, 1 << 16)
own = Path(f"/proc/{reader.process.pid}")
files = sorted(os.readlink(file).split(":")[0] for file in (own / "fd").iterdir())
print((own / "comm").read_text().strip(), os.getsid(reader.process.pid) == reader.process.pid)
print(line[:8], files)
reader.forget()
print(reader.process.wait(30))
"""


def test_a_forked_one_has_a_name_a_session_and_descriptors_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True
    )
    name, began, ended = done.stdout.splitlines()
    assert name == "andon-reader True"
    assert began.startswith('b\'{"hello"')
    assert ended == "0"
    files = began.partition(" ")[2]
    assert os.devnull not in files, "none of the command's own"
    assert files.count("pipe") == 3, "requests, answers, nudges"


def test_a_command_shows_devices_where_sigchld_is_ignored() -> None:
    """As whoever started it may have set it: the kernel then keeps no exit codes."""
    ignored = "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    start = f"{ignored}; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    command = [sys.executable, "-c", start, "-m", "andon.cli", "status", "--simulate", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "free: GPU" in done.stdout


def test_a_command_starts_one_reader_and_not_two(node: StandIn) -> None:
    """The stand-in counts how often it was opened."""
    assert andon("status").code == 0
    assert node.calls()["nvmlInitWithFlags"] == 1


def test_what_a_reader_writes_on_its_own_is_kept() -> None:
    spawned = Spawned("nonsense", "{}")
    try:
        assert spawned.process.wait(30) != 0
        os.lseek(spawned.errors.fileno(), 0, os.SEEK_SET)
        assert b"nonsense" in os.read(spawned.answers, 4096) + spawned.errors.read()
    finally:
        spawned.forget()
