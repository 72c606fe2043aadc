"""Links between devices, from NVML and the kernel to the choice, the record and the CPUs."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from andon.cli.main import run as cli
from andon.jobs.folder import JobsFolder, jobs_path
from andon.jobs.starting import is_dispatched
from andon.model.device import Snapshot
from andon.node.watched.live import WatchedLive
from andon.sampling.sampler import Sampler
from tests.integration.conftest import PCI, andon, until
from tests.integration.leasing import records
from tests.integration.queueing import cleaned, settle
from tests.standin import StandIn, hung, lost
from tests.support.waiting import wait_for

PYTHON = sys.executable
ASKED = ("NvLink", "Topology", "Affinity")


@pytest.fixture(autouse=True)
def _box(node: StandIn, own_places: Path) -> None:
    node.write(StandIn.box())


def topology_calls(node: StandIn) -> dict[str, int]:
    return {name: n for name, n in node.calls().items() if any(word in name for word in ASKED)}


def test_a_box_with_two_switches_and_nvlink_is_shown(node: StandIn) -> None:
    done = andon("devices", "--topology")
    assert done.code == 0
    rows = [re.split(r" {2,}", line) for line in done.out.splitlines() if line.startswith("GPU")]
    assert rows[0] == ["GPU 0", "X", "NV4", "PXB", "PXB", "SYS", "SYS", "SYS", "SYS", "0", "0-31"]
    assert rows[7] == ["GPU 7", "SYS", "SYS", "SYS", "SYS", "PXB", "PXB", "NV4", "X", "1", "32-63"]
    assert "NVLink: GPU 2, 3\n" in done.out
    assert "PCIe switch: GPU 4, 5, 6, 7\n" in done.out
    assert "unknown" not in done.out
    node.write(StandIn.box(nvswitch=True))
    found = andon("devices", "--topology", "--json").json()
    assert {(link["kind"], link["lanes"]) for link in found["links"]} == {("nvlink", 18)}
    assert found["groups"] == [
        {"kind": "nvlink", "devices": [one["uuid"] for one in found["devices"]]}
    ]
    assert {one["source"] for one in found["devices"]} == {"nvml"}


def test_a_server_asks_for_links_when_somebody_wants_them(node: StandIn, sampler: Sampler) -> None:
    live = WatchedLive(sampler, 0.2)
    try:
        assert live.wait_for_first(60)
        assert topology_calls(node) == {}
        first = live.placed()

        def known() -> bool:
            found = live.placed()
            nodes = [one.device.place.numa_node for one in found.devices]
            return found.at > first.at and nodes == [0] * 4 + [1] * 4

        wait_for(known)
        assert topology_calls(node)["nvmlDeviceGetTopologyCommonAncestor"] == 28, "asked once"
    finally:
        live.close()


def test_links_are_asked_for_once_and_only_where_they_matter(
    node: StandIn, sampler: Sampler
) -> None:
    sampler.once()
    assert topology_calls(node) == {}
    sampler.ask_places()
    for _ in range(3):
        found = sampler.once()
    asked = topology_calls(node)
    assert asked["nvmlDeviceGetTopologyCommonAncestor"] == 28, "once for each pair"
    assert asked["nvmlDeviceGetNvLinkRemoteDeviceType"] == 8 * 4
    assert [one.device.place.numa_node for one in found.devices] == [0] * 4 + [1] * 4


def test_a_hung_or_lost_device_takes_no_link_from_the_others(
    node: StandIn, sampler: Sampler
) -> None:
    node.set_faults(hung(device=3), lost(5))
    sampler.ask_places()

    def linked(snapshot: Snapshot) -> list[int]:
        return [one.device.index for one in snapshot.devices if one.device.place.nvlinks]

    found = until(sampler, lambda snapshot: len(linked(snapshot)) >= 6, 50)
    assert linked(found) == [0, 1, 2, 4, 6, 7]


def test_what_nvml_does_not_say_comes_from_the_kernel(
    node: StandIn, kernel: Path, tmp_path: Path
) -> None:
    node.write(StandIn.devices(8))
    listed = kernel / "sys/bus/pci/devices"
    listed.mkdir(parents=True)
    for place, pci in enumerate(PCI):
        root = f"pci0000:{place // 4}0"
        folder = kernel / f"sys/devices/{root}/0000:{place // 4}0:01.0/0000:0{place}:00.0" / pci
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{place // 4}\n")
        (folder / "local_cpulist").write_text("0\n")
        (listed / pci).symlink_to(folder)
    found = andon("devices", "--topology", "--json").json()
    assert {one["source"] for one in found["devices"]} == {"sysfs"}
    assert found["devices"][0]["missing"]["nvlinks"] == "not supported by this device"
    kinds = {(link["from"], link["to"]): link["kind"] for link in found["links"]}
    uuids = [one["uuid"] for one in found["devices"]]
    assert kinds[uuids[0], uuids[3]] == "pcie_switch"
    assert kinds[uuids[0], uuids[4]] == "system"


def test_a_run_and_a_job_get_linked_devices_and_their_records_say_so(
    node: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_JOBS_IDLE", "0s")
    request = ("--gpus", "2", "-d", "0,2,3,5", "--", "true")
    done = andon("run", *request)
    assert "running on GPU 2, 3" in done.err
    assert andon("submit", "--wait", *request).code == 0
    wait_for(lambda: len(records(tmp_path / "state")) == 2)
    found = {
        record[0]["kind"]: record[0]["allocation_method"] for record in records(tmp_path / "state")
    }
    linked = "links: linked by NVLink (4 links)"
    assert found == {"command": f"score and {linked}", "job": f"the queue, score and {linked}"}
    wait_for(lambda: not is_dispatched(JobsFolder(jobs_path())))


def test_links_can_be_ignored(monkeypatch: pytest.MonkeyPatch, node: StandIn) -> None:
    monkeypatch.setenv("ANDON_SCORE_LINK_WEIGHT", "0")
    done = andon("run", "--gpus", "2", "-d", "0,2,3,5", "--", "true")
    assert "running on GPU 0, 2" in done.err
    assert topology_calls(node) == {}


def test_a_bound_command_runs_on_the_cpus_next_to_its_devices(
    node: StandIn, tmp_path: Path
) -> None:
    cpu = min(os.sched_getaffinity(0))
    node.write(StandIn.box(first_cpu=cpu, last_cpu=cpu))
    script = "import os; print(sorted(os.sched_getaffinity(0)))"
    done = andon("run", "-d", "4", "--bind", "--", PYTHON, "-c", script)
    assert (done.code, json.loads(done.out)) == (0, [cpu])
    assert f"bound to the CPUs {cpu}, next to its devices, NUMA node 1" in done.err
    [record] = records(tmp_path / "state")
    [event] = [line for line in record if line["event"] == "event"]
    assert (event["name"], event["data"]["cpus"]) == ("bind", str(cpu))
    assert event["data"]["reason"].startswith("bound to the CPUs")
    unbound = andon("run", "-d", "4", "--", PYTHON, "-c", script)
    assert json.loads(unbound.out) == sorted(os.sched_getaffinity(0))


def test_jobs_and_workers_get_linked_devices_and_are_bound_too(
    node: StandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cpu = min(os.sched_getaffinity(0))
    node.write(StandIn.box(first_cpu=cpu, last_cpu=cpu))
    script = "import os; print(sorted(os.sched_getaffinity(0)))"
    leased = andon("lease", "-d", "1", "--bind", "--", PYTHON, "-c", script)
    assert json.loads(leased.out) == [cpu], leased.err
    items = tmp_path / "items"
    items.write_text("a\nb\n")
    mapped = andon("map", "-d", "6", "--bind", "--items", str(items), "--", PYTHON, "-c", script)
    assert mapped.out.splitlines() == [str([cpu])] * 2, mapped.err
    assert f"GPU 6: bound to the CPUs {cpu}, next to its devices, NUMA node 1" in mapped.err
    for refused, code in (("map --cpu 1 --bind -- true", 125), ("submit --image x --bind x", 2)):
        assert cli(refused.split()) == code
        assert "--bind" in capsys.readouterr().err
    with cleaned(settle(monkeypatch, tmp_path)):
        asked = ("submit", "--gpus", "2", "-d", "0,2,3,5", "--bind", "--wait", "--")
        done = andon(*asked, PYTHON, "-c", script)
        assert done.code == 0, done.err
        assert json.loads(andon("logs", "1").out) == [cpu]
    found = {record[0]["kind"]: record for record in records(tmp_path / "state")}
    job = found["job"][0]
    assert job["allocation_method"] == "the queue, score and links: linked by NVLink (4 links)"
    for record in (found["map"], found["job"]):
        [event] = [line for line in record if line["event"] == "event"]
        assert (event["name"], event["data"]["cpus"]) == ("bind", str(cpu))


def test_a_command_that_cannot_be_bound_runs_and_says_why(node: StandIn) -> None:
    node.write(StandIn.devices(1))
    done = andon("run", "--bind", "--", "true")
    assert done.code == 0
    assert "not bound: the CPUs next to GPU 0 are unknown" in done.err
