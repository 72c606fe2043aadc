"""The two stand-in libraries together: NVML and the driver's library for programs."""

from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.standin import StandIn
from tests.standin.cuda import StandInCuda, build_cuda


@pytest.fixture
def cuda(node: StandIn, library: Path, monkeypatch: pytest.MonkeyPatch) -> StandInCuda:
    """Four small H200s for every process that is started from here."""
    folder = build_cuda(REPOSITORY / ".build" / "standin-cuda")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{library}:{folder}")
    node.write(StandIn.devices(4))
    return StandInCuda(node)
