"""Disk and network rates of the node: of hardware alone, and never a guess."""

import sys
from pathlib import Path

import pytest

from andon.host.rules.rates import CHANGED, FIRST, STARTED_AGAIN
from andon.host.system import TRAFFIC_EVERY_SECONDS, System
from andon.host.traffic import (
    DISK,
    NETWORK,
    NO_CARD,
    NO_DISK,
    UNREADABLE,
    Hardware,
    is_card,
    is_disk,
    parse_disks,
)
from andon.model.device import HOST_VALUES, Host, Network
from tests.support.clocks import Clock
from tests.support.rows import rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

RATES = (*DISK, *NETWORK)


class Node:
    """A made-up node whose counters a test sets."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, Clock()
        (root / "proc/1/net").mkdir(parents=True)
        self.system = System(root, self.clock)

    def has(self, *devices: str) -> None:
        for device in devices:
            (self.root / "sys" / device / "device").mkdir(parents=True)

    def counts(self, disks: dict[str, tuple[int, int]], links: dict[str, tuple[int, int]]) -> None:
        rows = (f" 8 0 {n} 1 2 {r} 4 5 6 {w} 8 0 0 0\n" for n, (r, w) in disks.items())
        (self.root / "proc/diskstats").write_text("".join(rows))
        lines = (f"{n}: {r} 1 0 0 0 0 0 0 {s} 1 0 0 0 0 0 0\n" for n, (r, s) in links.items())
        (self.root / "proc/1/net/dev").write_text("a\nb\n" + "".join(lines))

    def read(self, after: float = 0.0) -> Host:
        self.clock.now += after
        return self.system.read()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def found(host: Host) -> tuple[int | None, ...]:
    return tuple(getattr(host, name) for name in RATES)


def reasons(host: Host) -> set[str | None]:
    return {host.missing.get(name) for name in RATES}


def test_the_first_reading_has_no_rate_and_the_next_has(node: Node) -> None:
    node.counts({"sda": (0, 0)}, {"eth0": (1000, 0)})
    first = node.read()
    assert found(first) == (None,) * 4
    assert reasons(first) == {FIRST}
    node.counts({"sda": (10, 20)}, {"eth0": (2000, 50)})
    second = node.read(after=0.1)
    assert found(second) == (51_200, 102_400, 10_000, 500)
    assert not set(second.missing) & set(RATES)


def test_rates_hold_until_they_are_due_again(node: Node) -> None:
    node.counts({"sda": (0, 0)}, {"eth0": (0, 0)})
    node.read()
    node.counts({"sda": (10, 0)}, {"eth0": (1000, 0)})
    once = found(node.read(after=1.0))
    node.counts({"sda": (99, 0)}, {"eth0": (9000, 0)})
    assert found(node.read(after=1.0)) == once
    assert found(node.read(after=TRAFFIC_EVERY_SECONDS - 1.0))[2] == 1600


def test_partitions_and_what_lies_on_disks_and_cards_are_not_counted_twice(node: Node) -> None:
    node.has("block/sda", "block/nvme0n1", "class/net/eth0", "class/net/eth1")
    disks = ("sda", "sda1", "nvme0n1", "nvme0n1p2", "dm-0", "md127", "loop3", "zram0")
    links = ("lo", "eth0", "eth1", "bond0", "eth0.7", "docker0", "vetha1", "wg0", "mgmt")
    node.counts(dict.fromkeys(disks, (0, 0)), dict.fromkeys(links, (0, 0)))
    node.read()
    node.counts(dict.fromkeys(disks, (2, 4)), dict.fromkeys(links, (500, 700)))
    assert found(node.read(after=1.0)) == (2 * 2 * 512, 2 * 4 * 512, 1000, 1400)


@rows(
    ("name", "whole"),
    [
        ("sda", True), ("sdaa", True), ("vdb", True), ("xvda", True), ("nvme0n1", True),
        ("mmcblk0", True), ("sda1", False), ("nvme0n1p1", False), ("mmcblk0p1", False),
        ("dm-0", False), ("md0", False), ("loop0", False), ("zram0", False), ("ram0", False),
        ("sr0", False), ("", False),
    ],
)  # fmt: skip
def test_whole_disks_by_name(name: str, whole: bool) -> None:
    assert is_disk(name) is whole


@rows(
    ("name", "card"),
    [
        ("eth0", True), ("enp1s0f0", True), ("ib0", True), ("wlan0", True), ("lo", False),
        ("docker0", False), ("br-1a2b", False), ("vethf00", False), ("bond0", False),
        ("eth0.100", False), ("eth0:1", False), ("tun0", False), ("", False),
    ],
)  # fmt: skip
def test_cards_by_name_where_sysfs_shows_none(name: str, card: bool) -> None:
    assert is_card(name) is card
    assert (name in Hardware(Path("/nonexistent")).cards([Network(name, 1, 1)])) is card


def test_a_counter_that_starts_again_is_no_negative_rate(node: Node) -> None:
    node.counts({"sda": (10, 10)}, {"eth0": (9000, 9000)})
    node.read()
    node.counts({"sda": (0, 20)}, {"eth0": (9001, 1)})
    host = node.read(after=1.0)
    assert found(host) == (None,) * 4
    assert reasons(host) == {STARTED_AGAIN}
    node.counts({"sda": (10, 30)}, {"eth0": (9101, 11)})
    assert found(node.read(after=10.0)) == (512, 512, 10, 1)


def test_a_disk_or_card_that_comes_or_goes_leaves_the_rate_unknown_once(node: Node) -> None:
    node.counts({"sda": (0, 0), "sdb": (0, 0)}, {"eth0": (0, 0)})
    node.read()
    node.counts({"sda": (1, 1)}, {"eth0": (5, 5), "eth1": (10**9, 10**9)})
    assert reasons(node.read(after=1.0)) == {CHANGED}
    node.counts({"sda": (3, 3)}, {"eth0": (15, 15), "eth1": (10**9, 10**9)})
    assert found(node.read(after=10.0)) == (102, 102, 1, 1)


def test_nothing_to_count_and_nothing_to_read_are_unknown_and_not_zero(node: Node) -> None:
    none = node.read()
    assert found(none) == (None,) * 4
    assert reasons(none) == {UNREADABLE}
    node.counts({"loop0": (1, 1)}, {"lo": (5, 5)})
    empty = node.read(after=1.0)
    assert reasons(empty) == {NO_DISK, NO_CARD}
    node.counts({"sda": (1, 1)}, {"eth0": (5, 5)})
    assert reasons(node.read(after=10.0)) == {FIRST}


def test_every_number_that_is_unknown_has_a_reason(node: Node) -> None:
    for host in (node.read(), node.read(after=1.0)):
        unknown = {name for name in HOST_VALUES if getattr(host, name) is None}
        assert unknown == set(host.missing)


def test_short_and_damaged_lines() -> None:
    assert parse_disks("\n 8 0 sda\n 8 0 sdb 1 2 3 4 5 6 7\n") == {"sdb": (1536, 3584)}
