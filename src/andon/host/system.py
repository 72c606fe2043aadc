"""The node's own values: processor, memory, load, local disks, network counters and traffic.

Linux is read from /proc under any root, which psutil cannot do for two roots at once; other systems
are read with psutil. A part that fails is left out, and the others are read.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from andon.host.file_systems import Mount, parse_mounts
from andon.host.files import read
from andon.host.rules.rates import FIRST, NO_TIME
from andon.host.traffic import (
    DISK,
    NETWORK,
    NO_CARD,
    NO_DISK,
    UNREADABLE,
    Counts,
    Hardware,
    Meter,
    is_shown_interface,
    parse_disks,
)
from andon.model.device import HOST_VALUES, Disk, DriverVersions, Host, Network
from andon.units import printable

DISKS_EVERY_SECONDS = 30.0
TRAFFIC_EVERY_SECONDS = 5.0
TRAFFIC_SOONEST_SECONDS = 0.05  # after the first reading, so that a single sample has rates
AVERAGES_EVERY_SECONDS = 5.0  # the kernel computes the load every five, pressure over ten
DRIVERS_AFTER_SECONDS = 30.0  # finding them costs as much as several samples
DRIVERS_EVERY_SECONDS = 300.0  # they change when somebody installs a driver
_MAX_DISKS = 32
_READ_BYTES = 4096  # enough for the needed first lines
_LOCAL = frozenset(
    (
        "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "msdos",
        "ntfs", "ntfs3", "reiserfs", "vfat", "xfs", "zfs",
    )
)  # fmt: skip
"""Local file systems. A network file system can block forever, so only these are read; images
(squashfs, iso9660), layers (overlay) and memory (tmpfs) say nothing about a disk."""

LEAST_CPU_SECONDS = 0.05  # of all processors: in fewer ticks a share says nothing

T = TypeVar("T")


class CpuTimes(Struct, frozen=True):
    """CPU seconds so far."""

    idle: float
    total: float


Drivers = Callable[[], tuple[DriverVersions, ...]]


class System:
    """Reads the node's values. CPU use is measured since an earlier read."""

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
        drivers: Drivers | None = None,
    ) -> None:
        linux = sys.platform.startswith("linux")
        self._source: _Proc | _Psutil = _Proc(root) if linux else _Psutil()
        self._clock = clock
        self._cpu: CpuTimes | None = None
        self._busy: float | None = None
        self._disks: tuple[Disk, ...] = ()
        self._disks_due = self._traffic_due = -math.inf
        self._network: tuple[Network, ...] = ()
        self._hardware = Hardware(root)
        self._meters = Meter(DISK, NO_DISK), Meter(NETWORK, NO_CARD)
        self._rates: dict[str, Any] = {}
        self._no_rates: dict[str, str] = {}
        self._load: float | None = None
        self._pressure: float | None = None
        self._averages_due, self._drivers_due = -math.inf, clock() + DRIVERS_AFTER_SECONDS
        self._read_drivers = drivers
        self._drivers: tuple[DriverVersions, ...] | None = None

    def read(self) -> Host:
        """Returns the current values; None with a reason, or (), for what cannot be read."""
        used_bytes, total_bytes = _tried(self._source.memory, None) or (None, None)
        network = self._links()
        missing = dict(self._no_rates)
        cpu_percent = self._cpu_percent(missing)
        load, pressure = self._load_and_pressure()
        host = Host(
            cpu_percent=cpu_percent,
            memory_used_bytes=used_bytes,
            memory_total_bytes=total_bytes,
            load_1m=load,
            disk=self._disk(),
            network=network,
            memory_pressure_percent=pressure,
            drivers=self._driver_versions(),
            missing=missing,
            **self._rates,
        )
        if None in (used_bytes, load, pressure):
            unknown = (name for name in HOST_VALUES if getattr(host, name) is None)
            missing |= {name: missing.get(name, UNREADABLE) for name in unknown}
        return host

    def _cpu_percent(self, missing: dict[str, str]) -> float | None:
        """Returns the share of CPU time in use since the last read; a read shortly after another
        repeats its value."""
        before, now = self._cpu, _tried(self._source.cpu, None)
        if before is None or now is None:
            self._cpu, self._busy = now, None
            missing["cpu_percent"] = UNREADABLE if now is None else FIRST
        elif self._busy is None or now.total - before.total >= LEAST_CPU_SECONDS:
            self._cpu, self._busy = now, busy_percent(before, now)
            if self._busy is None:
                missing["cpu_percent"] = NO_TIME
        return self._busy

    def _disk(self) -> tuple[Disk, ...]:
        now = self._clock()
        if now >= self._disks_due:
            self._disks = _tried(self._source.disks, ())
            self._disks_due = now + DISKS_EVERY_SECONDS
        return self._disks

    def _links(self) -> tuple[Network, ...]:
        """The interfaces; the traffic of interfaces and disks is measured along with them."""
        now = self._clock()
        if now >= self._traffic_due:
            first = self._traffic_due == -math.inf
            links = _tried(self._source.network, None)
            self._network = links or ()
            counts = _tried(self._source.disk_counts, None)
            disks, cards = self._meters
            disks.take(None if counts is None else self._hardware.disks(counts), now)
            cards.take(None if links is None else self._hardware.cards(links), now)
            self._rates, self._no_rates = {}, {}
            for meter in self._meters:
                meter.add_to(self._rates, self._no_rates)
            self._traffic_due = now + (TRAFFIC_SOONEST_SECONDS if first else TRAFFIC_EVERY_SECONDS)
        return self._network

    def _load_and_pressure(self) -> tuple[float | None, float | None]:
        now = self._clock()
        if now >= self._averages_due:
            self._load = _tried(self._source.load, None)
            self._pressure = _tried(self._source.memory_pressure, None)
            self._averages_due = now + AVERAGES_EVERY_SECONDS
        return self._load, self._pressure

    def _driver_versions(self) -> tuple[DriverVersions, ...] | None:
        now = self._clock()
        if self._read_drivers is not None and now >= self._drivers_due:
            self._drivers = _tried(self._read_drivers, None)
            self._drivers_due = now + DRIVERS_EVERY_SECONDS
        return self._drivers


