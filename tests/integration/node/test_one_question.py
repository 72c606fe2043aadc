"""One question has one answer: commands, REST, the board's data, Python, metrics and a hub that the
server reports to agree at one moment, and again after a restart of the server."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from msgspec.structs import replace

from tests.integration.fleet.reporting import added
from tests.integration.parts import wait_until
from tests.integration.serving import Served, serving
from tests.standin import StandIn, StandInProcess, lost
from tests.support.homes import own_folders
from tests.support.postgres import url_of

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="the stand-in is an ELF library"),
]

GIB = 1 << 30
ANDON = (sys.executable, "-m", "andon.cli")
LOST, NODE = 2, "n17"
Answers = dict[str, Any]
"""What one surface says, by question."""
MOMENTS = ("before", "after a restart")
QUESTIONS = {
    "how many GPUs": 0.0,
    "total memory of GPU 0": 0.0,
    "used memory of GPU 1": 0.0,
    "free memory of GPU 1": 0.0,
    "utilisation of GPU 1": 0.0,
    "mean utilisation": 0.1,  # one surface rounds it
    "temperature of GPU 1": 0.0,
    "power of GPU 1": 0.0,
    "power limit of GPU 1": 0.0,
    "how busy GPU 1 is, in a word": 0.0,
    "uuid of GPU 2": 0.0,
    "state of GPU 2": 0.0,
    "since when GPU 2 is lost": 1.5,  # seconds: evidence is counted from another tick
    "lamp of GPU 2": 0.0,
    "why GPU 2 is red": 0.0,
    "processes of GPU 1": 0.0,
    "who is on GPU 1": 0.0,
    "who holds GPU 0": 0.0,
    "leases": 0.0,
    "available GPUs": 0.0,
    "critical alerts that fire": 0.0,
    "the worst level": 0.0,
    "jobs that wait": 0.0,
    "the job's place in the queue": 0.0,
    "runs that go on": 0.0,
    "mean utilisation of the run": 0.1,
    "GPU hours, counted back from now": 10.0,  # seconds: what is used is written every five
    "energy per GPU second": 1.0,
    "mean utilisation of GPU 1 over the last hour": 0.1,
    "version of the driver": 0.0,
    "simulated": 0.0,
}
"""Each question, and by how much two answers may differ."""
PYTHON = """
import json, andon
found = andon.snapshot()
monitor = andon.get_gpu_monitor()
gpus = {one.index: one for one in monitor.query_gpus().gpus}
metrics = {one.device_id: one for one in monitor.collect_metrics()}
busy, broken = found.devices[1], found.devices[2]
print(json.dumps({
    "how many GPUs": len(found.devices),
    "total memory of GPU 0": found.devices[0].device.memory_total_bytes,
    "used memory of GPU 1": metrics[1].memory_used_bytes,
    "free memory of GPU 1": busy.sample.memory_free_bytes,
    "utilisation of GPU 1": gpus[1].utilization_percent,
    "mean utilisation": sum(one.utilization_percent for one in gpus.values()) / len(gpus),
    "temperature of GPU 1": gpus[1].temperature_c,
    "power of GPU 1": gpus[1].power_draw_w,
    "power limit of GPU 1": metrics[1].power_limit_watts,
    "uuid of GPU 2": broken.device.uuid,
    "state of GPU 2": broken.state,
    "since when GPU 2 is lost": broken.since,
    "processes of GPU 1": [one.pid for one in busy.processes],
    "who is on GPU 1": [one.user for one in busy.processes],
    "available GPUs": monitor.get_available_gpus(),
    "version of the driver": found.versions["driver"],
    "simulated": found.simulated,
}))
"""


class Machine:
    """Three GPUs (held by an idle run, busy, lost), a server, and the surfaces that show them."""

    def __init__(self, surroundings: Mapping[str, str], served: Served) -> None:
        self._surroundings = {**surroundings, "ANDON_PORT": str(served.port)}
        self._served = served

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*ANDON, *words], env=self._env, stderr=subprocess.DEVNULL)

    def cli(self, *words: str) -> Any:
        return json.loads(self.printed(*ANDON, *words, "--json"))

    def printed(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self._env, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.stdout, done.stderr
        return done.stdout

    def rest(self, path: str) -> Any:
        answer = self._served.ask(path, **self._served.bearer)
        assert answer.status == 200, answer.body
        return answer.json()

    def has_fired(self) -> bool:
        return bool(self.rest("/api/alerts")["worst"] == "critical")

    def metrics(self) -> str:
        return self._served.ask("/metrics", **self._served.bearer).body

    @property
    def _env(self) -> dict[str, str]:
        return {**os.environ, **self._surroundings}


class OnHub(Machine):
    """The same machine, as a hub shows it to those who ask from elsewhere."""

    def __init__(self, folder: Path, hub: Served) -> None:
        super().__init__({**own_folders(folder), "ANDON_TOKEN": hub.token}, hub)

    def cli(self, *words: str) -> Any:
        where = ("--json", "--url", self._served.url, "--node", NODE)
        return json.loads(self.printed(*ANDON, *words, *where))

    def rest(self, path: str) -> Any:
        return super().rest(f"/api/nodes/{NODE}{path.removeprefix('/api')}")


def of_snapshot(found: Any) -> Answers:
    """The answers that a snapshot in JSON gives."""
    held, busy, broken = found["devices"]
    return {
        "how many GPUs": 3,
        "total memory of GPU 0": held["memory_total_bytes"],
        "used memory of GPU 1": busy["sample"]["memory_used_bytes"],
        "free memory of GPU 1": busy["sample"]["memory_free_bytes"],
        "utilisation of GPU 1": busy["sample"]["utilization_percent"],
        "temperature of GPU 1": busy["sample"]["temperature_celsius"],
        "power of GPU 1": busy["sample"]["power_watts"],
        "power limit of GPU 1": busy["sample"]["power_limit_watts"],
        "how busy GPU 1 is, in a word": busy["band"],
        "uuid of GPU 2": broken["uuid"],
        "state of GPU 2": broken["state"],
        "since when GPU 2 is lost": broken["since"],
        "processes of GPU 1": [one["pid"] for one in busy["processes"]],
        "who is on GPU 1": [one["user"] for one in busy["processes"]],
        "version of the driver": found["versions"]["driver"],
        "simulated": found["simulated"],
    }


def of_lists(alerts: Any, leases: Any, jobs: Any, runs: Any, why: Any) -> Answers:
    """The answers of the lists, which are alike in commands and REST."""
    fire = [one for one in alerts["alerts"] if one["state"] == "firing"]
    gone = next(one for one in fire if one["rule"] == "device_lost")
    (run,) = [one for one in runs if one["state"] == "running"]
    (job,) = jobs["jobs"]
    return {
        "uuid of GPU 2": gone["subject"],
        "since when GPU 2 is lost": gone["since"],
        "critical alerts that fire": sum(one["level"] == "critical" for one in fire),
        "the worst level": alerts["worst"],
        "lamp of GPU 2": why["devices"][0]["lamp"],
        "why GPU 2 is red": why["devices"][0]["reasons"][0]["sentence"].split(" for ")[0],
        "who holds GPU 0": [one["user"] for one in leases["leases"]],
        "leases": len(leases["leases"]),
        "available GPUs": [one["index"] for one in leases["devices"] if one["kind"] == "free"],
        "jobs that wait": sum(one["state"] == "waiting" for one in jobs["jobs"]),
        "the job's place in the queue": job["position"],
        "runs that go on": 1,
        "mean utilisation of the run": run["mean_utilization_percent"],
    }


def of_usage(users: Any) -> Answers:
    (mine,) = users
    return {
        "GPU hours, counted back from now": time.time() - mine["device_seconds"],
        "energy per GPU second": mine["energy_joules"] / mine["device_seconds"],
    }


def of_commands(on: Machine) -> Answers:
    alerts, leases, jobs = on.cli("alerts"), on.cli("leases"), on.cli("jobs")
    history = on.cli("history", "1", "-m", "utilization_percent", "--since", "1h", "-n", "1")
    who = on.cli("who", "--since", "1h")["users"]
    return {
        **of_lists(alerts, leases, jobs, on.cli("runs")["runs"], on.cli("why", "2")),
        **of_snapshot(on.cli("status")),
        **of_usage(who),
        "mean utilisation of GPU 1 over the last hour": means(history),
    }


def of_reading(on: Machine) -> Answers:
    """Commands that read the devices themselves. With --fresh they ask no one else, and the driver
    tells neither the name of a lost device nor since when it is lost."""
    free = on.cli("free", "--fresh")
    read = of_snapshot(on.cli("status", "--fresh"))
    del read["uuid of GPU 2"], read["since when GPU 2 is lost"]
    return {
        **read,
        "available GPUs": free["free"],
        "who holds GPU 0": [one["by"] for one in free["devices"] if one["kind"] == "held"],
    }


def of_rest(on: Machine) -> Answers:
    summary, now = on.rest("/api/gpu/summary"), on.rest("/api/snapshot")["at"]
    alerts, leases, jobs = on.rest("/api/alerts"), on.rest("/api/leases"), on.rest("/api/jobs")
    path = "/api/devices/1/history?metric=utilization_percent&points=1"
    return {
        **of_lists(
            alerts, leases, jobs, on.rest("/api/runs")["items"], on.rest("/api/devices/2/why")
        ),
        **of_snapshot(on.rest("/api/snapshot")),
        **of_usage(on.rest(f"/api/users?since={now - 3600}")["items"]),
        "mean utilisation": summary["utilization_percent"],
        "mean utilisation of GPU 1 over the last hour": means(
            on.rest(f"{path}&since={now - 3600}")
        ),
    }


def of_hub(on: Machine) -> Answers:
    """By REST and by commands; a run's figures come when it has ended."""
    alerts, leases, jobs = on.rest("/api/alerts"), on.rest("/api/leases"), on.rest("/api/jobs")
    runs, why = on.rest("/api/runs")["items"], on.rest("/api/devices/2/why")
    by_rest = of_lists(alerts, leases, jobs, runs, why) | of_snapshot(on.rest("/api/snapshot"))
    alerts, leases, jobs = on.cli("alerts"), on.cli("leases"), on.cli("jobs")
    runs, why = on.cli("runs")["runs"], on.cli("why", "2")
    by_command = of_lists(alerts, leases, jobs, runs, why) | of_snapshot(on.cli("status"))
    assert by_rest == by_command
    del by_rest["mean utilisation of the run"]
    return by_rest


