"""NVIDIA's cards that the system suspends: shown as asleep, not touched, and let go when idle."""

from pathlib import Path

from andon.drivers.nvidia import Nvidia
from andon.model.device import Card
from tests.standin import StandIn, StandInProcess
from tests.support.clocks import Clock

PCI = ("0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:61:00.0")


def laptop(root: Path, status: str, control: str = "auto", cards: int = 4) -> list[Path]:
    """What the kernel shows of cards that may suspend."""
    files = []
    for pci in PCI[:cards]:
        power = root / "sys/bus/pci/drivers/nvidia" / pci / "power"
        power.mkdir(parents=True, exist_ok=True)
        (power / "control").write_text(control + "\n")
        (power / "runtime_status").write_text(status + "\n")
        files.append(power / "runtime_status")
    return files


def test_sleeping_cards_are_shown_and_the_driver_is_not_called(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path
) -> None:
    laptop(tmp_path, "suspended")
    cards = nvidia.open()
    readings = [nvidia.read(card, 1000.0, True)[0] for card in cards]
    assert {reading.state.value for reading in readings} == {"asleep"}
    assert nvidia.describe(cards[0])[0].uuid == "nvidia@0000:1b:00.0"
    assert standin.calls() == {}


def test_a_card_that_somebody_woke_is_read(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path
) -> None:
    files = laptop(tmp_path, "suspended")
    cards = nvidia.open()
    nvidia.read(cards[0], 1000.0, False)
    files[0].write_text("active\n")
    assert nvidia.read(cards[0], 1001.0, False)[0].sample is not None
    assert standin.calls()["nvmlInitWithFlags:2"] == 1, "and no other card was attached"
    assert standin.calls(1) == {}


def test_idle_cards_that_may_sleep_are_let_go(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path, clock: Clock
) -> None:
    laptop(tmp_path, "active", cards=1)
    standin.write(StandIn.devices(1))
    card = nvidia.open()[0]
    for _ in range(12):
        clock.now += 1
        reading = nvidia.read(card, clock.now, False)[0]
    assert standin.calls()["nvmlShutdown"] == 1
    assert reading.reason is not None
    assert "andon released it" in reading.reason
    assert reading.uuid.startswith("GPU-"), "it keeps its name"
    standin.reset_calls()
    for _ in range(30):
        clock.now += 1
        nvidia.read(card, clock.now, False)
    assert standin.calls() == {}


def test_a_busy_card_is_not_let_go(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path, clock: Clock
) -> None:
    laptop(tmp_path, "active", cards=1)
    standin.write(StandIn.devices(1, processes=(StandInProcess(1),)))
    card = nvidia.open()[0]
    for _ in range(60):
        clock.now += 1
        assert nvidia.read(card, clock.now, False)[0].sample is not None


def test_a_card_that_does_not_fall_asleep_is_looked_at_again(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path, clock: Clock
) -> None:
    laptop(tmp_path, "active", cards=1)
    standin.write(StandIn.devices(1))
    card = nvidia.open()[0]
    looks = 0
    for _ in range(300):
        clock.now += 1
        looks += nvidia.read(card, clock.now, False)[0].sample is not None
    assert 11 < looks < 60, "for ten idle seconds each time, ever more seldom"


def test_a_server_is_never_let_go(
    nvidia: Nvidia, standin: StandIn, tmp_path: Path, clock: Clock
) -> None:
    laptop(tmp_path, "active", control="on")
    cards: list[Card] = list(nvidia.open())
    for _ in range(60):
        clock.now += 1
        assert nvidia.read(cards[0], clock.now, False)[0].sample is not None
    assert "nvmlInitWithFlags:0" in standin.calls()
