"""`andon top` in a real terminal: a tmux window over the stand-in's node and real processes."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.jobs.queue import Queue, submit
from andon.jobs.submitting import local_spec
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState
from tests.integration.conftest import andon
from tests.integration.queueing import cleaned, settle, states
from tests.integration.serving import Served, serving
from tests.standin import StandIn, hung
from tests.standin.node import StandInProcess
from tests.support.homes import own_folders
from tests.support.tmux import Tmux
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux"),
    pytest.mark.timeout(180),
]
LONG = 60.0
VIEW_SIGNS = {"2": "0 processes", "3": "alert", "4": "no leases", "5": "no jobs", "6": "no runs",
              "7": "no one uses", "1": "MODEL"}  # fmt: skip
STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('x', flush=True)\n"
STUBBORN += "while True: time.sleep(1)"
PATIENT = "import time; print('x', flush=True); time.sleep(600)"
BROKEN = """
import sys
from andon.tui.sources import feed
before = feed.Feed._take
def take(self, snapshot):
    self.shared.past.append(snapshot)
    if len(self.shared.past) > 6:
        raise RuntimeError("on purpose")
    before(self, snapshot)
feed.Feed._take = take
sys.argv = ["andon", "top", "-i", "200ms"]
from andon.cli.entry import main
main()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("top")


@pytest.fixture(scope="module")
def driver(place: Path, library: Path) -> StandIn:
    control = StandIn(place / "node")
    control.write(StandIn.devices(8, gpu_utilisation=71))
    return control


@pytest.fixture(scope="module")
def window(place: Path, driver: StandIn, library: Path) -> Iterator[Tmux]:
    """One tmux server for all tests; a test leaves the shell at its prompt."""
    environment = {
        **driver.environment(library),
        **own_folders(place),
        "ANDON_ALERTS_NODE_CPU_PERCENT": "off",
        "ANDON_WORK_GRACE": "1s",
        "HOME": str(place),
    }
    with Tmux(place, 120, 40, environment) as made:
        made("set-option", "-s", "set-clipboard", "on")
        yield made


@pytest.fixture
def terminal(window: Tmux, driver: StandIn) -> Iterator[Tmux]:
    window.resize(120, 40)
    window.type("clear", "Enter")
    yield window
    if left := window.children():  # the test failed
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        window.renew()
    driver.set_faults()
    driver.write(StandIn.devices(8, gpu_utilisation=71))


def begin(terminal: Tmux, *words: str, sign: str = "every ") -> None:
    """Start top and wait until Textual has taken over: then the mouse is tracked."""
    terminal.type(f"{sys.executable} -m andon top {' '.join(words)}", "Enter")
    wait_for(lambda: terminal.told("mouse_any_flag") == "1", LONG)
    wait_for(lambda: sign in terminal.screen(), LONG)


def restored(terminal: Tmux) -> bool:
    flags = [terminal.told(name) for name in ("alternate_on", "mouse_any_flag", "cursor_flag")]
    return flags == ["0", "0", "1"]


def check_keyboard(terminal: Tmux) -> None:
    terminal.type("clear; stty -a", "Enter")
    wait_for(lambda: "iutf8" in terminal.screen(), LONG)
    words = terminal.screen().replace(";", " ").split()
    assert not {"-echo", "-icanon", "-isig", "-icrnl", "-ixon"}.intersection(words)


@contextmanager
def started(code: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def uses(driver: StandIn, pid: int) -> None:
    first, *others = StandIn.devices(8, gpu_utilisation=71)
    driver.write([replace(first, processes=(StandInProcess(pid, 2 << 30),)), *others])


def test_keys_resizing_and_the_way_out(terminal: Tmux) -> None:
    begin(terminal, "-i 200ms")
    assert "H200" in terminal.screen()
    terminal.type("7")
    wait_for(lambda: "no one uses or holds a GPU" in terminal.screen(), LONG)
    terminal.type("1")
    wait_for(lambda: "MODEL" in terminal.screen(), LONG)
    terminal.resize(80, 24)
    wait_for(lambda: "q quit" in terminal.screen().splitlines()[-1], LONG)
    assert all(len(line) <= 80 for line in terminal.screen().splitlines())
    terminal.type("y")
    wait_for(lambda: "copied: GPU-" in terminal.screen(), LONG)
    wait_for(lambda: "GPU-" in terminal("list-buffers", "-F", "#{buffer_sample}"), LONG)
    terminal.type("Enter")
    wait_for(lambda: "limits  slows down at" in terminal.screen(), LONG)
    terminal.type("h")
    wait_for(lambda: "devices and processes" in terminal.screen(), LONG)
    terminal.type("q", "q")
    wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)
    assert restored(terminal)
    check_keyboard(terminal)


