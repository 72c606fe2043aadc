"""Real servers on a machine of their own, for whom every role is asked: one of root with users, a
hub with a node that reports, a demo."""

import itertools
import json
import os
import re
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.explain.conditions.rulebook import Rulebook
from andon.fleet.rules.digest import Digest, NodeTask, encoded
from andon.fleet.rules.heartbeat import HeartbeatHeader, deflated, heartbeat_body
from andon.fleet.rules.past import PastPart, packed_past
from andon.fleet.rules.thresholds import changes_of
from andon.history.rules.intervals import UsageInterval
from andon.host.state.user_folder import runs_folder
from andon.jobs.acts import cancel
from andon.jobs.folder import open_jobs_folder
from andon.jobs.queue import Queue
from andon.leases.rules.capacity import Surroundings, capacities
from andon.leases.rules.verdict import verdicts
from andon.model.codec import to_json
from andon.model.device import Device, Snapshot
from andon.model.job.device_request import DeviceRequest
from andon.model.job.facts import JobState, JobView
from andon.model.job.spec import JobSpec
from andon.model.lease_list import LeaseList
from andon.model.run.record import RunDevice, RunKind, RunRow, RunState
from andon.model.wire import snapshot_to_json
from tests.integration.serving import Answer, Served, serving
from tests.support.notices import HOT
from tests.support.postgres import QUICK, Server
from tests.support.run_records import begin, end, sample, write_record
from tests.support.snapshots import farm, uuid
from tests.support.waiting import wait_for

SECRETS = {"A": "alices-secret", "R": "roots-secret"}
SECRET, RUN, NODE, ALICE = SECRETS["A"], "alicerun", "n17", 1234
WAITING_JOBS, ENDED_JOBS = 40, 10
PORT = 26366
KINDS = ("lease", "silence", "alert", "job")
DAY = 86_400.0
WARM = "[alerts]\nthermal_celsius = 1\n[sampling]\ninterval = 0.5\n"
"""An alert for each device, from the first reading on."""
USERS = r"""
for one in alice:1234 dora:1235; do
    name=${one%:*} uid=${one#*:}
    echo "$name:x:$uid:$uid::/home/$name:/bin/sh" >> /etc/passwd
    echo "$name:x:$uid:" >> /etc/group
    mkdir -p /home/$name && chown $uid:$uid /home/$name && chmod 700 /home/$name
done
unset XDG_STATE_HOME XDG_CONFIG_HOME ANDON_SIMULATE_SCENARIO
export HOME=/root PYTHONPATH=$PYTHONPATH:$TESTS
rm -rf /root/.local/state/andon /root/.config/andon  # of the copy, not of here
andon setup > /dev/null
"""
"""The beginning of a script for `on_a_machine`."""
Keys = Mapping[str, str | None]
Changes = Callable[[int], None]
"""Changes what a server publishes; the argument counts."""


class RoleServer(Struct):
    """A server, the keys of each role by rising rights, and how its objects are called."""

    served: Served
    keys: Keys
    names: dict[str, str]
    changes: Changes = lambda _: None
    fresh: frozenset[str] = frozenset()  # of these kinds each request gets a new one of alice's
    numbers: Iterator[int] = itertools.count(2)
    ended: Iterator[int] = itertools.count(2 + WAITING_JOBS)

    def ask(self, role: str, method: str, path: str, body: object = None) -> Answer:
        key = self.keys[role]
        headers = {} if body is None else {"Content_Type": "application/json"}
        headers |= {} if key is None else {"Authorization": f"Bearer {key}"}
        headers |= {"X_Forwarded_For": "10.0.0.7"} if role == "forwarded" else {}
        text = None if body is None else json.dumps(body)
        return self.served.ask(path, method, text, **headers)

    def lease(self, role: str = "alice") -> tuple[str, int]:
        """A new lease, and its fence."""
        found = self.ask(role, "POST", "/api/leases", {"gpus": 1, "seconds": 600})
        assert found.status == 201, found.body
        return found.json()["id"], found.json()["fence"]

    def silence(self) -> str:
        made = self.ask("alice", "POST", "/api/silences", {"seconds": 60, "rule": "fan"})
        return str(made.json()["id"])


