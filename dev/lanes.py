"""Runs all tests in parallel lanes, which take module after module until all are done.

dev/pytest_lanes.py says how. What fails beside the others is run again alone, and named: it passes
only if it passes then. So is a module that did not end by itself. The last line is the sum over
all lanes.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(ROOT / ".venv/bin/python")
LANES = 5
MOST_AGAIN = 30  # more failures than these are no coincidence
LONGEST_SECONDS = 3600.0  # until pytest is ended; each test has a timeout of its own
PATIENCE_SECONDS = 30.0  # from Ctrl-C until it is killed
SLOWEST_TESTS, LONGEST_MODULES = 10, 24
ENDED_BY_ITSELF = (0, 1, 5)  # all passed, some failed, none was there

# Hints for the order alone, as a run prints them; what is not listed is guessed by its size.
SECONDS: dict[str, float] = {
    "integration/jobs/test_ssh_jobs.py": 112, "integration/checks/test_check.py": 120,
    "integration/leases/test_reservations.py": 60, "integration/jobs/test_desks.py": 50,
    "integration/web/test_board_fleet_pages.py": 45, "integration/jobs/test_one_desk.py": 45,
    "integration/node/test_one_question.py": 35, "integration/cli/test_mcp.py": 54,
    "integration/tui/test_top.py": 128, "integration/fleet/test_hub.py": 162,
    "integration/engines/test_containers.py": 87, "integration/web/test_board_leases.py": 165,
    "integration/node/test_ssh_hosts.py": 75, "integration/jobs/test_slurm_commands.py": 71,
    "integration/node/test_server_look.py": 75, "integration/web/test_board_pages.py": 79,
    "integration/web/test_board_charts.py": 60, "integration/web/test_serve_lease_alerts.py": 88,
    "integration/web/test_board_live.py": 69, "integration/web/test_board_clusters.py": 69,
    "integration/web/test_board_alerts.py": 57, "integration/web/test_serve_leases.py": 53,
    "integration/web/test_board_runs.py": 53, "contract/test_stores.py": 113,
    "unit/alerts/test_timelines.py": 83, "integration/leases/test_book_neighbours.py": 47,
    "integration/leases/test_lease_invariants.py": 46, "integration/web/test_serve_clusters.py": 41,
    "integration/access/test_sign_in.py": 37, "integration/web/test_board_look.py": 37,
    "integration/drivers/test_faults.py": 36, "integration/web/test_serve_leases_trouble.py": 36,
    "integration/web/test_board_fleet.py": 40, "integration/web/test_board_demo.py": 36,
    "integration/web/test_board_jobs.py": 35, "integration/jobs/test_jobs_users.py": 35,
    "integration/node/test_serve_impostor.py": 32, "integration/web/test_board_survival.py": 30,
    "integration/web/test_board_access.py": 30, "integration/web/test_serve_schema.py": 28,
    "integration/jobs/test_clusters.py": 20, "integration/web/test_serve_alerts.py": 25,
    "integration/history/test_history_size.py": 20, "fuzz/test_fuzz_environments.py": 8,
    "fuzz/test_fuzz_settings.py": 7, "fuzz/test_fuzz_books.py": 5,
    "fuzz/test_fuzz_packets.py": 5, "fuzz/test_fuzz_bodies.py": 4,
    "fuzz/test_fuzz_documents.py": 4, "integration/house/test_site_search.py": 50,
    "unit/house/test_names.py": 10,
}  # fmt: skip
LINES_A_SECOND = {"unit": 250.0, "contract": 250.0, "integration": 15.0}
LEFT_OUT = re.compile(rb"^(pytestmark = .*|    )pytest\.mark\.long\b", re.MULTILINE)
LEFT_OUT_SECONDS = 0.5  # of a module of which all is for `make long`


def modules(named: Sequence[str]) -> list[str]:
    """All test modules, or those that are named or lie in the folders that are; not those of
    `make frameworks`, which have an environment of their own."""
    found = [ROOT / name for name in named] or [ROOT / "tests"]
    files = (f for path in found for f in (path.rglob("test_*.py") if path.is_dir() else [path]))
    names = {str(file.relative_to(ROOT)) for file in files}
    return sorted(name for name in names if not name.startswith("tests/frameworks/"))


def arguments(found: Sequence[str]) -> list[str]:
    """Returns what pytest is given to collect: the folders of all modules."""
    return list({"/".join(Path(module).parts[:2]): None for module in found})


def guess_seconds(module: str) -> float:
    suite = module.split("/")[1]
    text = (ROOT / module).read_bytes()
    if LEFT_OUT.search(text):
        return LEFT_OUT_SECONDS
    guess = len(text.splitlines()) / LINES_A_SECOND.get(suite, 60.0)
    return SECONDS.get(module.removeprefix("tests/"), guess)


@dataclass
class Results:
    """What became of each test, and how long it took."""

    outcomes: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, later: "Results") -> None:
        """Later results replace earlier ones of the same test."""
        self.outcomes |= later.outcomes
        self.seconds |= later.seconds

    def unended(self) -> list[str]:
        """Returns the modules of tests that were collected, and of which nothing came."""
        tests = self.seconds.keys() - self.outcomes.keys()
        return sorted({test.partition("::")[0] for test in tests})

    def failed(self) -> list[str]:
        return [test for test, outcome in self.outcomes.items() if outcome == "failed"]

    def summary(self) -> str:
        counts = Counter(self.outcomes.values())
        return ", ".join(f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped"))


def read_results(report: Path) -> Results:
    """The lines that tests/conftest.py wrote; that of a killed process may lack the end."""
    found = Results()
    for line in report.read_text(encoding="utf-8").splitlines() if report.exists() else ():
        try:
            test, outcome, seconds = json.loads(line)
        except ValueError:
            continue
        if outcome and found.outcomes.get(test) != "failed":  # no part of a test may fail
            found.outcomes[test] = outcome
        found.seconds[test] = found.seconds.get(test, 0.0) + seconds
    return found


class Runner:
    """Starts pytest, keeps all results, and ends what it started."""

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        self._folder, self._options, self._started = folder, options, 0
        self._lock = threading.Lock()
        self._running: set[int] = set()  # each leads a group of its own
        self._stopped = False
        self.results = Results()
        self.cpu_seconds = 0.0

    def run(self, *arguments: str) -> bool:
        """Run these with live output; whether pytest ended by itself. In a thread, because a main
        thread that only waits is the one that Ctrl-C interrupts."""
        ended: list[bool] = []
        thread = threading.Thread(target=lambda: ended.append(self._run(arguments)))
        thread.start()
        thread.join()
        return ended == [True]

    def _run(self, arguments: Sequence[str]) -> bool:
        process, folder = self._start(arguments)
        if process is None:
            return True
        limit = threading.Timer(LONGEST_SECONDS, self._end, [{process.pid}])
        limit.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        limit.cancel()
        code, cpu_seconds = self._reap(process)
        came = read_results(Path(f"{folder}.report"))
        with self._lock:
            self.results.add(came)
            self.cpu_seconds += cpu_seconds
        return code in ENDED_BY_ITSELF or self._stopped

    def stop(self) -> None:
        """End all that runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            running = set(self._running)
        self._end(running)

    def _start(self, arguments: Sequence[str]) -> tuple[subprocess.Popen[bytes] | None, Path]:
        with self._lock:
            self._started += 1
            folder = self._folder / str(self._started)
            if self._stopped:
                return None, folder
            process = subprocess.Popen(
                [PYTHON, "-m", "pytest", f"--basetemp={folder}", *self._options, *arguments],
                stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=ROOT,
                env={**os.environ, "TEST_REPORT": f"{folder}.report"},
                start_new_session=True,  # a group to end, and no terminal that a test could take
            )  # fmt: skip
            self._running.add(process.pid)
            return process, folder

    def _reap(self, process: subprocess.Popen[bytes]) -> tuple[int, float]:
        """Until it is reaped its number is no other process's."""
        with self._lock:
            self._running.discard(process.pid)
            status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            assert status is not None
            if status.si_code != os.CLD_EXITED or status.si_status not in ENDED_BY_ITSELF:
                _signal_group(process.pid, signal.SIGKILL)  # what a killed pytest left behind
            _, ended, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(ended)
        return process.returncode, usage.ru_utime + usage.ru_stime

    def _end(self, pids: set[int]) -> None:
        """As Ctrl-C does, so that the tests end what they started; in the end by force."""
        self._signal(pids, signal.SIGINT)
        end = time.monotonic() + PATIENCE_SECONDS
        while pids & self._running and time.monotonic() < end:
            time.sleep(0.05)
        self._signal(pids, signal.SIGKILL)

    def _signal(self, pids: set[int], number: signal.Signals) -> None:
        with self._lock:
            for pid in pids & self._running:
                _signal_group(pid, number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def again(runner: Runner, ended: bool) -> bool:
    """Run alone what failed beside the others or did not end; whether it is all well now."""
    unended, failed = runner.results.unended(), runner.results.failed()
    if not ended and not unended:
        print("pytest did not end by itself")
        return False
    failed = [test for test in failed if test.partition("::")[0] not in unended]
    if len(failed) + len(unended) > MOST_AGAIN:
        print(f"{len(failed)} tests failed and {len(unended)} modules did not end: too many")
        return False
    for tests in filter(None, (failed, *([module] for module in unended))):
        why = "Failed beside the other lanes" if tests is failed else "Did not end by itself"
        print(f"{why}, now run alone:", *tests, sep="\n    ", flush=True)
        if not runner.run(*tests):
            print("It did not end by itself when it ran alone either")
            return False
    return not runner.results.failed()


def show_lengths(results: Results) -> None:
    print(f"The {SLOWEST_TESTS} slowest tests:")
    slowest = sorted(results.seconds.items(), key=lambda one: -one[1])
    for test, seconds in slowest[:SLOWEST_TESTS]:
        print(f"    {seconds:6.1f} s  {test}")
    sums: dict[str, float] = {}
    for test, seconds in slowest:
        name = test.partition("::")[0].removeprefix("tests/")
        sums[name] = sums.get(name, 0.0) + seconds
    longest = sorted(sums.items(), key=lambda one: -one[1])[:LONGEST_MODULES]
    print("The longest modules:", ", ".join(f'"{name}": {took:.0f}' for name, took in longest))


def minutes(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def main(named: Sequence[str]) -> int:
    os.environ.setdefault("ANDON_FUZZ_SECONDS", "5")
    began = time.monotonic()
    subprocess.run([PYTHON, "-m", "tests.standin"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory(prefix="andon-test.", ignore_cleanup_errors=True) as folder:
        runner = Runner(Path(folder), () if named else ("-m", "not long and not ray"))
        try:
            collected = named or arguments(modules([]))
            ended = runner.run("-p", "dev.pytest_lanes", f"--lanes={LANES}", *collected)
            lanes_seconds = time.monotonic() - began
            show_lengths(runner.results)
            is_well = again(runner, ended)
        except KeyboardInterrupt:
            runner.stop()
            print("interrupted: what was running is ended")
            return 130
    for test in runner.results.failed():
        print(f"FAILED {test}")
    print(f"{LANES} lanes: {minutes(lanes_seconds)}, CPU {minutes(runner.cpu_seconds)}")
    print(f"{runner.results.summary()} in {time.monotonic() - began:.2f}s")
    return 0 if is_well and runner.results.outcomes else 1


def interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, interrupt)
    sys.exit(main(sys.argv[1:]))