def stop_and_continue(terminal: Tmux) -> None:
    """Ctrl-Z gives the terminal back, and fg takes it again."""
    terminal.type("C-z")
    wait_for(lambda: restored(terminal), LONG)
    terminal.type("fg", "Enter")
    wait_for(lambda: terminal.told("alternate_on") == "1", LONG)
    wait_for(lambda: "MODEL" in terminal.screen() and "H200" in terminal.screen(), LONG)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_leaves_the_terminal_as_it_was(terminal: Tmux, number: signal.Signals) -> None:
    begin(terminal)
    if number == signal.SIGTERM:
        stop_and_continue(terminal)
    [pid] = terminal.children()
    os.kill(pid, number)
    wait_for(lambda: f"rc {128 + number} $" in terminal.screen(), LONG)
    assert restored(terminal)
    check_keyboard(terminal)


def test_an_error_in_a_thread_ends_it_with_one_line(terminal: Tmux, place: Path) -> None:
    script = place / "broken.py"
    script.write_text(BROKEN)
    terminal.type(f"{sys.executable} {script}", "Enter")
    wait_for(lambda: "rc 1 $" in terminal.screen(), LONG)
    assert "andon: top failed: RuntimeError: on purpose" in terminal.screen()
    assert "Traceback" not in terminal.whole()
    assert restored(terminal)
    check_keyboard(terminal)


def test_processes_are_ended_after_the_question_and_killed_after_another(
    terminal: Tmux, driver: StandIn
) -> None:
    with started(PATIENT) as process:
        uses(driver, process.pid)
        begin(terminal, "-i 200ms", sign=str(process.pid))
        terminal.type("Tab", "k")
        wait_for(lambda: f"End pid {process.pid} with SIGTERM?" in terminal.screen(), LONG)
        assert "2.0 GiB on GPU 0" in terminal.screen()
        terminal.type("n")
        wait_for(lambda: "nothing was ended" in terminal.screen(), LONG)
        assert process.poll() is None
        terminal.type("k")
        wait_for(lambda: "with SIGTERM?" in terminal.screen(), LONG)
        terminal.type("y")
        assert process.wait(LONG) == -signal.SIGTERM
        wait_for(lambda: f"pid {process.pid} ended" in terminal.screen(), LONG)
    with started(STUBBORN) as process:
        uses(driver, process.pid)
        terminal.type("2")
        wait_for(lambda: f"{process.pid} " in terminal.screen(), LONG)
        terminal.type("k")
        wait_for(lambda: f"End pid {process.pid} with SIGTERM?" in terminal.screen(), LONG)
        terminal.type("y")
        wait_for(lambda: "Kill with SIGKILL?" in terminal.screen(), LONG)
        terminal.type("y")
        assert process.wait(LONG) == -signal.SIGKILL
        wait_for(lambda: f"pid {process.pid} ended" in terminal.screen(), LONG)
        terminal.type("q")
        wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)


def test_with_readonly_there_is_no_such_key(terminal: Tmux, driver: StandIn) -> None:
    with started(PATIENT) as process:
        uses(driver, process.pid)
        begin(terminal, "--readonly", sign=str(process.pid))
        terminal.type("2", "k", "y", "Enter")
        wait_for(lambda: "GPU memory" in terminal.screen(), LONG)
        terminal.type("e")
        wait_for(lambda: "PATH=" in terminal.screen(), LONG)
        assert process.poll() is None
        terminal.type("q")
        wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)


