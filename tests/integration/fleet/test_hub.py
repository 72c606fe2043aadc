"""A hub on PostgreSQL and agents of simulated machines: everything a person asks it."""

import json
import os
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
import socketio
from msgspec import Struct
from msgspec.structs import replace

from andon.clusters.kubernetes.records import pod_samples
from andon.fleet.rules.digest import Digest, encoded
from andon.fleet.rules.heartbeat import (
    HeartbeatHeader,
    deflated,
    heartbeat_body,
    packed_ticks,
)
from andon.fleet.rules.past import LENGTH, SCHEMA, PastPart, packed_past
from andon.history.rules.codec import pack_points
from andon.history.rules.series import tick_of
from andon.history.rules.tiers import Tier
from andon.model.codec import to_json
from andon.model.device import Device
from andon.model.job.cluster import ClusterJob
from andon.model.job.facts import JobState, JobView
from andon.model.lease_list import LeaseList
from andon.model.run.record import RunDevice, RunKind, RunRow, RunState
from andon.model.wire import snapshot_to_json
from tests.integration.serving import Answer, Served, serving
from tests.support.homes import own_folders
from tests.support.notices import HOT, notice, over
from tests.support.postgres import server
from tests.support.receiving import Receiver, notifying, receiving, status
from tests.support.snapshots import farm
from tests.support.waiting import wait_for

pytestmark = pytest.mark.process


class FleetUnderTest(Struct, frozen=True):
    """A hub, the folder of its tests, and an agent that reports."""

    hub: Served
    folder: Path
    first_line: str
    people: Receiver
    """What people are told, by the hub at /hub and by nodes at /node."""

    def andon(self, *words: str, token: str = "") -> subprocess.CompletedProcess[str]:
        surroundings = {**os.environ, **own_folders(self.folder / "cli"), "COLUMNS": "140"}
        surroundings |= {"ANDON_TOKEN": token or self.hub.token}
        command = [sys.executable, "-m", "andon.cli", *words, "--url", self.hub.url]
        return subprocess.run(
            command, capture_output=True, text=True, env=surroundings, timeout=60, check=False
        )

    def says(self, *words: str, token: str = "") -> str:
        done = self.andon(*words, token=token)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def shown(self, name: str) -> str:
        return self.says("nodes", "show", name)

    def get(self, path: str) -> Answer:
        return self.hub.ask(path, **self.hub.bearer)

    def post(self, path: str, body: bytes, token: str) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.hub.port, timeout=30)
        connection.request("POST", path, body, {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        found = Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        connection.close()
        return found

    def added(self, name: str) -> str:
        return self.says("nodes", "add", name).split()[0].partition("=")[2]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FleetUnderTest]:
    folder = tmp_path_factory.mktemp("fleet")
    url = server().schema("hub")
    book = own_folders(folder / "hub")["ANDON_LEASE_DIR"]
    with receiving(status(200)) as people, serving(
        folder / "hub", "--store", url, "--config", notifying(folder, "hub", people),
        simulate=None, ANDON_LEASE_DIR=book, ANDON_NODE="hub",
    ) as hub:  # fmt: skip
        made = FleetUnderTest(hub, folder, "", people)
        token = made.added("n17")
        own = own_folders(folder / "n17")
        surroundings = {**os.environ, **own, "ANDON_HUB_TOKEN": token}  # its host has another name
        surroundings["ANDON_SHARE_LABELS"] = "quiet:3"
        command = [sys.executable, "-m", "andon.cli", "agent", "--hub", hub.url, "--simulate", "8"]
        agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=surroundings)
        try:
            assert agent.stdout is not None
            yield FleetUnderTest(hub, folder, agent.stdout.readline(), people)
        finally:
            agent.terminate()
            agent.communicate(timeout=30)


