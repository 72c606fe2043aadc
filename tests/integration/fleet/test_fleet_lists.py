"""What a hub answers for its whole fleet: lists, live events, users, a node that is silent."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import pytest
import socketio
from msgspec import Struct
from msgspec.structs import replace

from andon.fleet.rules.digest import Digest, FreeDevices, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body
from andon.leases.rules.verdict import by_readings
from andon.model.codec import to_json
from andon.model.lease import Reservation, ReservedDevice
from andon.model.lease_list import LeaseList
from andon.model.verdict import VerdictKind
from andon.model.wire import snapshot_to_json
from andon.web.answers.description import ANSWERS
from tests.integration.fleet.reporting import added
from tests.integration.serving import Served, serving
from tests.support.described import check
from tests.support.homes import own_folders
from tests.support.notices import HOT
from tests.support.postgres import server
from tests.support.snapshots import farm, uuid
from tests.support.waiting import wait_for

pytestmark = pytest.mark.process

TOO_HOT = replace(HOT, subject=uuid(2), device=2)


def reserved() -> Reservation:
    devices, begins = (ReservedDevice(uuid(5), 5),), time.time() + 3600
    return Reservation("r7", devices, begins, begins + 7200, "paper", uid=7, user="alice")


class Fleet(Struct, frozen=True):
    """A hub with the node n17, one of whose GPUs has a critical alert, and the silent n18."""

    hub: Served
    folder: Path
    tokens: dict[str, str]

    def andon(self, *words: str) -> subprocess.CompletedProcess[str]:
        surroundings = {**os.environ, **own_folders(self.folder / "cli"), "COLUMNS": "140"}
        surroundings |= {"ANDON_TOKEN": self.hub.token}
        command = [sys.executable, "-m", "andon.cli", *words, "--url", self.hub.url]
        return subprocess.run(
            command, capture_output=True, text=True, env=surroundings, timeout=60, check=False
        )

    def report(self, name: str, token: str, sequence: int) -> None:
        """One heartbeat of a node with the farm's devices, of which GPU 2 has an alert."""
        seen = snapshot_to_json(replace(farm(), node=name, at=time.time(), simulated=True))
        parts = {
            "snapshot": seen,
            "leases": LeaseList(
                time.time(), devices=by_readings(farm().devices), reservations=(reserved(),)
            ),
            "alerts": [to_json(TOO_HOT)],
        }
        digest = Digest(
            name, name, "1.0", gpus=8, models={"H200": 8}, simulated=True, allocated=0,
            alerts={"critical": 1}, free=(FreeDevices("H200", ("1",), (140_000,)),),
            temperature_celsius=91.0,
        )  # fmt: skip
        header = HeartbeatHeader("s", sequence, time.time())
        body = heartbeat_body(header, encoded(digest), deflated(parts), b"")
        self._post(body, token)

    def _post(self, body: bytes, token: str) -> None:
        connection = HTTPConnection("127.0.0.1", self.hub.port, timeout=30)
        connection.request("POST", "/api/heartbeat", body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        found = answer.read()
        connection.close()
        assert answer.status == 200, found


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("lists")
    url = server().schema("lists")
    with serving(folder / "hub", "--store", url, simulate=None, ANDON_NODE="hub",
                 ANDON_LEASE_DIR=str(folder / "book")) as hub:  # fmt: skip
        tokens = {name: added(hub, name) for name in ("n17", "n18")}
        made = Fleet(hub, folder, tokens)
        for name, token in tokens.items():
            made.report(name, token, 1)
        wait_for(lambda: _row(made, "n18")["state"] == "silent", 90)
        made.report("n17", tokens["n17"], 2)
        yield made


def test_what_all_nodes_have_is_one_answer_as_it_is_described(fleet: Fleet) -> None:
    """The silent node is named, and what it had is not said of now."""
    key = fleet.hub.bearer
    said = fleet.hub.ask("/api/nodes/items?kinds=alert,process", **key).json()
    check(said, ANSWERS["get", "/api/nodes/items"])
    assert {one["node"] for one in said["items"]} <= {"n17", "hub"}
    assert (said["silent"], said["unread"], said["firing"]) == (["n18"], [], {"critical": 1})
    assert said["items"][0]["state"] == "critical"
    commands = [one["detail"] for one in said["items"] if one["kind"] == "process"]
    assert any(commands)
    unsigned = fleet.hub.ask("/api/nodes/items?kinds=process").json()["items"]
    assert [one["detail"] for one in unsigned] == [None] * len(commands)
    courses = fleet.hub.ask("/api/nodes/courses?nodes=n17,nobody").json()
    check(courses, ANSWERS["get", "/api/nodes/courses"])
    assert [*courses["nodes"]] == ["n17"]
    for wrong in ("items?kinds=x", "items?limit=501", "courses?nodes=n17&metric=x", "courses"):
        assert fleet.hub.ask(f"/api/nodes/{wrong}").status == 422, wrong


def test_a_silent_node_has_no_lost_devices(fleet: Fleet) -> None:
    shown = fleet.andon("status", "--node", "n18").stdout
    assert "silent" in shown
    assert "lost for 0 s" not in shown
    assert re.search(r"unknown for \d+ s · last .* °C.* · n18 is silent", shown), shown
    states = json.loads(fleet.andon("status", "--node", "n18", "--json").stdout)["devices"]
    assert all(one["state"] != "lost" for one in states[:2])


@pytest.mark.parametrize("words", ["status", "ps", "who", "alerts", "leases", "jobs", "devices",
                                   "reservations"])  # fmt: skip
def test_a_list_over_the_fleet_names_the_node(fleet: Fleet, words: str) -> None:
    done = fleet.andon(words)
    assert (done.returncode, "n17" in done.stdout) == (0, True), done.stderr


def test_a_gpu_of_a_node_is_explained_by_its_name(fleet: Fleet) -> None:
    done = fleet.andon("why", "n17:2")
    assert done.returncode == 0, done.stderr


def test_what_happens_on_a_silent_node_is_not_known(fleet: Fleet) -> None:
    alerts, why = fleet.andon("alerts", "--node", "n18"), fleet.andon("why", "n18:2")
    assert "n18 is silent" in alerts.stdout
    assert "its alerts are not known" in alerts.stdout
    assert "No active alerts" not in alerts.stdout
    assert "n18 is silent" in why.stdout
    assert "No GPU" not in why.stdout
    assert (alerts.returncode, why.returncode) == (3, 3)


def test_what_nobody_knows_is_neither_none_nor_zero(fleet: Fleet) -> None:
    who, free, jobs = (fleet.andon(word, "--node", "n18") for word in ("who", "free", "jobs"))
    assert " 0 B " not in who.stdout
    assert "Who uses the devices now is not known. n18 is silent" in " ".join(who.stdout.split())
    assert (free.returncode, free.stdout) == (3, "")
    assert "n18 is silent" in free.stderr
    assert "0 jobs when it last reported" in jobs.stdout


def test_the_hubs_own_alerts_are_among_those_of_its_nodes(fleet: Fleet) -> None:
    found = json.loads(fleet.andon("alerts", "--json").stdout)["nodes"]
    assert {one["node"] for one in found} == {"n17", "n18", "hub"}


def test_free_says_what_to_type_on_the_node(fleet: Fleet) -> None:
    assert "on n17: andon run --gpus 1 -- COMMAND" in fleet.andon("free", "--gpus", "1").stdout


def test_what_nodes_have_reserved_is_listed_by_the_hub_and_changed_there(fleet: Fleet) -> None:
    found = json.loads(fleet.andon("reservations", "--json").stdout)
    rows = {one["node"]: one["answer"]["reservations"] for one in found["nodes"] if "answer" in one}
    assert [(one["id"], one["user"]) for one in rows["n17"]] == [("r7", "alice")]
    words = ("reserve", "--gpus", "4", "--from", "Fri 18:00", "--for", "12h", "--node", "n17")
    refused = fleet.andon(*words)
    assert refused.returncode == 6
    assert "on n17: andon reserve --gpus 4 --from 'Fri 18:00' --for 12h\n" in refused.stderr
    changed = fleet.andon("reserve", "cancel", "r7", "--node=n17")
    assert "on n17: andon reserve cancel r7\n" in changed.stderr


def test_a_request_that_no_node_can_ever_meet_is_unavailable(fleet: Fleet) -> None:
    assert fleet.andon("free", "--gpus", "99").returncode == 3


def test_one_job_is_shown_of_a_server(fleet: Fleet) -> None:
    done = fleet.andon("jobs", "show", "105")
    assert done.returncode == 5, "this hub knows no such job"


def test_the_reason_of_a_job_is_asked_of_a_server(fleet: Fleet) -> None:
    done = fleet.andon("why", "--job", "105")
    assert "leave out the GPU" not in done.stderr


def test_the_list_of_nodes_has_their_temperature(fleet: Fleet) -> None:
    assert _row(fleet, "n17").get("temperature_celsius") is not None


def test_live_events_of_nodes_can_be_subscribed_to(fleet: Fleet) -> None:
    client = socketio.Client(reconnection=False)
    client.connect(fleet.hub.url, auth={"token": fleet.hub.token})
    try:
        answer = client.call("subscribe", "nodes", timeout=10)
    finally:
        client.disconnect()
    assert "error" not in json.dumps(answer), answer


def test_a_simulated_node_is_marked_and_found(fleet: Fleet) -> None:
    assert "SIMULATED" in fleet.andon("nodes").stdout
    assert "n17" in fleet.andon("nodes", "--filter", "simulated").stdout


def test_free_devices_that_are_simulated_are_marked(fleet: Fleet) -> None:
    assert "SIMULATED" in fleet.andon("free", "--gpus", "1").stdout


def test_an_agent_goes_on_to_the_next_hub(fleet: Fleet) -> None:
    surroundings = {
        **os.environ, **own_folders(fleet.folder / "n19"), "ANDON_NODE": "n19",
        "ANDON_HUB_TOKEN": added(fleet.hub, "n19"),
    }  # fmt: skip
    hubs = f"http://127.0.0.1:9,{fleet.hub.url}"
    command = [sys.executable, "-m", "andon.cli", "agent", "--hub", hubs, "--simulate", "1"]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings)
    try:
        assert agent.stdout is not None
        assert agent.stdout.readline().startswith("Heartbeat sent")
    finally:
        agent.terminate()
        agent.communicate(timeout=30)


