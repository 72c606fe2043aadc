"""Keeps one vendor's reader process alive, and turns its messages into a roster of devices."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from andon.errors import AndonError, Unavailable
from andon.host.system import starved_seconds
from andon.model import wire, wire_in
from andon.model.codec import read
from andon.model.device import Card, Device, Fault, FaultCode, Reading
from andon.model.event import Event
from andon.model.request import ReaderRequest, Ring, RunAccount
from andon.sampling.rules import timing
from andon.sampling.rules.roster import BackendChoice, Roster, both_failed, used_instead
from andon.sampling.rules.timing import Attempts, ReaderLife, ReaderPhase
from andon.sampling.spawning import take, wait_for
from andon.units import human_seconds

Messages = list[wire.Json]
"""Messages that arrived together; an empty list means the reader ended."""

STUCK_HINT = "a driver call hangs in the kernel: see `sudo dmesg`; a reboot may be needed to end it"
BROKEN_HINT = "the reader is `python -m andon.process reader` of sys.executable; check it here"
LONGEST_REASON = 500
REPORT_HINT = "please report this with the output of `andon doctor`"
NAMES_SECONDS = 0.6  # slightly longer than the reader itself waits for process names
_WAITS_FOR = {
    ReaderPhase.STARTING: "still waiting for the reader process of {} devices to start",
    ReaderPhase.OPENING: "still waiting for the driver of {} devices to be opened",
    ReaderPhase.OPEN: "still waiting for the first reading of {} devices",
}
CRASH_HINT = "the vendor's library crashed in its own process; andon is starting a new one"


class ReaderProcess:
    """One reader process: a new one, or a fork of a program without threads or CUDA."""

    def __init__(self, backend: str, options: Mapping[str, object]) -> None:
        try:
            self._spawned = take(backend, encoded(options))
        except OSError as exc:
            raise Unavailable(f"the reader could not be started: {exc}", BROKEN_HINT) from exc
        self._process = self._spawned.process
        self._rest = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def answers(self) -> int:
        """The descriptor to wait for before `receive`."""
        return self._spawned.answers

    def ask(self, request: ReaderRequest) -> None:
        """Sends a request; `receive` notices a reader that has exited."""
        self._write(self._spawned.requests, request.encoded())

    def nudge(self) -> None:
        """Tells the reader that an answer is missing: a stuck thread must not block the others."""
        self._write(self._spawned.nudges, b"!")

    def ended(self) -> int | None:
        """Returns its exit code, once the kernel has ended it."""
        return self._process.poll()

    def last_error_line(self) -> str:
        """Returns the last line of its standard error."""
        with contextlib.suppress(OSError, ValueError):
            errors = self._spawned.errors
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - 1000))
            lines = errors.read().decode(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def close(self, timeout_seconds: float = 0.0) -> None:
        """Kills the process; one that is stuck in the kernel is left behind."""
        self._process.kill()
        if timeout_seconds:
            wait_for(self._process, timeout_seconds)
        self._process.poll()

    def forget(self) -> None:
        """Closes our ends of its pipes only: in a forked child it belongs to the parent."""
        self._spawned.forget()

    def _write(self, descriptor: int, data: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(descriptor, data)

    def receive(self) -> Messages | None:
        """Returns the messages that are whole by now; None once it has ended or sent something
        else: only a new reader sends whole lines again."""
        try:
            chunk = os.read(self._spawned.answers, 1 << 18)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            if chunk:
                return [one for line in lines for one in wire.reader_messages(line)]
        except (OSError, AndonError):
            pass
        return None


def encoded(options: Mapping[str, object]) -> str:
    """Returns a backend's options as a reader process receives them."""
    return wire.struct_text(dict(options))


