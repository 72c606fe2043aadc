"""The machines of a soak: a server, two agents and a hub as processes, whose wall clock hurries.

The calendar runs faster, so two months of retention, reservations, alerts' times and a change to
summer or winter time go by. Steady clocks do not: sleeps, timeouts, lease ends and the queue of a
sampler are as they are, and a sample is taken as often as settings allow. So it has as many
ticks as fit in, not one a second. PostgreSQL and the kernel's times of files keep the real clock.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from tests.standin import StandIn, build
from tests.support.wall_clock import WallClock

from bench.fleet_database import database
from bench.fleet_players import added
from bench.nodes import BUILD

ZONE = "Europe/Berlin"
DAYS_BEFORE_CHANGE = 14
INTERVAL_SECONDS = 0.1  # the shortest that settings allow
DEVICES = 4
LEAVING_SECONDS = 60.0
SETTINGS = {
    "TZ": ZONE,
    "ANDON_INTERVAL": f"{INTERVAL_SECONDS:g}s",
    "ANDON_HISTORY_FLUSH": "0.2s",  # each tidies a window of ten minutes, of which hundreds go by
    "ANDON_HISTORY_RAW_DAYS": "0.25",
    "ANDON_HISTORY_MINUTE_DAYS": "11",
    "ANDON_HISTORY_HOUR_DAYS": "11",
    "ANDON_JOBS_IDLE": "1s",
    "ANDON_JOBS_KEEP_DAYS": "0.01",
    "ANDON_RUNS_KEEP_DAYS": "1",
}
"""The shortest that anything may be kept, so that the run sees the end of all."""


class Role:
    """One long-running process, which may be started again on the same state."""

    def __init__(self, name: str, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self.name, self.words, self.environment = name, list(words), dict(environment)
        self.state = Path(self.environment["XDG_STATE_HOME"])
        self.process: subprocess.Popen[str] | None = None
        self.port, self.starts = 0, 0

    def start(self) -> None:
        self.state.mkdir(parents=True, exist_ok=True)
        port = ["--port", str(self.port)] if "agent" not in self.words else []
        with (self.state / "errors").open("a") as errors:
            self.process = subprocess.Popen(
                andon(*self.words, *port), env=self.environment, text=True, stderr=errors,
                stdout=subprocess.PIPE if port else subprocess.DEVNULL,
            )  # fmt: skip
        self.starts += 1
        if port:
            assert self.process.stdout is not None
            told = self.process.stdout.readline()
            found = re.search(r"https?://\S+:(\d+)", told)
            assert found, f"{self.name} did not start: {told}{self.errors()}"
            self.port = int(found[1])

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(LEAVING_SECONDS)
            if self.process.stdout is not None:
                self.process.stdout.close()

    def errors(self) -> str:
        return (self.state / "errors").read_text(encoding="utf-8", errors="replace")

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def readers(self) -> list[int]:
        """The processes that ask its driver."""
        try:
            threads = list(Path(f"/proc/{self.pid}/task").iterdir())
            children = [pid for one in threads for pid in (one / "children").read_text().split()]
            return [int(one) for one in children if b"reader" in _words(int(one))]
        except OSError:  # it or a thread of it has just ended
            return []


class World:
    """All of them, with a driver that does what it is told and a database."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder = folder
        for name in ("driver", "tmp", "clock"):
            (folder / name).mkdir()
        self.clock = WallClock(folder / "clock")
        self.clock.step(int(start().timestamp() - self.clock.now()))
        self.driver = StandIn(folder / "driver", per_second=False)
        self.driver.write(StandIn.devices(DEVICES))
        self.database = database().schema("soak")
        tokens = added(self.database, 2)
        self.hub = Role("hub", ["hub", "--quiet", "--store", self.database], self._around("hub"))
        self.server = Role("server", ["serve", "--quiet"], self._around("server"))
        self.clock.hurry(times)
        self.hub.start()
        words = ["agent", "--quiet", "--hub", f"http://127.0.0.1:{self.hub.port}"]
        self.agent, self.restarted = (
            Role(name, words, {**self._around(name), "ANDON_HUB_TOKEN": token, "ANDON_NODE": node})
            for name, token, node in zip(("agent", "other"), tokens, ("n0", "n1"), strict=True)
        )
        for role in (self.server, self.agent, self.restarted):
            role.start()

    @property
    def roles(self) -> tuple[Role, ...]:
        return self.server, self.agent, self.restarted, self.hub

    def close(self) -> None:
        for role in self.roles:
            role.stop()

    def _around(self, name: str) -> dict[str, str]:
        state = self.folder / name
        return {
            **self.driver.environment(build(BUILD)), **SETTINGS, **self.clock.environment,
            "XDG_STATE_HOME": str(state), "ANDON_LEASE_DIR": str(state / "book"),
            "XDG_CONFIG_HOME": str(state / "config"), "TMPDIR": str(self.folder / "tmp"),
        }  # fmt: skip


def andon(*words: str) -> list[str]:
    return [sys.executable, "-m", "andon.cli", *words]


def start() -> datetime:
    """Two weeks before the next change to summer or winter time."""
    zone, day = ZoneInfo(ZONE), datetime.now(UTC) + timedelta(days=DAYS_BEFORE_CHANGE)
    before = day.astimezone(zone).utcoffset()
    while day.astimezone(zone).utcoffset() == before:
        day += timedelta(days=1)
    return day - timedelta(days=DAYS_BEFORE_CHANGE)


def _words(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
