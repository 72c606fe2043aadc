"""Whether an installed andon works: `python smoke.py [--core] COMMAND…`, such as `.venv/bin/andon`.

It needs nothing but Python, imports nothing of andon, and leaves nothing behind: every command has
a home, a state folder and a lease book of its own, and simulated devices. `--core` leaves out the
server, which andon.pyz does not have. It prints `smoke 41 ok`, or what failed.
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE_SECONDS = 120.0
LAB = ("--simulate", "2")
Check = Callable[[str], bool]


def has(*texts: str) -> Check:
    return lambda out: all(text in out for text in texts)


def is_json(schema: str) -> Check:
    return lambda out: str(json.loads(out)["schema"]).startswith(schema)


Row = tuple[tuple[str, ...], Check] | tuple[tuple[str, ...], Check, int]
ROWS: tuple[Row, ...] = (
    (("--version",), has("andon")),
    (("--help",), has("status", "submit", "doctor")),
    (("status", *LAB), has("SIMULATED", "H200")),
    (("status", *LAB, "--json"), is_json("andon.snapshot/")),
    (("devices", *LAB), has("H200")),
    (("devices", *LAB, "--json"), is_json("andon.devices/")),
    (("ps", *LAB), has("USER", "SIMULATED")),
    (("ps", *LAB, "--json"), is_json("andon.processes/")),
    (("who", *LAB), has("USER", "SIMULATED")),
    (("why", *LAB), has("GPU 0")),
    (("alerts", *LAB), has("")),
    (("free", *LAB), has("1")),
    (("env", *LAB, "--gpus", "1"), has("CUDA_VISIBLE_DEVICES")),
    (("doctor", *LAB), has("fine")),
    (("selftest", *LAB), has("fine")),
    (("config", "show"), has("port")),
    (("config", "check"), has("")),
    (("completion", "bash"), has("complete")),
    (("estimate", "--help"), has("model")),
    (("run", *LAB, "-q", "--", "sh", "-c", "echo of:$CUDA_VISIBLE_DEVICES"), has("of:SIM-")),
    (("run", *LAB, "-q", "--", "sh", "-c", "exit 7"), has(""), 7),
    (("run", *LAB, "-q", "--gpus", "9", "--no-wait", "--", "true"), has(""), -1),
    (("runs",), has("sh")),
    (("runs", "--json"), is_json("andon.runs/")),
    (
        ("lease", *LAB, "--for", "1m", "--", "sh", "-c", "echo of:$CUDA_VISIBLE_DEVICES"),
        has("of:SIM-"),
    ),
    (("leases", *LAB), has("no leases")),
    (("leases", *LAB, "--json"), lambda out: json.loads(out)["leases"] == []),
    (("release", "no-such-lease"), has(""), -1),
    (("reserve", *LAB, "--gpus", "1", "--from", "tomorrow 8:00", "--for", "1h"), has("r")),
    (("reservations", *LAB), has("GPU")),
    (("submit", *LAB, "--", "echo", "from a job"), has("1")),
    (("jobs", "wait", "1"), has("")),
    (("logs", "1"), has("from a job")),
    (("jobs", "--json"), is_json("andon.jobs/")),
    (("cancel", "1"), has("")),
    (("no-such-command",), has(""), 2),
    (("seed", "--help"), has("history")),
)
"""What is typed, whether its output is right, and its exit code (-1: any but 0)."""


class Smoke:
    """Runs the commands, and counts those that did what they should."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.command, self.passed, self.failed = command, 0, list[str]()
        self.env = {
            name: value for name, value in os.environ.items()
            if not name.startswith(("ANDON_", "PYTHON", "XDG_", "CUDA_", "SLURM_"))
        }  # fmt: skip
        homes = {"HOME": "home", "XDG_STATE_HOME": "state", "ANDON_LEASE_DIR": "book"}
        self.env |= {name: str(folder / place) for name, place in homes.items()}
        self.env |= {"ANDON_PORT": "9", "COLUMNS": "100", "TERM": "xterm-256color"}
        (folder / "home").mkdir()

    def note(self, what: str, is_right: bool, seen: str) -> None:
        self.passed += is_right
        if not is_right:
            self.failed.append(f"{what}: {seen[-600:].strip()}")

    def run(self, words: tuple[str, ...], check: Check, code: int = 0) -> None:
        try:
            done = subprocess.run(
                [*self.command, *words], capture_output=True, text=True, env=self.env,
                timeout=PATIENCE_SECONDS, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except subprocess.TimeoutExpired as hung:
            self.note(" ".join(words), False, str(hung))
            return
        expected = done.returncode != 0 if code == -1 else done.returncode == code
        try:
            is_right = expected and check(done.stdout)
        except (ValueError, KeyError):
            is_right = False
        is_right = is_right and "Traceback" not in done.stderr
        self.note(" ".join(words), is_right, f"{done.returncode} {done.stdout}{done.stderr}")

    def top(self) -> None:
        """`andon top` in a terminal shows devices, and `q` ends it."""
        pid, terminal = pty.fork()
        if pid == 0:
            words = [*self.command, "top", *LAB]
            os.execvpe(words[0], words, self.env)
        seen = _until(terminal, "H200")
        with suppress(OSError):
            os.write(terminal, b"q")
        _until(terminal, None)
        os.close(terminal)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.note("top", "H200" in seen and code == 0, f"{code} {seen}")

    def server(self) -> None:
        """A server answers, shows its board, and ends when it is asked to."""
        with self._served() as address:
            for path, text in (
                ("/api/health", "{"), ("/", "/static/assets/index-"), ("/metrics", "andon_"),
            ):  # fmt: skip
                self.note(f"GET {path}", text in _get(address + path), f"no {text}")
            for words, text in ((("status",), "H200"), (("jobs",), "")):
                self.run((*words, "--url", address), has(text))

    @contextmanager
    def _served(self) -> Iterator[str]:
        words = [*self.command, "serve", "--port", "0", *LAB]
        log = Path(self.env["HOME"], "served.log")
        with log.open("w") as file:
            server = subprocess.Popen(words, stdout=file, stderr=file, env=self.env)
        ends = time.monotonic() + PATIENCE_SECONDS
        found = None
        while not found and server.poll() is None and time.monotonic() < ends:
            found = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())
            select.select([], [], [], 0.05)
        yield found[0] if found else "http://127.0.0.1:9"
        server.send_signal(signal.SIGTERM)
        self.note("serve", server.wait(PATIENCE_SECONDS) == 0 and bool(found), log.read_text())


def _until(terminal: int, text: str | None) -> str:
    """What a terminal shows until there is `text`, or until it is closed."""
    seen, ends = "", time.monotonic() + PATIENCE_SECONDS
    with suppress(OSError):
        while time.monotonic() < ends and (text is None or text not in seen):
            if not select.select([terminal], [], [], 1.0)[0]:
                continue
            piece = os.read(terminal, 65536)
            if not piece:
                break
            seen += piece.decode(errors="replace")
    return seen


def _get(address: str) -> str:
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE_SECONDS) as answer:
            return str(answer.read().decode())
    except OSError as failed:
        return str(failed)


def main(arguments: list[str]) -> int:
    is_core = arguments[:1] == ["--core"]
    with tempfile.TemporaryDirectory() as folder:
        smoke = Smoke(arguments[is_core:], Path(folder))
        for row in ROWS:
            smoke.run(*row)
        smoke.top()
        if not is_core:
            smoke.server()
    for one in smoke.failed:
        print(f"failed: {one}", file=sys.stderr)
    print(f"smoke {smoke.passed} ok" + (f", {len(smoke.failed)} failed" if smoke.failed else ""))
    return 1 if smoke.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
