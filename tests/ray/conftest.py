"""One cluster for all tests: its start takes most of the time."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from andon.clusters.ray import RayCluster
from andon.errors import AndonError, Unavailable
from andon.settings.clusters import ClusterSettings
from tests.standin.control import StandIn
from tests.support.homes import own_folders

REPOSITORY = Path(__file__).parents[2]
BIN = REPOSITORY / ".build/ray/bin"
PORT, DASHBOARD, AGENTS = 23600, 23601, {"n1": 23602, "n2": 23603}
ADDRESSES = {"n1": "127.0.0.1", "n2": "127.0.0.2"}
START_SECONDS = 150
DEVICES = StandIn.devices(6)
GPUS = {
    "n1": ",".join(one.uuid for one in DEVICES[:2]),
    "n2": ",".join(one.uuid for one in DEVICES[2:]),
}


class RealRay:
    """A head with two GPUs and a node with four, which a stand-in driver has. Both are on this
    machine: each calls itself by its own name, and they share state folder and lease book."""

    url = f"http://127.0.0.1:{DASHBOARD}"

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder = folder
        (folder / "home").mkdir()
        (folder / "standin").mkdir()
        self.standin = StandIn(folder / "standin")
        self.standin.write(DEVICES)
        self.environment = {
            **self.standin.environment(library), **own_folders(folder),
            "HOME": str(folder / "home"), "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_raylet_start_wait_time_s": "120", "PYTHONPATH": str(REPOSITORY / "src"),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }  # fmt: skip
        self.start_head()
        self.start_other()
        self.until(lambda: len(self.rows()) == 2, "both nodes")

    def start_head(self) -> None:
        self._start("n1", "--head", f"--port={PORT}", f"--dashboard-port={DASHBOARD}",
                    f"--temp-dir={self.folder}/r", "--include-dashboard=true",
                    "--min-worker-port=23610", "--max-worker-port=23649")  # fmt: skip

    def start_other(self) -> None:
        self._start("n2", f"--address=127.0.0.1:{PORT}",
                    "--min-worker-port=23650", "--max-worker-port=23699")  # fmt: skip

    def _start(self, name: str, *words: str) -> None:
        gpus = GPUS[name]
        # A node that does not start within a minute gives up, also on a machine with other work.
        first = ("nice", "-n", "-19") if os.getuid() == 0 else ()
        command = [*first, str(BIN / "ray"), "start", f"--num-gpus={gpus.count(',') + 1}",
                   "--num-cpus=8", f"--node-name={name}",
                   f"--dashboard-agent-listen-port={AGENTS[name]}",
                   f"--node-ip-address={ADDRESSES[name]}", *words]  # fmt: skip
        shown = {"CUDA_VISIBLE_DEVICES": gpus, "ANDON_NODE": name}
        with (self.folder / f"log-{name}").open("wb") as log:
            subprocess.run(
                command, env={**self.environment, **shown}, check=True,
                stdout=log, stderr=subprocess.STDOUT, timeout=START_SECONDS,
            )  # fmt: skip

    def rows(self) -> list[dict[str, object]]:
        with urllib.request.urlopen(f"{self.url}/api/v0/nodes?detail=1", timeout=30) as answer:
            found: list[dict[str, object]] = json.load(answer)["data"]["result"]["result"]
        return [row for row in found if row["state"] == "ALIVE"]

    def until(self, is_so: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while True:
            with suppress(OSError, Unavailable):  # its dashboard has trouble at times, when busy
                if is_so():
                    return
            assert time.monotonic() < end, f"no {what} after {seconds:g} s"
            time.sleep(0.2)

    def processes(self, *signs: str) -> Sequence[int]:
        """The processes of this cluster whose command lines have these words; without any also the
        commands of its jobs, which live on when Ray is killed."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal():
                    files = ("cmdline",) if signs else ("cmdline", "environ")
                    words = "".join((entry / one).read_bytes().decode("utf-8", "replace")
                                    for one in files)  # fmt: skip
                    if str(self.folder) in words and all(sign in words for sign in signs):
                        found.append(int(entry.name))
        return found

    def close(self) -> None:
        for _ in range(20):
            for process in self.processes():
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            if not self.processes():
                return
            time.sleep(0.2)


def opened(url: str, seconds: float = 30.0) -> RayCluster:
    return RayCluster(ClusterSettings("ray", "ray", seconds, {"address": url}))


ANDON = (sys.executable, "-m", "andon.cli")


def typed(
    ray: RealRay, *words: str, how: Sequence[str] = ANDON, **env: str
) -> "subprocess.CompletedProcess[str]":
    """Runs andon as a person does."""
    return subprocess.run(
        [*how, *words], capture_output=True, text=True, timeout=120,
        check=False,
        env={**ray.environment, "RAY_API_SERVER_ADDRESS": ray.url, "COLUMNS": "240", **env},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def own_state(ray: RealRay, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its state and lease book are this test's; what it leaves on Ray is stopped."""
    for name, value in own_folders(ray.folder).items():
        monkeypatch.setenv(name, value)
    yield
    with suppress(AndonError):
        cluster = opened(ray.url)
        left = [one.id for one in cluster.jobs(0.0) if not one.state.is_settled]
        cluster.cancel(left)
        ray.until(lambda: not any(one.allocated for one in cluster.nodes()), "free GPUs")


@pytest.fixture(scope="session")
def ray(library: Path) -> Iterator[RealRay]:
    assert (BIN / "ray").exists(), "dev/ray installs it"
    folder = Path(tempfile.mkdtemp(prefix="r", dir="/tmp"))  # sockets have short paths
    made = None
    try:
        made = RealRay(folder, library)
        yield made
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(folder, ignore_errors=True)
