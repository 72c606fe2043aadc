"""The only process that calls a driver: `python -m andon.reader BACKEND OPTIONS`.

A driver call stuck in the kernel cannot be killed, and takes the process that made it along. So
readings are made here, one thread per card, and leave as lines of JSON on standard output. Requests
come as lines on standard input; its end is the end of the reader.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

from andon.errors import AndonError, Gone, Unavailable
from andon.host.processes import ProcessTable
from andon.model import wire
from andon.model.device import Card, Device, Fault, Reading
from andon.ports import Backend, ProcessSource
from andon.registry import BACKENDS, load

READER = "andon.reader/1"
GATHER_SECONDS = 0.005  # answers that come together leave together: one wake-up instead of eight
DESCRIBE_SECONDS = 60.0
ORPHAN_CHECK_SECONDS = 5.0


class Outbox:
    """Lines on their way out; gathered for a moment after a request, then sent as they come."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._gathering = 0
        self._complete = threading.Event()

    def gather(self, answers: int) -> None:
        with self._lock:
            self._gathering = answers
            self._complete.clear()

    def post(self, message: wire.Json) -> None:
        """Send now, or with the rest of this round."""
        line = wire.dumps(message)
        with self._lock:
            self._lines.append(line)
            if self._gathering:
                self._gathering -= 1
                if not self._gathering:
                    self._complete.set()
                return
            self._send()

    def wait(self) -> None:
        """Give the answers of this round a moment."""
        self._complete.wait(GATHER_SECONDS)

    def release(self, message: wire.Json) -> None:
        """End the round: send what is there; whoever answers later sends at once."""
        with self._lock:
            self._gathering = 0
            self._lines.append(wire.dumps(message))
            self._send()

    def _send(self) -> None:
        data = ("\n".join(self._lines) + "\n").encode()
        self._lines.clear()
        while data:
            data = data[os.write(self._descriptor, data) :]


class Worker:
    """Asks one card. While a call of it is stuck, it is busy and nobody waits for it here."""

    def __init__(self, backend: Backend, card: Card, names: ProcessSource, outbox: Outbox) -> None:
        self.busy = False
        self._backend, self._card, self._names, self._outbox = backend, card, names, outbox
        self._requests: SimpleQueue[wire.Json] = SimpleQueue()
        self._sent: list[Device] = []
        self._describe_due = 0.0
        threading.Thread(target=self._work, name=f"card {card.key}", daemon=True).start()

    def ask(self, request: wire.Json) -> None:
        self.busy = True
        self._requests.put(request)

    def _work(self) -> None:
        while True:
            request = self._requests.get()
            message: wire.Json = {"tick": request["tick"], "card": self._card.key}
            message |= self._answer(bool(request["watched"]))
            self.busy = False
            self._outbox.post(message)

    def _answer(self, watched: bool) -> wire.Json:
        try:
            return self._read(watched)
        except Gone as gone:
            self._describe_due, self._sent = 0.0, []
            return {"lost": {"reason": gone.reason, "hint": gone.hint}}
        except Unavailable as down:
            leave(self._outbox, self._backend.name, down)
        except AndonError as error:
            return {"failed": error.reason, "hint": error.hint}
        except Exception as exc:  # noqa: BLE001 - one card's surprise must not end the others
            return {"failed": f"reading it failed: {exc!r}", "hint": "please report this"}

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
        every = self._names.attribute([p for reading in readings for p in reading.processes])
        named = iter(every)
        return [
            wire.reading_to_json(reading, tuple(islice(named, len(reading.processes))))
            for reading in readings
        ]


class Reader:
    """Opens the backend, then hands every request to the cards that are not busy."""

    def __init__(
        self, backend: Backend, names: Callable[[], ProcessSource], outbox: Outbox
    ) -> None:
        self._backend, self._names, self._outbox = backend, names, outbox
        self._workers: list[Worker] = []
        self._round = threading.Lock()
        self._waiting: wire.Json | None = None
        self._opened = False
        self._lock = threading.Lock()

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
        self._dispatch(request)

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
            self._workers = [
                Worker(self._backend, card, self._names(), self._outbox) for card in cards
            ]
            self._opened, waiting = True, self._waiting
        if waiting is not None:
            self._dispatch(waiting)

    def _dispatch(self, request: wire.Json) -> None:
        with self._round:
            started = time.perf_counter()
            free = [worker for worker in self._workers if not worker.busy]
            self._outbox.gather(len(free))
            for worker in free:
                worker.ask(request)
            if free:
                self._outbox.wait()
            cost = {"cpu": time.process_time(), "wall": time.perf_counter() - started}
            self._outbox.release({"tick": request["tick"], "cost": cost})


def leave(outbox: Outbox, source: str, error: AndonError) -> NoReturn:
    """Say why the vendor cannot be read, and end: a fresh reader is the way to try again.

    A process that has loaded one version of a driver's library can never load another.
    """
    fault = wire.fault_to_json(Fault(source, error.reason, error.hint))
    outbox.gather(0)
    outbox.post({"down": fault, "code": error.exit_code})
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
