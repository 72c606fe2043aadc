"""Runs tests N times on a machine whose cores are all busy, and prints how often each failed.

A test that fails beside others and passes alone is broken, or what it tests is. Every run is a
pytest of its own. Processes that only compute keep the cores busy; they are ended with it, and end
by themselves should it be killed. The exit code is 1 if anything failed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv/bin/python")
SUSPICIOUS = (
    "tests/integration/host/test_log_out.py",
    "tests/integration/engines/test_containers.py::test_host_memory_is_told_from_device_memory",
    "tests/integration/web/test_board_alerts.py::test_a_changed_session_may_not_change_anything",
    "tests/integration/runs/test_recorded_calls.py",
    "tests/integration/house/test_warm_start.py",
    "tests/integration/host/test_attribution.py",
)
"""What failed beside others once and passed alone."""
LANES = 3
LONGEST_SECONDS = 900.0  # of one pytest
BURNER = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"
SHOWN = 150  # characters of a message


@dataclass
class Tally:
    """How often a test ran and failed, and what the first failure said."""

    runs: int = 0
    skipped: int = 0
    failures: int = 0
    message: str = ""

    def add(self, case: ElementTree.Element) -> None:
        wrong = case.find("failure")
        wrong = case.find("error") if wrong is None else wrong
        self.runs += 1
        self.skipped += case.find("skipped") is not None
        if wrong is not None:
            self.fail(wrong.get("message") or wrong.text or "no message")

    def fail(self, message: str) -> None:
        self.failures += 1
        self.message = self.message or " ".join(message.split())[:SHOWN]


@contextmanager
def busy_cores() -> Iterator[None]:
    """One process for each core that computes."""
    burners = [subprocess.Popen([PYTHON, "-c", BURNER]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


class Session:
    """Tests that wait for a lane, those that run, and what came of them."""

    def __init__(self, folder: Path, waiting: Sequence[tuple[str, str]]) -> None:
        self._folder, self._waiting = folder, list(waiting)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self.tallies: dict[str, Tally] = {}

    def work(self) -> None:
        """A lane: until nothing waits."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                name, test = self._waiting.pop(0)
            self._run(test, self._folder / name)

    def stop(self) -> None:
        """Start nothing more, and interrupt what runs, so that it ends what it started."""
        with self._lock:
            self._waiting.clear()
            for process in self._running:
                process.send_signal(signal.SIGINT)

    def _run(self, test: str, folder: Path) -> None:
        report = folder.with_suffix(".xml")
        words = [PYTHON, "-m", "pytest", "-q", f"--basetemp={folder}", f"--junitxml={report}", test]
        began = time.monotonic()
        with folder.with_suffix(".out").open("wb") as output:
            process = subprocess.Popen(
                words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,  # no terminal that a test could take
            )  # fmt: skip
            with self._lock:
                self._running.add(process)
            code = self._end(process)
        with self._lock:
            self._running.discard(process)
            self._add(test, report, code)
            failed = sum(tally.failures for tally in self.tallies.values())
        took = time.monotonic() - began
        print(f"{folder.name}: {took:.0f} s, code {code}, {failed} failed so far", flush=True)
        if code:
            said = folder.with_suffix(".out").read_text("utf-8", errors="replace")
            print(said[-4000:], flush=True)
        shutil.rmtree(folder, ignore_errors=True)

    def _end(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _add(self, test: str, report: Path, code: int) -> None:
        cases = list(ElementTree.parse(report).iter("testcase")) if report.exists() else []
        for case in cases:
            name = f"{str(case.get('classname')).rpartition('.')[2]}::{case.get('name')}"
            self.tallies.setdefault(name, Tally()).add(case)
        if code not in (0, 1) or not cases:
            self.tallies.setdefault(test, Tally()).fail(f"pytest ended with {code}")


def table(tallies: dict[str, Tally]) -> str:
    lines = ["| test | runs | skipped | failures | first failure |", "|---|---|---|---|---|"]
    for name, tally in sorted(tallies.items()):
        message = tally.message.replace("|", "\\|")
        lines.append(f"| {name} | {tally.runs} | {tally.skipped} | {tally.failures} | {message} |")
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    if not words or not words[0].isdecimal():
        print("usage: dev/flaky N [TESTS…]", file=sys.stderr)
        return 2
    waiting = [
        (f"{turn + 1}-{place + 1}-{Path(test.partition('::')[0]).stem}", test)
        for turn in range(int(words[0]))
        for place, test in enumerate(words[1:] or SUSPICIOUS)
    ]
    subprocess.run([PYTHON, "-m", "tests.standin"], cwd=ROOT, check=True)
    with (
        tempfile.TemporaryDirectory(prefix="andon-flaky.", ignore_cleanup_errors=True) as folder,
        busy_cores(),
    ):
        session = Session(Path(folder), waiting)
        lanes = [threading.Thread(target=session.work) for _ in range(LANES)]
        for lane in lanes:
            lane.start()
        try:
            for lane in lanes:
                lane.join()
        except KeyboardInterrupt:
            session.stop()
            for lane in lanes:
                lane.join()
    print(table(session.tallies))
    return 1 if any(tally.failures for tally in session.tallies.values()) else 0


if __name__ == "__main__":
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, interrupt)
    sys.exit(main(sys.argv[1:]))
