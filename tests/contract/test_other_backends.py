"""The contract of a backend, kept by those that answer for all devices at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from andon.drivers.nvidia_smi.backend import NvidiaSmi
from andon.drivers.replay import Replay
from andon.drivers.sim.backend import Simulation
from andon.model import wire
from andon.model.device import Device, DeviceStatus, Snapshot, State
from andon.ports import Backend
from andon.testing.backend_contract import BackendContract, read_all
from tests.support.nvidia_smi import Fake, gpu, log

AT = BackendContract.at
ADDRESSES = tuple(f"00000000:0{number}:00.0" for number in range(1, 5))


def smi(folder: Path) -> NvidiaSmi:
    fake = Fake(folder / "bin")
    body = "<fb_memory_usage><total>100 MiB</total><used>7 MiB</used></fb_memory_usage>"
    fake.says("xml", log(*(gpu(body, bus, n) for n, bus in enumerate(ADDRESSES))))
    return NvidiaSmi(root=str(folder), command=str(fake.path), timeout_seconds=120)


def recording(folder: Path) -> Replay:
    """Two looks at simulated devices, a second apart."""
    path = folder / "look.jsonl"
    path.write_text("".join(f"{wire.dumps(look(at))}\n" for at in (AT, AT + 1)), encoding="utf-8")
    return Replay(str(path), origin=AT, clock=lambda: AT)


def look(at: float) -> wire.Json:
    _, devices, readings = read_all(Simulation(count=4, origin=0.0), at)
    answered = {reading.uuid: reading for reading in readings}

    def status(device: Device) -> DeviceStatus:
        reading = answered[device.uuid]
        return DeviceStatus(device, State.OK, at, sample=reading.sample, missing=reading.missing)

    versions = {"driver": "1"}
    shown = tuple(status(device) for device in devices)
    return wire.snapshot_to_json(Snapshot("there", at, versions=versions, devices=shown))


@pytest.fixture(params=[pytest.param("nvidia_smi", marks=pytest.mark.process), "replay"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made: Backend = recording(tmp_path) if request.param == "replay" else smi(tmp_path)
    yield made
    made.close()


class TestOtherBackends(BackendContract):
    """Each keeps the whole contract."""


def test_one_card_stands_for_all_devices(backend: Backend) -> None:
    cards, devices, _ = read_all(backend, AT)
    assert len(cards) == 1
    assert [device.index for device in devices] == [0, 1, 2, 3]


def test_a_glance_starts_nothing(backend: Backend, tmp_path: Path) -> None:
    assert backend.glance() == []
    assert not (tmp_path / "bin" / "calls").exists()


@pytest.mark.process
def test_a_device_is_the_same_through_either_of_nvidia_s_backends(tmp_path: Path) -> None:
    """NVML's own backend spells the address so, too: tests/unit/drivers/test_nvidia.py."""
    backend = smi(tmp_path)
    _, devices, _ = read_all(backend, AT)
    assert {device.vendor for device in devices} == {"nvidia"}
    assert [device.pci for device in devices] == [f"0000:0{number}:00.0" for number in range(1, 5)]
    assert all(device.uuid.startswith("GPU-") for device in devices)
