"""The only process that calls a driver: `python -m andon.process reader BACKEND OPTIONS`.

With `-` for the backend it is started in advance, and its first line says which one it is.

A driver call that is stuck in the kernel cannot be killed, and neither can the process that made
it. So readings are taken here, card by card, and sent as lines of JSON on standard output; a card
that does not respond blocks only the thread that asked it, and another thread takes over. Requests
arrive as lines on standard input; end of input ends the reader. A byte on a second pipe says that
the parent is missing an answer.

Answers do not wait for process names: those are looked up in another thread and sent afterwards.
"""

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from andon.drivers.shared.presence import vendors
from andon.errors import AndonError, Gone, Unavailable
from andon.host.background_lookup import BackgroundLookup
from andon.model import wire
from andon.model.device import (
    NAMES_MISSING,
    Card,
    Device,
    Fault,
    FaultCode,
    Process,
    Reading,
)
from andon.model.event import Event
from andon.model.place import NO_PLACE, DevicePlace
from andon.model.request import UNDECIDED, ReaderRequest, RunAccount
from andon.model.shapes import to_json
from andon.registry import BACKENDS, load

if TYPE_CHECKING:
    from andon.ports import Backend, ProcessSource

READER = "andon.reader/1"
FOUND_WITHOUT_SITE = frozenset({"nvidia", "nvidia_smi", "replay", "sim"})
SIMULATES = "ANDON_SIMULATE"  # as in settings/table.py
UNPROMPTED_SECONDS = 0.25
DESCRIBE_SECONDS = 60.0
ORPHAN_CHECK_SECONDS = 5.0
NAMES_SECONDS = 0.5  # how long a round waits for new names once every card has answered


