"""The only process that calls a driver: `python -m andon.reader BACKEND OPTIONS`.

A driver call stuck in the kernel cannot be killed, and takes the process that made it along. So
readings are made here, card by card, and leave as lines of JSON on standard output; a card that
does not answer keeps the thread that asked it, and the others go on. Requests come as lines on
standard input; its end is the end of the reader.
"""

import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NoReturn

from andon.errors import AndonError, Gone, Unavailable
from andon.host.processes import ProcessTable
from andon.model import wire
from andon.model.device import Card, Device, Fault, Process, Reading
from andon.ports import Backend, ProcessSource
from andon.registry import BACKENDS, load

READER = "andon.reader/1"
PATIENCE_SECONDS = 0.02  # how long the other cards wait for one before they go on without it
DESCRIBE_SECONDS = 60.0
ORPHAN_CHECK_SECONDS = 5.0


class Outbox:
    """Lines on their way out; held back during a round, so that they leave in one write."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._holding = False

    def hold(self) -> None:
        with self._lock:
            self._holding = True

    def post(self, message: wire.Json) -> None:
        """Send now, or with the rest of this round."""
        line = wire.dumps(message)
        with self._lock:
            self._lines.append(line)
            if not self._holding:
                self._send()

    def flush(self, holding: bool = True) -> None:
        """Send what is there; what comes later is held back again, or not."""
        with self._lock:
            self._holding = holding
            if self._lines:
                self._send()

    def _send(self) -> None:
        data = ("\n".join(self._lines) + "\n").encode()
        self._lines.clear()
        while data:
            data = data[os.write(self._descriptor, data) :]


class Desk:
    """Asks one card. While a call of it is stuck, it is busy and nobody asks it again."""

    def __init__(self, backend: Backend, card: Card, names: ProcessSource, outbox: Outbox) -> None:
        self.busy = False
        self._backend, self._card, self._names, self._outbox = backend, card, names, outbox
        self._sent: list[Device] = []
        self._before: dict[str, Reading] = {}
        self._describe_due = 0.0

    def serve(self, request: wire.Json) -> None:
        """Ask the card, and post what it says."""
        message: wire.Json = {"tick": request["tick"], "card": self._card.key}
        message |= self._answer(bool(request["watched"]))
        self.busy = False
        self._outbox.post(message)

    def _answer(self, watched: bool) -> wire.Json:
        try:
            return self._read(watched)
        except Gone as gone:
            out: wire.Json = {"lost": {"reason": gone.reason, "hint": gone.hint}}
        except Unavailable as down:
            leave(self._outbox, self._backend.name, down)
        except AndonError as error:
            out = {"failed": error.reason, "hint": error.hint}
        except Exception as exc:  # noqa: BLE001 - one card's surprise must not end the others
            out = {"failed": f"reading it failed: {exc!r}", "hint": "please report this"}
        # What was half said is void: the next word is whole again.
        self._describe_due, self._sent, self._before = 0.0, [], {}
        return out

    def _read(self, watched: bool) -> wire.Json:
        out: wire.Json = {}
        if time.monotonic() >= self._describe_due:
            out |= self._describe()
        readings = self._backend.read(self._card, time.time(), watched)
        if {reading.uuid for reading in readings} - {device.uuid for device in self._sent}:
            out |= self._describe()  # it woke up, or was partitioned anew
        return out | {"readings": self._attributed(readings)}

    def _describe(self) -> wire.Json:
        devices = list(self._backend.describe(self._card))
        self._describe_due = time.monotonic() + DESCRIBE_SECONDS
        if devices == self._sent:
            return {}
        self._sent = devices
        return {"devices": [wire.device_to_json(device) for device in devices]}

    def _attributed(self, readings: Sequence[Reading]) -> list[wire.Json]:
        """All of a card's processes are named in one go, so that what ended can be forgotten."""
        named = iter(self._names.attribute([p for r in readings for p in r.processes]))
        return [
            self._difference(reading, tuple(islice(named, len(reading.processes))))
            for reading in readings
        ]

    def _difference(self, reading: Reading, processes: tuple[Process, ...]) -> wire.Json:
        whole = replace(reading, processes=processes) if processes else reading
        before, self._before[whole.uuid] = self._before.get(whole.uuid), whole
        return wire.reading_to_json(whole, before)


class Round:
    """One request on its way from card to card."""

    def __init__(self, request: wire.Json, desks: list[Desk]) -> None:
        self.request = request
        self.runner: Runner | None = None
        self.served = 0
        self.done = threading.Event()
        self._desks = deque(desks)
        self._lock = threading.Lock()

    def take(self, runner: "Runner") -> Desk | None:
        """The next card, for the runner who has the round now."""
        with self._lock:
            if runner is not self.runner:
                return None
            if not self._desks:
                self.done.set()
                return None
            self.served += 1
            return self._desks.popleft()

    def hand_to(self, runner: "Runner") -> None:
        with self._lock:
            self.runner = runner
        runner.rounds.put(self)


