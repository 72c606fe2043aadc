"""`andon check` beside a hub: agents report checks, and cards are judged by those of all nodes."""

import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.checks.store import stored_checks
from andon.fleet.link import HEARTBEAT, HubLink
from andon.fleet.rules.digest import Digest, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body
from andon.model.check import CardResult, CheckPart, figures_of
from tests.integration.conftest import andon
from tests.integration.fleet.reporting import added
from tests.integration.serving import Served, serving
from tests.standin.cuda import CudaFault, StandInCuda
from tests.support.homes import own_folders
from tests.support.postgres import server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.usefixtures("cuda", "own_places")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Served]:
    book = own_folders(tmp_path / "hub")["ANDON_LEASE_DIR"]
    url = server().schema(f"checks_{secrets.token_hex(4)}")
    with serving(
        tmp_path / "hub", "--store", url, simulate=None, ANDON_LEASE_DIR=book, ANDON_NODE="hub"
    ) as found:
        yield found


def report(hub: Served, node: str, results: Sequence[CardResult]) -> None:
    """Reports these checks as those of another node's cards."""
    link = HubLink(hub.url, added(hub, node))
    found = [replace(one, uuid=f"{node}-{one.uuid}") for one in results]
    digest = Digest(node, "m", "1.0", gpus=4, checks=tuple(map(figures_of, found)))
    header = HeartbeatHeader(secrets.token_hex(4), 1, time.time())
    link.send(HEARTBEAT, heartbeat_body(header, encoded(digest), deflated({"checks": found}), b""))
    link.close()


def row_of(hub: Served, name: str) -> dict[str, Any]:
    [row] = [one for one in hub.ask("/api/nodes").json()["nodes"] if one["name"] == name]
    found: dict[str, Any] = row
    return found


def faster(result: CardResult, factor: float) -> CardResult:
    def changed(part: CheckPart) -> CheckPart:
        return replace(part, value=None if part.value is None else part.value * factor)

    return replace(result, parts=tuple(map(changed, result.parts)))


def test_cards_are_compared_with_those_of_other_nodes(cuda: StandInCuda, hub: Served) -> None:
    assert andon("check", "--quick").code == 0
    first = stored_checks()
    report(hub, "n1", first)
    report(hub, "n2", [replace(one, driver="1.0") for one in first])
    done = andon("check", "--quick", "--url", hub.url)
    assert (done.code, done.err.count("not compared")) == (0, 0)
    assert done.out.count("as fast as 3 others of its model here, 4 in the fleet") == 4
    listed = andon("checks", "--url", hub.url, "--node", "n1")
    assert listed.code == 0, listed.err
    assert listed.out.count("as fast as 3 others of its model here") == 4


def test_a_node_that_is_slower_than_the_fleet_is_slow_as_a_whole(
    cuda: StandInCuda, hub: Served
) -> None:
    assert andon("check", "--quick").code == 0
    report(hub, "n1", [faster(one, 1.25) for one in stored_checks()])
    done = andon("check", "--quick", "--url", hub.url)
    assert done.code == 1
    assert len(re.findall(r"slow: .*? % below 4 in the fleet", " ".join(done.out.split()))) == 4


def test_a_hub_that_is_away_is_named_and_the_cards_are_judged(cuda: StandInCuda) -> None:
    done = andon("check", "--quick", "-d", "0", "--url", "http://127.0.0.1:9")
    assert done.code == 0
    assert "not compared with the fleet: http://127.0.0.1:9 cannot be reached" in done.err


def test_an_agent_reports_checks_and_its_hub_is_asked_without_being_named(
    cuda: StandInCuda, hub: Served
) -> None:
    cuda.set_faults(CudaFault(3, "slow", "memory", 30))
    assert andon("check", "--quick").code == 1
    environment = {**os.environ, "ANDON_HUB_TOKEN": added(hub, "here"), "ANDON_NODE": "here"}
    agent = subprocess.Popen(
        [sys.executable, "-m", "andon.cli", "agent", "--hub", hub.url],
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    path = f"/api/checks/fleet?model={stored_checks()[0].model.replace(' ', '%20')}"
    try:
        wait_for(lambda: row_of(hub, "here")["slow"] == ["3"])
        wait_for(lambda: len(hub.ask(path).json()["checks"]) == 4)
        below = hub.ask("/api/nodes/here/checks").json()["checks"]
        assert [one["verdict"] for one in below] == ["ok"] * 3 + ["slow"]
        assert all(one["node"] == "here" for one in below)
        report(hub, "n1", [one for one in stored_checks() if one.label != "3"])
        done = andon("check", "--quick", "-d", "0")
        assert "as fast as 3 others of its model here, 3 in the fleet" in done.out, done.err
    finally:
        agent.terminate()
        agent.wait(30)
