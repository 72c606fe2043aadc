"""What every backend must keep: NVIDIA's (over the stand-in), the simulation and the mock."""

from collections.abc import Iterator

import pytest

from andon.ports import Backend
from andon.testing.backend_contract import BackendContract


class TestBackends(BackendContract):
    """Each keeps the whole contract."""


@pytest.fixture(params=["nvidia", "sim", "mock"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made: Backend
    if request.param == "nvidia":
        request.getfixturevalue("loaded")
        from andon.drivers.nvidia import Nvidia

        made = Nvidia(root=str(request.getfixturevalue("tmp_path")))
    elif request.param == "sim":
        from andon.drivers.sim.backend import Simulation

        made = Simulation(count=4)
    else:
        from andon.testing.mock import MockGpuBackend

        made = MockGpuBackend()
        for index in range(4):
            made = made.with_device(index, "Mock").with_temperature(60).with_utilization(10)
    yield made
    made.close()


def test_it_lists_each_card_once(backend: Backend) -> None:
    cards = backend.open()
    assert len(cards) == 4
    assert len({card.key for card in cards}) == 4
    assert [card.index for card in cards] == [0, 1, 2, 3]


def test_a_glance_asks_no_driver(backend: Backend, request: pytest.FixtureRequest) -> None:
    backend.glance()
    if backend.name == "nvidia":
        assert request.getfixturevalue("standin").calls() == {}
