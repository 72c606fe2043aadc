"""Which devices a vendor has and the state of each, from what its reader reported and when."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from andon.model.device import (
    Card,
    Device,
    DeviceStatus,
    Fault,
    FaultCode,
    Process,
    Reading,
    Sample,
    State,
)
from andon.sampling.rules.readings import checked_device, checked_processes, without, wrong_values
from andon.units import human_seconds

RAN_SECONDS = 60.0  # how long the processes of a lost device are remembered
HUNG_HINT = "the driver hangs on this device; the kernel log may say why (sudo dmesg)"


class BackendChoice(Struct, frozen=True):
    """One way to read a vendor: a backend, its options, and how slow it is relative to others."""

    backend: str
    options: Mapping[str, object]
    deadlines: float = 1.0


class RosterEntry(Struct):
    """The latest known state of one device."""

    device: Device
    card: str | None
    state: State
    since: float
    described: bool
    reason: str | None = None
    hint: str | None = None
    sample: Sample | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    processes: tuple[Process, ...] = ()
    ran: tuple[Process, ...] = ()
    """What ran on it when it last answered, now that it does not."""
    users: tuple[str, ...] = ()
    """The users of those processes; empty while the device answers."""
    impossible: Mapping[str, str] = field(default_factory=dict)
    """Why facts of the device are unknown."""
    listed: tuple[tuple[Process, ...], tuple[Process, ...]] = ((), ())
    """The latest processes as reported, and after validation."""
    odd: Mapping[str, str] = field(default_factory=dict)
    """Why values of the processes are unknown."""


class Roster:
    """The devices of one vendor. Times named `at` are UTC; `now` is monotonic."""

    def __init__(self, vendor: str, deadline_seconds: float) -> None:
        self.vendor = vendor
        self.deadline_seconds = deadline_seconds
        self.extra_seconds = 0.0
        """By which the deadline of the first answers moves: their reader got no processor."""
        self.entries: dict[str, RosterEntry] = {}
        self.impossible = 0
        """Impossible values so far; they are shown as unknown."""
        self._cards: dict[str, Card] = {}
        self._pending: dict[str, float] = {}
        self._opened: float | None = None
        self._trouble: tuple[str, str] | None = None

    # What the reader reports.

    def glanced(self, cards: Sequence[Card], at: float) -> None:
        """Adds the operating system's list, shown until the driver has described the devices."""
        known = {entry.device.pci for entry in self.entries.values() if entry.described}
        for card in cards:
            if card.pci not in known:
                self._show_card(card, at)

    def opened(self, cards: Sequence[Card], at: float, now: float) -> None:
        """Adds the driver's list; undescribed devices that it lacks are not visible to us."""
        self._opened, self._trouble = now, None
        self._cards = {card.key: card for card in cards}
        self._pending = {}
        listed = {card.pci for card in cards}
        for uuid, entry in list(self.entries.items()):
            if not entry.described and entry.device.pci not in listed:
                del self.entries[uuid]
            elif entry.card not in self._cards:
                entry.card = None

    def described(self, card: str, devices: Sequence[Device], at: float) -> None:
        """Stores a card's device and partitions; missing partitions were removed on purpose."""
        uuids = {device.uuid for device in devices}
        boards = {device.pci for device in devices if device.parent is None and device.pci}
        for uuid, entry in list(self.entries.items()):
            was_present = entry.card == card or entry.device.pci in boards
            if uuid not in uuids and was_present and (entry.device.parent or not entry.described):
                del self.entries[uuid]
        for device in devices:
            entry = self.entries.setdefault(
                device.uuid, RosterEntry(device, card, State.STALE, at, described=True)
            )
            entry.card = card
            entry.device, entry.impossible = checked_device(device)
            entry.described = not device.uuid.startswith(f"{device.vendor}@")

    def requested(self, now: float) -> list[str]:
        """Marks every card that is not busy as requested; returns those."""
        free = [key for key in self._cards if key not in self._pending]
        self._pending.update(dict.fromkeys(free, now))
        return free

    def answered(self, card: str, readings: Iterable[Reading], at: float) -> None:
        """Takes a card's answer, late or in time."""
        self._pending.pop(card, None)
        for reading in readings:
            entry = self.entries.get(reading.uuid)
            if entry is not None:
                self._take(entry, reading, at)

    def lost(self, card: str, reason: str, hint: str, at: float) -> None:
        """Marks a card as lost, as the driver reports; its last sample stays, with its own time."""
        self._set_card(card, State.LOST, reason, hint, at)

    def failed(self, card: str, reason: str, hint: str, at: float) -> None:
        """Marks a card that answered but could not be read."""
        self._set_card(card, State.STALE, reason, hint, at)

    def down(self, reason: str, hint: str, at: float) -> None:
        """Marks the whole vendor as unreadable: the driver is unloaded, or mismatched."""
        self._cards, self._pending, self._opened = {}, {}, None
        for entry in self.entries.values():
            entry.card = None
            self._change(entry, State.LOST, reason, hint, at)

    def reader_ended(self, reason: str, hint: str) -> None:
        """Notes that the reader crashed or was abandoned; its requests stay pending."""
        self._trouble = (reason, hint)

    # What the sampler reads.

    def awaited_until(self, now: float) -> float | None:
        """Returns the deadline of the last card that may answer in time; None if none may."""
        limit = self.deadline_seconds + self.extra_seconds
        ends = [since + limit for since in self._pending.values()]
        return max((end for end in ends if end > now), default=None)

    def outstanding_since(self) -> float | None:
        """Returns since when no card at all has answered."""
        if not self._pending or len(self._pending) < len(self._cards):
            return None
        return min(self._pending.values())

    def settle(self, at: float, now: float, reader_silent_since: float | None) -> None:
        """Marks cards that did not answer: called once per sample, after the answers."""
        shown = {entry.card for entry in self.entries.values()}
        limit = self.deadline_seconds + self.extra_seconds - 1e-6
        for key, since in self._pending.items():
            if key not in shown and now - since >= limit:
                self._show_card(self._cards[key], at)
        for entry in self.entries.values():
            silent = self._silent_since(entry, reader_silent_since)
            if silent is not None and now - silent >= limit:
                self._change(
                    entry, State.STALE, *self._silence(_lasted(entry, silent, at, now)), at
                )
            elif entry.card is None and self._gone(now):
                reason = "the driver no longer lists this device"
                self._change(entry, State.LOST, reason, HUNG_HINT, at)

    def statuses(self, visible: Mapping[str, int | None]) -> list[DeviceStatus]:
        """Returns the current status of every device."""
        return [
            DeviceStatus(
                device=entry.device,
                state=entry.state,
                since=entry.since,
                reason=entry.reason,
                hint=entry.hint,
                visible=uuid in visible,
                cuda_index=visible.get(uuid),
                sample=entry.sample,
                missing=entry.missing,
                processes=entry.processes,
                last_users=entry.users,
            )
            for uuid, entry in self.entries.items()
        ]

    def devices(self) -> list[Device]:
        return [entry.device for entry in self.entries.values()]

    def ran_on(self, uuid: str, at: float) -> tuple[Process, ...]:
        """Returns the processes on a device, or those it had if it was lost a moment ago."""
        entry = self.entries.get(uuid)
        if entry is None:
            return ()
        if entry.state is State.OK:
            return entry.processes
        return entry.ran if at - entry.since <= RAN_SECONDS else ()

    def has_lost(self) -> bool:
        """Whether any device is lost now."""
        return any(entry.state is State.LOST for entry in self.entries.values())

    def _show_card(self, card: Card, at: float) -> None:
        uuid = f"{self.vendor}@{card.pci or card.key}"
        device = Device(
            uuid, card.index, self.vendor, card.name or f"{self.vendor} device", card.pci
        )
        self.entries.setdefault(
            uuid, RosterEntry(device, card.key, State.STALE, at, described=False)
        )

    def _set_card(self, card: str, state: State, reason: str, hint: str, at: float) -> None:
        """Sets the state of a whole card; one that was never described is shown by its address."""
        self._pending.pop(card, None)
        if not any(entry.card == card for entry in self.entries.values()) and card in self._cards:
            self._show_card(self._cards[card], at)
        for entry in self.entries.values():
            if entry.card == card:
                self._change(entry, state, reason, hint, at)

    def _take(self, entry: RosterEntry, reading: Reading, at: float) -> None:
        self._list(entry, reading.processes)
        if reading.sample is not None or entry.sample is None:
            entry.sample, entry.missing = self._sound(entry, reading)
        self._change(entry, reading.state, reading.reason, reading.hint, at)

    def _sound(
        self, entry: RosterEntry, reading: Reading
    ) -> tuple[Sample | None, Mapping[str, str]]:
        """Returns the valid part of the sample, and why the rest is unknown."""
        sample, reasons = reading.sample, entry.impossible
        if sample is not None and (wrong := wrong_values(sample, entry.device)):
            self.impossible += len(wrong)
            sample, reasons = without(sample, wrong), {**reasons, **wrong}
        if entry.odd:
            reasons = {**reasons, **entry.odd}
        return sample, {**reading.missing, **reasons} if reasons else reading.missing

    def _list(self, entry: RosterEntry, processes: tuple[Process, ...]) -> None:
        """Stores a process list; an unchanged one is the same object, and not checked again."""
        if entry.listed[0] is not processes:
            sound, entry.odd = checked_processes(processes, entry.device)
            entry.listed = processes, sound
            self.impossible += len(entry.odd)
        entry.processes = entry.listed[1]

    def _change(
        self, entry: RosterEntry, state: State, reason: str | None, hint: str | None, at: float
    ) -> None:
        if entry.state is not state:
            if entry.state is State.OK:
                entry.ran = entry.processes
            entry.state, entry.since = state, at
            entry.users = users_of(entry.ran) if state in (State.STALE, State.LOST) else ()
        entry.reason, entry.hint = reason, hint
        if state is not State.OK:
            entry.processes = ()

    def _silent_since(self, entry: RosterEntry, reader_silent_since: float | None) -> float | None:
        if reader_silent_since is not None:
            return reader_silent_since
        return self._pending.get(entry.card) if entry.card is not None else None

    def _silence(self, seconds: float) -> tuple[str, str]:
        if self._trouble is not None:
            return self._trouble
        return f"driver call stuck for {human_seconds(seconds)}", HUNG_HINT

    def _gone(self, now: float) -> bool:
        return self._opened is not None and now - self._opened >= self.deadline_seconds


