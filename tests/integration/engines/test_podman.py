"""Podman as the engine of `--image`, where it is installed and can run containers at all."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from andon.engines.containers import PodmanEngine
from andon.errors import Unavailable
from andon.model.execution import ContainerOptions, Submitter, WorkOrder
from andon.ports import ContainerEngine
from tests.conftest import need
from tests.integration.conftest import andon
from tests.integration.contained import LONG_SECONDS, NO_NETWORK
from tests.integration.leasing import held, records
from tests.integration.parts import PATH, busybox_image
from tests.support.engine_contract import ContainerEngineContract
from tests.support.sharing_parts import gpu

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="containers of Linux"),
    pytest.mark.timeout(300),
]
NAME = "localhost/tiny"


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Storage of its own with one small image."""
    need("podman")
    folder = tmp_path_factory.mktemp("podman")
    storage, containers = folder / "storage.conf", folder / "containers.conf"
    storage.write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'
    )
    runtime = 'runtime = "runc"\n' if shutil.which("runc", path=PATH) else ""
    containers.write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        f'[engine]\n{runtime}cgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
    )
    variables = {"CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(containers)}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        patched.setenv("PATH", PATH)
        _asked("import", str(busybox_image(folder)), NAME)
        if trouble := _asked("run", "--rm", "--network=none", NAME, "sh", "-c", "true"):
            pytest.skip(f"podman cannot run a container here: {trouble[:200]}")
        yield folder


def _asked(*words: str) -> str:
    """What it said, if it failed."""
    done = subprocess.run(["podman", *words], capture_output=True, text=True, timeout=LONG_SECONDS)
    return done.stderr.strip() or "it failed" if done.returncode else ""


class TestPodmanEngine(ContainerEngineContract):
    """The contract, with a real engine."""

    @pytest.fixture(autouse=True)
    def _engine(self, podman: Path, tmp_path: Path) -> None:
        self._place = str(tmp_path)

    @pytest.fixture
    def engine(self) -> ContainerEngine:
        return PodmanEngine()

    def order(self, command: Sequence[str], label: str) -> WorkOrder:
        return WorkOrder(
            tuple(command),
            self._place,
            label,
            environment={"GREETING": "hello"},
            submitter=Submitter(os.getuid(), os.getgid()),
            container=ContainerOptions(NAME, options=("--network=none",)),
        )


def _start(engine: ContainerEngine, order: WorkOrder) -> None:
    """Some versions look for devices when a container is made, others when it starts."""
    work = engine.create(order)
    try:
        engine.client(work)
    finally:
        engine.clean(work)


def test_devices_are_asked_for_by_their_cdi_names(podman: Path, tmp_path: Path) -> None:
    """Here no device has one, which is said in one sentence and leaves nothing behind."""
    options = ContainerOptions(NAME, options=("--network=none",))
    device = gpu(0).device
    order = WorkOrder(("true",), str(tmp_path), "cdi", devices=(device,), container=options)
    engine = PodmanEngine()
    with pytest.raises(Unavailable, match=r"does not know these GPUs \(CDI\)"):
        _start(engine, order)
    assert engine.find("cdi") == []


def test_a_command_and_a_map_run_in_its_containers(
    podman: Path, state_folder: Path, book_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_CONTAINERS_ENGINE", "podman")
    monkeypatch.setenv("ANDON_SIMULATE_SCENARIO", "idle")  # no driver gives Podman a real one here
    monkeypatch.chdir(state_folder.parent)
    Path("items").write_text("a\n")
    image = ("--simulate", "1", "--image", NAME, NO_NETWORK)
    done = andon("run", *image, "--", "sh", "-c", "echo $HOME; exit 3")
    assert (done.code, done.out) == (3, "/tmp/andon-home\n"), done
    mapped = andon("map", *image, "--items", "items", "--", "sh", "-c", "echo $0")
    assert (mapped.code, mapped.out) == (0, "a\n"), mapped
    assert len(records(state_folder)) == 2
    listed = subprocess.run(["podman", "ps", "-aq"], capture_output=True, text=True)
    assert (listed.stdout, held()) == ("", [])