def test_the_metrics_of_a_hub_name_its_nodes(fleet: Fleet) -> None:
    assert 'node="n17"' in fleet.hub.ask("/metrics", **fleet.hub.bearer).body


def test_a_hint_about_another_machine_can_be_typed_as_it_is(fleet: Fleet) -> None:
    shown = fleet.andon("status", "--node", "n17")
    (hint,) = (line for line in (shown.stdout + shown.stderr).splitlines() if "andon why" in line)
    assert "--node n17" in hint


def test_free_devices_of_a_fleet_have_a_model_and_memory(fleet: Fleet) -> None:
    shown = fleet.andon("free", "--gpus", "1").stdout
    assert "H200" in shown
    assert "GiB" in shown


def test_hubs_of_one_database_list_the_same_machines(fleet: Fleet) -> None:
    url, book = server().schema("lists"), str(fleet.folder / "book2")
    with serving(fleet.folder / "hub2", "--store", url, simulate=1, ANDON_NODE="hub2",
                 ANDON_LEASE_DIR=book) as second:  # fmt: skip

        def named(hub: Served) -> set[str]:
            return {one["name"] for one in hub.ask("/api/nodes", **hub.bearer).json()["nodes"]}

        wait_for(lambda: "hub2" in named(fleet.hub), 20)  # with its first report
        assert named(fleet.hub) == named(second)
        assert second.ask("/api/nodes/hub2/drain", "POST", **second.bearer).status == 200
        for hub in (fleet.hub, second):
            wait_for(partial(is_drained, hub, "hub2"), 20)
        there = fleet.hub.ask("/api/nodes/hub2/snapshot", **fleet.hub.bearer).json()
        assert there["node"] == "hub2"


