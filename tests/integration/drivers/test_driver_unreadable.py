"""A driver that cannot be read at all: what each command and a server say, over the stand-in."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration import serving as served_by
from tests.integration.conftest import PCI, Outcome, andon
from tests.integration.parts import wait_until
from tests.integration.serving import Served, serving
from tests.standin import StandIn, init_fails
from tests.support.nvidia_smi import H200, Fake

pytestmark = pytest.mark.long

MISMATCH, NOT_LOADED, DENIED, UNKNOWN = 18, 9, 4, 999


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests keep the CPU busy, which is an alert of its own."""
    monkeypatch.setenv("ANDON_ALERTS_NODE_CPU_PERCENT", "off")


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root whose PCI bus lists eight cards that no driver has bound."""
    root = tmp_path / "root"
    for pci in PCI:
        folder = root / "sys/bus/pci/devices" / pci
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
    (root / "proc").symlink_to("/proc")
    monkeypatch.setenv("ANDON_ROOT", str(root))
    return root


@pytest.fixture(autouse=True)
def alone(own_places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server and no lease book but its own."""
    monkeypatch.setenv("COLUMNS", "200")


def rules(done: Outcome) -> list[str]:
    return [alert["rule"] for alert in done.json()["alerts"]]


@pytest.mark.parametrize(
    ("code", "says", "advice"),
    [
        (MISMATCH, "driver and library versions differ", "Reboot"),
        (NOT_LOADED, "the NVIDIA driver is not loaded", "modprobe"),
        (DENIED, "no permission to use the NVIDIA driver", "/dev/nvidiactl"),
        (UNKNOWN, "the NVIDIA driver failed to start", "dmesg"),
    ],
)
def test_alerts_say_that_no_gpu_can_be_read_and_end_as_status_does(
    node: StandIn, bus: Path, code: int, says: str, advice: str
) -> None:
    with node.broken(init_fails(code)):
        done = andon("alerts")
    assert done.code == 3
    assert f"No GPU can be read: {says}" in done.out
    assert advice in done.out
    assert "No active alerts" not in done.out


def test_every_command_agrees_about_a_mismatch(node: StandIn, kernel: Path) -> None:
    with node.broken(init_fails(MISMATCH)):
        found = {name: andon(name) for name in ("status", "ps", "who", "why")}
        listed, worst = andon("alerts", "--json"), andon("alerts", "--exit-code")
    assert {name: done.code for name, done in found.items()} == dict.fromkeys(found, 3)
    assert all("versions differ" in done.out for done in found.values())
    assert found["who"].out.startswith("Who uses the devices now is not known.")
    assert "no process is using" not in found["ps"].out
    assert rules(listed) == ["driver_unreadable"], "and none of the eight is lost by itself"
    assert (listed.code, worst.code) == (3, 12)