def test_keys_are_answered_while_a_driver_or_a_device_hangs(
    terminal: Tmux, driver: StandIn
) -> None:
    driver.set_faults(hung())
    begin(terminal, "-i 200ms", sign="has not responded")
    terminal.type("h")
    wait_for(lambda: "devices and processes" in terminal.screen(), LONG)
    terminal.type("h")
    wait_for(lambda: "has not responded" in terminal.screen(), LONG)  # it hangs still
    driver.set_faults(hung(device=3))
    wait_for(lambda: "H200" in terminal.screen(), LONG)
    wait_for(lambda: "not responding" in terminal.screen(), LONG)
    terminal.type("4")
    wait_for(lambda: "no leases" in terminal.screen(), LONG)
    terminal.type("1")
    wait_for(lambda: "not responding" in terminal.screen(), LONG)
    terminal.type("q")
    wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)


def test_only_the_terminals_own_sixteen_colours_are_used(terminal: Tmux, place: Path) -> None:
    """So that it fits a light palette as well as a dark one, and a terminal with no others."""
    raw = place / "raw"
    terminal("pipe-pane", "-t", "w", "-o", f"cat > {raw}")
    terminal.type("unset COLORTERM; export TERM=screen; clear", "Enter")
    begin(terminal, "-i 200ms")
    for view, sign in VIEW_SIGNS.items():
        terminal.type(view)
        wait_for(partial(_shows, terminal, sign), LONG)
    terminal.type("1", "q")
    wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)
    terminal("pipe-pane", "-t", "w")
    terminal.type("export TERM=tmux-256color", "Enter")
    painted = re.findall(r"\x1b\[([0-9;]*)m", raw.read_text(errors="replace"))
    codes = {int(code or 0) for found in painted for code in found.split(";")}
    assert {1, 2, 7, 32} <= codes, "bold, dim, reverse and green"
    assert codes <= {0, 1, 2, 7, 31, 32, 33, 36, 39, 49}


def _shows(terminal: Tmux, sign: str) -> bool:
    return sign in terminal.screen()


def test_a_node_without_devices_and_one_with_many(terminal: Tmux, driver: StandIn) -> None:
    driver.write([])
    begin(terminal, sign="no process is using a GPU")
    terminal.type("q")
    wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)
    first = 4_000_000  # above every pid of this machine
    many = [
        replace(device, processes=tuple(StandInProcess(first + pid, 1 << 20)
                                        for pid in range(index, 400, 64)))
        for index, device in enumerate(StandIn.devices(64))
    ]  # fmt: skip
    driver.write(many)
    terminal.type("clear", "Enter")
    begin(terminal, "-s pid", sign="400 processes")
    assert "of 64" in terminal.screen()
    terminal.type("Tab", "End")
    wait_for(lambda: str(first + 399) in terminal.screen(), LONG)
    terminal.type("Tab", "End")
    wait_for(lambda: "–64 of 64" in terminal.screen(), LONG)
    terminal.type("q")
    wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)


def test_the_job_of_a_process_is_cancelled_instead(
    terminal: Tmux, place: Path, driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cleaned(settle(monkeypatch, place)) as folder:
        submit([local_spec((sys.executable, "-c", PATIENT), DeviceRequest(), simulate=1)])

        def pid() -> int | None:
            return Queue(folder).views()[0].pid

        wait_for(lambda: pid() is not None, LONG)
        uses(driver, pid() or 0)
        begin(terminal, "-i 200ms", sign=str(pid()))
        terminal.type("2", "k")
        wait_for(lambda: "c cancel job 1 instead" in terminal.screen(), LONG)
        assert "belongs to job 1; to end all of it: andon cancel 1" in terminal.screen()
        terminal.type("c")
        wait_for(lambda: "job 1 is cancelled" in terminal.screen(), LONG)
        wait_for(lambda: states(folder) == {1: JobState.CANCELLED}, LONG)
        terminal.type("q")
        wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)


def test_without_colours_and_in_ascii(terminal: Tmux) -> None:
    terminal.type("export NO_COLOR=1", "Enter")
    begin(terminal, "--ascii")
    assert terminal.screen().isascii()
    painted = terminal.screen("-e")
    colours = [f"\x1b[{code}m" for code in (31, 32, 33, 36)]
    assert not [colour for colour in colours if colour in painted]
    terminal.type("q")
    wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)
    terminal.type("unset NO_COLOR", "Enter")


