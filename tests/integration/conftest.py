"""A node whose driver is the stand-in, for the real sampler, reader and command line."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.model.device import Snapshot, State
from andon.sampling.sampler import Sampler
from tests.conftest import need
from tests.integration.contained import work_folder
from tests.integration.parts import Docker, docker_engine, need_root
from tests.standin import StandIn

PCI = (
    "0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0",
    "0000:9d:00.0", "0000:c3:00.0", "0000:d1:00.0", "0000:df:00.0",
)  # fmt: skip


class Outcome(Struct, frozen=True):
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


def andon(*arguments: str, timeout_seconds: float = 90.0) -> Outcome:
    """Run the command line as a person does."""
    command = [sys.executable, "-m", "andon.cli", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def node(standin: StandIn, library: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Eight devices behind the stand-in, for every process that is started from here."""
    standin.write(StandIn.devices(8))
    for name, value in standin.environment(library).items():
        monkeypatch.setenv(name, value)
    return standin


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root whose /sys lists the eight cards; the rest of it is this machine's."""
    root = tmp_path / "root"
    for pci in PCI:
        power = root / "sys/bus/pci/drivers/nvidia" / pci / "power"
        power.mkdir(parents=True)
        (power / "control").write_text("on\n")
        (power / "runtime_status").write_text("active\n")
    (root / "proc").symlink_to("/proc")
    monkeypatch.setenv("ANDON_ROOT", str(root))
    return root


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    """The real thing, over whatever the environment says."""
    with open_sampler(load_settings({}).settings) as opened:
        yield opened


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    """A real engine with one small image."""
    need("dockerd", "docker", "busybox")
    need_root()
    with docker_engine(tmp_path_factory.mktemp("docker")) as engine:
        yield engine


@pytest.fixture
def work(
    docker: Docker, node: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder to work in, on a node of eight GPUs with a container engine."""
    with work_folder(docker, tmp_path, monkeypatch) as folder:
        yield folder


def states(snapshot: Snapshot) -> list[State]:
    return [status.state for status in snapshot.devices]


def until(sampler: Sampler, holds: Callable[[Snapshot], bool], seconds: float = 60.0) -> Snapshot:
    """Sample until something holds; it must, in the end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        snapshot = sampler.once()
        if holds(snapshot):
            return snapshot
        time.sleep(0.02)  # what is waited for needs the cores, too
    raise AssertionError(f"it never came: {snapshot}")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
