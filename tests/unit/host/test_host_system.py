"""The node's own values, from a made-up /proc and from the real one."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from andon.host import system
from andon.host.file_systems import Mount, parse_mounts
from andon.host.machine_id import boot_id, node_name
from andon.host.rules.rates import FIRST, NO_TIME
from andon.host.system import (
    DISKS_EVERY_SECONDS,
    CpuTimes,
    System,
    busy_percent,
    local_mounts,
    parse_cpu,
    parse_memory,
    parse_network,
)
from andon.host.traffic import UNREADABLE
from andon.model.device import HOST_VALUES, Host, Network, Snapshot
from andon.model.wire import ANSWER, dumps, loads, snapshot_to_json
from andon.model.wire_in import snapshot_from_json
from tests.support.replaced import answers

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

NET = """Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo
    lo: 100 1 0 0 0 0 0 0 100 1 0 0 0 0 0 0
  eth0: 5000 1 0 0 0 0 0 0 700 1 0 0 0 0 0 0
eth0:1: 6 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0
vetha1b: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0
"""
MEMORY = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\nBuffers: 1 kB\nCached: 2 kB\n"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system whose /proc is mounted here; its pid 1 tells of mounts and network."""
    (tmp_path / "proc/1/net").mkdir(parents=True)
    (tmp_path / "proc/stat").write_text("cpu 100 0 100 700 100 0 0 0 0 0\ncpu0 1 2 3 4\n")
    (tmp_path / "proc/meminfo").write_text(MEMORY)
    (tmp_path / "proc/loadavg").write_text("1.50 1.00 0.50 1/100 4242\n")
    (tmp_path / "proc/1/net/dev").write_text(NET)
    (tmp_path / "proc/1/mounts").write_text("/dev/sda1 / ext4 rw 0 0\n")
    return tmp_path


@linux
def test_a_read_holds_every_part(root: Path) -> None:
    host = System(root).read()
    assert host.cpu_percent is None
    assert (host.memory_used_bytes, host.memory_total_bytes) == (600 * 1024, 1000 * 1024)
    assert host.load_1m == 1.5
    assert [disk.mount for disk in host.disk] == ["/"]
    assert 0 < host.disk[0].used_bytes <= host.disk[0].total_bytes
    assert host.network == (Network("eth0", 5000, 700), Network("eth0:1", 6, 7))


@linux
def test_the_processors_share_is_counted_since_the_previous_read(root: Path) -> None:
    host = System(root)
    assert host.read().cpu_percent is None
    assert host.read().cpu_percent is None, "no time passed"
    (root / "proc/stat").write_text("cpu 150 0 125 715 110 0 0 0 0 0\n")
    assert host.read().cpu_percent == 75.0
    assert host.read().cpu_percent == 75.0, "known a moment ago: not unknown now"
    (root / "proc/stat").write_text("cpu 150 0 125 719 110 0 0 0 0 0\n")
    assert host.read().cpu_percent == 75.0, "four ticks are too few to tell"
    (root / "proc/stat").write_text("cpu 150 0 125 815 110 0 0 0 0 0\n")
    assert host.read().cpu_percent == 0.0


@linux
def test_a_read_that_failed_between_leaves_the_share_unknown(root: Path) -> None:
    host = System(root)
    host.read()
    (root / "proc/stat").rename(root / "proc/hidden")
    assert host.read().cpu_percent is None
    (root / "proc/hidden").rename(root / "proc/stat")
    assert host.read().cpu_percent is None


@linux
@pytest.mark.parametrize(
    ("file", "field", "unknown"),
    [
        ("stat", "cpu_percent", None),
        ("meminfo", "memory_used_bytes", None),
        ("meminfo", "memory_total_bytes", None),
        ("loadavg", "load_1m", None),
        ("1/mounts", "disk", ()),
        ("1/net/dev", "network", ()),
    ],
)
@pytest.mark.parametrize("damage", [None, b"", b"\xff\n:\n", b"a b c\n" * 4])
def test_one_failing_part_leaves_the_others(
    root: Path, file: str, field: str, unknown: object, damage: bytes | None
) -> None:
    if damage is None:
        (root / "proc" / file).unlink()
    else:
        (root / "proc" / file).write_bytes(damage)
    host = System(root).read()
    assert getattr(host, field) == unknown
    others = {"memory_used_bytes", "load_1m", "disk", "network"} - {field}
    if file != "meminfo":
        assert all(getattr(host, other) for other in others)


@linux
def test_a_root_with_nothing_in_it_gives_an_empty_host(tmp_path: Path) -> None:
    assert System(tmp_path).read() == Host(missing=dict.fromkeys(HOST_VALUES, UNREADABLE))


@linux
def test_two_readings_at_once_say_why_there_is_no_share(root: Path) -> None:
    host = System(root)
    assert host.read().missing["cpu_percent"] == FIRST
    assert host.read().missing["cpu_percent"] == NO_TIME


@linux
def test_disks_are_looked_at_every_thirty_seconds(root: Path) -> None:
    clock = Clock()
    host = System(root, clock)
    host.read()
    (root / "proc/1/mounts").write_text("")
    clock.now = DISKS_EVERY_SECONDS - 0.1
    assert host.read().disk
    clock.now = DISKS_EVERY_SECONDS
    assert not host.read().disk


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (CpuTimes(10, 20), CpuTimes(10, 20), None),
        (CpuTimes(10, 20), CpuTimes(9, 19), None),
        (CpuTimes(0, 0), CpuTimes(0, 10), 100.0),
        (CpuTimes(0, 0), CpuTimes(10, 10), 0.0),
        (CpuTimes(0, 0), CpuTimes(11, 10), 0.0),
        (CpuTimes(5, 10), CpuTimes(4, 20), 100.0),
        (CpuTimes(0, 0), CpuTimes(2, 3), 33.3),
    ],
)
def test_the_busy_share_stays_between_0_and_100(
    before: CpuTimes, after: CpuTimes, percent: float | None
) -> None:
    assert busy_percent(before, after) == percent


