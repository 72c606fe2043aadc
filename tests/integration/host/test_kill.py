"""`andon kill` on real processes: another user's, a tree's, one whose pid is reused."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from andon.errors import Gone
from andon.host.processes.handles import ProcessHandle
from andon.kill.ending import Ending
from tests.integration.conftest import andon, is_alive
from tests.integration.leasing import FOREVER, held, line, running, work_pid
from tests.standin import StandIn
from tests.standin.node import StandInProcess
from tests.support.waiting import wait_for

PYTHON = sys.executable
NOBODY = 65_534
LONG_SECONDS = 60.0
AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="plays other users and namespaces")
STUBBORN = "import signal, time; signal.signal(15, lambda *_: None); print('x', flush=True)\n"
STUBBORN += "while True: time.sleep(1)"
AS_NOBODY = f"""
import contextlib, encodings.ascii, encodings.latin_1, importlib, os, pkgutil, pwd, sys
import andon
from andon.cli.main import run
for found in pkgutil.walk_packages(andon.__path__, "andon."):  # another user may not read them
    with contextlib.suppress(ImportError):
        "__main__" in found.name or importlib.import_module(found.name)
os.setgroups([])
os.setuid({NOBODY})
sys.exit(run(sys.argv[1:]))
"""

pytestmark = pytest.mark.usefixtures("own_places")


@contextmanager
def started(*command: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def sleeping() -> tuple[str, ...]:
    return (PYTHON, "-c", FOREVER)


class Dialogue:
    """`andon …` on a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.text = ""
        self._process = subprocess.Popen(
            [PYTHON, "-m", "andon.cli", *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        )
        os.close(slave)

    def reads(self, pattern: str) -> None:
        end = time.monotonic() + LONG_SECONDS
        while not re.search(pattern, self.text):
            assert time.monotonic() < end, self.text
            if select.select([self.master], [], [], 1.0)[0]:
                with suppress(OSError):  # the other end is closed when it exits
                    self.text += os.read(self.master, 4096).decode()

    def answers(self, word: str) -> None:
        os.write(self.master, f"{word}\n".encode())

    def code(self) -> int:
        return self._process.wait(LONG_SECONDS)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self.master)


@contextmanager
def dialogue(*arguments: str) -> Iterator[Dialogue]:
    made = Dialogue(*arguments)
    try:
        yield made
    finally:
        made.close()


def test_it_shows_asks_and_ends(node: StandIn) -> None:
    with started(*sleeping()) as process:
        line(process)
        node.change(3, processes=(StandInProcess(process.pid, memory=5 << 30),))
        with dialogue("kill", str(process.pid)) as asked:
            asked.reads(rf"End pid {process.pid} with SIGTERM\? \[y/N\]")
            assert re.search(r"pid \d+ · \w+ · .* · 5.0 GiB on GPU 3 · ", asked.text)
            assert is_alive(process.pid)
            asked.answers("y")
            asked.reads(f"pid {process.pid} ended")
            assert asked.code() == 0
        assert process.wait(LONG_SECONDS) == -signal.SIGTERM


def test_no_is_no(node: StandIn) -> None:
    with started(*sleeping()) as process:
        line(process)
        with dialogue("kill", str(process.pid)) as asked:
            asked.reads(r"\[y/N\]")
            asked.answers("")
            asked.reads("nothing was ended")
            assert asked.code() == 0
        assert process.poll() is None


