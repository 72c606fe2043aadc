"""Starts a cluster's job on its node, for `cluster_start.py`.

Without site and without andon it takes little longer than Python itself. The command is started at
once: what is over within a second gets a short record from here, and only for one that lasts is
andon imported, into this process, which goes on as its recorder. A job that andon has to look at
before, or that is at a terminal, is recorded from its beginning. A node that has another andon runs
the command alone.
"""

# ruff: noqa: PTH104, PTH109, PTH110, PTH118, PTH120, PTH123
# pathlib takes longer to import than all of this

import os
import sys
import time

TYPE_CHECKING = False  # `typing` takes longer to import than the rest
if TYPE_CHECKING:
    import signal
    from contextlib import suppress
    from typing import Any, NoReturn

    from andon.standalone.quick_parts import dumps, loads
    from andon.standalone.scribe import open_new
else:
    from quick_parts import dumps, loads, signal, suppress
    from scribe import open_new

SHORT_SECONDS = 1.0
"""A command that ends within this time has no samples and no lease."""
TOO_SHORT = "the run ended before its devices were read"
NOT_EXECUTABLE, NOT_FOUND = 126, 127
PASSED_ON = ("SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGTERM")
LETTERS = "bcdfghjkmnpqrstvwxz"
PACKAGE = os.path.dirname(os.path.dirname(__file__))


class QuickStart:
    """A command that runs already, in a group of its own."""

    def __init__(self, task: "dict[str, Any]", job: str, command: list[str]) -> None:
        self.task, self.job, self.asked = task, job, False
        self.run = "".join(LETTERS[byte % len(LETTERS)] for byte in os.urandom(8))
        folder = task["runs"] if os.access(_above(task["runs"]), os.W_OK) else task["notes"]
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.record = f"{folder}/{_plain(task['name'])}_{stamp}_{self.run[:4]}.jsonl"
        self.chosen = folder == task["notes"]
        usual = {"PYTHONUNBUFFERED": "1", **_port()}
        told = {"ANDON_RUN": self.run, "ANDON_RECORD": self.record,
                "ANDON_LEASE_HOLDER": str(os.getpid())}  # fmt: skip
        self.at, passed = time.time(), [getattr(signal, name) for name in PASSED_ON]
        waited = {*passed, signal.SIGCHLD}  # blocked until its pid is known
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        try:
            self.pid = os.posix_spawnp(
                command[0], command, {**usual, **os.environ, **told}, setpgroup=0,
                setsigmask=mask, setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),
            )  # fmt: skip
            for number in passed:
                if signal.getsignal(number) != signal.SIG_IGN:
                    signal.signal(number, self.pass_on)
        finally:
            self._mask = mask
            signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, signal.SIGCHLD})

    def pass_on(self, number: int, frame: object) -> None:
        """Passes a signal on to the command's group."""
        self.asked = self.asked or number in (signal.SIGINT, signal.SIGTERM)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def ends_within(self, seconds: float) -> bool:
        """Waits for its end by the signal that was blocked before it began: that needs no module
        that has to be loaded."""
        until, ended = time.monotonic() + seconds, False
        while not ended and (left := until - time.monotonic()) > 0:
            signal.sigtimedwait({signal.SIGCHLD}, left)  # also when it is stopped
            how = os.WEXITED | os.WNOHANG | os.WNOWAIT
            ended = os.waitid(os.P_PID, self.pid, how) is not None
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return ended

    def reap(self) -> int:
        """Waits for its end; returns the code as Popen does."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def write_record(self, code: int) -> None:
        """Writes the record and the job's note, as far as that is possible."""
        task, seconds = self.task, round(time.time() - self.at, 3)
        array, _, index = self.job.partition("_")
        element = f"{task['cluster']}:{array}" if index else None
        begin = {
            "at": self.at, "id": self.run, "name": task["name"], "kind": "job",
            "node": os.uname().nodename, "user": task["user"], "pid": os.getpid(), "boot": None,
            "started": None, "devices": [], "command": task["command"], "tags": task["tags"],
            "params": {**task["params"], "job": f"{task['cluster']}:{self.job}"},
            "allocation_method": task["cluster"], "working_directory": os.getcwd(),
            "group": task["group"] or element,
            "rank": int(index) if task["group"] and index.isdecimal() else None,
        }  # fmt: skip
        state = "stopped" if self.asked else "signal" if code < 0 else "failed"
        end = {
            "at": time.time(), "state": state if code else "succeeded", "samples": 0,
            "duration_seconds": max(0.0, seconds), "summary": {}, "exit_code": shown(code),
            "signal": -code if code < 0 else None, "no_samples_reason": TOO_SHORT,
        }  # fmt: skip
        lines = ({"event": "begin", "schema": "andon.run/1", **begin}, {"event": "end", **end})
        note = {"schema": "andon.cluster-run/1", "job": self.job, "task": task, "run": self.run,
                "record": self.record, "user": task["user"], "at": self.at}  # fmt: skip
        with suppress(OSError):
            _write(
                open_new(self.record, self.chosen), "".join(dumps(line) + "\n" for line in lines)
            )
            path = f"{task['notes']}/{self.job}.run"
            _write(open_new(f"{path}.{self.run}"), dumps(note))
            os.rename(f"{path}.{self.run}", path)


