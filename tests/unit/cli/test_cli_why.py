"""`andon why`: what a person reads, what a program gets, and how it ends."""

import json
import time
from collections.abc import Iterator
from inspect import isfunction

import pytest
from msgspec.structs import replace

from andon.cli.main import run
from andon.cli.show import why
from andon.cli.show.text import display_width, painted
from andon.cli.show.why import answer, answer_to_json, render_why
from andon.explain.evidence import measures
from andon.model.device import SAMPLE_VALUES, DeviceStatus, Snapshot, reading_label
from andon.model.lamp import Lamp
from tests.support import snapshots as golden
from tests.support.fake_node import FakeNode
from tests.support.snapshots import assert_golden, busy, work


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("ANDON_CONFIG", "/dev/null")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def _looks(snapshot: Snapshot, count: int = 5, step: float = 0.5) -> list[Snapshot]:
    """The same snapshot a few times, as if nothing changed."""
    return [_moved(snapshot, number * step) for number in range(count)]


def _moved(snapshot: Snapshot, seconds: float) -> Snapshot:
    return replace(
        snapshot,
        at=snapshot.at + seconds,
        devices=tuple(_later(status, seconds) for status in snapshot.devices),
    )


def _later(status: DeviceStatus, seconds: float) -> DeviceStatus:
    if not status.answered or status.sample is None:
        return status
    return replace(status, sample=replace(status.sample, at=status.sample.at + seconds))


def _held() -> Snapshot:
    notebook = work(5012, "bob", "jupyter", 61.0, container="jupyter-bob", job="slurm 4711")
    return replace(golden.farm(), devices=(replace(golden.h200(0, 61.2), processes=(notebook,)),))


def _healthy() -> Snapshot:
    trainer = work(4101, "alice", "python", 136.0, utilization_percent=97)
    status = busy(0, 99, 136.2, trainer)
    assert status.sample is not None
    sample = replace(status.sample, power_watts=693.0, sm_clock_mhz=1755)
    return replace(golden.farm(), devices=(replace(status, sample=sample),))


@pytest.mark.parametrize("width", [80, 120])
def test_the_most_troubled_is_told_in_full_and_the_others_in_a_line(width: int) -> None:
    found = answer(_looks(golden.farm()))
    assert_golden(f"why-{width}.txt", painted(render_why(found, width)))


def test_colours_are_as_calm_as_the_words() -> None:
    assert_golden(
        "why-80-color.txt", painted(render_why(answer(_looks(golden.farm())), 80), color=True)
    )


def test_heat_is_told_with_who_works_and_what_to_do() -> None:
    found = answer(_looks(golden.farm()), golden.uuid(2))
    assert_golden("why-hot.txt", painted(render_why(found, 80)))


def test_a_held_and_idle_device_is_told_with_its_holder() -> None:
    found = answer(_looks(_held(), 20, 30.0), golden.uuid(0))
    assert_golden("why-held.txt", painted(render_why(found, 80)))


def test_a_healthy_device_is_told_to_be_well() -> None:
    assert_golden("why-healthy.txt", painted(render_why(answer(_looks(_healthy())), 80)))


def test_a_node_without_a_gpu_is_explained() -> None:
    assert_golden("why-no-gpu.txt", painted(render_why(answer([golden.no_gpu()]), 80)))


def test_a_vendor_that_fails_is_told_below_the_devices_of_another() -> None:
    text = painted(render_why(answer([golden.faults()]), 80))
    assert "amd: no permission to read /dev/kfd · sudo usermod -aG render $USER" in text


