"""What can be the matter with a GPU, played at once on one node, and what each surface says of it.

`SCENARIOS` is a table: one row, one device of the stand-in node. `SURFACES` is another: a name, and
a function that asks one command, route or view and gives its account of every device. To add a
scenario, add a row: how its device is at first, what happens to it, and what everybody must say. To
add a surface (the board's headline, its tiles, its filter), add a function that returns a `Said`
for each label; leave None what it does not say. `tests/integration/explain/test_one_story.py` plays
all of them and compares every surface with REST.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from andon.alerts.rules.lamps import LampBoard
from andon.cli.show.cells import ASLEEP, LAMPS
from andon.cli.sources import node_of
from andon.cli.terminal import Choices
from andon.explain.conditions.rulebook import Rulebook
from andon.model.lamp import Lamp
from andon.tui.scene import Scene, with_snapshot
from andon.tui.sources.feed import Feed
from tests.integration.parts import wait_until
from tests.integration.serving import Served, serving
from tests.standin import Fault, StandIn, StandInProcess, hung, lost
from tests.support import standing_clock
from tests.support.homes import own_folders

GIB = 1 << 30
HELD = 40 * GIB
PROGRAM = "finetune.py"
LONG_ENOUGH_SECONDS = 100.0  # for what must fire


class Said(Struct, frozen=True):
    """What one surface says of one device; None where it says nothing of the kind."""

    lamp: str | None = None
    since: float | None = None  # UTC: since when it does not answer
    who: frozenset[str] | None = None  # users on it, or last on it
    programs: frozenset[str] | None = None  # as people call them


Account = Mapping[str, Said]
"""What one surface says of all devices, by label."""


class Scenario(Struct, frozen=True):
    """One device: what happens to it, and what everyone must say."""

    name: str
    expected: Said = Said()
    changes: Mapping[str, Any] = {}  # fields of the device
    faults: tuple[Callable[[int], Fault], ...] = ()
    soon: bool = False  # happens last: its alert is still pending
    silenced: bool = False
    ends: bool = False  # the process on it ends, and its memory stays
    process: str = "steady"  # those with the same name share one


SCENARIOS = (
    Scenario("hung", Said(lamp="amber"), faults=(lambda n: hung(device=n),)),
    Scenario("lost", Said(lamp="red"), faults=(lambda n: lost(device=n),)),
    Scenario("hot", Said(lamp="red"), changes={"temperature": 95}),
    Scenario("silenced", changes={"temperature": 95}, silenced=True),
    Scenario("pending", Said(lamp="ring"), changes={"temperature": 82}, soon=True),
    Scenario("left behind", Said(who=frozenset()), ends=True, process="ending"),
    Scenario("several GPUs, the first", Said(lamp="green"), process="wide"),
    Scenario("several GPUs, the second", Said(lamp="green"), process="wide"),
)


@dataclass
class Stage:
    """The node with its server, on which all scenarios have happened."""

    served: Served
    node: StandIn
    environment: Mapping[str, str]
    user: str

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "andon.cli", *words],
            capture_output=True, text=True, timeout=120, env=dict(self.environment), check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))

    def rest(self, path: str) -> Any:
        return self.served.ask(path, **self.served.bearer).json()

    def post(self, path: str, body: object) -> None:
        text = json.dumps(body)
        more = {"Content-Type": "application/json", **self.served.bearer}
        answer = self.served.ask(path, "POST", text, **more)
        assert answer.status == 200, answer.body

    def label(self, scenario: Scenario) -> str:
        return str(SCENARIOS.index(scenario))


# What each surface says.


def rest(stage: Stage) -> Account:
    """The route that the board's tiles come from, and the snapshot."""
    lamps = {one["index"]: one["lamp"] for one in stage.rest("/api/board")["devices"]}
    return _of_snapshot(stage.rest("/api/snapshot"), lamps)


def status_json(stage: Stage) -> Account:
    return _of_snapshot(stage.json("status"), {})


def status(stage: Stage) -> Account:
    """The table: the lamp by its mark, who by name."""
    marks = {mark: str(lamp) for lamp, (mark, _) in LAMPS.items()} | {ASLEEP[0]: str(Lamp.GREY)}
    found = {}
    for line in stage.run("status").splitlines():
        if row := re.match(r"(\S) (\d+)  ", line):
            found[row[2]] = Said(marks[row[1]], who=_users_in(line, stage.user))
    return found


def why(stage: Stage) -> Account:
    return {str(d["index"]): Said(d["lamp"]) for d in stage.json("why")["devices"]}


def ps(stage: Stage) -> Account:
    found: dict[str, Said] = {}
    for row in stage.json("ps")["processes"]:
        if row["pid"] is not None:
            users, programs = frozenset({row["user"]}), frozenset({row["program"]})
            found[str(row["index"])] = Said(who=users, programs=programs)
    return found


def who(stage: Stage) -> Account:
    """The users of devices; a device that does not answer is not in it."""
    people = stage.json("who")["users"]
    return {
        str(index): Said(who=frozenset(p["user"] for p in people if index in p["devices"]))
        for index in {index for person in people for index in person["devices"]}
    }


