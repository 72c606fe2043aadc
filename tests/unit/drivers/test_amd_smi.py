"""AMD's own library beside its driver's files, played by a stand-in: no such card was at hand.

Names, keys and behaviour are those of the amdsmi packages 5.7.0, 6.1.2, 6.3.0, 6.4.4 and 7.0.2 on
PyPI (amdsmi_interface.py; amdsmi_wrapper.py for an import without libamd_smi.so), and of
https://rocm.docs.amd.com/projects/amdsmi/en/latest/reference/amdsmi-py-api.html; that a card none
of whose parts counts errors has a total of zero is from amdsmi_get_gpu_total_ecc_count in
ROCm/amdsmi, src/amd_smi/amd_smi.cc.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from andon.drivers.amd import Amd
from andon.drivers.amd.card import OTHERWISE
from andon.drivers.amd.smi import Smi
from andon.drivers.shared.sysfs import Tree
from andon.model.device import Card, Reading, Sample, State
from tests.constructed import Machine
from tests.constructed import amd as machines
from tests.support.clocks import Clock
from tests.support.replaced import answers

FIRST, SECOND = machines.INSTINCT
CALLS = (
    "amdsmi_get_energy_count",
    "amdsmi_get_gpu_total_ecc_count",
    "amdsmi_get_gpu_ras_block_features_enabled",
    "amdsmi_get_gpu_asic_info",
    "amdsmi_get_gpu_device_bdf",
    "amdsmi_get_processor_handles",
    "amdsmi_shut_down",
    "amdsmi_init",
)


class AmdSmiLibraryException(Exception):
    """What the library raises for a status that is not success."""


class Library(ModuleType):
    """The module `amdsmi`, with the two cards of the constructed server."""

    def __init__(self) -> None:
        super().__init__("amdsmi")
        self.calls: list[str] = []
        self.failing: set[str] = set()
        self.addresses = {"handle-0": FIRST.upper(), "handle-1": SECOND}
        self.energy: dict[str, Any] = {
            "energy_accumulator": 4_000_000_000,
            "counter_resolution": 15.3,
            "timestamp": 1,
        }
        self.errors: dict[str, Any] = {"correctable_count": 5, "uncorrectable_count": 3}
        self.blocks = [{"block": "UMC", "status": "ENABLED"}]
        self.market_name: Any = "Instinct MI999"
        for name in CALLS:
            setattr(self, name, self._call(name))

    def _call(self, name: str) -> Callable[..., Any]:
        def call(*handles: str) -> Any:
            self.calls.append(name)
            if name in self.failing:
                raise AmdSmiLibraryException(2)
            return self._answer(name, *handles)

        return call

    def _answer(self, name: str, handle: str = "") -> Any:
        return {
            "amdsmi_get_energy_count": self.energy,
            "amdsmi_get_gpu_total_ecc_count": self.errors,
            "amdsmi_get_gpu_ras_block_features_enabled": self.blocks,
            "amdsmi_get_gpu_asic_info": {"market_name": self.market_name, "rev_id": "0x00"},
            "amdsmi_get_gpu_device_bdf": self.addresses.get(handle),
            "amdsmi_get_processor_handles": list(self.addresses),
        }.get(name)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "amdsmi", made)
    return made


@pytest.fixture
def opened(library: Library) -> Iterator[Smi]:
    made = Smi(lambda: True, wait_seconds=0.0)
    yield made
    made.close()


class Station:
    """The backend over one machine, allowed to use the library."""

    def __init__(self, root: Path, machine: Machine) -> None:
        self.root, self.clock = machine.build(root), Clock()
        self.backend = Amd(tree=Tree(root), clock=self.clock, sleep=self.clock.sleep, library=True)
        self.cards: list[Card] = list(self.backend.open())

    def read(self, index: int = 0) -> Reading:
        return self.backend.read(self.cards[index], self.clock.now, False)[0]

    def sample(self, index: int = 0) -> Sample:
        sample = self.read(index).sample
        assert sample is not None
        return sample

    def control(self, address: str, text: str) -> None:
        (self.root / f"sys/bus/pci/devices/{address}/power/control").write_text(text)


def server(*, ras: bool = True, known: bool = True) -> Machine:
    """Two Instincts, which no system suspends; with less of what the files hold."""
    machine = machines.instinct()
    for path in list(machine.files):
        if not ras and path.endswith("umc_err_count"):
            del machine.files[path]
        if not known and path.endswith("/product_name"):
            del machine.files[path]
        if not known and path.endswith("/device"):
            machine.files[path] = "0x7fff\n"
    return machine


# What it adds.


def test_energy_is_the_count_times_its_resolution_in_microjoules(
    tmp_path: Path, library: Library
) -> None:
    sample = Station(tmp_path, server()).sample()
    assert sample.energy_joules == 61_200.0
    assert sample.ecc_uncorrected == 0  # the kernel's file, and not the library's three


def test_the_key_of_older_versions_is_understood(opened: Smi, library: Library) -> None:
    library.energy = {"power": 2_000_000, "counter_resolution": 15.25, "timestamp": 1}
    assert opened.energy_joules(FIRST) == 30.5


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"energy_accumulator": 5},
        {"counter_resolution": 15.3},
        {"energy_accumulator": "N/A", "counter_resolution": 15.3},
        {"energy_accumulator": 5, "counter_resolution": "N/A"},
        {"energy_accumulator": 0xFFFF_FFFF_FFFF_FFFF, "counter_resolution": 15.3},
        {"energy_accumulator": 0, "counter_resolution": 15.3},
        {"energy_accumulator": -5, "counter_resolution": 15.3},
        {"energy_accumulator": 5, "counter_resolution": float("nan")},
        {"energy_accumulator": 5, "counter_resolution": 0.0},
        None,
    ],
)
def test_a_count_that_is_none_is_no_energy(opened: Smi, library: Library, said: Any) -> None:
    library.energy = said
    assert opened.energy_joules(FIRST) is None


def test_errors_are_the_library_s_where_the_kernel_has_no_file(
    tmp_path: Path, library: Library
) -> None:
    assert Station(tmp_path, server(ras=False)).sample().ecc_uncorrected == 3


def test_a_total_over_no_part_is_not_a_card_without_errors(
    tmp_path: Path, library: Library
) -> None:
    library.errors = {"uncorrectable_count": 0}
    library.blocks = [{"block": "UMC", "status": "DISABLED"}]
    reading = Station(tmp_path, server(ras=False)).read()
    assert reading.missing["ecc_uncorrected"] == "not reported by this kernel (no umc_err_count)"
    library.blocks.append({"block": "GFX", "status": "ENABLED"})
    assert Station(tmp_path / "again", server(ras=False)).sample().ecc_uncorrected == 0


def test_a_nameless_card_is_called_what_it_is_sold_as(tmp_path: Path, library: Library) -> None:
    station = Station(tmp_path, server(known=False))
    assert station.backend.describe(station.cards[0])[0].name == "AMD Instinct MI999"


def test_a_name_that_the_system_knows_is_not_asked_for(tmp_path: Path, library: Library) -> None:
    station = Station(tmp_path, server())
    assert station.backend.describe(station.cards[0])[0].name == "AMD Instinct MI300X"
    assert library.calls == []


@pytest.mark.parametrize("said", ["N/A", "", "0x7fff", None])
def test_what_is_no_market_name_leaves_the_number(
    tmp_path: Path, library: Library, said: str | None
) -> None:
    library.market_name = said
    station = Station(tmp_path, server(known=False))
    assert station.backend.describe(station.cards[0])[0].name == "AMD GPU 0x7fff"


def test_counts_are_asked_for_once_a_minute_and_say_when(tmp_path: Path, library: Library) -> None:
    station = Station(tmp_path, server())
    first = station.clock.now
    station.read()
    for _ in range(50):
        station.clock.now += 1.0
        sample = station.sample()
    assert library.calls.count("amdsmi_get_energy_count") == 1
    assert sample.read_at["energy_joules"] == first
    station.clock.now += 10.0
    assert "energy_joules" not in station.sample().read_at
    assert library.calls.count("amdsmi_get_energy_count") == 2


def test_cards_are_told_apart_by_their_address(tmp_path: Path, library: Library) -> None:
    del library.addresses["handle-0"]
    station = Station(tmp_path, server())
    assert station.read(0).missing["energy_joules"] == OTHERWISE["energy_joules"]
    assert station.sample(1).energy_joules == 61_200.0


def test_the_reader_is_no_user_of_the_cards_that_its_library_opened(
    tmp_path: Path, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, os, "getpid", 4000)
    assert [process.pid for process in Station(tmp_path, server()).read().processes] == []


# What can go wrong.


def without_package(library: Library, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", None)  # how Python says: not installed


def without_library(library: Library, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """7.0.2's wrapper prints that it found no libamd_smi.so, and ends in a KeyError."""
    (folder / "amdsmi.py").write_text("print('Unable to find libamd_smi.so')\n{}['lib']\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "amdsmi")


def without_function(library: Library, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    for name in CALLS[:4]:
        delattr(library, name)


@pytest.mark.parametrize("trouble", [without_package, without_library, without_function])
def test_without_the_library_the_files_stand_and_the_reasons_stay(
    tmp_path: Path,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[[Library, pytest.MonkeyPatch, Path], None],
) -> None:
    trouble(library, monkeypatch, tmp_path)
    check_the_files_stand(tmp_path)


@pytest.mark.parametrize(
    "call", ["amdsmi_init", "amdsmi_get_processor_handles", "amdsmi_get_gpu_device_bdf"]
)
def test_a_library_that_does_not_start_costs_nothing(
    tmp_path: Path, library: Library, call: str
) -> None:
    library.failing = {call}
    check_the_files_stand(tmp_path)


def test_calls_that_all_fail_cost_nothing_else(tmp_path: Path, library: Library) -> None:
    library.failing = set(CALLS) - {"amdsmi_init"}
    check_the_files_stand(tmp_path)


def check_the_files_stand(root: Path) -> None:
    station = Station(root, server(ras=False, known=False))
    assert station.backend.describe(station.cards[0])[0].name == "AMD GPU 0x7fff"
    reading = station.read()
    assert reading.sample is not None
    assert reading.sample.power_watts == 612.0
    assert reading.missing["energy_joules"] == OTHERWISE["energy_joules"]
    assert reading.missing["ecc_uncorrected"] == "not reported by this kernel (no umc_err_count)"
    station.backend.close()


@pytest.mark.parametrize("call", CALLS[:2])
def test_one_call_that_fails_costs_one_value(tmp_path: Path, library: Library, call: str) -> None:
    library.failing = {call}
    sample = Station(tmp_path, server(ras=False)).sample()
    assert (sample.energy_joules is None) == (call == CALLS[0])
    assert (sample.ecc_uncorrected is None) == (call == CALLS[1])


def test_what_failed_to_start_is_not_tried_again(tmp_path: Path, library: Library) -> None:
    library.failing = {"amdsmi_init"}
    station = Station(tmp_path, server())
    for _ in range(3):
        station.clock.now += 100.0
        station.read()
    assert library.calls == ["amdsmi_init"]


def test_what_an_import_prints_is_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "amdsmi.py").write_text("print('Unable to find libamd_smi.so')\n{}['lib']\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "amdsmi", raising=False)
    assert Smi(lambda: True).energy_joules(FIRST) is None
    assert capsys.readouterr().out == ""


def test_a_call_that_hangs_holds_up_no_other_card(opened: Smi, library: Library) -> None:
    entered, finish = threading.Event(), threading.Event()

    def hang(handle: str) -> Any:
        entered.set()
        finish.wait(30.0)
        return {"market_name": "late"}

    library.__dict__["amdsmi_get_gpu_asic_info"] = hang
    stuck = threading.Thread(target=opened.market_name, args=(FIRST,))
    stuck.start()
    assert entered.wait(30.0)
    assert opened.energy_joules(SECOND) is None
    opened.close()  # does not wait either
    finish.set()
    stuck.join()
    assert opened.energy_joules(SECOND) == 61_200.0


# Opened late, once, and never where a card could sleep.


def test_it_is_opened_once_for_all_cards_and_shut_down_at_the_end(
    tmp_path: Path, library: Library
) -> None:
    station = Station(tmp_path, server())
    assert library.calls == []
    for index in (0, 1, 0, 1):
        station.clock.now += 100.0
        station.read(index)
    assert library.calls.count("amdsmi_init") == 1
    station.backend.close()
    station.backend.close()
    assert library.calls.count("amdsmi_shut_down") == 1


@pytest.mark.parametrize("build", [machines.laptop, machines.radeon, machines.processor])
def test_where_a_card_could_sleep_it_is_not_even_opened(
    tmp_path: Path, library: Library, build: Callable[[], Machine]
) -> None:
    station = Station(tmp_path, build())
    for index, card in enumerate(station.cards):
        station.backend.describe(card)
        station.read(index)
    station.backend.close()
    assert library.calls == []


def test_one_card_that_could_sleep_is_enough(tmp_path: Path, library: Library) -> None:
    station = Station(tmp_path, server())
    station.control(SECOND, "auto\n")
    station.read(0)
    assert library.calls == []


def test_it_is_let_go_of_when_a_card_may_sleep_from_now_on(
    tmp_path: Path, library: Library
) -> None:
    station = Station(tmp_path, server())
    station.read()
    station.control(SECOND, "auto\n")
    station.clock.now += 60.0
    assert station.read().missing["energy_joules"] == OTHERWISE["energy_joules"]
    assert library.calls[-1] == "amdsmi_shut_down"


def test_it_is_let_go_of_as_soon_as_a_card_is(tmp_path: Path, library: Library) -> None:
    station = Station(tmp_path, server())
    station.read(0)
    folder = tmp_path / f"sys/bus/pci/devices/{SECOND}/power"
    (folder / "runtime_status").write_text("suspended\n")
    assert station.read(1).state is State.ASLEEP
    assert library.calls[-1] == "amdsmi_shut_down"
    station.clock.now += 60.0
    station.read(0)
    assert library.calls.count("amdsmi_init") == 1


def test_a_tree_that_stands_for_another_machine_does_not_ask_this_one_s_library(
    tmp_path: Path, library: Library
) -> None:
    root = server().build(tmp_path)
    backend = Amd(root=str(root), sleep=lambda _: None)
    for card in backend.open():
        backend.read(card, 1000.0, False)
    assert library.calls == []