class LineBuffer:
    """Outgoing messages; those of a round are sent as one line."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._lines: list[bytes] = []
        self._holding = False

    def hold(self) -> None:
        with self._lock:
            self._holding = True

    def post(self, message: wire.Json) -> None:
        """Sends a message now, or with the rest of the round."""
        line = wire.reader_line(message)
        with self._lock:
            self._lines.append(line)
            if not self._holding:
                self._send()

    def flush(self) -> None:
        """Sends the buffered lines."""
        with self._lock:
            self._send()

    def release(self) -> None:
        """Sends the buffered lines, and stops buffering."""
        with self._lock:
            self._holding = False
            self._send()

    def _send(self) -> None:
        """Sends one line, a list if there are several messages: it is decoded in one call."""
        lines, self._lines = self._lines, []
        if not lines:
            return
        data = (lines[0] if len(lines) == 1 else b"[%b]" % b",".join(lines)) + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]


class CardWorker:
    """Reads one card. While a call to it is stuck, the card is busy and is not read again."""

    def __init__(
        self,
        backend: "Backend",
        card: Card,
        names: "Callable[[], ProcessSource]",
        outbox: LineBuffer,
        leave: "Leave",
        root: Path,
    ) -> None:
        self.busy = False
        self._backend, self._card, self._outbox, self._leave = backend, card, outbox, leave
        self._make_names = names
        self._names: ProcessSource | None = None
        self._sent: list[Device] = []
        self._described: set[str] = set()
        self._before: dict[str, Reading] = {}
        self._describe_due = 0.0
        self._latest: Sequence[Reading] = ()
        self._root = root
        self._places: dict[str, DevicePlace] | None = None  # once they were asked for

    @property
    def expecting(self) -> bool:
        """Whether process names are still being looked up."""
        return self._names is not None and self._names.expecting

    def serve(self, request: ReaderRequest, leads: Callable[[], bool]) -> None:
        """Reads the card and posts its answer. The leader sends missing names after the round."""
        message: wire.Json = {"tick": request.tick, "card": self._card.key}
        message |= self._answer(request)
        if self.expecting:
            message["names"] = "follow"
        self.busy = self.expecting and not leads()
        self._outbox.post(message)

    def follow(self, request: ReaderRequest) -> None:
        """Posts the same reading again, with the names that are known now."""
        readings = self._attributed(self._latest)
        self.busy = False
        self._outbox.post({"tick": request.tick, "card": self._card.key, "readings": readings})

    def _answer(self, request: ReaderRequest) -> wire.Json:
        try:
            return self._read(request)
        except Gone as gone:
            out: wire.Json = {"lost": {"reason": gone.reason, "hint": gone.hint}}
        except Unavailable as down:
            self._leave(self._backend.name, down)
        except AndonError as error:
            out = {"failed": error.reason, "hint": error.hint}
        except Exception as exc:  # noqa: BLE001 - one card's failure must not stop the others
            out = {"failed": f"reading it failed: {exc!r}", "hint": "please report this"}
        # The parent may hold part of an answer: send everything again next time.
        self._describe_due, self._sent, self._described, self._before = 0.0, [], set(), {}
        self._latest = ()
        return out

    def _read(self, request: ReaderRequest) -> wire.Json:
        out: wire.Json = self._account(request.account) if request.account else {}
        if request.places and self._places is None:
            self._places, self._describe_due = {}, 0.0
        if time.monotonic() >= self._describe_due:
            out |= self._describe()
        readings = self._latest = self._backend.read(self._card, time.time(), request.watched)
        if any(reading.uuid not in self._described for reading in readings):
            out |= self._describe()  # it woke up, or was repartitioned
        return out | {"readings": self._attributed(readings)}

    def _account(self, wanted: RunAccount) -> wire.Json:
        from andon.ports import Accounting

        if not isinstance(self._backend, Accounting):
            return {}
        rings = self._backend.account(self._card, energy=wanted is RunAccount.ENERGY)
        return {"rings": {uuid: list(ring) for uuid, ring in rings.items()}}

    def _describe(self) -> wire.Json:
        devices = [self._placed(one) for one in self._backend.describe(self._card)]
        self._describe_due = time.monotonic() + DESCRIBE_SECONDS
        if devices == self._sent:
            return {}
        self._sent, self._described = devices, {device.uuid for device in devices}
        return {"devices": [_with_place(device) for device in devices]}

    def _placed(self, device: Device) -> Device:
        """Adds the device's place in the machine, which is looked up once."""
        if self._places is None or device.parent is not None:
            return device
        if device.uuid not in self._places:
            from andon.host.topology import read_place
            from andon.ports import Linking

            found = read_place(self._root, device.pci)
            if isinstance(self._backend, Linking):
                found = self._backend.linked(self._card, found)
            self._places[device.uuid] = found
        return replace(device, place=self._places[device.uuid])

    def _attributed(self, readings: Sequence[Reading]) -> list[wire.Json]:
        """Names all of a card's processes in one call, so that ended ones can be dropped."""
        named = self._named([p for r in readings for p in r.processes])
        if len(readings) == 1:
            return [self._difference(readings[0], named)]
        each = iter(named)
        return [self._difference(r, tuple(islice(each, len(r.processes)))) for r in readings]

    def _named(self, processes: list[Process]) -> tuple[Process, ...]:
        """Names processes; the process table is only created once there is a process to name."""
        if self._names is None:
            if all(one.name and one.user for one in processes):
                return tuple(processes)
            self._names = self._make_names()
        return self._names.attribute(processes)

    def _difference(self, reading: Reading, named: tuple[Process, ...]) -> wire.Json:
        whole = replace(reading, processes=named) if named else reading
        note = self._names.note if self._names else None
        if note is not None and any(process.name is None for process in named):
            whole = replace(whole, missing={**whole.missing, NAMES_MISSING: note})
        before, self._before[whole.uuid] = self._before.get(whole.uuid), whole
        return wire.reading_to_json(whole, before)


def _with_place(device: Device) -> wire.Json:
    found: wire.Json = to_json(device)
    return found if device.place is NO_PLACE else {**found, "place": to_json(device.place)}