def of_board(on: Machine) -> Answers:
    """What the board draws: its own document, and the lists of its pages."""
    board = on.rest("/api/board")
    held, busy, broken = board["devices"]
    return {
        "how many GPUs": len(board["devices"]),
        "how busy GPU 1 is, in a word": busy["status"],
        "uuid of GPU 2": broken["uuid"],
        "state of GPU 2": broken["status"],
        "who holds GPU 0": [held["verdict"]["by"]],
        "available GPUs": [
            one["index"] for one in board["devices"] if one["verdict"]["kind"] == "free"
        ],
        "lamp of GPU 2": broken["lamp"],
        "the job's place in the queue": on.rest("/api/jobs")["queue"][0]["position"],
        "simulated": board["simulated"],
    }


def of_python(on: Machine) -> Answers:
    found: Answers = json.loads(on.printed(sys.executable, "-c", PYTHON))
    return found


def of_metrics(on: Machine) -> Answers:
    text = on.metrics()

    def value(name: str, **labels: str) -> float:
        (found,) = values(name, **labels)
        return found

    def values(name: str, **labels: str) -> list[float]:
        lines = re.findall(rf"^andon_{name}(?:{{(.*)}})? (\S+)$", text, re.MULTILINE)
        wanted = [f'{label}="{word}"' for label, word in labels.items()]
        return [float(number) for has, number in lines if all(one in has for one in wanted)]

    (driver,) = set(re.findall(r'andon_gpu_info{.*driver="([^"]*)"', text))
    (state,) = (
        name for name in ("ok", "stale", "lost", "asleep") if value("gpu_state", device="2",
                                                                   state=name)
    )  # fmt: skip
    return {
        "how many GPUs": value("devices"),
        "total memory of GPU 0": value("gpu_memory_total_bytes", device="0"),
        "used memory of GPU 1": value("gpu_memory_used_bytes", device="1"),
        "free memory of GPU 1": value("gpu_memory_free_bytes", device="1"),
        "utilisation of GPU 1": value("gpu_utilization_percent", device="1"),
        "mean utilisation": fmean(values("gpu_utilization_percent")),
        "temperature of GPU 1": value("gpu_temperature_celsius", device="1"),
        "power of GPU 1": value("gpu_power_watts", device="1"),
        "power limit of GPU 1": value("gpu_power_limit_watts", device="1"),
        "state of GPU 2": state,
        "since when GPU 2 is lost": value("gpu_state_since_timestamp_seconds", device="2"),
        "leases": value("leases"),
        "critical alerts that fire": value("alerts", level="critical"),
        "version of the driver": driver,
        "simulated": bool(value("simulated")),
    }


