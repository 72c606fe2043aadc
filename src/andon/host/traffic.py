"""Measures the traffic of the node's disks and network cards: their counters, and rates from them.

Only hardware is counted: traffic through a partition, a RAID, a bridge or a tunnel also passes a
disk or a card.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from andon.host.rules.rates import FIRST, Counters, rates_between
from andon.model.device import Network

SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk has
UNREADABLE = "cannot be read here"
NO_DISK = "no disk is listed here"
NO_CARD = "no network card is listed here"
DISK = ("disk_read_bytes_per_second", "disk_written_bytes_per_second")
NETWORK = ("network_received_bytes_per_second", "network_sent_bytes_per_second")
_LETTERED = ("sd", "hd", "vd", "xvd", "dasd")  # sda, xvdb; with a number it is a partition
_NUMBERED = ("mmcblk", "pmem", "disk", "PhysicalDrive")
_NVME = ("nvme", True, "n")  # nvme0n1; nvme0n1p1 is a partition
_CONTAINER_ENDS = ("veth", "cali", "lxc")  # one per container, with a new name each time
_VIRTUAL = (
    "br-", "bond", "bridge", "cni", "docker", "dummy", "flannel", "gre", "ifb", "ip6tnl", "kube",
    "lxdbr", "podman", "sit", "tailscale", "tap", "team", "tun", "utun", "virbr", "vlan", "vxlan",
    "wg", "zt",
)  # fmt: skip

Counts = Mapping[str, tuple[int, int]]


class Meter:
    """The rates of one kind of counters, in both directions."""

    def __init__(self, names: tuple[str, str], none: str) -> None:
        self.names = names
        self.found: tuple[int, int] | str = FIRST
        """The rates, or why they are unknown."""
        self._none = none
        self._before: Counters | None = None

    def take(self, counts: Counts | None, now: float) -> None:
        """Takes the current counters; None if they cannot be read."""
        before, self._before = self._before, Counters(now, counts) if counts else None
        if self._before is None:
            self.found = UNREADABLE if counts is None else self._none
        else:
            self.found = rates_between(before, self._before)

    def add_to(self, values: dict[str, int], missing: dict[str, str]) -> None:
        """Adds the known rates to `values`, and the reasons for the others to `missing`."""
        if isinstance(self.found, str):
            missing |= dict.fromkeys(self.names, self.found)
        else:
            values |= dict(zip(self.names, self.found, strict=True))


class Hardware:
    """Which disks and interfaces are hardware, as sysfs shows; each is looked up once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[tuple[str, str], bool] = {}

    def disks(self, counts: Counts) -> Counts:
        return self._real(counts, "sys/block", is_disk)

    def cards(self, links: Iterable[Network]) -> Counts:
        counts = {link.name: (link.received_bytes, link.sent_bytes) for link in links}
        return self._real(counts, "sys/class/net", is_card)

    def _real(self, counts: Counts, folder: str, by_name: Callable[[str], bool]) -> Counts:
        """Returns the interfaces with a device behind them; by their names if sysfs shows none."""
        real = {n: both for n, both in counts.items() if self._has_device(folder, n)}
        return real or {n: both for n, both in counts.items() if by_name(n)}

    def _has_device(self, folder: str, name: str) -> bool:
        known = self._known.get((folder, name))
        if known is None:
            is_device = (self._root / folder / name.replace("/", "!") / "device").exists()
            known = self._known[folder, name] = is_device
        return known


def is_disk(name: str) -> bool:
    """Whether a name is that of a whole disk."""
    kind = name.rstrip("0123456789")
    if kind != name:
        return kind in _NUMBERED or (kind[:4], kind[4:-1].isdecimal(), kind[-1:]) == _NVME
    rest = next((name[len(one) :] for one in _LETTERED if name.startswith(one)), "")
    return rest.isalpha() and rest.islower()


def is_card(name: str) -> bool:
    """Whether a name is that of a network card, or of a container's interface."""
    virtual = name.startswith(_VIRTUAL) or "." in name or ":" in name
    return is_shown_interface(name) and not virtual


def is_shown_interface(name: str) -> bool:
    return name not in ("", "lo", "lo0") and not name.startswith(_CONTAINER_ENDS)


def parse_disks(text: str) -> dict[str, tuple[int, int]]:
    """Returns bytes read and written of each line of /proc/diskstats."""
    rows = (line.split() for line in text.splitlines())
    return {
        row[2]: (int(row[5]) * SECTOR_BYTES, int(row[9]) * SECTOR_BYTES)
        for row in rows
        if len(row) > 9
    }