class Reader:
    """Opens the backend, then passes every request to the cards that are not busy.

    One thread, the leader, takes the requests and reads the cards one after another: with one
    thread per card, passing the interpreter lock between them costs more than the calls. When a
    card is stuck, so is the leader; a nudge from the parent then makes a new thread the leader,
    which continues with the other cards and the next requests.
    """

    def __init__(
        self,
        backend: "Backend",
        names: "Callable[[], ProcessSource]",
        outbox: LineBuffer,
        requests: IO[bytes],
        lookup: BackgroundLookup[Any, Any],
        leave: "Leave",
        root: Path,
    ) -> None:
        self._leave, self._root = leave, root
        self._backend, self._names, self._outbox = backend, names, outbox
        self._requests, self._lookup = requests, lookup
        self._workers: list[CardWorker] = []
        self._lock = threading.Lock()
        self._leader: object = None
        self._request = ReaderRequest(0, False)
        self._todo: deque[CardWorker] = deque()
        self._in_round = False
        self._started = 0.0
        self._taken = self._taken_at_nudge = 0

    def run(self) -> None:
        """Opens the backend and serves requests until the input ends."""
        self._outbox.post({"hello": READER, "pid": os.getpid()})
        cards = self._backend.glance()
        self._outbox.post({"glanced": [asdict(card) for card in cards]})
        self._open()
        self._lead()
        threading.Event().wait()  # another thread leads now, and the main thread must not exit

    def nudge(self) -> None:
        """Handles a missing answer: if the same card is still being read, continues without it."""
        with self._lock:
            stuck = self._in_round and self._taken == self._taken_at_nudge
            self._taken_at_nudge = self._taken
            if stuck:
                self._leader = None
        self._outbox.flush()
        if stuck:
            threading.Thread(target=self._lead, name="leader", daemon=True).start()

    def _open(self) -> None:
        try:
            cards = self._backend.open()
            versions = self._backend.versions()
        except AndonError as down:
            self._leave(self._backend.name, down)
        except Exception as exc:  # noqa: BLE001 - the parent must be notified
            reason = f"the backend failed to start: {exc!r}"
            self._leave(self._backend.name, Unavailable(reason, cause=FaultCode.DRIVER_FAILED))
        self._workers = [
            CardWorker(self._backend, card, self._names, self._outbox, self._leave, self._root)
            for card in cards
        ]
        listed = [asdict(card) for card in cards]
        self._outbox.post({"opened": listed, "versions": dict(versions)})

    def _lead(self) -> None:
        me = object()
        self._leader = me
        self._finish_round(me)
        while self._leader is me:
            line = self._requests.readline()
            if not line:
                # Not sys.exit: a thread stuck in a driver would keep the interpreter from ending.
                os._exit(0)
            self._begin_round(ReaderRequest.decoded(line))
            self._finish_round(me)

    def _begin_round(self, request: ReaderRequest) -> None:
        self._outbox.hold()
        self._lookup.hold()
        self._started = time.perf_counter()
        free = [worker for worker in self._workers if not worker.busy]
        for worker in free:
            worker.busy = True
        with self._lock:
            self._request, self._todo, self._in_round = request, deque(free), True

    def _finish_round(self, me: object) -> None:
        if not self._in_round:
            return
        while (worker := self._next(me)) is not None:
            worker.serve(self._request, lambda: self._leader is me)
            if worker.busy:  # it took so long that there is a new leader, whose round may be over
                self._follow([worker])
        if self._leader is me:
            self._in_round = False
            wall = time.perf_counter() - self._started
            self._lookup.release()
            self._follow(
                [worker for worker in self._workers if not worker.busy and worker.expecting]
            )
            cpu, tick = time.process_time(), self._request.tick
            self._outbox.post({"tick": tick, "cost": {"cpu": cpu, "wall": wall}})
            self._outbox.release()

    def _follow(self, late: Sequence[CardWorker]) -> None:
        """Sends the answers, then the missing names; there are no nudges between rounds."""
        if late:
            self._outbox.flush()
            self._lookup.wait(NAMES_SECONDS)
            for worker in late:
                worker.follow(self._request)

    def _next(self, me: object) -> CardWorker | None:
        with self._lock:
            if self._leader is not me or not self._todo:
                return None
            self._taken += 1
            return self._todo.popleft()