def beat(
    sequence: int,
    node: str = "n18",
    session: str = "s",
    sent: float = 1000.0,
    machine: str = "m",
    report: bytes = b"",
    ticks: bytes = b"",
) -> bytes:
    models = {"A100": 4}
    digest = encoded(Digest(node, machine, "1.0", gpus=4, models=models, utilization_percent=5.0))
    header = HeartbeatHeader(session, sequence, sent)
    return heartbeat_body(header, digest, report or deflated({}), ticks)


def test_the_agent_says_what_it_sent(fleet: FleetUnderTest) -> None:
    words, *values = fleet.first_line.rstrip().replace(", ", ": ").split(": ")
    assert words == "Heartbeat sent"
    assert [one.partition("=")[0] for one in values] == ["CPU", "Memory", "GPU", "Tasks"]


def test_the_list_and_one_node(fleet: FleetUnderTest) -> None:
    def is_healthy() -> bool:
        lines = fleet.says("nodes").splitlines()
        assert lines[0].split() == [
            "NODE",
            "GPUS",
            "ALLOCATED",
            "UTIL",
            "MEM",
            "TEMP",
            "STATE",
            "AGE",
        ]
        return any(line.startswith("n17") and "healthy ✓" in line for line in lines)

    wait_for(is_healthy, 60)  # on a busy machine a report may be late
    shown = fleet.says("nodes", "show", "n17").splitlines()
    assert shown[0].startswith("GPU Capacity: 8 (H200")
    # How many are busy changes from minute to minute in a simulation.
    assert re.fullmatch(r"GPU Allocated: 0; [1-8] in use without a lease", shown[1])
    assert shown[2].startswith("GPU Utilization: ")
    assert shown[2].endswith("% (real-time)")
    assert shown[3] == "Status: Healthy ✓"
    (row,) = json.loads(fleet.says("nodes", "--filter", "quiet", "--json"))["nodes"]
    assert (row["name"], row["labels"]) == ("n17", ["quiet"])
    listed = json.loads(fleet.says("nodes", "--json"))
    assert listed["schema"] == "andon.nodes/1"
    row = next(one for one in listed["nodes"] if one["name"] == "n17")
    assert row.keys() >= {"name", "state", "age_seconds", "gpus", "allocated", "tasks", "reason",
                          "utilization_percent", "memory_percent"}  # fmt: skip


def test_every_reading_command_takes_a_node(fleet: FleetUnderTest) -> None:
    for words in ("status", "ps", "devices", "why 0", "leases", "alerts", "jobs", "free", "who"):
        assert fleet.says(*words.split(), "--node", "n17").strip(), words
    assert "n17" in fleet.says("status", "--node", "n17")
    wait_for(lambda: fleet.andon("history", "0", "--node", "n17").returncode == 0, 20)
    assert "utilisation" in fleet.says("history", "0", "--node", "n17", "--since", "5m")


def test_routes_below_a_node_are_those_of_a_server(fleet: FleetUnderTest) -> None:
    for path in ("snapshot", "snapshots", "devices", "devices/0", "devices/0/why", "processes",
                 "system", "leases", "alerts", "board", "gpu/summary", "charts", "topology",
                 "history/devices", "history/notes", "usage", "jobs", "silences", "recent", "users",
                 "features"):  # fmt: skip
        answer = fleet.get(f"/api/nodes/n17/{path}")
        assert answer.status == 200, (path, answer.body)
    assert fleet.get("/api/nodes/n17/snapshot").json()["node"] == "n17"
    assert fleet.get("/api/nodes/n99/snapshot").status == 404
    for path in ("health", "nodes", "session"):
        assert fleet.get(f"/api/nodes/n17/{path}").status == 404, path


