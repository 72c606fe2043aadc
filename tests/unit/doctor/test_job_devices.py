"""Whether the devices that Slurm gave to a job are fit for it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from andon.cli.commands.setup.slurm import conf_lines, script
from andon.doctor.rules.job_devices import (
    broken_by_events,
    given_devices,
    unclear_numbers,
    unfit_devices,
)
from andon.model.device import DeviceStatus, Process, State
from andon.model.event import Event, EventKind
from andon.units import GIB
from tests.support.snapshots import h200


def boards(count: int = 4) -> list[DeviceStatus]:
    return [h200(index) for index in range(count)]


def test_slurms_numbers_are_those_of_the_device_files() -> None:
    every = boards()
    assert [one.device.index for one in given_devices("0,2-3", every, {})] == [0, 2, 3]
    assert given_devices("x,9,", every, {}) == []
    swapped = {every[0].device.pci or "": 1, every[1].device.pci or "": 0}
    assert [one.device.index for one in given_devices("0", every, swapped)] == [1]


def test_slurms_numbers_are_not_certain_on_a_node_of_mixed_models() -> None:
    every = boards()
    old = every[3].device
    mixed = [*every[:3], replace(every[3], device=replace(old, name="NVIDIA A100"))]
    assert unclear_numbers(every[:1], every) is None
    assert unclear_numbers(mixed[:1], mixed) == (
        "this node has NVIDIA H200 and NVIDIA A100, which Slurm may number in another order"
    )
    assert unclear_numbers(mixed, mixed) is None  # all of them, in whatever order
    lost = [*every[:3], replace(mixed[3], state=State.LOST)]
    assert unclear_numbers(lost[3:], lost) is None  # what it was is not known
    part = replace(every[0], device=replace(every[0].device, uuid="MIG-1", parent=old.uuid))
    assert "partitioned" in (unclear_numbers(every[:1], [*every, part]) or "")


def unfit(
    one: DeviceStatus, broken: dict[str, str] | None = None, running: tuple[str, ...] = ()
) -> list[str]:
    return [found.message for found in unfit_devices([one], boards(), broken or {}, "7", running)]


def test_a_device_that_is_fit_has_no_words() -> None:
    assert unfit(boards()[0]) == []


def test_what_is_not_known_is_no_trouble() -> None:
    assert unfit(replace(boards()[0], state=State.STALE, reason="no answer")) == []


def test_broken_devices_are_named() -> None:
    one = boards()[0]
    assert unfit(replace(one, state=State.LOST, reason="gone")) == ["GPU 0: lost: gone"]
    assert unfit(one, {one.device.uuid: "reports Xid 79: off"}) == ["GPU 0 reports Xid 79: off"]
    (words,) = unfit(h200(0, ecc_uncorrected=2))
    assert words == "GPU 0: 2 uncorrected memory errors (ECC)"


def process(**more: object) -> Process:
    return Process(9, user="ana", name="train", memory_bytes=GIB, **more)  # type: ignore[arg-type]


def with_process(one: Process) -> DeviceStatus:
    return replace(boards()[0], processes=(one,))


def test_processes_of_others_are_named_with_their_job() -> None:
    (words,) = unfit(with_process(process(job="slurm:41.0")))
    assert words == "GPU 0 is in use by pid 9 (ana, train, Slurm job 41), 1.0 GiB"
    assert unfit(with_process(process())) == ["GPU 0 is in use by pid 9 (ana, train), 1.0 GiB"]


@pytest.mark.parametrize("job", ["slurm:7.batch", "slurm:8.0"])
def test_processes_of_the_job_and_of_those_that_run_there_may_be_on_it(job: str) -> None:
    assert unfit(with_process(process(job=job)), running=("8",)) == []


def test_a_service_that_shares_a_device_is_no_stranger() -> None:
    assert unfit(with_process(replace(process(), name="nvidia-cuda-mps-server"))) == []


def test_an_error_counts_once() -> None:
    every = boards()
    uuid, pci = every[0].device.uuid, every[0].device.pci
    events = [
        (3, Event(EventKind.XID, None, 0.0, 79, pci=pci)),
        (4, Event(EventKind.XID, None, 0.0, 13, pci=pci)),  # of a program
    ]
    (found,) = broken_by_events(events, every, {}).items()
    assert (found[0], found[1][0]) == (uuid, 3)
    assert broken_by_events(events, every, {uuid: 3}) == {}


# What the administrator adds.


def test_the_lines_leave_out_what_slurm_conf_has() -> None:
    folder = Path("/etc/slurm")
    assert conf_lines(folder, "ClusterName=a\n")[0] == [
        "Prolog=/etc/slurm/andon-prolog.sh",
        "Epilog=/etc/slurm/andon-epilog.sh",
        "PrologFlags=Alloc",
    ]
    lines, by_hand = conf_lines(folder, "prolog = /site.sh\nPrologFlags=X11\n")
    assert lines == ["Epilog=/etc/slurm/andon-epilog.sh"]
    assert "/site.sh" in by_hand[0]
    assert "Alloc" in by_hand[1]
    assert conf_lines(folder, "Prolog=/x/andon-prolog.sh\nPrologFlags=contain\n")[1] == []


@pytest.mark.parametrize("kind", ["prolog", "epilog"])
def test_a_script_never_fails_and_uses_no_folder_of_others(kind: str) -> None:
    text = script(kind)
    assert text.endswith("exit 0\n")
    assert "PATH=/usr/sbin:" in text
    assert f"slurm-node {kind}" in text
