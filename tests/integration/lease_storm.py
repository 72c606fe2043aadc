"""Many processes that fight for eight devices while they are killed; run as a program.

    python -m tests.integration.lease_storm BOOK --workers 32 --grants 2000 --seed 7

The referee is another mechanism than the book: who holds a device also takes record locks on a
file with a byte per gigabyte of each device, which the kernel gives back before the lease. One
that cannot take its bytes has found a device given twice. Prints JSON.

With `--reserving 0.3` that share of what they do is to reserve devices for a moment to come, or to
change or cancel that. Then two reservations that overlap, and a lease that lasts into one of
another user that was there before it, are violations, too.
"""

import argparse
import ctypes
import fcntl
import json
import mmap
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from andon.errors import AndonError, Conflict, TimedOut
from andon.leases import reserving
from andon.leases.availability import Availability
from andon.leases.book import files, lock_holders, places, reservations
from andon.leases.book.lease_book import Book
from andon.leases.granter import Granter, LeaseTerms
from andon.leases.rules import reservations as rules
from andon.leases.rules.requests import RequestOptions
from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.model.lease import Lease, Reservation
from andon.units import GIB
from tests.support.homes import no_other_book

DEVICES, SIZE = 8, 40
STATES = (
    "born", "looking", "knocking", "inside", "drafted", "in_book", "second_look", "holding",
    "in_line", "unlinked", "resting", "reserving", "reserved", "cancelling",
)  # fmt: skip
OF_RESERVATIONS = frozenset({"reserving", "reserved", "cancelling"})
COARSE_SECONDS = 0.05  # the kernel's times of files are those of its last tick
IDENTITIES = ((0, 0o022, False), (30001, 0o077, False), (30002, 0o000, True), (30003, 0o027, False))
"""User, umask, and whether it lives in pid and mount namespaces of its own."""
CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


GRANTED, RESERVED = 8, 16
"""Where the counters of a worker are."""


class Board:
    """One byte of state per worker, and counters, in memory that all share."""

    def __init__(self, workers: int) -> None:
        self.memory = mmap.mmap(-1, 4096 + 24 * workers)
        self.me = 0

    def say(self, state: str) -> None:
        self.memory[4096 + 24 * self.me] = STATES.index(state)

    def state(self, worker: int) -> str:
        return STATES[self.memory[4096 + 24 * worker]]

    def count(self, what: int = GRANTED) -> None:
        place = 4096 + 24 * self.me + what
        known = int.from_bytes(self.memory[place : place + 8], "little")
        self.memory[place : place + 8] = (known + 1).to_bytes(8, "little")

    def counted(self, worker: int, what: int = GRANTED) -> int:
        place = 4096 + 24 * worker + what
        return int.from_bytes(self.memory[place : place + 8], "little")


def snapshot() -> Snapshot:
    total = SIZE * GIB
    sample = Sample(1.0, utilization_percent=0, memory_used_bytes=0, memory_free_bytes=total)
    devices = tuple(
        DeviceStatus(
            Device(f"SIM-{i}", i, "sim", "Storm", memory_total_bytes=total),
            State.OK,
            0.0,
            sample=sample,
        )
        for i in range(DEVICES)
    )
    return Snapshot("storm", time.time(), simulated=True, devices=devices)


def slow_down(board: Board, luck: random.Random) -> None:
    """Name every state, and stay in it for a moment, so that a kill can find it."""

    def pause(state: str) -> None:
        board.say(state)
        time.sleep(luck.uniform(0, 0.001))

    rename, remove, one = os.rename, files.remove, lock_holders._one
    clean, doze = Granter._is_clean, Granter._wait_for_change

    def renaming(*args: object, **kwargs: object) -> None:
        pause("drafted")
        rename(*args, **kwargs)  # type: ignore[arg-type]
        pause("in_book")

    def removing(folder: int, name: str) -> bool:
        gone = remove(folder, name)
        if name.endswith(".lease"):
            pause("unlinked")
        return gone

    @contextmanager
    def knocking(path: Path) -> Iterator[bool]:
        board.say("knocking")
        with one(path) as free:
            if free:
                pause("inside")
            yield free

    def cleaning(self: Granter, *args: object) -> bool:
        pause("second_look")
        return clean(self, *args)  # type: ignore[arg-type]

    def dozing(self: Granter, *args: object) -> None:
        board.say("in_line")
        doze(self, *args)  # type: ignore[arg-type]

    slow_down_reservations(pause)
    files.os.rename = renaming  # type: ignore[attr-defined]
    files.remove = removing
    lock_holders._one = knocking
    Granter._is_clean = cleaning  # type: ignore[method-assign, assignment]
    Granter._wait_for_change = dozing  # type: ignore[method-assign, assignment]