def test_processes_have_their_charts_from_the_first_report_on(fleet: FleetUnderTest) -> None:
    """The page of a process asks for its uses, the last snapshots and the charts of its devices."""
    uuid, pid = next(
        (one["uuid"], one["processes"][0]["pid"])
        for one in fleet.get("/api/nodes/n17/snapshot").json()["devices"] if one["processes"]
    )  # fmt: skip
    known = {use["pid"] for use in fleet.get("/api/nodes/n17/usage").json()["items"]}
    assert pid in known
    shown = [one for snapshot in fleet.get("/api/nodes/n17/snapshots").json()["items"]
             for one in snapshot["devices"] if one["uuid"] == uuid]  # fmt: skip
    assert any(process["pid"] == pid for one in shown for process in one["processes"])
    chart = fleet.get(f"/api/nodes/n17/devices/{uuid}/charts?points=20").json()
    assert any(one is not None for one in chart["series"]["memory_used_bytes"]["mean"])
    # Of a process that was seen once it is not known how long it ran.
    wait_for(lambda: fleet.get("/api/nodes/n17/users").json()["items"] != [], 30)


def test_what_acts_on_a_node_names_the_command_to_type_there(fleet: FleetUnderTest) -> None:
    answer = fleet.hub.ask("/api/nodes/n17/leases/abc", "DELETE", **fleet.hub.bearer)
    assert answer.status == 409
    assert "andon release" in answer.json()["error"]["hint"]


def test_free_over_the_fleet(fleet: FleetUnderTest) -> None:
    line, command, *_ = fleet.says("free", "--gpus", "1").splitlines()
    assert " ".join(line.split()) == "n17 GPU 1 1 free, 14.6 GiB, T4, SIMULATED"
    assert command == "on n17: andon run --gpus 1 -- COMMAND"
    none = fleet.andon("free", "--gpus", "5")
    assert none.returncode == 1
    assert none.stdout.startswith("no: 5 GPUs requested, one node has 1 free at most\n")
    fleet.says("nodes", "drain", "n17")
    assert fleet.andon("free", "--gpus", "1").returncode == 1
    assert "drained" in fleet.says("nodes")
    cordoned = ("leases", "--node", "n17", "--json")
    wait_for(lambda: len(json.loads(fleet.says(*cordoned))["cordons"]) == 8, 30)
    fleet.says("nodes", "resume", "n17")
    wait_for(lambda: fleet.andon("free", "--gpus", "1").returncode == 0, 30)


def test_bad_input_is_refused_with_the_reason_and_the_hub_goes_on(fleet: FleetUnderTest) -> None:
    token = fleet.added("n18")
    path = "/api/heartbeat"
    assert fleet.post(path, beat(1), token).json()["drained"] is False
    assert fleet.post(path, beat(5, session="t"), token).status == 200
    for body, code, reason in (
        (beat(1), 409, "taken already"),
        (beat(4, session="t"), 409, "or a later one, was taken already"),
        (b"nonsense", 422, "not a heartbeat"),
        (beat(2).replace(b"/2\n", b"/9\n"), 422, "does not know"),
        (b"x" * (2 << 20), 413, "too large"),
    ):
        answer = fleet.post(path, body, token)
        assert (answer.status, reason in answer.body) == (code, True), answer.body
    assert fleet.post(path, beat(2), "wrong").status == 401
    assert fleet.post("/api/past", b"nonsense", token).status == 422
    assert fleet.post(path, beat(2), token).status == 200
    counted = fleet.get("/metrics").body
    for kind in ("repeated", "invalid", "version", "too_large", "token"):
        assert f'andon_hub_refused_total{{kind="{kind}"}}' in counted
    assert "its clock is" in fleet.says("nodes", "show", "n18")
    bomb = beat(3, report=zlib.compress(b"[" * (64 << 20)), ticks=zlib.compress(b"[" * (64 << 20)))
    assert fleet.post(path, bomb, token).status == 200, "opaque parts are read when asked for"
    below = fleet.get("/api/nodes/n18/snapshot")
    assert (below.status, "too large" in below.body) == (422, True), below.body
    assert fleet.get("/api/nodes").status == 200
    fleet.says("nodes", "remove", "n18")
    assert fleet.post(path, beat(4), token).status == 401


