"""What the system shows of cards that cannot be read, and which versions of a driver it has."""

from pathlib import Path

import pytest

from andon.host.cards import count_cards, has_device_files, with_surroundings
from andon.host.driver_versions import driver_versions
from andon.host.system import System, parse_pressure
from andon.model.device import Fault
from andon.model.vendors import AMD, NVIDIA

FAULT = Fault("nvidia", "the NVIDIA library was not found", "", "no_driver")


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def card(
    root: Path, pci: str, vendor: str = "0x10de", driver: str = "", kind: str = "0x03"
) -> None:
    folder = root / "sys/bus/pci/devices" / pci
    write(folder / "vendor", f"{vendor}\n")
    write(folder / "class", f"{kind}0200\n")
    if driver:
        (folder / "driver").symlink_to(f"../../drivers/{driver}")


def test_cards_are_counted_without_those_of_virtual_machines(tmp_path: Path) -> None:
    card(tmp_path, "0000:01:00.0")
    card(tmp_path, "0000:02:00.0", driver="nouveau")
    card(tmp_path, "0000:03:00.0", driver="vfio-pci")
    card(tmp_path, "0000:04:00.0", kind="0x04")  # its sound
    card(tmp_path, "0000:05:00.0", vendor="0x1002", driver="vfio-pci")
    assert count_cards(NVIDIA, tmp_path) == 2
    assert count_cards(AMD, tmp_path) == 0, "it is given away"


def test_a_bus_without_one_says_that_there_is_none_and_no_bus_says_nothing(tmp_path: Path) -> None:
    assert count_cards(NVIDIA, tmp_path) is None
    card(tmp_path, "0000:00:02.0", vendor="0x8086")
    assert count_cards(NVIDIA, tmp_path) == 0


@pytest.mark.parametrize("sign", ["dev/dxg", "dev/nvgpu"])
def test_a_gpu_that_is_not_on_the_bus_may_be_there(tmp_path: Path, sign: str) -> None:
    card(tmp_path, "0000:00:02.0", vendor="0x8086")
    write(tmp_path / sign)
    assert count_cards(NVIDIA, tmp_path) is None


def test_the_drivers_own_list_counts_where_the_bus_is_hidden(tmp_path: Path) -> None:
    for pci in ("0000:01:00.0", "0000:02:00.0"):
        write(tmp_path / "proc/driver/nvidia/gpus" / pci / "information")
    assert count_cards(NVIDIA, tmp_path) == 2


def test_a_container_is_looked_for_only_where_a_card_has_no_file(tmp_path: Path) -> None:
    host, own = tmp_path / "host", tmp_path / "own"
    write(own / ".dockerenv")
    card(host, "0000:01:00.0")
    found = with_surroundings(FAULT, host, own, {})
    assert (found.cards, found.device_files, found.container) == (1, False, "docker")
    write(own / "dev/nvidiactl")
    assert has_device_files(NVIDIA, own)
    given = with_surroundings(FAULT, host, own, {})
    assert (given.cards, given.device_files, given.container) == (1, True, None)


def test_a_pod_and_a_plain_node_are_told_apart(tmp_path: Path) -> None:
    card(tmp_path, "0000:01:00.0")
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert with_surroundings(FAULT, tmp_path, tmp_path, pod).container == "kubernetes"
    assert with_surroundings(FAULT, tmp_path, tmp_path, {}).container == ""


def test_nothing_is_said_of_a_backend_whose_cards_nobody_knows(tmp_path: Path) -> None:
    other = Fault("tpu", "it is broken")
    assert with_surroundings(other, tmp_path) is other


# Versions.


def test_the_versions_are_those_that_are_loaded_and_that_of_the_library(tmp_path: Path) -> None:
    root, own = tmp_path / "root", tmp_path / "own"
    for name, version in (("nvidia", "550.54.14"), ("nvidia_uvm", "550.54.15")):
        write(root / "sys/module" / name / "version", f"{version}\n")
    folder = own / "usr/lib"
    write(folder / "libnvidia-ml.so.580.95.05", "x")
    (folder / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.580.95.05")
    (found,) = driver_versions(root, own, {})
    assert found.modules == {"nvidia": "550.54.14", "nvidia_uvm": "550.54.15"}
    assert found.library == "580.95.05"


def test_what_is_not_found_is_unknown(tmp_path: Path) -> None:
    assert driver_versions(tmp_path, tmp_path, {}) == ()
    write(tmp_path / "sys/module/nvidia/version", "550.54.14\n")
    (found,) = driver_versions(tmp_path, tmp_path, {})
    assert found.library is None


def test_a_sampler_finds_them_after_half_a_minute_and_then_rarely(tmp_path: Path) -> None:
    now, asked = [0.0], []

    def drivers() -> tuple[()]:
        asked.append(now[0])
        return ()

    system = System(tmp_path, clock=lambda: now[0], drivers=drivers)
    for now[0] in (0.0, 1.0, 29.0, 30.0, 31.0, 329.0, 330.0, 331.0):
        found = system.read().drivers
        assert (found is None) is (now[0] < 30.0)
    assert asked == [30.0, 330.0]


# Memory.


def test_the_share_of_time_that_processes_wait_for_memory() -> None:
    text = b"some avg10=1.53 avg60=0.87 avg300=0.20 total=1\nfull avg10=0.00 avg60=0.00"
    assert parse_pressure(text) == 1.53
    for wrong in (b"", b"full avg10=1", b"some avg60=1 x", b"some avg10=x y"):
        with pytest.raises(ValueError):
            parse_pressure(wrong)


def test_it_is_unknown_where_the_kernel_does_not_say_and_read_every_five_seconds(
    tmp_path: Path,
) -> None:
    now = [0.0]
    system = System(tmp_path, clock=lambda: now[0])
    assert system.read().memory_pressure_percent is None
    write(tmp_path / "proc/pressure/memory", "some avg10=40.00 avg60=1 avg300=1 total=1\n")
    assert system.read().memory_pressure_percent is None
    now[0] = 5.0
    assert system.read().memory_pressure_percent == 40.0
