"""AMD's and Intel's backends keep what every backend must, on each of the constructed machines."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from andon.drivers.amd import Amd
from andon.drivers.intel import Intel
from andon.drivers.shared.drm import FIRST_READING
from andon.model import wire, wire_in
from andon.model.codec import read, to_json
from andon.model.device import Device, State
from andon.ports import Backend
from andon.registry import BACKENDS, load
from andon.testing.backend_contract import BackendContract, read_all
from tests.constructed import Machine, amd, intel

MACHINES: dict[str, tuple[Callable[[], Machine], type[Amd] | type[Intel], int]] = {
    "radeon": (amd.radeon, Amd, 1),
    "instinct": (amd.instinct, Amd, 2),
    "processor": (amd.processor, Amd, 1),
    "laptop": (amd.laptop, Amd, 2),
    "old-amd": (amd.old_kernel, Amd, 1),
    "arc": (intel.arc, Intel, 1),
    "integrated": (intel.integrated, Intel, 1),
    "old-intel": (intel.old_kernel, Intel, 1),
    "suspended": (intel.suspended, Intel, 1),
}
ASLEEP = {"laptop", "suspended"}
AWAKE = sorted(set(MACHINES) - ASLEEP)


def made(name: str, root: Path) -> Backend:
    build, backend, _ = MACHINES[name]
    return backend(root=str(build().build(root)), sleep=lambda _: None)


@pytest.fixture(params=AWAKE)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return made(request.param, tmp_path)


class TestSysfsBackends(BackendContract):
    """Each keeps the whole contract."""


def test_no_value_of_the_first_reading_waits_for_a_second_look(backend: Backend) -> None:
    _, _, readings = read_all(backend, 1000.0)
    assert FIRST_READING not in {reason for r in readings for reason in r.missing.values()}


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_it_lists_each_card_once_and_opens_again(name: str, tmp_path: Path) -> None:
    backend = made(name, tmp_path)
    cards = backend.open()
    assert [card.index for card in cards] == list(range(MACHINES[name][2]))
    assert len({card.key for card in cards}) == len(cards)
    assert list(backend.glance()) == list(cards)
    backend.close()
    backend.close()
    assert list(backend.open()) == list(cards)


@pytest.mark.parametrize("name", sorted(MACHINES))
def test_what_it_says_survives_the_wire(name: str, tmp_path: Path) -> None:
    _, devices, readings = read_all(made(name, tmp_path), 1000.0)
    for device in devices:
        assert read(Device, json.loads(json.dumps(to_json(device)))) == device
    for reading in readings:
        said = wire.reading_to_json(reading)
        assert wire_in.reading_from_json(json.loads(json.dumps(said))) == reading


@pytest.mark.parametrize(("name", "build"), [("amd", amd.radeon), ("intel", intel.arc)])
def test_a_reader_can_build_it_from_what_is_sent_to_it(
    name: str, build: Callable[[], Machine], tmp_path: Path
) -> None:
    options = json.loads(json.dumps({"root": str(build().build(tmp_path))}))
    backend: Backend = load(BACKENDS, name)(**options)
    assert backend.name == name
    assert len(backend.open()) == 1


@pytest.mark.parametrize("name", sorted(ASLEEP))
def test_a_sleeping_card_has_a_state_a_reason_and_no_values(name: str, tmp_path: Path) -> None:
    _, devices, readings = read_all(made(name, tmp_path), 1000.0)
    asleep = [reading for reading in readings if reading.state is State.ASLEEP]
    assert len(asleep) == 1
    assert asleep[0].sample is None
    assert asleep[0].reason
    assert {reading.uuid for reading in readings} == {device.uuid for device in devices}
