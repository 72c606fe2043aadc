"""Hubs and their database killed, cut off, stopped, frozen, full and replaced, for real: what was
acknowledged is kept once, nodes go on, and nobody has to act."""

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from andon.fleet.link import HEARTBEAT, HubLink
from andon.fleet.rules.digest import Digest, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body, unpacked_ticks
from andon.model.codec import to_json
from andon.settings.store_url import parse_store_url
from andon.stores.postgres import PostgresStore
from tests.conftest import need
from tests.integration.fleet.reporting import (
    added,
    are_refused,
    go_on,
    nothing_is_lost_or_twice,
    reporting,
)
from tests.integration.serving import Served, serving
from tests.support.disks import disk, fill
from tests.support.homes import own_folders
from tests.support.notices import HOT, notice
from tests.support.postgres import USER, Server
from tests.support.receiving import notifying, receiving, status
from tests.support.waiting import wait_for

__all__ = ["disk"]

pytestmark = [pytest.mark.process, pytest.mark.long, pytest.mark.timeout(1200)]
SECONDS = 120
KILLS = 20
FROZEN_SECONDS = 20.0
"""Longer than a hub waits for an answer of its database."""
STOPPED_SECONDS = 60.0
CUT_SECONDS = 12.0


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    """A database of these tests: they stop it."""
    with tempfile.TemporaryDirectory(prefix="andon-hub.") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "db").mkdir()
        database = Server(folder / "db").init().start()
        yield database
        database.stop(signal.SIGQUIT)


@pytest.fixture
def database(own: Server) -> Iterator[Server]:
    yield own
    own.start_again()


@contextmanager
def a_hub(folder: Path, url: str, port: int = 0, *more: str) -> Iterator[Served]:
    with serving(
        folder, "--store", url, *more, simulate=None, port=port, errors=subprocess.DEVNULL,
        ANDON_LEASE_DIR=str(folder / "book"), ANDON_NODE="hub",
    ) as found:  # fmt: skip
        yield found


def leads(hub: Served) -> bool:
    return '"leads":true' in hub.ask("/api/health", **hub.bearer).body.replace(" ", "")


def test_a_hub_that_is_killed_in_writes_loses_and_repeats_nothing(
    database: Server, tmp_path: Path
) -> None:
    url = database.schema("killed")
    with ExitStack() as stack:
        hub = stack.enter_context(a_hub(tmp_path, url))
        port = hub.port
        reporters = stack.enter_context(reporting(hub))
        for _ in range(KILLS):
            hub.process.kill()
            hub.process.wait()
            hub = stack.enter_context(a_hub(tmp_path, url, port))
            go_on(reporters)
    assert all(one.failed for one in reporters)
    nothing_is_lost_or_twice(reporters, database, url)


def test_when_the_hub_that_leads_is_killed_the_other_leads(
    database: Server, tmp_path: Path
) -> None:
    url = database.schema("two")
    with a_hub(tmp_path / "a", url) as first, a_hub(tmp_path / "b", url) as second:
        wait_for(lambda: leads(first) != leads(second), SECONDS)
        leader, other = (first, second) if leads(first) else (second, first)
        with reporting(leader, other) as reporters:
            leader.process.kill()
            wait_for(lambda: leads(other), SECONDS)
            go_on(reporters)
            rows = other.ask("/api/nodes", **other.bearer).json()["nodes"]
            assert {one["state"] for one in rows} == {"healthy"}
        nothing_is_lost_or_twice(reporters, database, url)


def test_when_the_hub_that_leads_is_killed_while_it_notifies_the_other_does(
    database: Server, tmp_path: Path
) -> None:
    """The first message is received and never answered: only its sender knows that."""
    url, over, answered = database.schema("telling"), threading.Event(), list[bool]()

    def unanswered(_: BaseHTTPRequestHandler) -> None:
        over.wait(SECONDS)

    def taken(handler: BaseHTTPRequestHandler) -> None:
        answered.append(True)
        status(200)(handler)

    with receiving(unanswered, taken) as people, ExitStack() as stack:
        stack.callback(over.set)
        config = ("--config", notifying(tmp_path, "hub", people))
        hubs = [stack.enter_context(a_hub(tmp_path / name, url, 0, *config)) for name in "ab"]
        wait_for(lambda: leads(hubs[0]) != leads(hubs[1]), SECONDS)
        leader, other = hubs if leads(hubs[0]) else hubs[::-1]
        parts = [{"notice": to_json(notice(HOT)), "told": False}]
        digest = encoded(Digest("n23", "m", "1.0"))
        header = HeartbeatHeader("s", 1, time.time())
        body = heartbeat_body(header, digest, deflated({}), b"", deflated({"notices": parts}))
        with closing(HubLink(other.url, added(other, "n23"))) as link:
            assert link.send(HEARTBEAT, body)["notifies"] is True
        wait_for(lambda: people.got, SECONDS)
        leader.process.kill()
        wait_for(lambda: answered, SECONDS)
        wait_for(lambda: database.sql("SELECT * FROM outbox", url) == [], SECONDS)
        wait_for(lambda: leads(other), SECONDS)
    assert database.sql("SELECT * FROM news", url) == []
    assert (len(people.got), answered) == (2, [True]), "nothing is lost, and told once"