def slow_down_reservations(pause: Callable[[str], None]) -> None:
    write, cancel = reservations.write, reservations.remove

    def writing(folder: Path, one: Reservation, uid: int | None = None) -> None:
        pause("reserving")
        write(folder, one, uid)
        pause("reserved")

    def cancelling(folder: Path, one: Reservation) -> None:
        pause("cancelling")
        cancel(folder, one)

    reservations.write, reservations.remove = writing, cancelling


@contextmanager
def refereed(referee: int, shares: list[tuple[int, int]]) -> Iterator[None]:
    """Take a byte per gigabyte; nobody may have it who is alive."""
    taken: list[int] = []
    for device, size in shares:
        left = size
        for place in range(device * SIZE, (device + 1) * SIZE):
            if left and _take(referee, place):
                taken.append(place)
                left -= 1
        if left:
            raise AssertionError(f"device {device}: {left} of {size} GiB are somebody else's")
    yield
    for place in taken:
        fcntl.lockf(referee, fcntl.LOCK_UN, 1, place)


def _take(referee: int, place: int) -> bool:
    try:
        fcntl.lockf(referee, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError:
        return False
    return True


def reserve(board: Board, book: Book, availability: Availability, luck: random.Random) -> None:
    """Reserves devices, or changes or cancels a reservation; what is refused is refused."""
    now, act = time.time(), luck.random()
    begins, length = now + luck.uniform(0, 3), luck.uniform(0.2, 2)
    with suppress(AndonError):
        if act < 0.5:
            among = luck.sample(range(DEVICES), luck.choice((1, 2, 3)))
            wanted = RequestOptions(1, devices=[str(index) for index in among]).request()
            reserving.reserve(availability, book, wanted, [(begins, begins + length)])
            board.count(RESERVED)
            return
        own = [one for one in book.reservations() if one.uid == os.getuid() and one.ends > now]
        if own and act < 0.75:
            reserving.change(book, luck.choice(own).id, begins, begins + length)
        elif own:
            reserving.cancel(book, luck.choice(own).id)


def promised_twice(book: Book) -> list[str]:
    """The reservations that overlap, as everyone reads them."""
    with book.locked():
        found = book.reservations()
    return [
        f"{one} and {other} overlap"
        for place, one in enumerate(found)
        for other in found[place + 1 :]
        if one.uuids & other.uuids and one.begins < other.ends and other.begins < one.ends
    ]


def lasts_into(book: Book, lease: Lease) -> list[str]:
    """The reservations of others that were there before a lease, and that it does not end before.
    One that was changed or cancelled since is not seen."""
    made = dict[str, float]()
    for path in places.reservations_folders(book.path)[0].glob("*.reservation"):
        with suppress(FileNotFoundError):
            made[path.name.partition("-")[0]] = path.stat().st_ctime
    uuids = {share.uuid for share in lease.shares}
    return [
        f"lease {lease.id} of {os.getuid()} until {lease.until} lasts into {one}"
        for one in book.reservations()
        if one.uid != os.getuid()
        and one.uuids & uuids
        and made.get(one.id, lease.since) < lease.since - COARSE_SECONDS
        and one.ends > lease.since
        and (lease.until is None or lease.until > one.begins)
    ]


def work(board: Board, seed: int, end: float, referee: int, violations: int, share: float) -> None:
    """Ask, hold, give back, until the end; a share of it is to reserve."""
    luck = random.Random(seed)
    slow_down(board, luck)

    def look() -> Snapshot:
        board.say("looking")
        return snapshot()

    def violated(*found: object) -> None:
        for one in found:
            os.write(violations, f"{os.getpid()}: {one}\n".encode())

    book, availability = Book(), Availability(look, simulated=True)
    granter = Granter(book, availability)
    while time.monotonic() < end:
        if share and luck.random() < share:
            reserve(board, book, availability, luck)
            with suppress(Conflict):  # somebody was stopped with the lock
                violated(*promised_twice(book))
            board.say("resting")
            time.sleep(luck.uniform(0, 0.2))
            continue
        length = luck.choice((None, 0.5, 1.0, 3.0)) if share else None
        shared = luck.random() < 0.5
        size = luck.randint(1, SIZE // 2) if shared else None
        among = luck.sample(range(DEVICES), luck.choice((1, 1, 2, 2, 3, DEVICES)))
        count = 1 if shared else luck.randint(1, len(among))
        request = RequestOptions(
            count,
            None if size is None else f"{size}GiB",
            shared=shared,
            devices=[str(index) for index in among],
        ).request()
        try:
            grant = granter.grant(request, LeaseTerms(command="storm", seconds=length), 30.0)
        except TimedOut:
            continue
        board.say("holding")
        board.count()
        if share:
            violated(*lasts_into(book, grant.held.lease))
        taken = [(share.index, size or SIZE) for share in grant.held.lease.shares]
        try:
            with refereed(referee, taken):
                time.sleep(luck.uniform(0, 0.004))
        except AssertionError as found:
            violated(found)
        grant.held.release()
        board.say("resting")
        time.sleep(luck.uniform(0, 0.6))  # a line of thirty shows no more than one of ten


def isolate() -> None:
    """Pid and mount namespaces of our own, with a /proc that fits."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWPID):
        raise OSError(ctypes.get_errno(), "unshare")


def own_proc() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    if libc.mount(b"proc", b"/proc", b"proc", 0, None):
        raise OSError(ctypes.get_errno(), "mount")


def start(board: Board, place: int, seed: int, arguments: argparse.Namespace, end: float) -> int:
    """A worker in a process of its own; returns the pid under which it can be killed."""
    uid, umask, isolated = IDENTITIES[place % len(IDENTITIES)]
    read, write = os.pipe()
    board.me = place
    board.say("born")
    if os.fork() == 0:
        try:
            if isolated:
                isolate()
                if (child := os.fork()) != 0:
                    os.write(write, str(child).encode())
                    os.close(write)
                    os.waitpid(child, 0)
                    os._exit(0)
                own_proc()
            else:
                os.write(write, str(os.getpid()).encode())
            os.close(write)
            referee = os.open(arguments.referee, os.O_RDWR)
            violations = os.open(arguments.violations, os.O_WRONLY | os.O_APPEND)
            os.umask(umask)
            os.environ["HOME"] = f"/nonexistent/{uid}"
            os.setgid(uid)
            os.setuid(uid)
            work(board, seed, end, referee, violations, arguments.reserving)
            os._exit(0)
        except Exception as error:  # noqa: BLE001 - it must not go on as a second coordinator
            print(f"worker {place} ({uid}): {error!r}", file=sys.stderr, flush=True)
        os._exit(1)
    os.close(write)
    pid = int(os.read(read, 32))
    os.close(read)
    return pid


def caught(board: Board, pids: list[int], state: str, luck: random.Random) -> int | None:
    """Stop a worker that is in this state; what it is in then is what it dies in."""
    places = list(range(len(pids)))
    luck.shuffle(places)
    for place in places:
        if board.state(place) != state:
            continue
        with suppress(ProcessLookupError):
            os.kill(pids[place], signal.SIGSTOP)
            if board.state(place) == state:
                return place
            os.kill(pids[place], signal.SIGCONT)
    return None


def storm(arguments: argparse.Namespace) -> dict[str, object]:
    luck = random.Random(arguments.seed)
    board = Board(arguments.workers)
    end = time.monotonic() + arguments.seconds
    pids = [
        start(board, place, arguments.seed * 1000 + place, arguments, end)
        for place in range(arguments.workers)
    ]
    kills: Counter[str] = Counter()
    states = set(STATES) - {"born"} - (set() if arguments.reserving else OF_RESERVATIONS)
    wanted = sorted(states) * arguments.kills
    luck.shuffle(wanted)
    while time.monotonic() < end:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        grants = sum(board.counted(place) for place in range(arguments.workers))
        if not wanted and grants >= arguments.grants:
            break
        place = caught(board, pids, wanted[-1], luck) if wanted else None
        if place is None:
            time.sleep(0.002)
            continue
        with suppress(ProcessLookupError):
            os.kill(pids[place], signal.SIGKILL)
        kills[wanted.pop()] += 1
        pids[place] = start(board, place, luck.randrange(10**9), arguments, end)
        time.sleep(luck.uniform(0, 0.05))
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    return {
        "grants": sum(board.counted(place) for place in range(arguments.workers)),
        "reserved": sum(board.counted(place, RESERVED) for place in range(arguments.workers)),
        "kills": dict(sorted(kills.items())),
        "left": left_over() if arguments.reserving else [],
        "violations": Path(arguments.violations).read_text().splitlines(),
    }


def left_over() -> list[str]:
    """What is in the folder of reservations once root has made one more, and cancelled all."""
    book, at = Book(), time.time() + 60
    wanted = RequestOptions(1).request()
    reserving.reserve(Availability(snapshot, simulated=True), book, wanted, [(at, at + 1)])
    for one in book.reservations():
        book.cancel(one)
    return [path.name for path in places.reservations_folders(book.path)[0].iterdir()]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--grants", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--reserving", type=float, default=0.0)
    arguments = parser.parse_args()
    arguments.referee, arguments.violations = (
        arguments.folder / name for name in ("referee", "violations")
    )
    for path in (arguments.referee, arguments.violations):
        path.touch()
        path.chmod(0o666)
    os.environ["ANDON_LEASE_DIR"] = str(arguments.folder / "andon")
    no_other_book(pytest.MonkeyPatch())
    rules.SHORTEST_SECONDS, reservations.PAST_SECONDS = 0.1, 0.0
    # Once as root: users may not be able to read what the interpreter would import later.
    warm = Granter(Book(), Availability(snapshot, simulated=True))
    warm.grant(RequestOptions().request(), LeaseTerms(), 0.0).held.release()
    print(json.dumps(storm(arguments)))


if __name__ == "__main__":
    main()