def test_two_machines_under_one_name_are_noticed(fleet: FleetUnderTest) -> None:
    token, now = fleet.added("n30"), time.time()
    for machine in "ab":
        body = beat(1, "n30", machine, now, machine)
        assert fleet.post("/api/heartbeat", body, token).status == 200
    wait_for(lambda: "two machines report under this name" in fleet.shown("n30"), 20)
    fleet.says("nodes", "remove", "n30")


def test_readings_of_a_wrong_clock_are_placed_by_the_hubs(fleet: FleetUnderTest) -> None:
    token, now = fleet.added("n31"), time.time()
    wrong = now + 7200.0
    seen = replace(farm(), node="n31", at=wrong)
    report = deflated({"snapshot": snapshot_to_json(seen)})
    ticks = packed_ticks([tick_of(replace(seen, at=wrong - n)) for n in range(5, 0, -1)])
    body = beat(1, "n31", sent=wrong, report=report, ticks=ticks)
    assert fleet.post("/api/heartbeat", body, token).status == 200
    wait_for(lambda: "its clock is 2 h ahead" in fleet.shown("n31"), 20)
    shown = fleet.get("/api/nodes/n31/snapshot").json()["at"]
    assert abs(shown - now) < 120
    metric = f"/api/nodes/n31/devices/{seen.devices[0].device.uuid}/history?metric=power_watts"

    def readings(since: float) -> int:
        found = fleet.get(f"{metric}&since={since}&until={since + 600}&points=1").json()
        return sum(one["count"] for one in found["buckets"])

    assert (readings(now - 300), readings(wrong - 300)) == (5, 0)
    fleet.says("nodes", "remove", "n31")


def test_a_name_is_added_once_and_only_by_who_may(fleet: FleetUnderTest) -> None:
    assert fleet.andon("nodes", "add", "n17").returncode == 6
    assert fleet.andon("nodes", "add", "../x").returncode == 2
    answer = fleet.hub.ask("/api/nodes", "POST", '{"name": "n5"}', Content_Type="application/json")
    assert answer.status == 401


def test_an_agent_without_a_token_says_so(fleet: FleetUnderTest) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "andon.cli", "agent", "--hub", fleet.hub.url],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **own_folders(fleet.folder / "new")},
    )  # fmt: skip
    assert (done.returncode, "has no token" in done.stderr) == (4, True)


def test_a_named_token_may_what_its_role_says(fleet: FleetUnderTest) -> None:
    token = fleet.says("token", "add", "ops", "--role", "operate").strip()
    bearer = {"Authorization": f"Bearer {token}"}
    listed = fleet.says("token").splitlines()
    assert listed[1].split()[:2] == ["ops", "operate"]
    asked = {"Content_Type": "application/json", **bearer}
    for path, body, code in (
        ("/api/nodes/n17/drain", "", 200),
        ("/api/nodes/n17/resume", "", 200),
        ("/api/nodes", '{"name": "n99"}', 403),
        ("/api/tokens", '{"name": "me", "role": "admin"}', 403),
    ):
        assert fleet.hub.ask(path, "POST", body, **asked).status == code, path
    assert fleet.hub.ask("/api/nodes/n17/devices", **bearer).status == 200
    assert "n17" in fleet.says("nodes", token=token), "a hub proves that it knows this token, too"
    assert fleet.andon("nodes", token=token[::-1]).returncode == 4, "and sent is no other"
    log = next((fleet.folder / "hub").rglob("audit.jsonl")).read_text()
    done = [json.loads(line) for line in log.splitlines() if '"token ops"' in line]
    assert {(one["action"], one["key"]) for one in done} >= {("drain", "named")}
    assert fleet.andon("token", "add", "ops", "--role", "read").returncode == 6
    live = socketio.Client(reconnection=False)
    live.connect(fleet.hub.url, auth={"token": token})
    fleet.says("token", "remove", "ops")
    wait_for(lambda: not live.connected, 60, what="the live connection ends with its token")
    assert fleet.hub.ask("/api/nodes", **bearer).status == 401
    assert fleet.andon("token", "remove", "ops").returncode == 5