def is_drained(hub: Served, name: str) -> bool:
    listed = hub.ask("/api/nodes", **hub.bearer).json()["nodes"]
    return any(one["name"] == name and one["drained"] for one in listed)


def _row(fleet: Fleet, name: str) -> dict[str, object]:
    listed = json.loads(fleet.andon("nodes", "--json").stdout)["nodes"]
    found: dict[str, object] = next(one for one in listed if one["name"] == name)
    return found


def test_what_is_free_at_a_time_to_come_is_said_of_each_node_with_the_reason_if_not(
    fleet: Fleet,
) -> None:
    free = [row.index for row in by_readings(farm().devices) if row.kind is VerdictKind.FREE]
    assert 5 in free
    fleet.report("n17", fleet.tokens["n17"], 3)
    done = fleet.andon("free", "--at", "90m", "--json")
    rows = {one["node"]: one for one in json.loads(done.stdout)["nodes"]}
    then = {one["index"]: one for one in rows["n17"]["answer"]["devices"]}
    assert then[5]["reason"] == "reserved by alice (r7)"
    assert rows["n17"]["answer"]["free"] == [one for one in free if one != 5]
    assert "n18 is silent" in rows["n18"]["reason"]
    fleet.report("n17", fleet.tokens["n17"], 4)
    later = fleet.andon("free", "--gpus", str(len(free)), "--next", "--for", "4h")
    assert later.returncode == 0, later.stderr
    assert re.search(r"n17 +GPU .* from .* \(in (3 h|2 h 59 min)\)", later.stdout), later.stdout
    assert "n18 is silent" in later.stdout
    one = fleet.andon("free", "--gpus", "99", "--next", "--node", "n17")
    assert one.returncode in (1, 3)