def test_a_node_without_a_card_is_told_nothing(
    node: StandIn, bus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in (bus / "sys/bus/pci/devices").iterdir():
        (folder / "vendor").write_text("0x8086\n")
        (folder / "class").write_text("0x020000\n")  # a network card
    with node.broken(init_fails(NOT_LOADED)):
        done = andon("alerts")
    assert done.code == 0
    assert "No active alerts" in done.out
    assert "No GPU found on this node." in done.out


def test_where_nvidia_smi_reads_the_cards_nothing_is_amiss(
    node: StandIn, bus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Fake(tmp_path / "bin").says("xml", H200)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with node.broken(init_fails(NOT_LOADED)):
        shown, done = andon("status", "--json"), andon("alerts", "--json")
    assert shown.json()["faults"][0]["code"] == "other_backend"
    assert (done.code, "driver_unreadable" in rules(done)) == (0, False)


def test_a_pod_without_its_gpu_is_told_so_with_the_remedy(
    node: StandIn, bus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any(Path("/dev").glob("nvidia*")):
        pytest.skip("this machine has NVIDIA's device files")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with node.broken(init_fails(NOT_LOADED)):
        done, why = andon("alerts"), andon("why", "--json")
    assert done.code == 3
    assert "This container (kubernetes) has no NVIDIA GPU, although its host has 8" in done.out
    assert "nvidia.com/gpu: 1" in done.out
    assert [reason["code"] for reason in why.json()["reasons"]] == ["container_without_gpu"]


def test_modules_of_two_versions_are_told_while_everything_works(node: StandIn, bus: Path) -> None:
    for name, version in (("nvidia", "550.54.14"), ("nvidia_uvm", "580.95.05")):
        (bus / "sys/module" / name).mkdir(parents=True)
        (bus / "sys/module" / name / "version").write_text(f"{version}\n")
    done, why = andon("alerts"), andon("why")
    assert done.code == 0
    assert "driver 550.54.14 is loaded, but nvidia_uvm is 580.95.05" in done.out
    assert "Driver 550.54.14 is loaded, but nvidia_uvm is 580.95.05" in why.out


# A server.


def alerts(served: Served) -> dict[str, dict[str, Any]]:
    listed = served.ask("/api/alerts").json()["alerts"]
    return {alert["rule"]: alert for alert in listed if alert["state"] == "firing"}


def test_a_server_lists_it_and_its_commands_its_health_and_its_board_agree(
    node: StandIn, kernel: Path, tmp_path: Path
) -> None:
    state = tmp_path / "served"
    with node.broken(init_fails(MISMATCH)), serving(state, simulate=None) as served:
        wait_until(lambda: "driver_unreadable" in alerts(served), "the alert")
        (alert,) = alerts(served).values()
        health, board = served.ask("/api/health").json(), served.ask("/api/board").json()
        why = served.ask("/api/devices/0/why").json()
        done = served_by.andon(state, "alerts")
        elsewhere = served_by.andon(state, "why", "--url", served.url)
    assert (alert["subject"], alert["level"]) == ("reader:nvidia", "critical")
    assert alert["message"].startswith("No GPU can be read: driver and library versions differ")
    assert board["headline"] == alert["message"]
    assert board["lamp"] == "red"
    (backend,) = health["backends"]
    assert (health["status"], backend["state"]) == ("degraded", "failing")
    assert "versions differ" in backend["reason"]
    assert why["devices"][0]["reasons"][0]["code"] == "version_mismatch"
    assert done.code == 3
    assert alert["message"] in done.out
    assert "versions differ" in elsewhere.out


def test_a_server_resolves_it_when_the_driver_is_back(
    node: StandIn, kernel: Path, tmp_path: Path
) -> None:
    with node.broken(init_fails(NOT_LOADED)), serving(tmp_path / "s", simulate=None) as served:
        wait_until(lambda: "driver_unreadable" in alerts(served), "the alert")
        node.set_faults()
        wait_until(
            lambda: served.ask("/api/health").json()["backends"][0]["state"] == "ok", "the driver"
        )
        assert not served.ask("/api/alerts?rule=device_lost").json()["alerts"]


def test_a_server_tells_of_a_driver_that_is_installed_while_it_runs(
    node: StandIn, bus: Path, tmp_path: Path
) -> None:
    for name, version in (("nvidia", "550.54.14"), ("nvidia_uvm", "580.95.05")):
        (bus / "sys/module" / name).mkdir(parents=True)
        (bus / "sys/module" / name / "version").write_text(f"{version}\n")
    with serving(tmp_path / "s", simulate=None) as served:
        wait_until(lambda: _pending(served), "the alert")
        drivers = served.ask("/api/system").json()["host"]["drivers"]
    assert drivers[0]["modules"]["nvidia_uvm"] == "580.95.05"


def _pending(served: Served) -> list[Any]:
    found: list[Any] = served.ask("/api/alerts?rule=driver_versions_differ").json()["alerts"]
    return found
