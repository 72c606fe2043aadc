"""The checks of this folder as tests: `pytest tests/device` on a machine with a GPU."""

from collections.abc import Iterator

import pytest

import andon
from tests.device.checks import Check, checks
from tests.device.scenes import RealGround, Scene, SkippedError, busy

IDLE = list(checks(Scene("idle")))
BUSY = list(checks(Scene("under load", busy=True)))


@pytest.fixture(scope="module", autouse=True)
def _a_device() -> None:
    snapshot = andon.snapshot()
    if not snapshot.devices:
        reasons = "; ".join(fault.reason for fault in snapshot.faults)
        pytest.skip(f"no device can be read: {reasons}")


@pytest.fixture(scope="module")
def load() -> Iterator[Scene]:
    """A device that stays busy for all tests under load; they run last."""
    try:
        with busy(RealGround()) as scene:
            yield scene
    except SkippedError as skipped:
        pytest.skip(str(skipped))


def made(check: Check, scene: Scene) -> None:
    try:
        check.run(scene)
    except SkippedError as skipped:
        pytest.skip(str(skipped))


@pytest.mark.timeout(400)  # one of them probes a real model
@pytest.mark.parametrize("check", IDLE, ids=lambda check: check.name)
def test_idle(check: Check) -> None:
    made(check, RealGround().idle())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("check", BUSY, ids=lambda check: check.name)
def test_under_load(check: Check, load: Scene) -> None:
    made(check, load)