def busy_percent(before: CpuTimes, after: CpuTimes) -> float | None:
    """Returns the busy share between two readings; None if no time passed. The kernel's idle
    counters can decrease slightly."""
    elapsed = after.total - before.total
    if elapsed <= 0:
        return None
    busy = 100.0 * (elapsed - (after.idle - before.idle)) / elapsed
    return round(min(100.0, max(0.0, busy)), 1)


def _tried(read: Callable[[], T], otherwise: T) -> T:
    try:
        return read()
    except (OSError, ValueError, LookupError, AttributeError, RuntimeError):
        return otherwise


# Linux.


class _Proc:
    """Reads the files of /proc; those of pid 1 if another system's /proc is mounted at the root."""

    def __init__(self, root: Path) -> None:
        self._root = root
        proc = root / "proc"
        own = proc / ("self" if root == Path("/") else "1")
        self._stat, self._meminfo = str(proc / "stat"), str(proc / "meminfo")
        self._loadavg, self._pressure = str(proc / "loadavg"), str(proc / "pressure/memory")
        self._mounts, self._net = own / "mounts", own / "net/dev"
        self._diskstats = proc / "diskstats"
        self._second = os.sysconf("SC_CLK_TCK")

    def cpu(self) -> CpuTimes:
        ticks = parse_cpu(_read_start(self._stat))
        return CpuTimes(ticks.idle / self._second, ticks.total / self._second)

    def memory(self) -> tuple[int, int]:
        return parse_memory(_read_start(self._meminfo))

    def load(self) -> float:
        return float(_read_start(self._loadavg).split()[0])

    def memory_pressure(self) -> float:
        return parse_pressure(_read_start(self._pressure))

    def network(self) -> tuple[Network, ...]:
        return parse_network(os.fsdecode(self._net.read_bytes()))

    def disk_counts(self) -> Counts:
        return parse_disks(self._diskstats.read_text("utf-8", "replace"))

    def disks(self) -> tuple[Disk, ...]:
        mounts = local_mounts(parse_mounts(os.fsdecode(self._mounts.read_bytes())))
        return _measured(mounts, self._root)


