"""The backend over a command that prints, fails, hangs or floods, as a real one may."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.drivers.nvidia_smi.backend import CARD, NvidiaSmi
from andon.errors import AndonError, Denied, Unavailable
from andon.host.system import System
from andon.model.device import Device, Reading, State
from andon.sampling.rules.masks import Visibility
from andon.sampling.rules.roster import BackendChoice
from andon.sampling.sampler import NodeIdentity, Sampler
from tests.integration.conftest import is_alive
from tests.support.nvidia_smi import H200, MIG, MIG_LIST, Fake, check, gpu, log
from tests.support.waiting import wait_for


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    found = Fake(tmp_path / "bin")
    found.says("xml", H200)
    return found


@pytest.fixture
def backend(fake: Fake, tmp_path: Path) -> Iterator[NvidiaSmi]:
    made = NvidiaSmi(root=str(tmp_path), command=str(fake.path), timeout_seconds=120)
    yield made
    made.close()


def hasty(fake: Fake, tmp_path: Path) -> NvidiaSmi:
    return NvidiaSmi(root=str(tmp_path), command=str(fake.path), timeout_seconds=1.0)


def look(backend: NvidiaSmi, at: float = 1000.0) -> tuple[list[Device], list[Reading]]:
    devices, readings = list(backend.describe(CARD)), list(backend.read(CARD, at, False))
    check(readings)
    return devices, readings


def refusal(backend: NvidiaSmi) -> AndonError:
    with pytest.raises(AndonError) as caught:
        backend.open()
    return caught.value


# Finding the command.


def test_it_is_found_on_the_path(
    fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    assert NvidiaSmi(root=str(tmp_path)).open() == [CARD]


@pytest.mark.parametrize("folder", ["usr/lib/wsl/lib", "usr/local/nvidia/bin"])
def test_it_is_found_where_wsl_and_images_keep_it(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Fake(tmp_path / folder).says("xml", H200)
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    assert NvidiaSmi(root=str(tmp_path)).open() == [CARD]


def test_without_it_the_reason_and_a_hint_are_told(tmp_path: Path) -> None:
    error = refusal(NvidiaSmi(root=str(tmp_path), command=str(tmp_path / "nvidia-smi")))
    assert isinstance(error, Unavailable)
    assert error.reason == "nvidia-smi was not found"
    assert error.hint


def test_a_file_that_is_no_program_is_told(fake: Fake, backend: NvidiaSmi) -> None:
    fake.path.write_bytes(b"\x7fELF not for this machine")
    assert "cannot be started" in refusal(backend).reason


# Answers.


def test_one_card_answers_for_all_devices(fake: Fake, backend: NvidiaSmi) -> None:
    text = log(gpu(""), gpu("", bus="00000000:02:00.0", number=2))
    fake.says("xml", text)
    assert backend.open() == [CARD]
    devices, readings = look(backend, 12.5)
    assert [device.index for device in devices] == [0, 1]
    assert [r.sample.at for r in readings if r.sample] == [12.5, 12.5]
    assert backend.versions() == {"driver": "535.86.05"}


def test_a_good_answer_counts_whatever_the_exit_code(fake: Fake, backend: NvidiaSmi) -> None:
    fake.says("xml", H200, code=14, errors="WARNING: infoROM is corrupted at gpu 0000:00:06.0\n")
    backend.open()
    assert [r.state for r in look(backend)[1]] == [State.OK]


@pytest.mark.parametrize(
    ("torn", "reason"),
    [(H200[:4000], "says "), ("nonsense", "says "), ("", "printed nothing")],
)
def test_devices_are_stale_while_it_cannot_be_read_and_well_afterwards(
    fake: Fake, backend: NvidiaSmi, torn: str, reason: str
) -> None:
    backend.open()
    fake.says("xml", torn)
    _, [stale] = look(backend)
    assert (stale.state, stale.sample) == (State.STALE, None)
    assert stale.reason
    assert stale.reason.startswith(f"nvidia-smi {reason}")
    assert stale.hint
    fake.says("xml", H200)
    assert look(backend)[1][0].state is State.OK


def test_it_is_asked_for_xml_alone(fake: Fake, backend: NvidiaSmi) -> None:
    fake.says("xml", "ERROR: Option -x is not recognized.\n", code=255)
    error = refusal(backend)
    assert error.reason == 'nvidia-smi says "ERROR: Option -x is not recognized." (exit code 255)'
    assert fake.calls() == ["-q -x"]


# Failures.


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
            Unavailable),
        (18, "Failed to initialize NVML: Driver/library version mismatch", Unavailable),
        (6, "No devices were found", Unavailable),
        (4, "Failed to initialize NVML: Insufficient Permissions", Denied),
        (1, "", Unavailable),
        (0, "", Unavailable),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stream", ["text", "errors"])
def test_its_failure_is_ours_wherever_it_is_printed(
    fake: Fake, backend: NvidiaSmi, code: int, text: str, kind: type, stream: str
) -> None:
    fake.says("xml", code=code, **{stream: text})
    assert isinstance(refusal(backend), kind)


def test_a_driver_that_goes_away_takes_the_vendor_along(fake: Fake, backend: NvidiaSmi) -> None:
    backend.open()
    fake.says("xml", "Failed to initialize NVML: Driver/library version mismatch", code=18)
    with pytest.raises(Unavailable):
        backend.read(CARD, 1000.0, False)


def test_a_hang_is_ended_with_all_that_it_started(fake: Fake, tmp_path: Path) -> None:
    fake.does("xml", "hang")
    error = refusal(hasty(fake, tmp_path))
    assert isinstance(error, Unavailable)
    assert error.reason == "nvidia-smi has not responded for 1 s"
    child = (fake.folder / "child").read_text().strip()
    wait_for(lambda: not is_alive(int(child)))


def test_devices_are_stale_while_it_hangs_and_well_afterwards(fake: Fake, tmp_path: Path) -> None:
    NvidiaSmi(root=str(tmp_path), command=str(fake.path)).open()  # the shell is in the cache now
    backend = NvidiaSmi(root=str(tmp_path), command=str(fake.path), timeout_seconds=1.5)
    backend.open()
    fake.does("xml", "hang")
    _, [stale] = look(backend)
    assert (stale.state, stale.sample) == (State.STALE, None)
    assert stale.reason == "nvidia-smi has not responded for 1.5 s"
    fake.does("xml", "hang", really=False)
    _, [well] = look(backend)
    assert well.state is State.OK


def test_a_flood_is_cut_off(fake: Fake, backend: NvidiaSmi) -> None:
    fake.does("xml", "flood")
    assert refusal(backend).reason == "nvidia-smi printed more than 16 MiB"


# Devices that go and come.

BOTH = log(gpu(""), gpu("", bus="00000000:02:00.0", number=2))


def states(readings: list[Reading]) -> dict[str, State]:
    return {reading.uuid[:12]: reading.state for reading in readings}


def test_a_device_that_is_no_longer_listed_is_lost_until_it_is_back(
    fake: Fake, backend: NvidiaSmi
) -> None:
    fake.says("xml", BOTH)
    backend.open()
    before = list(backend.describe(CARD))
    fake.says("xml", log(gpu("", bus="00000000:02:00.0", number=2)))
    devices, readings = look(backend)
    assert states(readings) == {"GPU-00000001": State.LOST, "GPU-00000002": State.OK}
    assert {(d.uuid, d.index) for d in devices} == {(d.uuid, d.index) for d in before}
    assert {d.index for d in backend.describe(CARD) if d.uuid == before[1].uuid} == {1}
    fake.says("xml", BOTH)
    assert set(states(look(backend)[1]).values()) == {State.OK}


def test_a_device_without_a_handle_is_the_one_that_was_known(
    fake: Fake, backend: NvidiaSmi
) -> None:
    fake.says("xml", BOTH)
    backend.open()
    line = "Unable to determine the device handle for GPU0: 0000:01:00.0: GPU is lost.\n"
    fake.says("xml", line + log(gpu("", bus="00000000:02:00.0", number=2)), code=15)
    devices, readings = look(backend)
    assert states(readings) == {"GPU-00000001": State.LOST, "GPU-00000002": State.OK}
    assert {d.name for d in devices} == {"NVIDIA X"}


def test_a_device_known_by_its_address_alone_gets_its_name_when_it_is_back(
    fake: Fake, backend: NvidiaSmi
) -> None:
    fake.says("xml", "Unable to determine the device handle for GPU 0000:01:00.0: Unknown Error\n")
    backend.open()
    assert [d.uuid for d in backend.describe(CARD)] == ["nvidia_smi@0000:01:00.0"]
    assert [r.state for r in backend.read(CARD, 1.0, False)] == [State.LOST]
    fake.says("xml", log(gpu("")))
    assert states(list(backend.read(CARD, 2.0, False))) == {"GPU-00000001": State.OK}
    assert [d.uuid[:12] for d in backend.describe(CARD)] == ["GPU-00000001"]


def test_mig_instances_are_listed_again_when_their_layout_changes(
    fake: Fake, backend: NvidiaSmi
) -> None:
    fake.says("xml", log(gpu(MIG)))
    fake.says("list", MIG_LIST)
    backend.open()
    for _ in range(3):
        backend.read(CARD, 1.0, False)
    assert fake.calls().count("-L") == 1
    assert len(backend.describe(CARD)) == 3
    fake.says("xml", log(gpu(MIG.replace("<index>1</index>", "<index>2</index>"))))
    backend.read(CARD, 1.0, False)
    assert fake.calls().count("-L") == 2


def test_a_mig_instance_that_was_taken_away_is_lost_until_it_is_forgotten(
    fake: Fake, backend: NvidiaSmi
) -> None:
    fake.says("xml", log(gpu(MIG)))
    fake.says("list", MIG_LIST)
    backend.open()
    fake.says("xml", log(gpu("")))
    readings = list(backend.read(CARD, 1.0, False))
    assert [r.state for r in readings] == [State.OK, State.LOST, State.LOST]
    assert len(backend.describe(CARD)) == 1
    assert len(backend.read(CARD, 1.0, False)) == 1


# Sleep.


def sleeping(root: Path, address: str, status: str) -> None:
    folder = root / "sys/bus/pci/drivers/nvidia" / address / "power"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runtime_status").write_text(f"{status}\n")


def test_it_is_not_called_while_every_card_sleeps(
    fake: Fake, backend: NvidiaSmi, tmp_path: Path
) -> None:
    sleeping(tmp_path, "0000:00:06.0", "suspended")
    backend.open()
    devices, [reading] = look(backend)
    assert [device.uuid for device in devices] == ["nvidia_smi@0000:00:06.0"]
    assert reading.state is State.ASLEEP
    assert fake.calls() == []
    sleeping(tmp_path, "0000:00:06.0", "active")
    assert [r.state for r in backend.read(CARD, 1.0, False)] == [State.OK]


def test_a_glance_lists_what_the_kernel_drives_and_calls_nothing(
    fake: Fake, backend: NvidiaSmi, tmp_path: Path
) -> None:
    assert backend.glance() == []
    sleeping(tmp_path, "0000:1b:00.0", "active")
    (tmp_path / "sys/bus/pci/drivers/nvidia/bind").touch()
    assert [card.pci for card in backend.glance()] == ["0000:1b:00.0"]
    assert fake.calls() == []


# The whole way.


@pytest.mark.skipif(sys.platform != "linux", reason="readers are tried on Linux")
def test_a_snapshot_through_a_reader_process_has_the_device(fake: Fake, tmp_path: Path) -> None:
    options = {"root": str(tmp_path), "command": str(fake.path)}
    with Sampler(
        vendors={"nvidia": [BackendChoice("nvidia_smi", options)]},
        host=System(tmp_path),
        node=NodeIdentity("here", None),
        visibility=lambda devices: Visibility({device.uuid: None for device in devices}),
        deadline_seconds=10.0,
    ) as sampler:
        snapshot = sampler.once()
    [status] = snapshot.devices
    assert (status.state, status.device.vendor) == (State.OK, "nvidia")
    assert status.sample is not None
    assert status.sample.utilization_percent == 48
    assert snapshot.versions["driver"] == "580.159.04"
    assert snapshot.faults == ()