class Runner:
    """A thread that goes from card to card; one that is stuck with a card loses its round."""

    def __init__(self, idle: "SimpleQueue[Runner]") -> None:
        self.rounds: SimpleQueue[Round] = SimpleQueue()
        self._idle = idle
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            round_ = self.rounds.get()
            while (desk := round_.take(self)) is not None:
                desk.serve(round_.request)
            self._idle.put(self)


class Reader:
    """Opens the backend, then takes every request to the cards that are not busy.

    Cards are asked one after another, because threads that all call into a library spend more time
    on handing the interpreter to each other than on the calls. Only when a card takes long does
    another thread go on with the rest: the stuck one keeps a thread of its own.
    """

    def __init__(
        self, backend: Backend, names: Callable[[], ProcessSource], outbox: Outbox
    ) -> None:
        self._backend, self._names, self._outbox = backend, names, outbox
        self._desks: list[Desk] = []
        self._idle: SimpleQueue[Runner] = SimpleQueue()
        self._waiting: wire.Json | None = None
        self._opened = False
        self._lock = threading.Lock()
        self._one_round = threading.Lock()

    def start(self) -> None:
        self._outbox.post({"hello": READER, "pid": os.getpid()})
        cards = self._backend.glance()
        self._outbox.post({"glanced": [wire.card_to_json(card) for card in cards]})
        threading.Thread(target=self._open, name="open", daemon=True).start()

    def request(self, request: wire.Json) -> None:
        """One tick; while the driver is still opening, only the latest is remembered."""
        with self._lock:
            if not self._opened:
                self._waiting = request
                return
        self._serve(request)

    def _open(self) -> None:
        try:
            cards = self._backend.open()
            versions = self._backend.versions()
        except AndonError as down:
            leave(self._outbox, self._backend.name, down)
        except Exception as exc:  # noqa: BLE001 - the parent must hear of it
            leave(self._outbox, self._backend.name, Unavailable(f"it could not start: {exc!r}"))
        listed = [wire.card_to_json(card) for card in cards]
        self._outbox.post({"opened": listed, "versions": dict(versions)})
        with self._lock:
            self._desks = [Desk(self._backend, card, self._names(), self._outbox) for card in cards]
            self._opened, waiting = True, self._waiting
        if waiting is not None:
            self._serve(waiting)

    def _serve(self, request: wire.Json) -> None:
        with self._one_round:
            started = time.perf_counter()
            self._outbox.hold()
            self._go_round(request)
            cost = {"cpu": time.process_time(), "wall": time.perf_counter() - started}
            self._outbox.post({"tick": request["tick"], "cost": cost})
            self._outbox.flush(holding=False)

    def _go_round(self, request: wire.Json) -> None:
        free = [desk for desk in self._desks if not desk.busy]
        for desk in free:
            desk.busy = True
        round_ = Round(request, free)
        round_.hand_to(self._runner())
        seen = 0
        while not round_.done.wait(PATIENCE_SECONDS):
            self._outbox.flush()
            if round_.served == seen:  # the same card all this time: leave that thread to it
                round_.hand_to(self._runner())
            seen = round_.served

    def _runner(self) -> Runner:
        try:
            return self._idle.get_nowait()
        except Empty:
            return Runner(self._idle)


def leave(outbox: Outbox, source: str, error: AndonError) -> NoReturn:
    """Say why the vendor cannot be read, and end: a fresh reader is the way to try again.

    A process that has loaded one version of a driver's library can never load another.
    """
    fault = wire.fault_to_json(Fault(source, error.reason, error.hint))
    outbox.flush(holding=False)
    outbox.post({"down": fault})
    os._exit(error.exit_code)


def _watch_parent() -> None:
    """End when the parent is gone even if one of its forked children still holds our input."""
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(ORPHAN_CHECK_SECONDS)
    os._exit(0)


def _private_output() -> int:
    """Keep standard output to ourselves: a vendor's library that prints must not break a line."""
    descriptor = os.dup(1)
    os.dup2(2, 1)
    return descriptor


def main(arguments: list[str]) -> None:
    name, options = arguments[0], json.loads(arguments[1])
    outbox = Outbox(_private_output())
    root = Path(options.get("root", "/"))
    try:
        backend: Backend = load(BACKENDS, name)(**options)
    except AndonError as error:
        leave(outbox, name, error)
    threading.Thread(target=_watch_parent, name="parent", daemon=True).start()
    reader = Reader(backend, lambda: ProcessTable(root), outbox)
    reader.start()
    for line in sys.stdin.buffer:
        reader.request(wire.loads(line))
    # Not sys.exit: a thread that is stuck in a driver would keep the interpreter from ending.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