def test_a_recording_is_stepped_through(terminal: Tmux, place: Path) -> None:
    path = place / "r.jsonl"
    assert andon("watch", "--simulate", "2", "-i", "100ms", "-n", "4", "--out", str(path),
                 "-q").code == 0  # fmt: skip
    begin(terminal, f"--replay {path}", sign="REPLAYED")
    terminal.type("Space", "Home")
    wait_for(lambda: "PAUSED" in terminal.screen(), LONG)
    terminal.type(",", ",", ",", ",")
    wait_for(lambda: "r.jsonl +0.0 s" in terminal.screen(), LONG)
    terminal.type(".")
    wait_for(lambda: "r.jsonl +0.0 s" not in terminal.screen(), LONG)
    terminal.type("q")
    wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)


def test_a_server_is_used_and_when_it_goes_away_top_reads_for_itself(
    terminal: Tmux, place: Path, driver: StandIn, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in driver.environment(library).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANDON_LEASE_DIR", str(place / "book"))
    with serving(place / "state", simulate=None) as served:
        os.kill(served.process.pid, signal.SIGSTOP)
        try:  # one that does not answer in time, as on a machine that is loaded
            begin(terminal, "-i 200ms", sign="H200")
            assert served.url not in terminal.screen()
        finally:
            os.kill(served.process.pid, signal.SIGCONT)
        wait_for(lambda: served.url in terminal.screen().splitlines()[0], LONG)
        served.process.terminate()  # the notice is shown for 15 s, which its end may take, too
        wait_for(lambda: "reading the devices directly from now on" in terminal.screen(), LONG)
    wait_for(lambda: served.url not in terminal.screen().splitlines()[0], LONG)
    with serving(place / "state", simulate=None) as again:
        wait_for(lambda: again.url in terminal.screen().splitlines()[0], LONG)
        terminal.type("q")
        wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)
        _jobs_and_runs_of(again, terminal, place, monkeypatch)


def _jobs_and_runs_of(
    served: Served, terminal: Tmux, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --url they are those that the server shows."""
    with cleaned(settle(monkeypatch, place)) as folder:
        folder.pause()
        submit([local_spec(("true",), DeviceRequest(), name="a-job-there")])
        assert andon("run", "--simulate", "1", "--name", "a-run-there", "--", "true").code == 0
        terminal.type("clear", "Enter")
        begin(terminal, f"--url {served.url}", sign=served.url)
        terminal.type("5")
        wait_for(lambda: "a-job-there" in terminal.screen(), LONG)
        terminal.type("6")
        wait_for(lambda: "a-run-there" in terminal.screen(), LONG)
        terminal.type("q")
        wait_for(lambda: "rc 0 $" in terminal.screen(), LONG)


def test_without_a_terminal_it_is_one_line_and_a_usage_error() -> None:
    found = andon("top")
    assert (found.code, found.out) == (2, "")
    assert found.err.splitlines() == [
        "andon: top needs a terminal",
        "hint: in a pipe: andon watch, or andon status",
    ]


def test_without_textual_it_is_one_clear_line(terminal: Tmux, place: Path) -> None:
    script = place / "bare.py"
    script.write_text(
        "import sys\nsys.modules['textual'] = None\nsys.argv = ['andon', 'top']\n"
        "from andon.cli.entry import main\nmain()\n"
    )
    terminal.type(f"{sys.executable} {script}", "Enter")
    wait_for(lambda: "rc 3 $" in terminal.screen(), LONG)
    assert "andon top needs the package textual" in terminal.screen()
    assert "pip install 'andon[top]'" in terminal.screen()


def test_a_wrong_device_or_interval_is_reported_before_the_screen_changes(terminal: Tmux) -> None:
    for turn, (words, code) in enumerate((("-d 99", 5), ("-i 1ms", 2), ("-s size", 2))):
        command = f"{sys.executable} -m andon top {words}"
        terminal.type(f'clear; {command}; echo "turn {turn} ended with $?"', "Enter")
        wait_for(partial(_shows, terminal, f"turn {turn} ended with {code}\n"), LONG)
        assert "andon: " in terminal.screen()
        assert terminal.told("alternate_on") == "0"
