"""Several vendors on one host, a second way to NVIDIA's devices, and recordings."""

import os
from pathlib import Path

import pytest

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.model.device import State
from andon.sampling.sampler import Sampler
from tests.constructed import Machine, amd, intel
from tests.integration.conftest import PCI, andon, until
from tests.standin import StandIn, init_fails
from tests.support.nvidia_smi import H200, Fake


def mixed() -> Machine:
    """A Radeon, an Arc, and what the kernel shows of eight NVIDIA cards."""
    machine = amd.radeon()
    other = intel.arc()
    machine.files |= other.files
    machine.links |= other.links
    for address in PCI:
        place = machine.pci(address, "nvidia")
        machine.add(f"{place}/power", {"control": "on\n", "runtime_status": "active\n"})
    return machine


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = mixed().build(tmp_path / "mixed")
    monkeypatch.setenv("ANDON_ROOT", str(root))
    return root


def test_every_vendor_is_shown_under_one_numbering(
    node: StandIn, host: Path, sampler: Sampler
) -> None:
    snapshot = sampler.once()
    found = [(status.device.index, status.device.vendor) for status in snapshot.devices]
    assert found == [(i, "nvidia") for i in range(8)] + [(8, "amd"), (9, "intel")]
    assert {status.state for status in snapshot.devices} == {State.OK}
    assert snapshot.faults == ()


def test_one_vendor_that_fails_does_not_hide_the_others(node: StandIn, host: Path) -> None:
    with node.broken(init_fails(9)):
        done = andon("status", "--json")
    assert done.code == 0
    shown = done.json()
    assert {d["vendor"] for d in shown["devices"] if d["state"] == "ok"} == {"amd", "intel"}
    assert {d["vendor"] for d in shown["devices"] if d["state"] != "ok"} <= {"nvidia"}
    assert "not loaded" in shown["faults"][0]["reason"]


def test_a_host_without_nvidia_is_not_told_about_its_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_ROOT", str(amd.radeon().build(tmp_path / "radeon")))
    done = andon("status", "--json")
    assert done.code == 0
    assert [d["vendor"] for d in done.json()["devices"]] == ["amd"]
    assert done.json()["faults"] == []


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """A host without NVIDIA's library, and with its command."""
    fake = Fake(tmp_path / "bin")
    fake.says("xml", H200)
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return fake


def test_where_the_library_is_missing_the_command_is_asked(command: Fake) -> None:
    done = andon("status", "--json")
    assert done.code == 0
    shown = done.json()
    assert [(d["vendor"], d["name"], d["state"]) for d in shown["devices"]] == [
        ("nvidia", "NVIDIA H200", "ok")
    ]
    [fault] = shown["faults"]
    assert "was not found; using nvidia-smi instead" in fault["reason"]
    assert "no NVIDIA driver is installed" not in fault["hint"]
    assert "only its library is missing" in fault["hint"]


def test_where_both_ways_fail_both_reasons_are_told_everywhere(command: Fake) -> None:
    command.says("xml", "NVIDIA-SMI has failed because it couldn't communicate", code=9)
    both = (
        "the NVIDIA library libnvidia-ml.so.1 was not found; "
        "nvidia-smi: the NVIDIA driver is not loaded"
    )
    done = andon("status", "--json")
    assert done.code == 3
    [fault] = done.json()["faults"]
    assert fault["reason"] == both
    assert "sudo modprobe nvidia" in fault["hint"]
    for words in (("devices",), ("doctor",)):
        said = " ".join(andon(*words).out.split())
        assert both in said, words
        assert "modprobe" in said, words


def test_a_driver_that_comes_back_is_read_by_its_library_again(
    node: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake(tmp_path / "bin")
    fake.says("xml", "failed", code=9)
    monkeypatch.setenv("PATH", f"{fake.folder}:{os.environ['PATH']}")
    with open_sampler(load_settings({}).settings) as sampler:
        node.set_faults(init_fails(9))
        assert sampler.once().devices == ()
        node.set_faults()
        until(sampler, lambda s: len(s.devices) == 8 and not s.faults)


def test_a_recording_is_played_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDON_DEADLINE", "30s")  # a device that is late is recorded as late
    record = tmp_path / "look.jsonl"
    assert (
        andon("watch", "--simulate", "3", "-n", "2", "-i", "0.1", "-q", "--out", str(record)).code
        == 0
    )
    done = andon("--replay", str(record))
    assert done.code == 0
    assert "REPLAYED" in done.out
    assert "SIMULATED" not in done.out
    shown = andon("status", "--replay", str(record), "--json").json()
    assert all("replayed" in device["name"] for device in shown["devices"])
    assert shown["versions"]["replay"]


@pytest.mark.parametrize("text", ["", "nonsense\n", '{"schema": "andon.snapshot/9"}\n'])
def test_a_file_that_is_no_recording_is_refused_with_a_reason(tmp_path: Path, text: str) -> None:
    record = tmp_path / "bad.jsonl"
    record.write_text(text)
    done = andon("--replay", str(record))
    assert done.code in (2, 3)
    assert "bad.jsonl" in done.err
    assert "Traceback" not in done.err
