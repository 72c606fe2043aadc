"""What people and programs do on the machines of a soak, over and over, until its end."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from andon.node.audit_file import NAME as AUDIT
from andon.web.transport.audit import MOST_BYTES
from bench.clients import Client
from bench.soak_world import Role, World, andon

COMMAND_SECONDS = 120.0
LIVE_SECONDS = 1.0
RESTART_SECONDS = 75.0
CLIENTS = 3
CROWD, AT_ONCE, CROWD_SECONDS = 4000, 20, 0.1
"""Live clients after which a server's heap has its size: 16,000 more add nothing (it then has 23 MB
more than when it started, whatever the clock does)."""
ASKED_OFTEN = 300
HOT, COOL = 96, 40
ASKED = (
    "/", "/healthz", "/metrics", "/api/health", "/api/snapshot", "/api/alerts", "/api/leases",
    "/api/jobs", "/api/runs", "/api/why",
)  # fmt: skip


class Life:
    """Turns, each of which does one thing; what was done is counted."""

    def __init__(self, world: World) -> None:
        self._world, self.done = world, Counter[str]()
        self._hot, self._restarted = False, time.monotonic()
        self._reserved = ""
        self._turns: tuple[Callable[[], None], ...] = (
            self._run, self._requests, self._submit, self._live, self._reserve, self._heat,
            self._lease, self._kill_reader, self._cancel, self._requests, self._restart_other,
            self._cordon, self._tidy, self._live,
        )  # fmt: skip

    def live(self, until: float, restarts: list[tuple[float, Role]]) -> None:
        """Lives until this moment of the steady clock, and starts roles again when it is due."""
        for turn in itertools.cycle(self._turns):
            if time.monotonic() >= until:
                return
            if restarts and time.monotonic() >= restarts[0][0]:
                self._again(restarts.pop(0)[1])
            turn()

    def _run(self) -> None:
        self._command("runs", "run", "--name", "soak", "--no-wait", "--", "true")

    def _submit(self) -> None:
        self._command("jobs", "submit", "--name", "soak", "--", "true")

    def _lease(self) -> None:
        self._command("leases", "lease", "--for", "5s", "--no-wait", "--", "true")

    def _reserve(self) -> None:
        self._reserved = self._command(
            "reservations", "reserve", "--from", "2d", "--for", "1h", "--name", "soak"
        )

    def _cancel(self) -> None:
        words = self._reserved.split()  # "reserved r1: GPU 0, …"
        if len(words) > 1:
            self._command("cancelled", "reserve", "cancel", words[1].rstrip(":"))

    def _cordon(self) -> None:
        """A change that the server writes into its audit log, which is about to be rotated."""
        for path in self._world.server.state.rglob(AUDIT):
            _fill(path)
        self._command("cordons", "cordon", "3", "--reason", "soak")
        self._command("cordons", "uncordon", "3")

    def _tidy(self) -> None:
        self._command("gc", "gc")

    def _heat(self) -> None:
        self._hot = not self._hot
        self._world.driver.change(1, temperature=HOT if self._hot else COOL)
        self.done["hot or cool"] += 1

    def _requests(self) -> None:
        for role in (self._world.server, self._world.hub):
            self._ask(role)

    def _ask(self, role: Role, times: int = 1) -> None:
        for _ in range(times):
            token = next(role.state.rglob("token")).read_text().strip()
            connection = HTTPConnection("127.0.0.1", role.port, timeout=COMMAND_SECONDS)
            for path in ASKED:
                with suppress(OSError, HTTPException):
                    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
                    answer = connection.getresponse()
                    answer.read()
                    self.done[f"answers {answer.status}"] += 1
            connection.close()

    def _live(self) -> None:
        asyncio.run(_listen(self._world.server.port, CLIENTS, LIVE_SECONDS))
        self.done["live clients"] += CLIENTS

    def _kill_reader(self) -> None:
        for pid in self._world.server.readers():
            os.kill(pid, signal.SIGKILL)
            self.done["readers killed"] += 1

    def _restart_other(self) -> None:
        """Not before it has tidied its history, which it does a minute after its start."""
        if time.monotonic() - self._restarted >= RESTART_SECONDS:
            self._restarted = time.monotonic()
            self._again(self._world.restarted)

    def _again(self, role: Role) -> None:
        self.done[f"starts of {role.name}"] += 1
        role.stop()
        role.start()
        if role in (self._world.server, self._world.hub):
            self._ask(role, ASKED_OFTEN)
            for _ in range(CROWD // AT_ONCE):
                asyncio.run(_listen(role.port, AT_ONCE, CROWD_SECONDS))
            self.done["live clients"] += CROWD

    def _command(self, what: str, *words: str) -> str:
        try:
            done = subprocess.run(
                andon(*words), env=self._world.server.environment, capture_output=True, text=True,
                timeout=COMMAND_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:  # of a starved machine: it is no leak
            self.done[f"{what} took too long"] += 1
            return ""
        self.done[what if done.returncode == 0 else f"{what} refused"] += 1
        if done.returncode and self.done[f"{what} refused"] == 1:
            print(f"{' '.join(words)}: {done.stderr.strip()[-300:]}", file=sys.stderr, flush=True)
        return done.stdout


async def _listen(port: int, clients: int, seconds: float) -> None:
    loop, transports = asyncio.get_running_loop(), []
    for _ in range(clients):
        transport, _ = await loop.create_connection(
            partial(Client, port, asyncio.Event()), "127.0.0.1", port
        )
        transports.append(transport)
    await asyncio.sleep(seconds)
    for transport in transports:
        transport.abort()


def _fill(path: Path) -> None:
    """Makes it so large that the next line goes to another file."""
    line = path.read_bytes().splitlines(keepends=True)[-1:]
    if line and (missing := MOST_BYTES - path.stat().st_size) > 0:
        with path.open("ab") as file:
            file.write(line[0] * (missing // len(line[0]) + 1))