def _read_start(path: str) -> bytes:
    """Returns what one read gives; called at every sample, where a file object would cost more."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _READ_BYTES)
    finally:
        os.close(descriptor)


def parse_cpu(content: bytes) -> CpuTimes:
    """Parses the first line of /proc/stat; guest time is already included in user and nice."""
    name, *numbers = content.partition(b"\n")[0].split()
    if name != b"cpu":
        raise ValueError("the cpu line is missing")
    ticks = [int(number) for number in numbers[:8]]
    return CpuTimes(idle=sum(ticks[3:5]), total=sum(ticks))  # iowait counts as idle


def parse_memory(content: bytes) -> tuple[int, int]:
    """Returns used and total bytes from /proc/meminfo; used is what is not available."""
    kib: dict[bytes, int] = {}
    for line in content.splitlines()[:8]:
        name, _, rest = line.partition(b":")
        kib[name] = int(rest.split()[0])
    total = kib[b"MemTotal"]
    available = kib.get(b"MemAvailable")
    if available is None:  # kernels before 3.14
        available = kib[b"MemFree"] + kib[b"Buffers"] + kib[b"Cached"]
    return max(0, total - available) * 1024, total * 1024


def parse_pressure(content: bytes) -> float:
    """Parses the ten-second average of `some avg10=1.53 avg60=…`: the share of time in percent."""
    kind, average, *_ = content.split(maxsplit=2)
    if kind != b"some" or not average.startswith(b"avg10="):
        raise ValueError("there is no ten-second average")
    return float(average.removeprefix(b"avg10="))


def parse_network(text: str) -> tuple[Network, ...]:
    """Parses the counters of /proc/net/dev, without loopback and container interfaces."""
    found = []
    for line in text.splitlines()[2:]:
        name, _, rest = line.rpartition(":")
        numbers = rest.split()
        if is_shown_interface(name.strip()) and len(numbers) > 8:
            found.append(Network(name.strip(), int(numbers[0]), int(numbers[8])))
    return tuple(found)


def local_mounts(mounts: Iterable[Mount]) -> list[Mount]:
    """One mount per local device, with the shortest path: the others are bind mounts."""
    best: dict[str, Mount] = {}
    for mount in mounts:
        if mount.kind not in _LOCAL or mount.device.startswith("/dev/loop"):
            continue
        device = mount.device.partition("/")[0] if mount.kind == "zfs" else mount.device
        if device not in best or len(mount.folder) < len(best[device].folder):
            best[device] = mount
    return sorted(best.values(), key=lambda mount: mount.folder)[:_MAX_DISKS]


def _measured(mounts: Iterable[Mount], root: Path) -> tuple[Disk, ...]:
    disks = []
    for mount in mounts:
        folder = root / mount.folder.lstrip("/")
        try:
            size = os.statvfs(folder) if folder.is_dir() else None  # a file may be mounted too
        except OSError:
            continue
        if size is not None and size.f_blocks:
            total = size.f_blocks * size.f_frsize
            used = total - size.f_bfree * size.f_frsize
            disks.append(Disk(printable(mount.folder), used, total))
    return tuple(disks)


# Everything else.


class _Psutil:
    """Systems without /proc."""

    def cpu(self) -> CpuTimes:
        import psutil

        times = psutil.cpu_times()
        return CpuTimes(times.idle, sum(times))

    def memory(self) -> tuple[int, int]:
        import psutil

        memory = psutil.virtual_memory()
        return memory.total - memory.available, memory.total

    def load(self) -> float:
        return os.getloadavg()[0]

    def memory_pressure(self) -> float:
        raise OSError("only Linux states how long processes wait for memory")

    def network(self) -> tuple[Network, ...]:
        import psutil

        counters = psutil.net_io_counters(pernic=True).items()
        shown = [(name, count) for name, count in counters if is_shown_interface(name)]
        return tuple(Network(name, count.bytes_recv, count.bytes_sent) for name, count in shown)

    def disk_counts(self) -> Counts:
        import psutil

        counters = psutil.disk_io_counters(perdisk=True).items()
        return {name: (count.read_bytes, count.write_bytes) for name, count in counters}

    def disks(self) -> tuple[Disk, ...]:
        import psutil

        listed = psutil.disk_partitions(all=False)
        mounts = local_mounts(Mount(p.device, p.mountpoint, p.fstype.lower()) for p in listed)
        usages = [(mount.folder, psutil.disk_usage(mount.folder)) for mount in mounts]
        return tuple(Disk(folder, usage.used, usage.total) for folder, usage in usages)


# How long a process has waited for CPU time, which on a busy machine is not the driver's fault.

NANOSECONDS = 1e9
_BYTES = 128


def starved_seconds(pid: int, proc: str = "/proc") -> float:
    """Returns the longest time that any thread of the process waited for a processor; 0 if the
    kernel does not count it."""
    tasks = f"{proc}/{pid}/task"
    try:
        found = os.listdir(tasks)  # noqa: PTH208 - names are enough
    except OSError:
        return 0.0
    texts = [read(f"{tasks}/{task}/schedstat", _BYTES) or b"" for task in found]
    return max(map(waited_seconds, texts), default=0.0)


def waited_seconds(text: bytes) -> float:
    """Reads the waiting time from a `schedstat`: time on a processor, time waiting for one, number
    of turns."""
    fields = text.split()
    return int(fields[1]) / NANOSECONDS if len(fields) >= 2 and fields[1].isdigit() else 0.0
