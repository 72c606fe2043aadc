"""Who uses a card and how much, from the kernel's fdinfo of every open device file.

The search for descriptors is shared by the cards of a vendor and only follows links. Reading fdinfo
calls the card's driver, so each card does that itself: a driver that hangs blocks one card. It can
also wake the card (xe does), so a sleeping card's descriptors are not read.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct

from andon.drivers.shared.rules import fdinfo
from andon.drivers.shared.rules.fdinfo import DrmClient
from andon.drivers.shared.sysfs import Tree
from andon.host.rules.proc_stat import KERNEL_THREAD, parse_stat
from andon.model.device import Process, ProcessKind

FIRST_READING: Final = "needs two readings: available from the next one on"
OLD_FDINFO: Final = "this kernel does not report what processes do on the device (old fdinfo)"
NODES: Final = "/dev/dri/"
FRESH_SECONDS: Final = 0.5  # the cards of one sample share one search
ROUND_SECONDS: Final = 10.0  # every process is searched again within this time
MOST_PROCESSES: Final = 32768
MOST_DESCRIPTORS: Final = 4096  # of one process
MOST_CLIENTS: Final = 2048  # of one card


class Descriptor(Struct, frozen=True):
    """An open file of a process on a node such as `renderD128`."""

    pid: int
    number: str
    node: str


class DrmSearch(Struct, frozen=True):
    """What one search found, and what it could not see."""

    descriptors: tuple[Descriptor, ...] = ()
    denied: int = 0  # processes of other users
    left_out: int = 0  # beyond the limits above
    whole: bool = True  # False in a container with its own pids, and under hidepid

    @property
    def blind_spot(self) -> str | None:
        """Why the list of users may be incomplete; None if it is complete."""
        if not self.whole:
            return "not all processes of this machine are visible (container or hidepid)"
        if self.denied:
            what = (
                "process of other users is" if self.denied == 1 else "processes of other users are"
            )
            return (
                f"{self.denied} {what} not visible: "
                "run andon as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
            )
        if self.left_out:
            return f"{self.left_out} processes or descriptors beyond andon's limits were not read"
        return None


class Descriptors:
    """Finds the descriptors that are open on graphics devices. Thread-safe.

    A new process, and one that has a device open, is searched at every sample. The others, which
    are nearly all, take turns: following every link of thousands of processes takes a tenth of a
    second.
    """

    def __init__(self, tree: Tree, most: int = MOST_DESCRIPTORS) -> None:
        self._tree, self._most = tree, most
        self._lock = threading.Lock()
        self._known: dict[int, tuple[Descriptor, ...] | None] = {}  # oldest search first
        self._searched_at: float | None = None
        self._found = DrmSearch()
        self._cut: set[int] = set()  # processes with more descriptors than are read

    def read(self, now: float) -> DrmSearch:
        with self._lock:
            if self._searched_at is None or now - self._searched_at >= FRESH_SECONDS:
                self._search(now)
            return self._found

    def _search(self, now: float) -> None:
        pids, left_out = self._pids()
        self._forget(pids)
        for pid in self._due(pids, now):
            self._known.pop(pid, None)
            self._known[pid] = self._descriptors(pid)
        every = [found for found in self._known.values() if found]
        self._searched_at = now
        self._found = DrmSearch(
            descriptors=tuple(descriptor for found in every for descriptor in found),
            denied=sum(found is None for found in self._known.values()),
            left_out=left_out + len(self._cut),
            whole=self._tree.text("proc/2/comm").value == "kthreadd",
        )

    def _pids(self) -> tuple[list[int], int]:
        every = [int(name) for name in self._tree.names("proc") if name.isdecimal()]
        return every[:MOST_PROCESSES], max(0, len(every) - MOST_PROCESSES)

    def _forget(self, pids: list[int]) -> None:
        alive = set(pids)
        for pid in [pid for pid in self._known if pid not in alive]:
            del self._known[pid]
            self._cut.discard(pid)

    def _due(self, pids: list[int], now: float) -> list[int]:
        """The processes to search: new ones, users of a device, and a share of the rest in turn."""
        elapsed = ROUND_SECONDS if self._searched_at is None else now - self._searched_at
        turn = int(len(self._known) * min(1.0, elapsed / ROUND_SECONDS)) + 1
        chosen = dict.fromkeys(pid for pid in pids if pid not in self._known)
        chosen |= dict.fromkeys(pid for pid, found in self._known.items() if found)
        chosen |= dict.fromkeys(islice(self._known, turn))
        return list(chosen)

    def _descriptors(self, pid: int) -> tuple[Descriptor, ...] | None:
        """Returns the descriptors of one process; None if they are not accessible."""
        self._cut.discard(pid)
        try:
            numbers = self._tree.listed(f"proc/{pid}/fd", self._most + 1)
        except PermissionError:
            stat = self._tree.raw(f"proc/{pid}/stat").value
            return () if stat is None or is_kernel_thread(stat) else None
        except OSError:  # it has ended
            return ()
        if len(numbers) > self._most:
            self._cut.add(pid)
        folder = f"{self._tree.root}/proc/{pid}/fd"
        return tuple(_on_devices(folder, pid, numbers[: self._most]))


def _on_devices(folder: str, pid: int, numbers: Iterable[str]) -> Iterator[Descriptor]:
    for number in numbers:
        with contextlib.suppress(OSError):  # closed meanwhile
            # Not pathlib: this runs for every descriptor of the host.
            target = os.readlink(f"{folder}/{number}")  # noqa: PTH115
            if target.startswith(NODES):
                yield Descriptor(pid, number, target.rpartition("/")[2])


def is_kernel_thread(stat: bytes) -> bool:
    """Whether the flags in /proc/<pid>/stat show a kernel thread, which opens no device."""
    found = parse_stat(stat)
    return found is not None and bool(found.flags & KERNEL_THREAD)


class CardProcess(Struct, frozen=True):
    """A process on one card."""

    pid: int
    kind: ProcessKind
    memory_bytes: int
    busy: float | None  # of the engine it uses most, 0 to 1; None at the first reading


class CardUse(Struct, frozen=True):
    """Use of a card since the previous reading."""

    users: tuple[CardProcess, ...] = ()
    engines: Mapping[str, float] | None = None  # 0 to 1 by engine; None at the first reading
    blind_spot: str | None = None

    @property
    def busy(self) -> float | None:
        """The busy share of the busiest engine."""
        return None if self.engines is None else max(self.engines.values(), default=0.0)

    @property
    def moved(self) -> bool:
        """Whether an engine was used; assumed at the first reading, which cannot tell."""
        return self.busy is None or self.busy > 0.0

    @property
    def processes(self) -> tuple[Process, ...]:
        return tuple(
            Process(
                pid=user.pid,
                kind=user.kind,
                memory_bytes=user.memory_bytes,
                utilization_percent=None if user.busy is None else round(100 * user.busy),
            )
            for user in self.users
        )


class CardClients:
    """The clients of one card, kept between readings. Used by one thread at a time."""

    def __init__(
        self,
        tree: Tree,
        pci: str,
        descriptors: Descriptors,
        counts: Callable[[str], bool],
        most: int = MOST_CLIENTS,
    ) -> None:
        self._tree, self._pci, self._descriptors, self._counts = tree, pci, descriptors, counts
        self._most = most
        self._before: dict[tuple[str | None, int], DrmClient] = {}
        self._read_at: float | None = None

    def read(self, nodes: Collection[str], now: float) -> CardUse:
        found = self._descriptors.read(now)
        ours = [one for one in found.descriptors if one.node in nodes]
        owners = self._read(ours[: self._most])
        seconds = 0.0 if self._read_at is None else now - self._read_at
        first, self._read_at = self._read_at is None, now
        before, self._before = self._before, {c.key: c for c, _ in owners}
        shares = {c.key: fdinfo.shares(before[c.key], c, seconds) for c, _ in owners
                  if c.key in before}  # fmt: skip
        return CardUse(
            users=tuple(self._users(owners, shares)),
            engines=None if first else fdinfo.together(shares.values()),
            blind_spot=_blind_spot(found, len(ours), len(owners), self._most),
        )

    def _read(self, descriptors: list[Descriptor]) -> list[tuple[DrmClient, int]]:
        """Reads every client once, with the first process that has it open."""
        clients: dict[tuple[str | None, int], tuple[DrmClient, int]] = {}
        for one in sorted(descriptors, key=lambda one: one.pid):
            text = self._tree.text(f"proc/{one.pid}/fdinfo/{one.number}").value
            client = None if text is None else fdinfo.parse(text)
            if client is None or client.pci not in (None, self._pci):
                continue
            known, owner = clients.get(client.key, (self._before.get(client.key), one.pid))
            clients[client.key] = fdinfo.later(known, client), owner
        return list(clients.values())

    def _users(
        self,
        owners: list[tuple[DrmClient, int]],
        shares: Mapping[tuple[str | None, int], Mapping[str, float]],
    ) -> Iterator[CardProcess]:
        by_pid: dict[int, list[DrmClient]] = {}
        for client, pid in owners:
            by_pid.setdefault(pid, []).append(client)
        for pid, clients in by_pid.items():
            known = [shares[client.key] for client in clients if client.key in shares]
            busy = max(fdinfo.together(known).values(), default=0.0) if known else None
            yield CardProcess(pid, _kind(clients), sum(map(self._memory, clients)), busy)

    def _memory(self, client: DrmClient) -> int:
        return sum(r.held_bytes for name, r in client.regions.items() if self._counts(name))


def _blind_spot(found: DrmSearch, descriptors: int, clients: int, most: int) -> str | None:
    if descriptors and not clients:
        return OLD_FDINFO
    if descriptors > most:
        return f"{descriptors - most} open files of this device beyond andon's limits"
    return found.blind_spot


def _kind(clients: list[DrmClient]) -> ProcessKind:
    """Returns the kind: a process with a compute client is a compute process."""
    kinds = {fdinfo.kind(client) for client in clients}
    return ProcessKind.COMPUTE if ProcessKind.COMPUTE in kinds else ProcessKind.GRAPHICS
