"""Jobs on a real Ray whose nodes have agents that report to a real hub: who leaves GPUs idle."""

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import Struct

from tests.integration.fleet.reporting import added
from tests.integration.serving import Served, serving
from tests.ray.conftest import ANDON, GPUS, RealRay, typed
from tests.standin.control import StandIn
from tests.standin.node import StandInProcess
from tests.support.homes import own_folders
from tests.support.postgres import server

pytestmark = [pytest.mark.ray, pytest.mark.timeout(400)]

_LATER = """
import sys, time
now = time.time
time.time = lambda: now() + 2400
from andon.cli.entry import main
sys.exit(main())
"""
LATER = (sys.executable, "-c", _LATER)
"""A person who looks 40 minutes later, which nobody waits for here."""


class WatchedRay(Struct, frozen=True):
    """A hub, and what the agents of Ray's nodes read."""

    hub: Served
    standins: dict[str, StandIn]


@pytest.fixture(scope="module")
def watched(ray: RealRay, library: Path) -> Iterator[WatchedRay]:
    folder, agents = ray.folder / "fleet", list[subprocess.Popen[str]]()
    own = own_folders(folder / "hub")
    with serving(
        Path(own["XDG_STATE_HOME"]), "--store", server().schema("rayhub"), simulate=None,
        ANDON_LEASE_DIR=own["ANDON_LEASE_DIR"], ANDON_NODE="hub",
    ) as hub:  # fmt: skip
        made = WatchedRay(hub, {})
        try:
            for name, uuids in GPUS.items():
                made.standins[name] = there = StandIn(folder / f"standin-{name}")
                there.write([one for one in ray.standin.node if one.uuid in uuids])
                told = {"ANDON_HUB_TOKEN": added(hub, name), "ANDON_NODE": name}
                agents.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "andon.cli", "agent", "--hub", hub.url],
                        stdout=subprocess.PIPE, text=True,
                        env={**there.environment(library), **own_folders(folder / name), **told},
                    )
                )  # fmt: skip
            for agent in agents:
                assert agent.stdout is not None
                assert agent.stdout.readline().startswith("Heartbeat sent")
            yield made
        finally:
            for agent in agents:
                agent.terminate()
                agent.communicate(timeout=30)


def say(ray: RealRay, watched: WatchedRay, *words: str, how: Sequence[str] = ANDON) -> str:
    config = ray.folder / "hub.toml"
    config.write_text(f'[clusters.ray]\nkind = "ray"\nhub = "{watched.hub.url}"\n')
    done = typed(ray, *words, "--config", str(config), how=how, ANDON_TOKEN=watched.hub.token)
    assert done.returncode == 0, done.stderr
    return done.stdout


def begin(ray: RealRay, watched: WatchedRay) -> tuple[str, int, list[str]]:
    """Submits a job for two GPUs; returns its id, its process and its GPUs once it runs."""
    line = "echo $$ $CUDA_VISIBLE_DEVICES; exec sleep 1000"
    name = say(ray, watched, "submit", "--on", "ray", "--gpus", "2", "--", "sh", "-c", line).strip()
    ray.until(lambda: "GPU-" in typed(ray, "logs", name).stdout, "start of the job", 120.0)
    pid, uuids = typed(ray, "logs", name).stdout.split()
    return name.removeprefix("ray:"), int(pid), uuids.split(",")


def test_gpus_that_are_promised_and_left_idle_are_named(
    ray: RealRay, watched: WatchedRay, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [begin(ray, watched) for _ in range(3)]
    placed = {name: [j for j in jobs if j[2][0] in uuids] for name, uuids in GPUS.items()}
    assert [len(placed[name]) for name in ("n1", "n2")] == [1, 2]
    for name, standin in watched.standins.items():
        for job, pid, uuids in placed[name]:
            busy = 0 if job == placed["n2"][1][0] else 90
            for number, device in enumerate(standin.node):
                if device.uuid in uuids:
                    process = StandInProcess(pid, 40 << 30)
                    standin.change(
                        number, gpu_utilisation=busy, used=70 << 30, processes=(process,)
                    )
    (works, _, own), (idle, _, left) = placed["n2"]
    order = GPUS["n2"].split(",")
    numbers = [min(map(order.index, uuids)) for uuids in (own, left)]
    first, second = (f"GPU {number}-{number + 1}" for number in numbers)
    row = rf"n2 +4 H200 +4 +2 +\d+ % +{works} \({first}\), {idle} \({second}, idle 4\d min\)"

    def listed() -> bool:
        return re.search(row, say(ray, watched, "nodes", "--on", "ray", how=LATER)) is not None

    ray.until(listed, "the idle job in the list of nodes", 60.0)
    waits = say(ray, watched, "submit", "--on", "ray", "--gpus", "2", "--name", "train", "--", "id")
    why = rf"needs 2 GPUs on one node: .*2 GPUs of n2 idle for 4\d min \({idle}\)"
    asked = (["nodes", "--on", "ray"], ["jobs"], ["why", waits.strip()])
    shown = [say(ray, watched, *words, how=LATER) for words in asked]
    for text in shown[1:]:
        assert re.search(why, text), text
    with capsys.disabled():
        print(*shown, sep="\n")