def test_a_database_that_was_stopped_or_restarted(database: Server, tmp_path: Path) -> None:
    """Once for a minute; then as quickly as it starts again."""
    url = database.schema("stopped")
    with a_hub(tmp_path, url) as hub, reporting(hub) as reporters:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            database.stop(number)
            time.sleep(STOPPED_SECONDS if number is signal.SIGINT else 0)
            are_refused(reporters)
            database.start_again()
            go_on(reporters)
    nothing_is_lost_or_twice(reporters, database, url)


def test_a_database_that_is_frozen(database: Server, tmp_path: Path) -> None:
    """The commit under way may still happen when it wakes up."""
    url = f"{database.schema('frozen')}&connect_timeout=2"
    with a_hub(tmp_path, url) as hub, reporting(hub) as reporters:
        database.send(signal.SIGSTOP)
        try:
            time.sleep(FROZEN_SECONDS)
            assert hub.ask("/api/health").status == 200
        finally:
            database.send(signal.SIGCONT)
        go_on(reporters)
    nothing_is_lost_or_twice(reporters, database, database.schema("frozen"))


def test_a_database_whose_disk_is_full(database: Server, disk: Path, tmp_path: Path) -> None:
    os.chown(disk, pwd.getpwnam(USER).pw_uid, -1)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    database.sql(f"CREATE TABLESPACE small LOCATION '{disk}'")
    plain = database.schema("full_disk")
    url = plain.replace("options=", "options=-cdefault_tablespace%3Dsmall%20")
    with a_hub(tmp_path, url) as hub, reporting(hub) as reporters:
        fill(disk / "filler")
        are_refused(reporters)
        assert hub.ask("/api/nodes", **hub.bearer).status == 200
        (disk / "filler").unlink()
        go_on(reporters)
    nothing_is_lost_or_twice(reporters, database, plain)
    database.sql("DROP SCHEMA full_disk CASCADE")
    database.sql("DROP TABLESPACE small")


def test_a_standby_takes_over(database: Server, tmp_path: Path) -> None:
    schema = database.schema("standby").rpartition("=")[2]
    folder = Path(tempfile.mkdtemp(prefix="andon-hub."))
    standby = Server(folder).copy_of(database).start()
    try:
        database.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        database.sql("SELECT pg_reload_conf()")
        is_synchronous = "SELECT sync_state FROM pg_stat_replication"
        wait_for(lambda: database.sql(is_synchronous) == [("sync",)], SECONDS)
        hosts = f"{database.folder},{standby.folder}"
        url = f"{database.url(host=hosts, port='5432,5432')}&options={schema}"
        with a_hub(tmp_path, url) as hub, reporting(hub) as reporters:
            wait_for(lambda: leads(hub), SECONDS)
            database.stop(signal.SIGQUIT)
            are_refused(reporters)
            standby.promote()
            go_on(reporters)
            wait_for(lambda: leads(hub), SECONDS)
        nothing_is_lost_or_twice(reporters, standby, f"{standby.url()}&options={schema}")
    finally:
        standby.stop(signal.SIGQUIT)
        database.start_again()
        database.sql("ALTER SYSTEM RESET synchronous_standby_names")
        database.sql("SELECT pg_reload_conf()")