def numbered(vendors: Sequence[Sequence[DeviceStatus]]) -> list[DeviceStatus]:
    """All devices of a node in one numbering: each vendor continues after the previous one."""
    found: list[DeviceStatus] = []
    first = 0
    for statuses in vendors:
        found += [_moved(status, first) for status in statuses] if first else statuses
        first = 1 + max((status.device.index for status in found), default=first - 1)
    return found


def stale(status: DeviceStatus, reason: str, hint: str, at: float) -> DeviceStatus:
    """Returns the device without a new reading, for this reason."""
    since = status.since if status.state is State.STALE else at
    users = users_of(status.processes) or status.last_users
    return replace(
        status, state=State.STALE, since=since, reason=reason, hint=hint, processes=(),
        last_users=users,
    )  # fmt: skip


def users_of(processes: Iterable[Process]) -> tuple[str, ...]:
    """Returns the users of processes, by the memory they hold."""
    held: dict[str, int] = {}
    for process in processes:
        if process.user is not None:
            held[process.user] = held.get(process.user, 0) + (process.memory_bytes or 0)
    return tuple(sorted(held, key=lambda user: (-held[user], user)))


def _lasted(entry: RosterEntry, silent: float, at: float, now: float) -> float:
    """Returns how long a device has not answered, also across restarts of the reader."""
    return max(now - silent, at - entry.since if entry.state is State.STALE else 0.0)