class ReaderCosts(Struct):
    """Time used by a vendor's readers, earlier ones included."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    last_wall_seconds: float = 0.0
    earlier_cpu_seconds: float = 0.0


class Vendor:
    """One vendor's devices: reads them through a reader process, and replaces it when it fails.

    If the first backend cannot be opened, the next choice is tried at once.
    """

    def __init__(
        self,
        name: str,
        choices: Sequence[BackendChoice],
        deadline_seconds: float,
        start_reader: Callable[[str, Mapping[str, object]], ReaderProcess] = ReaderProcess,
    ) -> None:
        self.name, self._start_reader = name, start_reader
        self.roster = Roster(name, deadline_seconds)
        self.versions: Mapping[str, str] = {}
        self.costs = ReaderCosts()
        self.fault: Fault | None = None
        self.garbled = 0
        """Messages of its readers that were invalid."""
        self._invalid_fault: Fault | None = None
        self.events: list[Event] = []
        """Events that devices reported, until they are taken."""
        self.rings: dict[str, Ring] = {}
        """The drivers' own readings of utilisation, of the last request for them."""
        self._choices, self._deadline_seconds = choices, deadline_seconds
        self._chosen = 0
        self._first_fault: Fault | None = None
        self._both: Fault | None = None  # while every choice fails
        self._reader: ReaderProcess | None = None
        self._life = ReaderLife(ReaderPhase.STARTING, 0.0, 0.0)
        self._born = 0.0
        self._stuck: list[ReaderProcess] = []
        self._leaving: list[ReaderProcess] = []
        self._attempts = Attempts()
        self._renewals = 0
        self._lost_since: float | None = None
        self._silent_since: float | None = None
        """Since when the abandoned readers have not answered; also covers their successors."""
        self._starved_before = 0.0
        self._has_settled = False  # whether this reader has had one whole round
        self._has_reason = False
        self._before: dict[str, Reading] = {}
        self._names_due: dict[str, float] = {}
        """Until when the names of a card's processes may follow its answer."""
        self._request = ReaderRequest(0, False)

    def ask(
        self,
        tick: int,
        watched: bool,
        now: float,
        account: RunAccount = RunAccount.NONE,
        places: bool = False,
    ) -> None:
        """Begins a round."""
        self._reap()
        self._give_up_if_stuck(now)
        self._renew_if_lost(now)
        self._request = ReaderRequest(tick, watched, account, places)
        if self._reader is None:
            self._start(now)
        elif self._life.phase is ReaderPhase.OPEN:
            self._send(now)

    def awaited_until(self, now: float) -> float | None:
        """Returns until when to wait for an answer; None if none can still come in time."""
        if self._reader is None:
            return None
        if self._life.phase is ReaderPhase.OPEN:
            found = self.roster.awaited_until(now)
            if found is None and not self._has_settled:
                extra = timing.allowed_seconds(self._starved_seconds())
                self.roster.extra_seconds = extra
                found = self.roster.awaited_until(now)
            return found or self._names_awaited_until(now)
        life, deadline = self._life, self.roster.deadline_seconds
        end = timing.waits_until(life, deadline)
        if end <= now:
            end = timing.waits_until(life, deadline, self._starved_seconds())
        return end if end > now else None

    def _starved_seconds(self) -> float:
        """Returns how long its reader has waited for a processor since its phase began."""
        if self._reader is None:
            return 0.0
        return max(0.0, starved_seconds(self._reader.pid) - self._starved_before)

    def _enter(self, phase: ReaderPhase, now: float) -> None:
        self._starved_before += self._starved_seconds()
        self._life = ReaderLife(phase, now, now)

    def first_answer_text(self) -> str | None:
        """Returns the text of what the first answer waits for; None once there was one."""
        if self._reader is None or self._has_settled:
            return None
        return _WAITS_FOR[self._life.phase].format(self.name)

    def _names_awaited_until(self, now: float) -> float | None:
        """Returns until when to wait for process names after every card has answered; no card is
        stale without them."""
        return max((end for end in self._names_due.values() if end > now), default=None)

    def nudge(self) -> None:
        """Nudges the reader while a sample waits for an overdue answer."""
        if self._reader is not None and self._life.phase is ReaderPhase.OPEN:
            self._reader.nudge()

    @property
    def answers(self) -> int | None:
        """The descriptor to wait for before `receive`."""
        return self._reader.answers if self._reader else None

    def receive(self) -> None:
        """Processes what its reader sent."""
        if self._reader is not None:
            messages = self._reader.receive()
            if messages is None or messages:
                self.hear(messages or [], time.time(), time.monotonic())

    def hear(self, messages: Messages, at: float, now: float) -> None:
        """Processes messages; None means that the reader ended."""
        reports = [message["events"] for message in messages if "events" in message]
        for report in reports:
            self._attempt(self._report, report)
        # The event thread being alive says nothing about the one that is stuck on a card.
        if reports and len(reports) == len(messages):
            return
        self._life = ReaderLife(self._life.phase, self._life.since, now)
        for message in messages:
            if not self._attempt(self._take, message, at, now) and "card" in message:
                self._discard(str(message["card"]), at)
        if not messages:
            self._ended(at, now)

    def _attempt(self, take: Callable[..., None], *parts: Any) -> bool:
        """Processes a message; returns whether it was valid: the rest must not suffer."""
        try:
            take(*parts)
        except Exception as exc:  # noqa: BLE001 - counted and reported, and the next one is processed
            self._count_invalid(exc)
            return False
        return True

    def _count_invalid(self, exc: Exception) -> None:
        self.garbled += 1
        reason = f"its reader sent an invalid message: {exc}"[:LONGEST_REASON]
        self.fault = self._invalid_fault = Fault(self.name, reason, REPORT_HINT)

    def _discard(self, card: str, at: float) -> None:
        """Discards an invalid message about a card; its next full reading may be valid."""
        self._names_due.pop(card, None)
        self.roster.failed(card, "its reading is invalid", REPORT_HINT, at)

    def _report(self, events: list[wire.Json]) -> None:
        self.events += [read(Event, event) for event in events]

    def _take(self, message: wire.Json, at: float, now: float) -> None:
        if "card" in message:
            self._card_answered(message, at)
            self._names_due.pop(message["card"], None)
            if "names" in message:
                self._names_due[message["card"]] = now + NAMES_SECONDS
        elif "cost" in message:
            self._count(message["cost"])
        else:
            self._progress(message, at, now)

    def settle(self, at: float, now: float) -> None:
        """Ends a round: marks the cards that did not answer."""
        silent_since = self._silent_since
        if silent_since is None and self._reader and self._life.phase is not ReaderPhase.OPEN:
            silent_since = self._life.since
        self.roster.settle(at, now, silent_since)
        self.roster.extra_seconds = 0.0
        self._has_settled = self._has_settled or self._life.phase is ReaderPhase.OPEN
        if silent_since is not None and now - silent_since >= self.roster.deadline_seconds:
            starting = self._reader is not None and self._life.phase is ReaderPhase.STARTING
            who = "its reader process" if starting else "the driver"
            reason = f"{who} has not responded for {human_seconds(now - silent_since)}"
            self.fault = Fault(self.name, reason, STUCK_HINT, FaultCode.NOT_RESPONDING)

    def close(self, timeout_seconds: float = 0.5) -> None:
        if self._reader is not None:
            self._reader.close(timeout_seconds)
            self._reader.forget()
            self._reader = None
        for reader in self._leaving:
            reader.close(timeout_seconds)
        self._reap()

    def forget(self) -> None:
        """Forgets the reader in a forked child: it is the parent's."""
        for reader in (self._reader, *self._stuck):
            if reader is not None:
                reader.forget()
        self._reader, self._stuck = None, []

    @property
    def reader_pid(self) -> int | None:
        return self._reader.pid if self._reader else None

    def _start(self, now: float) -> None:
        if not timing.may_start(self._attempts, now):
            return
        choice = self._choices[self._chosen]
        self.roster.deadline_seconds = self._deadline_seconds * choice.deadlines
        try:
            self._reader = self._start_reader(choice.backend, choice.options)
        except AndonError as error:
            self._attempts = timing.failed(self._attempts, 0.0, now)
            self.fault = Fault(self.name, error.reason, error.hint, FaultCode.READER_ENDED)
            return
        self._life, self._born, self._before = ReaderLife(ReaderPhase.STARTING, now, now), now, {}
        self._starved_before, self._has_settled = 0.0, False
        self._names_due, self._has_reason = {}, False
        self._reader.ask(self._request)

    def _send(self, now: float) -> None:
        if self._reader is not None and self.roster.requested(now):
            self._reader.ask(self._request)

    def _progress(self, message: wire.Json, at: float, now: float) -> None:
        if "hello" in message:
            self._enter(ReaderPhase.OPENING, now)
        elif "glanced" in message:
            self.roster.glanced([read(Card, c) for c in message["glanced"]], at)
        elif "opened" in message:
            self._enter(ReaderPhase.OPEN, now)
            self.versions, self.fault, self._both = message["versions"], self._detour(), None
            self.roster.opened([read(Card, c) for c in message["opened"]], at, now)
            self.roster.requested(now)
        elif "down" in message:
            self._down(read(Fault, message["down"]), at)

    def _card_answered(self, message: wire.Json, at: float) -> None:
        card = message["card"]
        if self._silent_since is not None or (
            self._invalid_fault and self.fault is self._invalid_fault
        ):
            self._silent_since, self.fault, self._invalid_fault = None, self._detour(), None
        for uuid, ring in message.get("rings", {}).items():
            self.rings[uuid] = read(wire_in.RING, ring)
        if "devices" in message:
            self.roster.described(card, self._devices(message["devices"]), at)
        if "readings" in message:
            self.roster.answered(card, [self._whole(r) for r in message["readings"]], at)
        elif "lost" in message:
            self.roster.lost(card, message["lost"]["reason"], message["lost"]["hint"], at)
        else:
            self.roster.failed(card, message["failed"], message["hint"], at)

    def _devices(self, listed: list[wire.Json]) -> list[Device]:
        """Returns the valid devices: an invalid one does not affect the others."""
        found: list[Device] = []
        for encoded in listed:
            self._attempt(lambda one: found.append(read(Device, one)), encoded)
        return found

    def _whole(self, difference: wire.Json) -> Reading:
        """Returns a complete reading from what has changed since the last one."""
        uuid = difference["uuid"]
        reading = wire_in.reading_from_json(difference, self._before.get(uuid))
        self._before[uuid] = reading
        return reading

    def _count(self, cost: wire.Json) -> None:
        self.costs.cpu_seconds = self.costs.earlier_cpu_seconds + cost["cpu"]
        self.costs.wall_seconds += cost["wall"]
        self.costs.last_wall_seconds = cost["wall"]

    def _down(self, fault: Fault, at: float) -> None:
        self._has_reason = True
        self.fault = fault
        self.versions = {}
        self.roster.down(fault.reason, fault.hint, at)

    def _ended(self, at: float, now: float) -> None:
        """Handles the end of a reader, which gave a reason or crashed. After a first crash a new
        one starts at once."""
        reader, self._reader = self._reader, None
        if reader is None:
            return
        reader.close(0.5)
        code, error = reader.ended(), reader.last_error_line()
        reader.forget()
        self.costs.earlier_cpu_seconds = self.costs.cpu_seconds
        self._attempts = timing.failed(self._attempts, now - self._born, now)
        if self._has_reason:
            self._try_next_choice(now)
            return
        reason = f"the reader ended: {_ending(code)}"
        if error:
            reason = f"{reason} ({error})"
        hint = CRASH_HINT if code is not None and code < 0 else BROKEN_HINT
        self.fault = Fault(self.name, reason, hint, FaultCode.READER_ENDED)
        self.roster.reader_ended(reason, hint)
        self._start(now)

    def _try_next_choice(self, now: float) -> None:
        """Tries the next choice at once; after the last one, the first again after a pause."""
        failed = self._choices[self._chosen].backend
        if self._chosen == 0:
            self._first_fault = self.fault
        elif self._first_fault is not None and self.fault is not None:
            self._both = both_failed(self._first_fault, self.fault, command_name(failed))
        self._chosen = (self._chosen + 1) % len(self._choices)
        if self._chosen:
            self._attempts = Attempts(stuck=self._attempts.stuck)
            self._start(now)
        self.fault = self._both or self.fault

    def _detour(self) -> Fault | None:
        """Returns the fault to report while a backend other than the first is in use."""
        if not self._chosen or self._first_fault is None:
            return None
        return used_instead(self._first_fault, command_name(self._choices[self._chosen].backend))

    def _reap(self) -> None:
        self._stuck = [reader for reader in self._stuck if reader.ended() is None]
        self._leaving = [reader for reader in self._leaving if reader.ended() is None]
        self._attempts = timing.returned(self._attempts, len(self._stuck))

    def _give_up_if_stuck(self, now: float) -> None:
        reader, waiting_since = self._reader, self.roster.outstanding_since()
        if reader is None or not timing.is_stuck(self._life, waiting_since, now):
            return
        starved = self._starved_seconds()
        if not timing.is_stuck(self._life, waiting_since, now, starved):
            return
        if self._silent_since is None:
            self._silent_since = self._life.since if waiting_since is None else waiting_since
        reader.close()
        reader.forget()
        self._stuck.append(reader)
        self._reader = None
        self._attempts = timing.abandoned(self._attempts, now)

    def _renew_if_lost(self, now: float) -> None:
        """Starts a new reader after a loss: only a new driver session sees a card return."""
        if not self.roster.has_lost():
            self._renewals, self._lost_since = 0, None
            return
        if self._lost_since is None:
            self._lost_since = now
        if self._reader is not None and self._life.phase is ReaderPhase.OPEN:
            wait = timing.renew_after_seconds(self._renewals)
            if now - max(self._born, self._lost_since) >= wait:
                self._renewals += 1
                self._dismiss(self._reader)
                self._reader = None

    def _dismiss(self, reader: ReaderProcess) -> None:
        """Kills a reader without waiting; it is reaped once it has exited."""
        reader.close()
        reader.forget()
        self._leaving.append(reader)


def command_name(backend: str) -> str:
    return backend.replace("_", "-")


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    from signal import Signals

    names = {one.value: one.name for one in Signals}  # real-time signals have none
    return f"killed by {names.get(-code, f'signal {-code}')}"