class Agent:
    """`andon agent` of a simulated machine, and the heartbeats that it reported as sent."""

    def __init__(self, folder: Path, url: str, *before: str, **more: str) -> None:
        surroundings = {**os.environ, **own_folders(folder), "ANDON_NODE": "n17", **more}
        command = [*before, sys.executable, "-m", "andon.cli", "agent", "--hub", url]
        self.process = subprocess.Popen(
            [*command, "--simulate", "2"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=surroundings,
        )  # fmt: skip
        self.sent = 0
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def __enter__(self) -> "Agent":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end(signal.SIGKILL)

    def goes_on(self) -> None:
        before = self.sent
        wait_for(lambda: self.sent > before, SECONDS)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(30)
        self._reading.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.sent += line.startswith("Heartbeat sent: ")


def test_a_node_that_is_killed_goes_on_with_its_token(database: Server, tmp_path: Path) -> None:
    url = database.schema("restarted")
    with a_hub(tmp_path / "hub", url) as hub:
        with Agent(tmp_path / "n17", hub.url, ANDON_HUB_TOKEN=added(hub, "n17")) as agent:
            agent.goes_on()
            agent.end(signal.SIGKILL)
        with Agent(tmp_path / "n17", hub.url) as again:
            again.goes_on()
            rows = hub.ask("/api/nodes", **hub.bearer).json()["nodes"]
            assert [(one["name"], one["state"]) for one in rows] == [("n17", "healthy")]
            again.end()
    beats = database.sql("SELECT session, sequence FROM beat", url)
    assert len(beats) == len(set(beats)) >= agent.sent + again.sent


@contextmanager
def network() -> Iterator[str]:
    """A network of its own with a loopback, which can be cut; its name."""
    need("ip")
    if os.geteuid() != 0:
        pytest.skip("only root can make networks")
    name = f"andon-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True)


def test_a_network_that_is_cut(database: Server, tmp_path: Path) -> None:
    """The database is reached by its socket: only hub and node lose each other. The node goes on
    to sample, and what it read meanwhile comes with its next report."""
    url = database.schema("cut")
    with network() as name:
        inside = ["ip", "netns", "exec", name]
        with serving(
            tmp_path / "hub", "--store", url, simulate=None, wrapped=inside, ANDON_NODE="hub",
            ANDON_LEASE_DIR=str(tmp_path / "book"), errors=subprocess.DEVNULL,
        ) as hub:  # fmt: skip
            asked = [*inside, sys.executable, "-m", "andon.cli", "nodes", "add", "n17", "--url",
                     hub.url]  # fmt: skip
            known = {**os.environ, **own_folders(tmp_path / "cli"), "ANDON_TOKEN": hub.token}
            line = subprocess.run(asked, capture_output=True, text=True, check=True, env=known)
            token = line.stdout.split()[0].partition("=")[2]
            with Agent(tmp_path / "n17", hub.url, *inside, ANDON_HUB_TOKEN=token) as agent:
                agent.goes_on()
                subprocess.run(["ip", "-n", name, "link", "set", "lo", "down"], check=True)
                time.sleep(CUT_SECONDS)
                before = agent.sent
                subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
                wait_for(lambda: agent.sent > before + 1, SECONDS)
                agent.end()
    assert longest_gap(database, url) < CUT_SECONDS / 2


def longest_gap(database: Server, url: str) -> float:
    """Returns the longest time between two readings of the node, by its reports. What a report
    without an answer brought comes again with the next one: the history has it once."""
    rows = database.sql("SELECT ticks FROM beat ORDER BY at, sequence", url)
    ticks = [tick for (body,) in rows for tick in unpacked_ticks(cast("bytes", body))]
    times = sorted({tick.at for tick in ticks})
    device, metrics, _ = ticks[0].readings[0]
    with closing(PostgresStore(parse_store_url(url), "n17")) as store:
        store.write(ticks)
        (found,) = store.history(device, metrics[0], times[0] - 1, times[-1] + 1, 1)
    assert found.count == len(times), "nothing is there twice"
    return max(after - before for before, after in pairwise(times))


def test_a_node_samples_and_judges_while_its_hub_is_away(database: Server, tmp_path: Path) -> None:
    url = database.schema("away")
    with a_hub(tmp_path / "hub", url) as hub:
        token = added(hub, "n17")
        with serving(
            tmp_path / "n17", "--hub", hub.url, simulate=8, errors=subprocess.DEVNULL,
            ANDON_HUB_TOKEN=token, ANDON_LEASE_DIR=str(tmp_path / "book"), ANDON_NODE="n17",
        ) as node:  # fmt: skip
            wait_for(lambda: _state(hub) in ("healthy", "sick"), SECONDS)
            hub.process.kill()
            hub.process.wait()
            began = node.ask("/api/snapshot", **node.bearer).json()["at"]
            wait_for(lambda: _failing(node), SECONDS)
            wait_for(lambda: _firing(node) > 0, SECONDS)  # some are pending for half a minute
            with a_hub(tmp_path / "hub", url, hub.port) as back:
                wait_for(lambda: _state(back) in ("healthy", "sick"), SECONDS)
                ended = node.ask("/api/snapshot", **node.bearer).json()["at"]
            times = f"since={began}&until={ended}&points=1"
            asked = f"/api/devices/0/history?metric=power_watts&{times}"
            (found,) = node.ask(asked, **node.bearer).json()["buckets"]
            assert found["count"] > (ended - began) / 2, "it recorded meanwhile"


def _state(hub: Served) -> str:
    rows = hub.ask("/api/nodes", **hub.bearer).json()["nodes"]
    return next((str(one["state"]) for one in rows if one["name"] == "n17"), "")


def _firing(node: Served) -> int:
    judging = node.ask("/api/health", **node.bearer).json()["alerts"]
    assert judging["state"] == "ok"
    return int(judging["firing"])


def _failing(node: Served) -> bool:
    found = json.loads(node.ask("/api/health", **node.bearer).body)
    return '"failing"' in json.dumps(found)