def _write(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode())
    os.close(descriptor)


def _above(path: str) -> str:
    """Returns the folder, or the one above it that exists."""
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _plain(name: str) -> str:
    signs = (one if one.isascii() and (one.isalnum() or one in "._-") else "-" for one in name)
    return "".join(signs)[-60:] or "run"


def _port() -> "dict[str, str]":
    """Returns where the ranks of a training meet: two on one node must not share it."""
    names = ("MASTER_PORT", "PET_MASTER_PORT")
    if any(name in os.environ for name in names):
        return {}
    with suppress(OSError):
        import _socket as socket

        probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
        probe.close()
        return dict.fromkeys(names, port)
    return {}


def shown(code: int) -> int:
    """Returns a code as a shell reports it."""
    return 128 - code if code < 0 else code


def say(text: str) -> None:
    with suppress(OSError):
        os.write(2, f"andon: {text}\n".encode(errors="replace"))


def run_alone(command: list[str], why: str) -> "NoReturn":
    """Runs the command in place of this process."""
    say(f"no record of this job: {os.uname().nodename} does not have the andon that submitted it "
        f"({why})")  # fmt: skip
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    cannot_start(command[0], lambda: os.execvp(command[0], command))  # noqa: S606 - as given
    raise AssertionError


def cannot_start(name: str, start: "Any") -> "Any":
    """Calls what starts a command; ends as a shell does if it cannot be started."""
    try:
        return start()
    except OSError as error:
        missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
        say(f"{name}: {'command not found' if missing else error.strerror}")
        os._exit(NOT_FOUND if missing else NOT_EXECUTABLE)


def main(version: str, task_text: str, job: str, *command: str) -> int:
    words, task = list(command), loads(task_text.encode())
    with open(os.path.join(PACKAGE, "version.py"), encoding="utf-8") as file:
        if f'"{version}"' not in file.read():
            run_alone(words, "it has another version")
    quick = cannot_start(words[0], lambda: QuickStart(task, job, words)) if task["quick"] else None
    if quick is not None and quick.ends_within(SHORT_SECONDS):
        code = quick.reap()
        quick.write_record(code)
        os._exit(shown(code))  # without Python's own cleanup, which takes a while
    try:
        import site
        from importlib import import_module

        sys.path.append(os.path.dirname(PACKAGE))
        site.main()
        recorded = import_module("andon.app.cluster_job").main
    except ImportError as error:
        if quick is not None:
            say(f"no record of this job: {error}")
            return shown(quick.reap())
        run_alone(words, str(error))
    code = recorded((task_text, job, *words), quick)
    return int(code)