def test_what_ignores_sigterm_is_offered_sigkill(
    node: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_WORK_GRACE", "2s")
    with started(PYTHON, "-c", STUBBORN) as process:
        line(process)
        with dialogue("kill", str(process.pid)) as asked:
            asked.reads(r"\[y/N\]")
            asked.answers("y")
            asked.reads(r"still running after 2 s\. Kill with SIGKILL\? \[y/N\]")
            asked.answers("y")
            asked.reads("ended")
            assert asked.code() == 0
        assert process.wait(LONG_SECONDS) == -signal.SIGKILL


def test_a_process_of_a_lease_can_be_released_instead(node: StandIn) -> None:
    with running("run", "--", PYTHON, "-c", FOREVER) as holder:
        line(holder)
        pid, lease = work_pid(), held()[0]
        with dialogue("kill", str(pid)) as asked:
            asked.reads(rf"\[y/N/r: release lease {lease} instead\]")
            assert f"to end all of it: andon release {lease}" in asked.text
            asked.answers("r")
            asked.reads(f"released lease {lease}")
            assert asked.code() == 0
        assert held() == []
        wait_for(lambda: not is_alive(pid), LONG_SECONDS)


def test_a_tree_is_ended_whole_and_only_when_asked_for(node: StandIn) -> None:
    script = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {FOREVER!r}]).wait()"
    with started(PYTHON, "-c", script) as process:
        line(process)
        child = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
        try:
            with dialogue("kill", str(process.pid)) as asked:
                asked.reads(r"\[y/N\]")
                assert f"1 child ({child} " in asked.text
                asked.answers("n")
                asked.code()
            done = andon("kill", "--tree", "--yes", str(process.pid), timeout_seconds=LONG_SECONDS)
            assert (done.code, f"  pid {child} · " in done.out) == (0, True), done
            wait_for(lambda: not is_alive(child), LONG_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_mine_on_a_device_are_ended_and_others_are_not(node: StandIn) -> None:
    with started(*sleeping()) as one, started(*sleeping()) as other:
        line(one)
        line(other)
        node.change(3, processes=(StandInProcess(one.pid),))
        node.change(4, processes=(StandInProcess(other.pid),))
        done = andon("kill", "--device", "3", "--mine", "--yes", timeout_seconds=LONG_SECONDS)
        assert done.code == 0, done
        assert one.wait(LONG_SECONDS) == -signal.SIGTERM
        assert other.poll() is None
        again = andon("kill", "--device", "5", "--mine", "--yes", timeout_seconds=LONG_SECONDS)
        assert (again.code, "no process of yours uses GPU 5" in again.err) == (5, True)


@AS_ROOT
def test_another_users_process_is_refused_with_the_sudo_command(node: StandIn) -> None:
    with started("setpriv", "--reuid=1", "--clear-groups", "sleep", "1000") as process:
        wait_for(lambda: "sleep" in Path(f"/proc/{process.pid}/comm").read_text())
        done = subprocess.run(
            [PYTHON, "-c", AS_NOBODY, "kill", "--yes", str(process.pid)],
            capture_output=True,
            text=True,
            timeout=LONG_SECONDS,
        )  # fmt: skip
        assert done.returncode == 4, done
        assert f"sudo kill -TERM {process.pid}" in done.stderr
        assert process.poll() is None


def test_bad_targets_are_refused_in_one_sentence() -> None:
    rows = [
        (("0",), 2, "not one process"),
        (("1",), 4, "first process"),
        (("--", "-9"), 2, "not one process"),
        (("train.py",), 2, "is not a pid"),
        ((str(os.getpid()),), 4, "is this command, or started it"),
        (("4194305",), 5, "no process with pid"),
        ((), 2, "which process?"),
        (("--device", "0"), 2, "needs --mine"),
        (("--simulate", "2", "--device", "0", "--mine"), 2, "cannot be ended"),
    ]
    wrong = []
    for arguments, code, words in rows:
        done = andon("kill", "--yes", *arguments, timeout_seconds=LONG_SECONDS)
        if done.code != code or words not in done.err or "Traceback" in done.err:
            wrong.append((arguments, done))
    assert wrong == []


def test_without_a_terminal_it_does_not_guess_the_answer() -> None:
    with started("sleep", "1000") as process:
        done = andon("kill", str(process.pid), timeout_seconds=LONG_SECONDS)
        assert (done.code, "use --yes" in done.err) == (2, True)
        assert process.poll() is None
    done = andon("kill", "4194305", timeout_seconds=LONG_SECONDS)
    assert (done.code, "--yes" in done.err) == (5, False)
    assert "no process with pid 4194305" in done.err


def test_a_row_that_is_older_than_its_process_is_not_ended() -> None:
    with started("sleep", "1000") as process:
        with Ending((process.pid,), started={process.pid: time.time() - 3600}) as ending:
            assert ending.targets == ()
            assert isinstance(ending.refused[0], Gone)
        with Ending((process.pid,), started={process.pid: time.time()}) as ending:
            assert [target.pid for target in ending.targets] == [process.pid]
        with ProcessHandle.open(process.pid) as handle:
            ticks = handle.stat.start_ticks
        with pytest.raises(Gone):
            ProcessHandle.open(process.pid, ticks + 1)


REUSE = textwrap.dedent("""
    import os, signal, subprocess, sys
    from andon.kill.ending import Ending
    first = subprocess.Popen(["sleep", "1000"])
    ending = Ending((first.pid,))
    assert [t.pid for t in ending.targets] == [first.pid]
    first.kill(); first.wait()
    second = None
    for _ in range(50):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(first.pid - 1))
        second = subprocess.Popen(["sleep", "1000"])
        if second.pid == first.pid:
            break
        second.kill(); second.wait()
    assert second.pid == first.pid, "the kernel gave another pid"
    assert ending.send(signal.SIGTERM) == ()
    assert ending.still_running(0.2) == ()
    assert second.poll() is None, "a stranger was signalled"
    second.kill(); second.wait()
    print("not signalled")
""")


@AS_ROOT
def test_a_pid_that_is_reused_between_question_and_signal_is_not_signalled() -> None:
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing")
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", PYTHON, "-c", REUSE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG_SECONDS)
    assert done.stdout == "not signalled\n", done