@contextmanager
def server_of_root(folder: Path) -> Iterator[RoleServer]:
    """alice has a run, and jobs for tomorrow, as root has; dora has nothing."""
    for user, state in (("root", folder / "root"), ("alice", None)):
        subprocess.run(as_user(user, state, "-m", __name__), check=True, timeout=60)
    with serving(folder / "root", simulate=4, port=PORT, **warm(folder)) as served:
        found = RoleServer(served, people(served), {"job": "1", "run": RUN}, fresh=frozenset(KINDS))
        found.names["alert"] = _alert(found)
        found.changes = lambda count: _changes_of_alice(found, count)
        yield found


@contextmanager
def replay(folder: Path) -> Iterator[RoleServer]:
    """A server of root that plays a recording with a program of alice's."""
    recording, now = folder / "recording.jsonl", time.time()
    played = [json.dumps(snapshot_to_json(recorded(now + second))) for second in range(600)]
    recording.write_text("\n".join(played))
    options = ("--replay", str(recording))
    environment = warm(folder)
    with serving(folder / "root", *options, simulate=None, port=PORT, **environment) as served:
        found = RoleServer(served, people(served), {"job": "1", "run": RUN})
        found.fresh = frozenset({"alert", "silence"})
        found.names["alert"] = _alert(found)
        found.changes = lambda count: _change_alert(found, count)
        # The history is written every few seconds.
        wait_for(lambda: served.ask("/api/usage", **served.bearer).json()["items"], 60)
        yield found


@contextmanager
def outside(folder: Path) -> Iterator[RoleServer]:
    """A server for other machines, without a history."""
    options = ("--host", "0.0.0.0", "--no-history")
    with serving(folder / "root", *options, simulate=2, port=PORT, **warm(folder)) as served:
        keys = {"nobody": None, "forwarded": None, "token": served.token}
        yield RoleServer(served, keys, {"job": "1", "run": RUN})


def warm(folder: Path) -> dict[str, Any]:
    """In which every device has an alert from the first reading on."""
    (folder / "andon.toml").write_text(WARM)
    return {"HOME": "/root", "ANDON_CONFIG": str(folder / "andon.toml")}


def recorded(now: float) -> Snapshot:
    """A machine on which only alice's command line is known."""
    plain = farm()
    first = plain.devices[0]
    processes = tuple(
        replace(one, command=SECRET if one.user == "alice" else None) for one in first.processes
    )
    devices = (replace(first, processes=processes), *plain.devices[1:])
    return replace(plain, node=NODE, at=now, simulated=True, devices=devices)


def _changes_of_hub(server: RoleServer, count: int) -> None:
    _change_lease(server)
    _change_alert(server, count)


def _changes_of_alice(server: RoleServer, count: int) -> None:
    """A job, a run, a lease and an alert."""
    server.ask("alice", "POST", f"/api/jobs/1/{('hold', 'resume')[count % 2]}", {})
    path = Path(f"/home/alice/.local/state/andon/runs/{count}.jsonl")
    write_record(path, begin(id=f"run{count:05}", command=SECRET), sample(1), end())
    os.chown(path, ALICE, ALICE)
    _change_lease(server)
    _change_alert(server, count)


def _change_lease(server: RoleServer) -> None:
    name, fence = server.lease()
    server.ask("alice", "DELETE", f"/api/leases/{name}?fence={fence}")


def _change_alert(server: RoleServer, count: int) -> None:
    path = f"/api/alerts/{server.names['alert']}/acknowledge"
    server.ask("token", *(("POST", path, {"by": "x"}), ("DELETE", path))[count % 2])