def heard_of(fleet: FleetUnderTest, node: str) -> list[str]:
    """Returns who told people of a node, for each message about its devices."""
    return [path for path, _ in messages_about(fleet, node)]


def messages_about(fleet: FleetUnderTest, node: str) -> list[tuple[str, bytes]]:
    got = [(one.path, one.body) for one in fleet.people.got if node.encode() in one.body]
    return [one for one in got if b"does not report" not in one[1]]  # on a busy machine it may not


def test_the_hub_notifies_people_of_its_nodes_and_the_node_does_not(fleet: FleetUnderTest) -> None:
    own = own_folders(fleet.folder / "n22")
    more = {"ANDON_HUB_TOKEN": fleet.added("n22"), "ANDON_NODE": "n22",
            "ANDON_SIMULATE_FAULTS": "lost:0@1"}  # fmt: skip
    command = [
        sys.executable,
        "-m",
        "andon.cli",
        "agent",
        "--hub",
        fleet.hub.url,
        "--simulate",
        "1",
        "--quiet",
        "--config",
        notifying(fleet.folder, "node", fleet.people),
    ]
    agent = subprocess.Popen(command, env={**os.environ, **own, **more})
    try:
        wait_for(lambda: heard_of(fleet, "n22"), 90)
        told = messages_about(fleet, "n22")[0][1]
        assert b"CRITICAL n22: GPU 0" in told
        wait_for(lambda: not server().sql("SELECT * FROM news", server().schema("hub")))
    finally:
        agent.terminate()
        agent.wait(30)
    assert heard_of(fleet, "n22") == ["/hub"]
    fleet.says("nodes", "remove", "n22")


def test_what_a_node_reports_again_is_told_once(fleet: FleetUnderTest) -> None:
    token, url = fleet.added("n23"), server().schema("hub")
    first = notice(replace(HOT, message="n23 is hot"))
    told = notice(replace(HOT, id="thermal@GPU-9#1", message="n23 told this itself"))
    for sequence, parts in ((1, [(first, False)]), (2, [(first, False), (told, True)]),
                            (3, [(over(HOT), False)]), (4, [(first, False)])):  # fmt: skip
        rows = [{"notice": to_json(one), "told": mark} for one, mark in parts]
        digest = encoded(Digest("n23", "m", "1.0"))
        header = HeartbeatHeader("s", sequence, time.time())
        body = heartbeat_body(header, digest, deflated({}), b"", deflated({"notices": rows}))
        answer = fleet.post("/api/heartbeat", body, token).json()
        assert answer["notifies"] is True
        wait_for(lambda: not server().sql("SELECT * FROM news", url))
    wait_for(lambda: len(heard_of(fleet, "n23")) >= 2)
    bodies = [body for _, body in messages_about(fleet, "n23")]
    assert [b"n23 is hot" in body for body in bodies] == [True, False]
    assert b"Resolved" in bodies[1] or b"RESOLVED" in bodies[1]
    assert not any(b"told this itself" in body for body in bodies)
    fleet.says("nodes", "remove", "n23")


