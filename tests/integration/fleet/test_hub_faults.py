"""A hub and its database that are killed, stopped and frozen: agents go on, and nobody acts."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from tests.integration.serving import serving
from tests.support.homes import own_folders
from tests.support.postgres import Server
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.long]
SECONDS = 90


class Agent:
    """`andon agent` of a simulated machine, and the heartbeats that it reported as sent."""

    def __init__(self, folder: Path, url: str, **more: str) -> None:
        surroundings = {**os.environ, **own_folders(folder), "ANDON_NODE": "n17", **more}
        command = [sys.executable, "-m", "andon.cli", "agent", "--hub", url, "--simulate", "2"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=surroundings
        )
        self.sent = 0
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def goes_on(self) -> None:
        before = self.sent
        wait_for(lambda: self.sent > before, SECONDS)

    def end(self, number: signal.Signals) -> None:
        self.process.send_signal(number)
        self.process.wait(30)
        self._reading.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.sent += line.startswith("Heartbeat sent: ")


def test_agents_go_on_when_the_hub_or_its_database_is_back() -> None:
    with tempfile.TemporaryDirectory(prefix="andon-hub.") as name:
        folder = Path(name)
        (folder / "db").mkdir()
        folder.chmod(0o755)
        database = Server(folder / "db").init().start()
        book = {"ANDON_LEASE_DIR": str(folder / "book"), "ANDON_NODE": "hub"}
        hub_of = [folder / "hub", "--store", database.url()]
        with serving(*hub_of, simulate=None, **book) as hub:  # type: ignore[arg-type]
            port = hub.port
            added = hub.ask(
                "/api/nodes", "POST", '{"name": "n17"}', Content_Type="application/json",
                **hub.bearer,
            )  # fmt: skip
            agent = Agent(folder / "n17", hub.url, ANDON_HUB_TOKEN=added.json()["token"])
            agent.goes_on()
            hub.process.kill()
        with serving(*hub_of, simulate=None, port=port, **book) as hub:  # type: ignore[arg-type]
            agent.goes_on()
            database.stop(signal.SIGQUIT)
            database.start_again()
            agent.goes_on()
            database.send(signal.SIGSTOP)
            before = agent.sent
            database.send(signal.SIGCONT)
            wait_for(lambda: agent.sent > before, SECONDS)
            agent.end(signal.SIGKILL)
            again = Agent(folder / "n17", hub.url)  # its token was kept
            again.goes_on()
            rows = hub.ask("/api/nodes", **hub.bearer).json()["nodes"]
            assert [(one["name"], one["state"]) for one in rows] == [("n17", "healthy")]
            again.end(signal.SIGTERM)
        count = "SELECT count(*), count(DISTINCT (session, sequence)) FROM beat"
        ((beats, distinct),) = database.sql(count)
        assert beats == distinct
        database.stop(signal.SIGQUIT)