SURFACES: Mapping[str, Callable[[Machine], Answers]] = {
    "commands": of_commands,
    "commands that read": of_reading,
    "REST": of_rest,
    "the board": of_board,
    "Python": of_python,
    "metrics": of_metrics,
}


def means(history: Any) -> float:
    """The mean of all that a history's only series has."""
    text = json.dumps(history)
    (found,) = re.findall(r'"mean": ?([\d.]+)', text)
    return float(found)


@pytest.fixture(scope="module")
def answers(
    tmp_path_factory: pytest.TempPathFactory, library: Path
) -> Mapping[str, Mapping[str, Answers]]:
    """What each surface says at each moment."""
    folder = tmp_path_factory.mktemp("questions")
    standin = StandIn(folder / "standin")
    surroundings = {**standin.environment(library), **own_folders(folder), "COLUMNS": "130"}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"]) as work:
        held, busy, broken = StandIn.devices(3)
        on_it = (StandInProcess(work.pid, 40 * GIB, sm=80),)
        busy = replace(busy, used=40 * GIB, gpu_utilisation=80, temperature=60, power_mw=500_000,
                       processes=on_it)  # fmt: skip
        standin.write((held, busy, broken))
        try:
            return asked(folder / "state", surroundings, standin)
        finally:
            work.kill()