def test_blocks_of_a_node_are_its_history(fleet: FleetUnderTest) -> None:
    token, begin = fleet.added("n20"), int(time.time() // 600 - 2) * 600
    device = Device("GPU-1", 0, "sim", "H200")
    values = [n % 90 for n in range(600)]
    body = pack_points([n * 1000 for n in range(600)], values)
    block = ("GPU-1", "utilization_percent", Tier.RAW, begin * 1000, body)
    part = packed_past(PastPart((device,), [block]))
    for _ in range(2):  # what is sent twice is there once
        assert fleet.post("/api/past", part, token).status == 200
    report = deflated({"snapshot": snapshot_to_json(replace(farm(), node="n20", at=time.time()))})
    digest = encoded(Digest("n20", "m", "1.0", gpus=8))
    beat = heartbeat_body(HeartbeatHeader("s", 1, time.time()), digest, report, b"")
    assert fleet.post("/api/heartbeat", beat, token).status == 200
    asked = f"metric=utilization_percent&since={begin}&until={begin + 600}&points=1"
    found = fleet.get(f"/api/nodes/n20/devices/GPU-1/history?{asked}").json()["buckets"]
    assert [(one["count"], one["min"], one["max"]) for one in found] == [(600, 0, 89)]
    assert fleet.get("/api/nodes/n17/history/devices").json() != found


def test_runs_of_nodes_are_listed_and_searched_over_all(
    fleet: FleetUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = fleet.added("n24")
    gpu = RunDevice("GPU-7", 7, "7", "H100", 80 << 30)
    row = RunRow("kqzvmtra", "finetune", RunKind.COMMAND, RunState.SUCCEEDED, "other", 1000.0,
                 "/etc/passwd", "ada", 1060.0, 60.0, "python train.py --key s3cret",
                 (gpu,))  # fmt: skip
    assert fleet.post("/api/past", packed_past(PastPart(runs=[row])), token).status == 200
    body = heartbeat_body(
        HeartbeatHeader("s", 1, time.time()),
        encoded(Digest("n24", "m", "1.0", gpus=8)),
        deflated({"snapshot": snapshot_to_json(replace(farm(), node="n24", at=time.time()))}),
        b"",
    )
    assert fleet.post("/api/heartbeat", body, token).status == 200
    for path in ("/api/nodes/n24/runs", "/api/runs?search=finetune"):
        (found,) = fleet.get(path).json()["items"]
        assert (found["id"], found["node"], found["command"]) == (row.id, "n24", row.command)
    assert fleet.get("/api/nodes/n17/runs").json()["items"] == []
    assert row.id in fleet.says("runs", "--node", "n24")
    for path in (f"/api/runs/{row.id}", f"/api/nodes/n24/runs/{row.id}"):
        known = fleet.get(path).json()
        assert (known["user"], known["duration_seconds"], known["path"]) == ("ada", 60.0, None)
        assert (known["gpu_info"]["count"], known["downloadable"]) == (1, False)
        assert "is on n24" in known["telemetry_reason"]
    noted = fleet.get(f"/api/nodes/n24/runs/{row.id}/events").json()
    assert (noted["items"], "is on n24" in noted["note"]) == ([], True)
    for path in (f"/api/runs/{row.id}/record", f"/api/nodes/n24/runs/{row.id}/record"):
        refused = fleet.get(path)
        assert (refused.status, "is on n24" in refused.body) == (503, True), path
    reader = fleet.says("token", "add", "reader", "--role", "read").strip()
    monkeypatch.setenv("ANDON_TOKEN", reader)  # of whoever writes the record of a cluster's job
    ended = ClusterJob(
        "default/x", "x", JobState.SUCCEEDED, "ada", 1.0, where="n24", started=1000.0
    )
    assert pod_samples(fleet.hub.url, ended, row.id) == ((gpu,), [], None)
    none = "no andon agent on n24 recorded it"
    assert pod_samples(fleet.hub.url, ended, "kqzvmtr") == ((), [], none)
    gone = pod_samples(fleet.hub.url, replace(ended, where="n99"), row.id)
    assert gone == ((), [], "no andon agent on n99 reports to the hub")
    seen = fleet.hub.ask("/api/runs", Authorization=f"Bearer {reader}")
    assert (row.id in seen.body, "s3cret" in seen.body) == (True, False)
    hidden = fleet.hub.ask("/api/runs?search=s3cret", Authorization=f"Bearer {reader}")
    assert hidden.json()["items"] == []
    fleet.says("nodes", "remove", "n24")


def test_runs_of_one_node_do_not_hide_others_and_go_with_its_history(fleet: FleetUnderTest) -> None:
    evil, now = fleet.added("n25"), time.time()
    row = RunRow("evilevil", "large", RunKind.COMMAND, RunState.SUCCEEDED, "n25", now, "", "eve",
                 params={"p": "x" * 900_000})  # fmt: skip
    for one in (row, replace(row, id="later", began=9e10)):
        assert fleet.post("/api/past", packed_past(PastPart(runs=[one])), evil).status == 200
    deep = packed_past(PastPart(runs=[replace(row, params={"a": 1})]))
    deep = deep.replace(b'{"a":1}', b'{"a":' * 900 + b"{}" + b"}" * 900)
    length = len(deep) - len(SCHEMA) - LENGTH.size
    deep = SCHEMA + LENGTH.pack(length) + deep[len(SCHEMA) + LENGTH.size :]
    assert fleet.post("/api/past", deep, evil).status == 422
    assert fleet.post("/api/heartbeat", beat(1, "n25"), evil).status == 200
    (found,) = fleet.get("/api/nodes/n25/runs").json()["items"]
    assert (found["id"], found["params"]) == (row.id, {})
    assert "evilevil" in fleet.says("runs")
    fleet.says("nodes", "remove", "n25")
    assert "evilevil" in fleet.says("runs"), "its history stays"
    assert "all that it sent" in fleet.andon("nodes", "remove", "n25", "--with-history").stderr
    assert "evilevil" not in fleet.says("runs")
    for words, reason in ((("remove", "n99", "--with-history"), "no node 'n99'"),
                          (("remove", "hub", "--with-history"), "a hub's own machine"),
                          (("add", "hub"), "a hub's own machine")):  # fmt: skip
        assert reason in fleet.andon("nodes", *words).stderr


def test_a_silent_node_is_silent_and_its_devices_are_unknown(fleet: FleetUnderTest) -> None:
    token = fleet.added("n21")
    job = JobView(7, "7", "train", JobState.RUNNING, "x", "/", "ada", 1.0, "1")
    snapshot = snapshot_to_json(replace(farm(), node="n21"))
    report = deflated({"snapshot": snapshot, "jobs": [job], "leases": LeaseList(1.0)})
    digest = encoded(Digest("n21", "m", "1.0", gpus=8, allocated=3))
    beat = heartbeat_body(HeartbeatHeader("s", 1, time.time()), digest, report, b"")
    assert fleet.post("/api/heartbeat", beat, token).status == 200
    assert fleet.get("/api/nodes/n21/devices").status == 200
    reported = time.time()
    # Its silence is counted on a steady clock, which no test can move.
    wait_for(lambda: "Silent for" in fleet.shown("n21"), 60)
    states = fleet.get("/api/nodes/n21/devices").json()["items"]
    assert {one["state"] for one in states} == {"unknown"}
    (since,) = {one["since"] for one in states}
    assert since == pytest.approx(reported, abs=5), "since its last report, by the hub's clock"
    silent = "n21 is silent: no report for "
    assert states[0]["reason"].startswith(silent)
    ((state, reason),) = _job_states(fleet)
    assert (state, str(reason).startswith(silent)) == ("unknown", True)
    note = fleet.get("/api/nodes/n21/leases").json()["note"]
    assert note.endswith("there were no leases when it last reported")
    back = heartbeat_body(HeartbeatHeader("s", 2, time.time()), digest, report, b"")
    assert fleet.post("/api/heartbeat", back, token).status == 200
    wait_for(lambda: "Healthy ✓" in fleet.shown("n21"), 20)
    assert _job_states(fleet) == [("running", None)], "its next report says what became of it"


def _job_states(fleet: FleetUnderTest) -> list[tuple[str, str | None]]:
    found = fleet.get("/api/nodes/n21/jobs").json()["jobs"]
    return [(one["state"], one["reason"]) for one in found]