class Leave:
    """Reports why the vendor cannot be read, and exits: only a new reader can try again.

    A process that has loaded one version of a driver's library can never load another.
    """

    def __init__(self, outbox: LineBuffer, root: Path) -> None:
        self._outbox, self._root = outbox, root

    def __call__(self, source: str, error: AndonError) -> NoReturn:
        fault = Fault(source, error.reason, error.hint, error.cause)
        with suppress(Exception):  # the reason is more important than what surrounds it
            from andon.host.cards import with_surroundings

            fault = with_surroundings(fault, self._root)
        self._outbox.release()
        self._outbox.post({"down": asdict(fault)})
        os._exit(error.exit_code)


def _watch_parent() -> None:
    """Exits when the parent has exited, even if one of its forked children holds our input open."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(ORPHAN_CHECK_SECONDS)
    os._exit(0)


def _private_output() -> int:
    """Reserves standard output: a vendor library that prints must not corrupt a line."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


def _heed_nudges(reader: Reader, descriptor: int | None) -> None:
    """Handles nudges: each byte is one; without a pipe, nudges at a fixed interval."""
    while True:
        if descriptor is None:
            time.sleep(UNPROMPTED_SECONDS)
        elif not os.read(descriptor, 64):
            return
        reader.nudge()


class _Names:
    """The process tables of all cards, imported when the first process appears."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._learn: Callable[[Any], Any] | None = None
        self.lookup: BackgroundLookup[Any, Any] = BackgroundLookup(self._answer, "names")

    def table(self) -> "ProcessSource":
        from andon.host.processes.facts import ProcessTable

        return ProcessTable(self._root, lookup=self.lookup)

    def _answer(self, question: Any) -> Any:
        if self._learn is None:
            from andon.host.processes.facts import Learner

            self._learn = Learner(self._root)
        return self._learn(question)


def _announce(outbox: LineBuffer, events: Sequence[Event]) -> None:
    outbox.post({"events": to_builtins(events)})


def _loaded(name: str) -> Any:
    """Imports a module; this process starts without site, which a third-party library may need."""
    if name not in FOUND_WITHOUT_SITE and sys.flags.no_site:
        import site

        site.main()
    return load(BACKENDS, name)


def _decided() -> list[str]:
    """Waits for backend and options; meanwhile loads the modules they will most likely need."""
    with suppress(AndonError, ImportError):  # reported later, if it is needed at all
        for likely in () if os.environ.get(SIMULATES) else vendors(Path("/"))[:1]:
            _loaded(likely)
    line = sys.stdin.buffer.readline()
    if not line:
        os._exit(0)  # this reader was not needed
    return line.decode().rstrip("\n").split(" ", 1)


def main(arguments: list[str]) -> None:
    if arguments[0] == UNDECIDED:
        arguments = [*_decided(), *arguments[1:]]
    name, options = arguments[0], wire.loads(arguments[1], wire.NOTE)
    nudges = int(arguments[2]) if len(arguments) > 2 else None
    outbox = LineBuffer(_private_output())
    root = Path(options.get("root", "/"))
    leave = Leave(outbox, root)
    try:
        backend: Backend = _loaded(name)(**options)
    except AndonError as error:
        leave(name, error)
    if announce := getattr(backend, "announce", None):  # as in ports.Announcing
        announce(lambda events: _announce(outbox, events))
    names = _Names(root)
    reader = Reader(backend, names.table, outbox, sys.stdin.buffer, names.lookup, leave, root)
    threading.Thread(target=_watch_parent, name="parent", daemon=True).start()
    threading.Thread(target=_heed_nudges, args=(reader, nudges), daemon=True).start()
    reader.run()


if __name__ == "__main__":
    main(sys.argv[1:])
