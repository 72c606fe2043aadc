"""Fixtures that several units share."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from andon.drivers.nvidia import Nvidia
from tests.conftest import shut_down
from tests.standin import StandIn
from tests.support.clocks import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nvidia(loaded: ModuleType, standin: StandIn, tmp_path: Path, clock: Clock) -> Iterator[Nvidia]:
    """NVIDIA's backend over the stand-in, in this process."""
    backend = Nvidia(str(tmp_path), clock)
    yield backend
    standin.set_faults()
    backend.close()
    shut_down(loaded)