def _moved(status: DeviceStatus, by: int) -> DeviceStatus:
    return replace(status, device=replace(status.device, index=status.device.index + by))


def order(status: DeviceStatus) -> tuple[int, bool]:
    """Returns a sort key: boards by index, each followed by its partitions."""
    return status.device.index, status.device.parent is not None


# The message for a vendor that can be read in two ways: when the second is used, or fails too.


def used_instead(first: Fault, command: str) -> Fault:
    """Returns the fault while the second way works: it disproves that no driver is installed."""
    return replace(
        first,
        reason=f"{first.reason}; using {command} instead",
        hint=_other_hint(command) if first.code == FaultCode.NO_DRIVER else first.hint,
        code=FaultCode.OTHER_BACKEND,
    )


def both_failed(first: Fault, second: Fault, command: str) -> Fault:
    """Returns both reasons, and the hint of the one that explains more.

    A library that is not found explains little if the command is installed: how that fails shows
    what is wrong.
    """
    clearer = second if first.code == FaultCode.NO_DRIVER else first
    reason = first.reason
    if second.reason != first.reason:
        named = "" if second.reason.startswith(command) else f"{command}: "
        reason = f"{first.reason}; {named}{second.reason}"
    return replace(
        first,
        reason=reason,
        hint=clearer.hint or first.hint,
        code=clearer.code or first.code,
    )


def _other_hint(command: str) -> str:
    return (
        f"the driver is installed, only its library is missing: find it with andon doctor. With "
        f"{command}, readings are slower and fewer"
    )