@contextmanager
def hub(folder: Path) -> Iterator[RoleServer]:
    """A hub of root, whose node n17 has an alice, too: another one."""
    (folder / "postgres").mkdir()
    database = Server(folder / "postgres", settings=QUICK).init().start()
    environment = {"ANDON_NODE": "hub", **warm(folder)}
    try:
        with serving(
            folder / "hub", "--store", database.url(), simulate=2, port=PORT, **environment
        ) as served:
            found = RoleServer(served, {"token": served.token}, {"job": "1", "run": RUN})
            token = found.ask("token", "POST", "/api/nodes", {"name": NODE}).json()["token"]
            named = {role: _named_token(found, role) for role in ("read", "operate", "admin")}
            keys = {**named, **people(served)}
            order = ("nobody", "forwarded", "dora", "alice", "read", "operate", "admin", "token")
            found.keys = {role: keys[role] for role in order}
            found.names["alert"] = _alert(found)
            found.changes = lambda count: _changes_of_hub(found, count)
            found.fresh = frozenset(KINDS) - {"job"}
            with reporting_node(served, token):
                yield found
    finally:
        database.stop()


@contextmanager
def demo(_folder: Path, port: int = PORT) -> Iterator[RoleServer]:
    """Everyone sees everything; its visitors sign in by the link that it prints."""
    command = [sys.executable, "-P", "-m", "andon.cli", "demo", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = process.stdout.readline() + process.stdout.readline()
        found, link = re.search(r"(https?://\S+):(\d+)", lines), re.search(r"#code=(\S+)", lines)
        assert found is not None, lines
        assert link is not None, lines
        served = Served(f"{found[1]}:{found[2]}", int(found[2]), Path("/nowhere"), process, lines)
        keys = {"nobody": None, "forwarded": None, "visitor": _exchanged(served, link[1])}
        made = RoleServer(served, keys, {})
        runs = made.ask("visitor", "GET", "/api/runs").json()["items"]
        jobs = made.ask("visitor", "GET", "/api/jobs").json()["jobs"]
        going = [one for one in runs if one["progress"] is not None]
        lasting = max(going, key=lambda one: one["progress"]["expected_end"] or 0.0)
        made.names["run"] = lasting["id"]  # one that ends is heard of no more
        made.names["job"] = next(str(one["number"]) for one in jobs if one["ended"] is not None)
        yield made
    finally:
        process.terminate()
        process.communicate(timeout=60)


SERVERS: Mapping[str, Callable[[Path], AbstractContextManager[RoleServer]]] = {
    "root": server_of_root,
    "replay": replay,
    "outside": outside,
    "hub": hub,
    "demo": demo,
}


def people(served: Served) -> Keys:
    """Nobody, here and through a proxy, two users of this machine by their links, and the token."""
    keys: dict[str, str | None] = {"nobody": None, "forwarded": None}
    for name in ("dora", "alice"):
        command = as_user(name, None, "-m", "andon.cli", "open", "--print")
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        keys[name] = _exchanged(served, said.stdout.strip().rpartition("code=")[2])
    return {**keys, "token": served.token}


def _exchanged(served: Served, code: str) -> str:
    origin = {"Content_Type": "application/json", "Origin": served.url}
    host = served.url.partition("//")[2]
    answer = served.ask("/api/session", "POST", json.dumps({"code": code}), Host=host, **origin)
    return str(answer.json()["secret"])


def _named_token(server: RoleServer, role: str) -> str:
    made = server.ask("token", "POST", "/api/tokens", {"name": f"is-{role}", "role": role})
    return str(made.json()["token"])


def _alert(server: RoleServer) -> str:
    """The alert about the heat of the first device."""
    found = list[str]()

    def is_there() -> bool:
        said = server.ask("token", "GET", "/api/alerts?rule=thermal&device=0")
        found[:] = [one["id"] for one in said.json()["alerts"]] if said.status == 200 else []
        return bool(found)

    wait_for(is_there, 60, what="an alert about heat")
    return found[0]


def as_user(user: str, state: Path | None, *words: str) -> list[str]:
    """Python as a user of this machine."""
    drop = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"] * (user != "root")
    home = "/root" if user == "root" else f"/home/{user}"
    places = [f"XDG_STATE_HOME={state}"] if state else []
    return [*drop, "env", f"HOME={home}", f"USER={user}", *places, sys.executable, "-P", *words]


# What the node of the hub reports.


@contextmanager
def reporting_node(served: Served, token: str) -> Iterator[None]:
    """n17, as long as the context lasts."""
    past = PastPart(runs=[_reported_run()], uses=[_reported_use()], devices=_devices())
    _send(served, token, "/api/past", packed_past(past))
    begun, over = threading.Event(), threading.Event()
    reporting = threading.Thread(target=_report, args=(served, token, begun, over))
    reporting.start()
    try:
        assert begun.wait(60), NODE
        yield
    finally:
        over.set()
        reporting.join(60)


def _report(served: Served, token: str, begun: threading.Event, over: threading.Event) -> None:
    """Reports again and again: a node that is silent for 15 s is another answer."""
    session = secrets.token_hex(4)
    for number in itertools.count(1):
        now = time.time()
        job = JobView(1, "1", SECRET, JobState.WAITING, SECRET, "/", "alice", now, "1")
        party = replace(HOT.affected[0], user="alice", command=SECRET)
        hot = replace(HOT, subject=uuid(0), device=0, affected=(party,))
        available = verdicts(capacities(recorded(now).devices, Surroundings()), {})
        parts = {
            "snapshot": snapshot_to_json(recorded(now)),
            "leases": LeaseList(now, devices=available),
            "alerts": [to_json(hot)],
            "jobs": [to_json(job)],
            "thresholds": changes_of(Rulebook()),
        }
        task = NodeTask("alice", SECRET, number)
        digest = encoded(Digest(NODE, "m", "1.0", gpus=8, simulated=True, holders=(task,)))
        header = HeartbeatHeader(session, number, now)
        _send(served, token, "/api/heartbeat", heartbeat_body(header, digest, deflated(parts), b""))
        begun.set()
        if over.wait(2.0):
            return


def _devices() -> Sequence[Device]:
    return [one.device for one in farm().devices[:1]]


def _reported_use() -> UsageInterval:
    now = time.time()
    return UsageInterval(uuid(0), 4242, now - 900, "alice", SECRET, now - 900, now - 600, 1 << 30)


def _reported_run() -> RunRow:
    now, gpu = time.time(), RunDevice("GPU-7", 7, "7", "H100", 80 << 30)
    return RunRow(RUN, "alice-run", RunKind.COMMAND, RunState.SUCCEEDED, NODE, now - 60,
                  "/etc/passwd", "alice", now, 60.0, SECRET, (gpu,))  # fmt: skip


def _send(served: Served, token: str, path: str, body: bytes) -> None:
    connection = HTTPConnection("127.0.0.1", served.port, timeout=60)
    connection.request("POST", path, body, {"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status == 200, said


def main() -> None:
    """As a user of the machine: jobs for tomorrow, some that were cancelled, and a run."""
    user = os.environ["USER"]
    secret, now, folder = f"{user}s-secret", time.time(), open_jobs_folder()
    one = JobSpec(0, secret, (secret,), "/", DeviceRequest(), now, user=user, begin_at=now + DAY)
    folder.submit([one] * (1 + WAITING_JOBS + ENDED_JOBS))
    queue = Queue(folder)
    for number in range(2 + WAITING_JOBS, 2 + WAITING_JOBS + ENDED_JOBS):
        cancel(folder, queue.jobs[number], queue.statuses[number])
    runs_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
    name = RUN if user == "alice" else "rootsrun"
    begun = begin(id=name, name=f"{user}-run", command=secret)
    write_record(runs_folder() / "a.jsonl", begun, sample(1), end())


if __name__ == "__main__":
    main()