def test_waiting_for_a_disk_is_idle_and_guests_are_not_counted_twice() -> None:
    assert parse_cpu(b"cpu 1 2 3 40 50 6 7 8 900 900\n") == CpuTimes(90, 117)


def test_a_kernel_without_available_memory_is_estimated() -> None:
    old = b"MemTotal: 1000 kB\nMemFree: 100 kB\nBuffers: 50 kB\nCached: 250 kB\n"
    assert parse_memory(old) == (600 * 1024, 1000 * 1024)


def test_mounts_are_unescaped() -> None:
    assert parse_mounts("/dev/sda1 /my\\040disk ext4 rw 0 0\nshort\n") == [
        Mount("/dev/sda1", "/my disk", "ext4")
    ]


def test_only_local_disks_remain_each_once_at_its_shortest_path() -> None:
    mounts = [
        Mount("proc", "/proc", "proc"),
        Mount("overlay", "/", "overlay"),
        Mount("/dev/sda1", "/etc/hosts", "ext4"),
        Mount("/dev/sda1", "/data", "ext4"),
        Mount("/dev/loop3", "/snap/core", "squashfs"),
        Mount("/dev/loop4", "/mnt/image", "ext4"),
        Mount("server:/export", "/home", "nfs4"),
        Mount("//server/share", "/share", "cifs"),
        Mount("/dev/gpfs0", "/gpfs", "gpfs"),
        Mount("10.0.0.1@tcp:/fs", "/scratch", "lustre"),
        Mount("tmpfs", "/run", "tmpfs"),
        Mount("sshfs", "/x", "fuse.sshfs"),
        Mount("tank/home/ana", "/tank/home/ana", "zfs"),
        Mount("tank", "/tank", "zfs"),
        Mount("/dev/nvme0n1p2", "/", "xfs"),
    ]
    assert [mount.folder for mount in local_mounts(mounts)] == ["/", "/data", "/tank"]


def test_many_disks_are_bounded() -> None:
    mounts = [Mount(f"/dev/d{number}", f"/m{number}", "ext4") for number in range(500)]
    assert len(local_mounts(mounts)) == 32


@linux
def test_a_file_that_is_a_mount_and_a_mount_that_is_gone_are_no_disks(root: Path) -> None:
    (root / "hosts").write_text("")
    (root / "proc/1/mounts").write_text("/dev/a /hosts ext4 rw 0 0\n/dev/b /gone ext4 rw 0 0\n")
    assert System(root).read().disk == ()


@given(st.text())
def test_parsing_tables_never_raises_anything_but_a_bad_value(text: str) -> None:
    local_mounts(parse_mounts(text))
    with suppress(ValueError, LookupError):
        parse_cpu(text.encode())
    with suppress(ValueError, LookupError):
        parse_memory(text.encode())
    with suppress(ValueError):
        parse_network(text)


def test_this_node_is_read() -> None:
    host = System()
    host.read()
    deadline = sum(os.times()[:2]) + 0.05
    while sum(os.times()[:2]) < deadline:  # be busy, so that time passes on some processor
        pass
    now = host.read()
    assert now.cpu_percent is not None
    assert 0 <= now.cpu_percent <= 100
    assert now.memory_used_bytes
    assert now.memory_total_bytes
    assert now.memory_used_bytes < now.memory_total_bytes
    assert now.load_1m is not None
    assert "lo" not in {interface.name for interface in now.network}


def test_systems_without_proc_are_asked_through_psutil() -> None:
    source = system._Psutil()
    used, total = source.memory()
    times = source.cpu()
    assert 0 < used < total
    assert 0 < times.idle < times.total
    assert source.load() >= 0
    assert all(disk.total_bytes > 0 for disk in source.disks())
    assert all(min(both) >= 0 for both in source.disk_counts().values())
    assert "lo" not in {interface.name for interface in source.network()}


def test_the_node_has_a_name() -> None:
    assert node_name()


def test_the_boot_has_an_id_where_the_system_gives_one(tmp_path: Path) -> None:
    assert boot_id(tmp_path) is None
    folder = tmp_path / "proc/sys/kernel/random"
    folder.mkdir(parents=True)
    (folder / "boot_id").write_text("0b1c\n")
    assert boot_id(tmp_path) == "0b1c"
    (folder / "boot_id").write_bytes(b"\xff")
    assert boot_id(tmp_path) is None


def test_a_disk_mounted_under_a_name_that_is_no_text_can_be_sent(tmp_path: Path) -> None:
    """Such as a USB stick's; one lone surrogate would make the whole snapshot invalid."""
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(folder).mkdir()
    (disk,) = system._measured([Mount("/dev/sdb1", folder, "vfat")], Path("/"))
    assert disk.mount == f"{tmp_path}/caf\\udce9"
    sent = snapshot_to_json(Snapshot("node", 1.0, host=Host(disk=(disk,))))
    assert snapshot_from_json(loads(dumps(sent), ANSWER)).host.disk == (disk,)


def test_a_host_name_that_is_no_text_can_be_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, os, "uname", SimpleNamespace(nodename="caf\udce9"))
    assert node_name() == "caf\\udce9"
    sent = dumps(snapshot_to_json(Snapshot(node_name(), 1.0)))
    assert snapshot_from_json(loads(sent, ANSWER)).node == "caf\\udce9"