def test_json_has_the_reasons_of_every_device_the_most_troubled_first() -> None:
    value = answer_to_json(answer(_looks(_held())))
    assert_golden("why.json", json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    farm = answer_to_json(answer(_looks(golden.farm())))
    ranks = [
        Lamp(device["lamp"]).rank for device in farm["devices"] if device["status"] != "asleep"
    ]
    assert ranks == sorted(ranks, reverse=True)
    for device in farm["devices"]:
        problems = [reason for reason in device["reasons"] if reason["problem"]]
        assert bool(problems) == (device["lamp"] not in ("green", "grey")), device
    assert farm["sampled_seconds"] == 2.0


def test_no_line_is_wider_than_the_screen() -> None:
    for snapshot in (golden.farm(), golden.masked(), golden.faults(), golden.no_gpu()):
        for status in snapshot.devices or (None,):
            uuid = None if status is None else status.device.uuid
            found = answer([snapshot], uuid)
            for width in (40, 61, 80, 133):
                text = painted(render_why(found, width))
                assert all(display_width(line) <= width for line in text.splitlines()), width


@pytest.mark.parametrize("width", [20, 24, 30])
def test_a_narrow_screen_gets_every_word_of_the_advice(width: int) -> None:
    found = answer(_looks(golden.farm()), golden.uuid(2))
    text = painted(render_why(found, width))
    assert all(display_width(line) <= width for line in text.splitlines())
    told = " ".join(text.split())
    first = found.reasons[golden.uuid(2)][0]
    assert f"do: {first.advice}" in told
    assert "evidence: temperature 84 °C" in told
    assert "…" not in text.partition("\n")[2], "only the heading may be cut"
    alone = painted(render_why(answer([golden.no_gpu()]), width))
    assert all(display_width(line) <= width for line in alone.splitlines())
    assert "do: Install the NVIDIA driver, or start the container" in " ".join(alone.split())


def test_a_masked_device_is_called_by_both_its_numbers() -> None:
    text = painted(render_why(answer([golden.masked()], golden.uuid(2)), 80))
    assert "GPU 2 (cuda:0 here)" in text


def test_the_mask_is_looked_at_once_and_not_for_each_pair_of_devices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For 512 devices the list of the others took 36 s."""
    looks: list[Snapshot] = []
    monkeypatch.setattr(why, "is_masked", looks.append)
    painted(render_why(answer([golden.farm()]), 80))
    assert len(looks) == 1


@pytest.fixture
def farm() -> FakeNode:
    return FakeNode(*_looks(golden.farm(), 9))


def test_it_looks_for_two_seconds_and_says_so(
    farm: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", "--json"], farm) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sampled_seconds"] == 2.0
    assert err == "andon: sampling for 2 s\n"


def test_quiet_leaves_the_notice_out(farm: FakeNode, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["why", "--quiet", "--seconds", "1"], farm) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "GPU 3" in out


def test_one_look_is_enough_if_that_is_asked_for(
    farm: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", "0", "--seconds", "0", "--json"], farm) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["sampled_seconds"] == 0.0
    assert [device["index"] for device in value["devices"]] == [0]


@pytest.mark.parametrize(("name", "uuid"), [("6", golden.uuid(6)), ("6:1", "MIG-0006-1")])
def test_a_board_and_its_instance_are_told_apart(
    name: str, uuid: str, farm: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", name, "--json"], farm) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert device["uuid"] == uuid


def test_a_wrong_name_and_an_ambiguous_one_are_told(
    farm: FakeNode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", "77"], farm) == 5
    assert "there is no device '77'" in capsys.readouterr().err
    assert run(["why", "GPU-"], farm) == 2
    assert "matches several devices" in capsys.readouterr().err


def test_without_a_gpu_it_explains_why_and_exits_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    node = FakeNode(golden.no_gpu())
    assert run(["why", "0"], node) == 3
    out, err = capsys.readouterr()
    assert "libnvidia-ml.so.1 is not installed" in out
    assert err == "", "there is no past to wait for"
    assert run(["why", "--json"], node) == 3
    value = json.loads(capsys.readouterr().out)
    assert (value["devices"], value["reasons"][0]["code"]) == ([], "no_driver")


@pytest.mark.process
def test_simulated_devices_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["why", "--simulate", "1", "--seconds", "0"]) == 0
    assert "SIMULATED" in capsys.readouterr().out


def test_every_measure_says_what_it_measures() -> None:
    own = [one for one in vars(measures).values() if isfunction(one)]
    mine = [one for one in own if one.__module__ == measures.__name__]
    assert mine
    assert all(one.__doc__ for one in mine if not one.__name__.startswith("_"))


def test_one_spelling_of_utilisation_is_shown() -> None:
    names = [reading_label(name) for name in SAMPLE_VALUES]
    assert "memory utilisation" in names
    assert [name for name in names if "utilization" in name] == []