def asked(
    state: Path, surroundings: dict[str, Any], standin: StandIn
) -> Mapping[str, Mapping[str, Answers]]:
    """Asks every surface of a server, and those of the next one."""
    found: dict[str, Mapping[str, Answers]] = {}
    with ExitStack() as going_on:
        store = ("--store", url_of(state.parent))
        hub = going_on.enter_context(serving(state.parent / "hub", *store, simulate=None))
        surroundings = {**surroundings, "ANDON_HUB_TOKEN": added(hub, NODE)}
        on_hub = OnHub(state.parent / "elsewhere", hub)
        for moment in MOMENTS:
            with serving(state, "--hub", hub.url, simulate=None, **surroundings) as served:
                machine = Machine(surroundings, served)
                if not found:
                    going_on.enter_context(occupied(machine))
                    standin.set_faults(lost(LOST))
                wait_until(machine.has_fired, "the alert to fire: then nothing changes any more")
                given = {name: ask(machine) for name, ask in SURFACES.items()}
                wait_until(partial(agree_on_use, machine, given), "both to have counted the same")
                wait_until(partial(has_all, on_hub, machine), "the hub to have this moment")
                found[moment] = {**given, "a hub": of_hub(on_hub)}
    return found


def agree_on_use(machine: Machine, given: dict[str, Answers]) -> bool:
    """Asks again what was used, by commands and by REST at once: its time is written every five
    seconds and its energy once a minute, so answers of two moments differ."""
    question = "energy per GPU second"
    given["commands"] |= of_usage(machine.cli("who", "--since", "1h")["users"])
    used = machine.rest(f"/api/users?since={time.time() - 3600}")["items"]
    given["REST"] |= of_usage(used)
    apart: float = given["commands"][question] - given["REST"][question]
    return abs(apart) <= QUESTIONS[question]


def has_all(on_hub: Machine, machine: Machine) -> bool:
    """Whether the hub has a report of now, and the run."""
    try:
        since = machine.rest("/api/snapshot")["devices"][LOST]["since"]
        is_new = on_hub.rest("/api/snapshot")["devices"][LOST]["since"] == since
        return is_new and on_hub.has_fired() and on_hub.rest("/api/runs")["items"] != []
    except (AssertionError, KeyError, IndexError):  # it has not reported yet
        return False


@contextmanager
def occupied(machine: Machine) -> Iterator[None]:
    """A run holds a GPU meanwhile, and a job waits."""
    run = machine.start("run", "--gpus", "1", "--name", "train", "--", "sleep", "600")
    try:
        wait_until(lambda: machine.cli("leases")["leases"], "the run to hold its GPU")
        machine.printed(*ANDON, "submit", "--gpus", "2", "--", "true")
        yield
    finally:
        machine.start("cancel", "1").wait()
        run.terminate()
        run.wait()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_every_surface_gives_the_same_answer(
    answers: Mapping[str, Mapping[str, Answers]], question: str, moment: str
) -> None:
    given = {name: one[question] for name, one in answers[moment].items() if question in one}
    assert len(given) >= 2, "a question that only one surface answers compares nothing"
    first = next(iter(given.values()))
    if isinstance(first, int | float) and QUESTIONS[question]:
        assert max(given.values()) - min(given.values()) <= QUESTIONS[question], given
    else:
        assert all(one == first for one in given.values()), given
