"""A step of the clock ends nothing: leases, runs and places in the queue last as long as before.

Every process of a test has one wall clock, which the test sets while they run. The clocks that are
never set, and the kernel's own times of files, stay as they are.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from andon.host.clock import boot_seconds
from tests.conftest import need
from tests.integration.conftest import andon
from tests.integration.leasing import FOREVER, end_of, entries, held, line, running
from tests.standin import StandIn
from tests.support.waiting import wait_for
from tests.support.wall_clock import WallClock

pytestmark = pytest.mark.long

HOUR, DAY = 3600, 86_400
STEPS = [DAY, -DAY]  # longer than whatever lasts here
PYTHON = sys.executable


@pytest.fixture
def clock(node: StandIn, own_places: Path, monkeypatch: pytest.MonkeyPatch) -> WallClock:
    made = WallClock(own_places)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def only() -> dict[str, Any]:
    [found] = andon("leases", "--json").json()["leases"]
    assert found["state"] == "held"
    return dict(found)


def left_of(clock: WallClock) -> float:
    """What `andon leases` shows to someone on the stepped clock."""
    return float(only()["until"]) - clock.now()


def shows(clock: WallClock, seconds: float) -> None:
    wait_for(lambda: abs(left_of(clock) - seconds) < 60)


def test_the_clock_of_these_tests_really_steps(clock: WallClock) -> None:
    asked = [
        PYTHON,
        "-c",
        "import time; print(time.time(), time.clock_gettime(7), time.monotonic())",
    ]
    for step in (0, *STEPS):
        clock.step(step - clock.offset)
        done = subprocess.run(asked, capture_output=True, text=True, check=True)
        wall, boot, steady = map(float, done.stdout.split())
        assert abs(wall - time.time() - step) < 60
        assert abs(boot - boot_seconds()) < 60
        assert abs(steady - time.monotonic()) < 60


@pytest.mark.parametrize("step", STEPS)
def test_a_run_lasts_as_long_as_it_was_given(clock: WallClock, step: int) -> None:
    with running("run", "--for", "1h", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        shows(clock, HOUR)
        clock.step(step)
        shows(clock, HOUR)
        clock.step(-2 * step)
        shows(clock, HOUR)
        assert process.poll() is None
        assert held()
        process.send_signal(signal.SIGTERM)
        assert end_of(process).code == 143
    assert entries() == []


@pytest.mark.parametrize("step", STEPS)
def test_a_short_run_is_not_made_longer(clock: WallClock, step: int) -> None:
    with running("run", "--for", "3s", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        clock.step(step)
        done = end_of(process)
        assert done.code == 143
        assert "expired" in done.err
    assert entries() == []


@pytest.mark.parametrize("step", STEPS)
def test_a_lease_of_a_program_lasts_as_long_as_it_was_given(clock: WallClock, step: int) -> None:
    """Its holder is a process of its own."""
    waits = "print('held', flush=True); sys.stdin.read()"
    code = f"import andon, sys\nwith andon.lease(seconds=3600): {waits}"
    with subprocess.Popen(
        [PYTHON, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert line(process)
        shows(clock, HOUR)
        clock.step(step)
        shows(clock, HOUR)
        process.stdin.close()
        assert process.wait(30) == 0
    wait_for(lambda: entries() == [])


@pytest.mark.parametrize("step", STEPS)
def test_an_end_that_is_moved_after_a_step_is_a_duration_from_then(
    clock: WallClock, step: int
) -> None:
    with running("lease", "--for", "1h", "--", PYTHON, "-c", FOREVER) as process:
        assert line(process) == "started"
        clock.step(step)
        assert andon("lease", "extend", held()[0], "--for", "3h").code == 0
        shows(clock, 3 * HOUR)
        [path] = Path(os.environ["ANDON_LEASE_DIR"], "leases").glob("*.lease")
        os.utime(path, (clock.now() + 2 * HOUR,) * 2)  # its owner may
        shows(clock, 2 * HOUR)
        os.utime(path, (clock.now() - 1,) * 2)
        assert end_of(process).code != 0
    assert entries() == []


@pytest.fixture
def waiter(clock: WallClock) -> Iterator[None]:
    """Everything is held, and one waits for it."""
    with running("run", "--gpus", "8", "--", PYTHON, "-c", FOREVER) as holder:
        assert line(holder) == "started"
        with running("run", "--timeout", "5m", "--", PYTHON, "-c", FOREVER):
            wait_for(lambda: len(waiting()) == 1)
            yield


def waiting() -> list[Any]:
    return list(andon("leases", "--json").json()["waiting"])


@pytest.mark.usefixtures("waiter")
@pytest.mark.parametrize("step", STEPS)
def test_a_place_in_the_queue_is_kept(clock: WallClock, step: int) -> None:
    [before] = waiting()
    clock.step(step)
    wait_for(lambda: [one["since"] for one in waiting()] == [before["since"]])
    with running("run", "--timeout", "5m", "--", PYTHON, "-c", FOREVER):
        wait_for(lambda: len(waiting()) == 2)
        assert waiting()[0]["since"] == before["since"], "who came first stays first"


# A machine that slept: the boot clock of a time namespace is ahead of that of its parent.


def in_sleep(seconds: int, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """`andon …` as after a sleep of this length, by its own clocks."""
    need("unshare")
    inside = ["unshare", "-T", "--boottime", str(seconds), "--fork"]
    return subprocess.run(
        [*inside, PYTHON, *arguments], capture_output=True, text=True, timeout=120, check=False
    )


KEPT = """
import json, sys
from andon.leases.rules.validity import LeaseEnd
from andon.host.clock import clocks
from andon.leases.book.hold import Countdown, Hold
import os
hold = Hold("x", -1, -1)
end = LeaseEnd(*json.loads(sys.argv[1]))
print(Countdown(hold, end).left_seconds())
"""


def test_sleep_counts_toward_the_end_of_a_lease() -> None:
    """A running process cannot change its namespace: the end is handed over as to a holder."""
    boot = boot_seconds()
    end = json.dumps([time.time() + HOUR, boot + HOUR, HOUR])
    for slept, left in ((0, HOUR), (HOUR // 2, HOUR // 2), (2 * HOUR, -HOUR)):
        done = in_sleep(slept, "-c", KEPT, end)
        if "unshare" in done.stderr:
            pytest.skip(f"a time namespace cannot be made here: {done.stderr.strip()}")
        assert abs(float(done.stdout) - left) < 60, done.stderr