def top(stage: Stage) -> Account:
    """Its rows, without a terminal."""
    feed = Feed(node_of(Choices()), Rulebook(), 1.0)
    assert feed.is_server, "it takes the server's snapshots"
    feed.start()
    tick = feed.first(10.0)
    feed.close()
    assert tick is not None
    snapshot = tick.snapshot
    assert snapshot is not None
    lit = LampBoard(snapshot.at, "", Lamp.GREEN, node_of(Choices()).live.lamps(snapshot))
    scene = with_snapshot(Scene(), snapshot, Rulebook(), lit)
    return {
        entry.label: Said(
            str(entry.lamp.lamp) if entry.lamp else None,
            None if entry.status.answered else entry.status.since,
            frozenset((*entry.status.last_users, *(p.user or "" for p in entry.status.processes))),
        )
        for entry in scene.entries
    }


SURFACES: Mapping[str, Callable[[Stage], Account]] = {
    "andon": status,
    "andon --json": status_json,
    "why": why,
    "ps": ps,
    "who": who,
    "top": top,
}


def _of_snapshot(snapshot: Any, lamps: Mapping[int, str]) -> Account:
    found = {}
    for device in snapshot["devices"]:
        running = device["processes"]
        found[str(device["index"])] = Said(
            lamps.get(device["index"]),
            None if device["state"] == "ok" else device["since"],
            frozenset((*device["last_users"], *(one["user"] for one in running))),
            frozenset(one["program"] for one in running) if running else None,
        )
    return found


def _users_in(line: str, user: str) -> frozenset[str]:
    return frozenset({user} if re.search(rf"\b{re.escape(user)}\b", line) else ())


# How it is played.


@contextmanager
def played(folder: Path, library: Path) -> Iterator[Stage]:
    """All scenarios, on a server whose alerts know them for long enough."""
    node, clock = StandIn(folder / "standin"), folder / "clock"
    standing_clock.move(clock, 0.0)
    surroundings: dict[str, Any] = {
        **node.environment(library),
        **own_folders(folder),
        "COLUMNS": "150",
        standing_clock.FILE: str(clock),
    }
    with _processes(folder) as started:
        node.write(
            tuple(
                replace(device, used=HELD, gpu_utilisation=0 if scenario.ends else 80,
                        sm_clock=1980,
                        processes=(StandInProcess(started[scenario.process].pid, HELD, sm=80),))
                for scenario, device in zip(SCENARIOS, StandIn.devices(len(SCENARIOS)), strict=True)
            )
        )  # fmt: skip
        with serving(
            folder / "state", simulate=None, module="tests.support.standing_clock", **surroundings
        ) as served:
            surroundings["ANDON_PORT"] = str(served.port)
            user = _the_user(served)
            stage = Stage(served, node, surroundings, user)
            _happen(stage, started, [one for one in SCENARIOS if not one.soon])
            standing_clock.move(clock, LONG_ENOUGH_SECONDS)
            wait_until(lambda: _expected_lamps(stage), "the alerts")
            for scenario in SCENARIOS:
                if scenario.silenced:
                    body = {"device": stage.label(scenario), "seconds": 86_000, "by": "me"}
                    stage.post("/api/silences", body)
            _happen(stage, started, [one for one in SCENARIOS if one.soon])
            yield stage


@contextmanager
def _processes(folder: Path) -> Iterator[Mapping[str, subprocess.Popen[bytes]]]:
    """One for each name in the table; they only exist."""
    script = folder / PROGRAM
    script.write_text("import time\ntime.sleep(3600)\n")
    names = dict.fromkeys(scenario.process for scenario in SCENARIOS)
    started = {name: subprocess.Popen([sys.executable, str(script)]) for name in names}
    try:
        yield started
    finally:
        for process in started.values():
            process.kill()
            process.wait()


def _the_user(served: Served) -> str:
    """Whose processes these are, once the server has named them on every device."""

    def users() -> set[str | None]:
        devices = served.ask("/api/snapshot", **served.bearer).json()["devices"]
        each = [{one["user"] for one in device["processes"]} for device in devices]
        return set.intersection(*each) if each else set()

    wait_until(lambda: None not in users() and len(users()) == 1, "the names of the processes")
    (user,) = users()
    assert user is not None
    return user


def _happen(
    stage: Stage, started: Mapping[str, subprocess.Popen[bytes]], those: list[Scenario]
) -> None:
    """Until the server has seen it."""
    for scenario in those:
        place = SCENARIOS.index(scenario)
        if scenario.ends:
            started[scenario.process].send_signal(signal.SIGKILL)
            started[scenario.process].wait()
            stage.node.change(place, processes=())
        stage.node.change(place, **scenario.changes)
    faults = [fault(SCENARIOS.index(one)) for one in those for fault in one.faults]
    stage.node.set_faults(*stage.node.faults, *faults)
    wait_until(lambda: all(_is_noticed(stage, one) for one in those), "what happened")


def _is_noticed(stage: Stage, scenario: Scenario) -> bool:
    """Whether there is an alert about it; a busy GPU has some for information, whatever happens."""
    if not (scenario.changes or scenario.faults or scenario.ends):
        return True
    found = stage.rest(f"/api/alerts?device={stage.label(scenario)}")["alerts"]
    return any(one["state"] != "resolved" and one["level"] != "info" for one in found)


def _expected_lamps(stage: Stage) -> bool:
    said = rest(stage)
    known = [one for one in SCENARIOS if one.expected.lamp and not one.soon]
    return all(said[stage.label(one)].lamp == one.expected.lamp for one in known)
