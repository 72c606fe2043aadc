"""The world that a timeline tells of: devices, the node, leases, events, and two clocks."""

import re
from functools import partial
from typing import Any

from msgspec.structs import replace

from andon.explain.evidence.observation import (
    HeldDevices,
    Moment,
    Observation,
    OwnTrouble,
    PreviousLease,
    ReservedDevices,
    Sharing,
)
from andon.model.device import (
    Device,
    DeviceStatus,
    Disk,
    DriverVersions,
    Fault,
    Host,
    LastCheck,
    Limits,
    Process,
    Sample,
    Snapshot,
    State,
)
from andon.model.event import Event, EventKind
from andon.units import GIB
from tests.timelines.grammar import DeviceLine, Reading, labels, moving, seconds

WALL, STEADY = 1_767_614_400.0, 1_000.0
NODE_MEMORY = 512 * GIB
SHORT = {
    "idle": "gpu_idle", "power_cap": "sw_power_cap", "sw_thermal": "sw_thermal_slowdown",
    "hw_thermal": "hw_thermal_slowdown", "power_brake": "hw_power_brake_slowdown",
    "hw_slowdown": "hw_slowdown", "temperature_limit": "temperature_limit",
    "clocks_set": "applications_clocks_setting",
}  # fmt: skip
FIELDS = {
    "temp": "temperature_celsius", "util": "utilization_percent", "memory": "memory_used_bytes",
    "power": "power_watts", "limit": "power_limit_watts", "sm_clock": "sm_clock_mhz",
    "fan": "fan_percent", "throttle": "throttle", "ecc": "ecc_uncorrected",
    "lanes": "pcie_width", "pcie": "pcie_generation", "pstate": "performance_state",
}  # fmt: skip
MODES = {"on": True, "off": False, "unknown": None}
SETUP = {
    "persistence": "persistence", "ecc_mode": "ecc", "ecc_next": "ecc_pending",
    "start": "start_seconds",
}  # fmt: skip
STATES = {"lost": State.LOST, "stale": State.STALE, "asleep": State.ASLEEP}
STRANGER = 7000  # the first pid of those who compute outside a lease
_OF_BOARDS = ("temp", "power", "limit", "util", "sm_clock", "throttle", "fan")


def uuid_of(label: int) -> str:
    return f"GPU-{label:04d}"


def _size(text: str, total: float) -> int:
    if text.endswith("%"):
        return round(float(text[:-1]) / 100 * total)
    return round(float(text.removesuffix("GiB")) * GIB)


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)


def _reasons(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(SHORT[word] for word in text.split(","))


class Thing:
    """One device of the world and what it reads."""

    def __init__(self, line: DeviceLine) -> None:
        self.line = line
        self.index, self.state, self.listed = line.label, State.OK, not line.absent
        self.since = 0.0
        self.total = round(line.memory_gib * GIB)
        self.user, self.command = "user", "work"
        self.hidden = False  # whether its processes cannot be read
        self.check: LastCheck | None = None
        self.stranger = "none"  # `bob:train.py`, or `?` for one that nobody can place
        self.sample: Sample | None = None
        self.moving: set[str] = set()
        self.same: DeviceStatus | None = None  # the last status, while nothing moves
        start: dict[str, str | None] = {
            "temp": "40", "util": "0", "memory": "0", "power": "100", "fan": None,
            "limit": None if line.power_limit is None else str(line.power_limit),
            "sm_clock": None if line.clock is None else str(line.clock),
            "throttle": "none", "ecc": "0", "unattributed": "0", "pstate": None,
            "pcie": _text(line.link[0]), "lanes": _text(line.link[1]),
        }  # fmt: skip
        if line.parent is not None:
            start |= dict.fromkeys(_OF_BOARDS)
        self.values: dict[str, tuple[float, Reading]] = {}
        for name, text in start.items():
            self.set(name, text, 0.0)
        self.device = Device(
            uuid=uuid_of(line.label),
            index=line.label,
            vendor=line.vendor,
            name=line.name,
            parent=None if line.parent is None else uuid_of(line.parent),
            memory_total_bytes=self.total,
            limits=Limits(
                slowdown_celsius=line.slowdown,
                power_default_watts=line.power_limit,
                sm_clock_mhz=line.clock,
                pcie_generation=line.link[0],
                pcie_width=line.link[1],
                pcie_slot_generation=line.slot[0],
                pcie_slot_width=line.slot[1],
            ),
        )

    def set(self, name: str, text: str | None, at: float) -> None:
        self.moving.discard(name)
        if text is None:
            self.values[name] = (at, lambda after: None)
            return
        if "~" in text or ".." in text:
            self.moving.add(name)
        size = partial(_size, total=self.total)
        read: Any = size if name in ("memory", "unattributed") else _number
        self.values[name] = (at, moving(text, _reasons if name == "throttle" else read))

    def take(self, words: str, at: float) -> None:
        """One item of a row."""
        pieces, self.same = words.split(), None
        for place, word in enumerate(pieces):
            if place and pieces[place - 1] == "nodata":
                self._hide(word, at)
            elif word in STATES:
                self.state, self.since = STATES[word], at
            elif word == "absent":
                self.listed = False
            elif word == "back":
                self.state, self.since, self.listed = State.OK, at, True
            elif word != "nodata":
                name, _, text = word.partition("=")
                self._assign(name, text, at)

    def _hide(self, name: str, at: float) -> None:
        if name == "processes":
            self.hidden = True
        else:
            self.set(name, None, at)

    def _assign(self, name: str, text: str, at: float) -> None:
        if name == "by":
            self.user, _, self.command = text.partition(":")
        elif name == "stranger":
            self.stranger = text
        elif name in SETUP:
            value = MODES[text] if text in MODES else float(text)
            changed: dict[str, Any] = {SETUP[name]: value}
            self.device = replace(self.device, setup=replace(self.device.setup, **changed))
        elif name == "check":
            self.check = LastCheck(WALL + at, text, "WRONG RESULTS on SM 41")
        elif name == "index":
            self.device = replace(self.device, index=int(text))
        else:
            self.set(name, text, at)

    def now(self, name: str, at: float) -> Any:
        since, reading = self.values[name]
        return reading(at - since)

    def status(self, at: float, wall: float) -> DeviceStatus:
        if self.same is None or self.moving:
            self.same = self._status(at, wall)
        return self.same

    def _status(self, at: float, wall: float) -> DeviceStatus:
        if self.state is not State.OK:
            reason = {State.LOST: "fallen off the bus", State.STALE: "no answer"}.get(self.state)
            return DeviceStatus(self.device, self.state, WALL + self.since, reason,
                                sample=self.sample)  # fmt: skip
        read: dict[str, Any] = {field: self.now(word, at) for word, field in FIELDS.items()}
        for name in ("memory_used_bytes", "temperature_celsius"):
            read[name] = None if read[name] is None else round(read[name])
        self.sample = Sample(wall, **read)
        return DeviceStatus(
            self.device, State.OK, WALL + self.since, sample=self.sample,
            processes=self._processes(at, read["memory_used_bytes"]),
            missing={"processes": "not permitted"} if self.hidden else {}, check=self.check,
        )  # fmt: skip

    def _processes(self, at: float, used: int | None) -> tuple[Process, ...]:
        held = 0 if used is None else used - (self.now("unattributed", at) or 0)
        if self.hidden:
            return ()
        user, _, command = self.stranger.partition(":")
        found = [
            Process(4000 + self.line.label, started=WALL - 86_400, name="python",
                    user=self.user, command=self.command, memory_bytes=held),
            Process(STRANGER + self.line.label, started=WALL, name="python",
                    user=user, command=command, memory_bytes=0),
        ]  # fmt: skip
        return tuple(found[(0 if held > 0 else 1) : (1 if self.stranger == "none" else 2)])


class World:
    """Everything that is looked at, at a time since the start."""

    def __init__(self, lines: list[DeviceLine]) -> None:
        self.things = {line.label: Thing(line) for line in lines}
        self.clock, self.boot, self.reboots = 0.0, "one", 1
        self.steady_begins = STEADY
        self.host: dict[str, Any] = {
            "cpu": 10.0, "memory": 0.2 * NODE_MEMORY, "pressure": 0.0,
        }  # fmt: skip
        self.disks = {"/": Disk("/", 500 * GIB, 1000 * GIB)}
        self.disks_known = True
        self.faults: dict[str, Fault] = {}  # by source
        self.drivers: tuple[DriverVersions, ...] | None = ()
        self.troubles: dict[str, str] = {}
        self.leases: dict[str, HeldDevices] = {}  # by name, or by the device's label
        self.reserved: dict[str, ReservedDevices] = {}
        self.former: dict[str, PreviousLease] = {}
        self.book_is_read = True
        self.events: list[Event] = []
        self.repeating: tuple[int, str | None] | None = None

    @property
    def is_still(self) -> bool:
        """Whether every look sees the same until the next row."""
        moving = any(thing.moving for thing in self.things.values())
        return not moving and self.repeating is None

    def moment(self, at: float) -> Moment:
        return Moment(WALL + at + self.clock, self.steady_begins + at)

    def observation(self, at: float) -> Observation:
        wall = self.moment(at).wall
        events, self.events = self.events, []
        if self.repeating is not None:
            code, uuid = self.repeating
            events.append(Event(EventKind.XID, uuid, wall, code, source="nvml"))
        listed = [t for t in self.things.values() if t.listed]
        snapshot = Snapshot(
            node="node17", at=wall, boot=self.boot, host=self._host(),
            devices=tuple(thing.status(at, wall) for thing in listed),
            faults=tuple(self.faults.values()),
        )  # fmt: skip
        troubles = tuple(OwnTrouble(subject, why) for subject, why in self.troubles.items())
        leases = tuple(self.leases.values()) if self.book_is_read else None
        reserved = tuple(self.reserved.values())
        return Observation(snapshot, tuple(events), troubles, leases, self._sharing(), reserved)

    def _sharing(self) -> Sharing:
        there = {t.device.uuid: t for t in self.things.values() if t.stranger != "none"}
        placed = {uuid: thing for uuid, thing in there.items() if thing.stranger != "?"}
        return Sharing(
            {uuid: frozenset({STRANGER + t.line.label}) for uuid, t in placed.items()},
            frozenset(there.keys() - placed.keys()),
            dict(self.former),
        )

    def _host(self) -> Host:
        memory = self.host["memory"]
        return Host(
            cpu_percent=self.host["cpu"],
            memory_used_bytes=None if memory is None else round(memory),
            memory_total_bytes=NODE_MEMORY,
            disk=tuple(self.disks.values()) if self.disks_known else (),
            memory_pressure_percent=self.host["pressure"],
            drivers=self.drivers,
        )

    def take(self, item: str, at: float) -> None:
        """An item of a row that changes the world."""
        if match := re.fullmatch(r"(\d+(?:-\d+)?): (.+)", item):
            for label in labels(match[1]):
                self.things[label].take(match[2], at)
        elif item.startswith(("node: ", "driver ", "versions: ")):
            self._of_node(item)
        elif match := re.fullmatch(r"(store|sampler|node_\w+:\w+): (\w+)", item):
            self.troubles.pop(match[1], None)
            if match[2] != "ok":
                self.troubles[match[1]] = match[2]
        elif item.startswith(("lease ", "run ", "release ", "orphan ", "book: ", "forget")):
            self._book(item, at)
        elif item.startswith(("reserve ", "use ", "cancel ")):
            self._reserve(item, at)
        elif match := re.fullmatch(r"ecc (\d+) uncorrected=\+(\d+)", item):
            thing = self.things[int(match[1])]
            thing.take(f"ecc={thing.now('ecc', at) + int(match[2])}", at)
        elif item.startswith("xid "):
            self._xid(item, at)
        else:
            raise ValueError(f"{item!r} is no item")

    def _of_node(self, item: str) -> None:
        """An item that changes the node or its drivers."""
        if match := re.fullmatch(r"driver (\w+): (.+)", item):
            self._driver(match[1], match[2].split())
        elif item.startswith("versions: "):
            self._versions(item[10:])
        else:
            self._node(item[6:])

    def _book(self, item: str, at: float) -> None:
        """An item that changes what the lease book says."""
        verb, _, rest = item.partition(" ")
        if match := re.fullmatch(r"(lease|run) (\S+) by (\w+)(?: as (\w+))?(?: for (\w+))?", item):
            end = None if match[5] is None else self.moment(at).wall + seconds(match[5])
            is_command = match[1] == "run"
            self._lease(labels(match[2]), match[3], match[4], at, is_command, end)
        elif verb == "release":
            gone = self.leases.pop(rest)
            wall = self.moment(at).wall
            self.former |= dict.fromkeys(gone.devices, PreviousLease(gone.id, gone.user, wall))
        elif verb == "orphan":
            self.leases[rest] = replace(self.leases[rest], orphaned=True)
        elif verb == "book:":
            self.book_is_read = rest == "ok"
        elif item == "forget":
            self.former.clear()
        else:
            raise ValueError(f"{item!r} is no item")

    def _lease(
        self,
        devices: list[int],
        user: str,
        name: str | None,
        at: float,
        is_command: bool,
        until: float | None,
    ) -> None:
        """One with a name is a lease of the book; one without is any claim, such as a run's."""
        id_ = f"claim:{devices[0]}-{at:g}" if name is None else f"lease:{name}"
        uuids = tuple(uuid_of(label) for label in devices)
        self.leases[name or str(devices[0])] = HeldDevices(
            id_, uuids, self.moment(at).wall, user, is_command=is_command, until=until
        )

    def _reserve(self, item: str, at: float) -> None:
        """An item that changes what is reserved."""
        verb, _, rest = item.partition(" ")
        if verb == "cancel":
            del self.reserved[rest]
            return
        if verb == "use":
            self.reserved[rest] = replace(self.reserved[rest], lapses=None)
            return
        match = re.fullmatch(r"(\S+) by (\w+) as (\w+) in (\w+) for (\w+)", rest)
        if match is None:
            raise ValueError(f"{item!r} is no reservation")
        begins = self.moment(at).wall + seconds(match[4])
        uuids = tuple(uuid_of(label) for label in labels(match[1]))
        self.reserved[match[3]] = ReservedDevices(
            f"reservation:{match[3]}", uuids, begins, begins + seconds(match[5]), match[2],
            begins + 1800.0,
        )  # fmt: skip

    def _node(self, words: str) -> None:
        pieces = words.split()
        for place, word in enumerate(pieces):
            name, _, text = word.partition("=")
            if place and pieces[place - 1] == "nodata":
                self.disks_known = word != "disk" and self.disks_known
                self.host |= {word: None} if word != "disk" else {}
            elif name in ("cpu", "pressure"):
                self.host[name] = float(text)
            elif name == "memory":
                self.host["memory"] = _size(text, NODE_MEMORY)
            elif name == "disk":
                mount, used, total = text.split(":")
                whole = _size(total, 0)
                self.disks[mount], self.disks_known = Disk(mount, _size(used, whole), whole), True

    def _driver(self, source: str, words: list[str]) -> None:
        """A fault by its code, with what the system shows of the cards."""
        code, shown = words[0], dict(word.split("=") for word in words[1:])
        self.faults.pop(source, None)
        if code != "ok":
            files = shown.get("files")
            self.faults[source] = Fault(
                source, code, "", code,
                int(shown["cards"]) if "cards" in shown else None,
                None if files is None else files == "yes", shown.get("container"),
            )  # fmt: skip

    def _versions(self, words: str) -> None:
        if words in ("none", "unknown"):
            self.drivers = () if words == "none" else None
            return
        found = dict(word.split("=") for word in words.split())
        library = found.pop("library", None)
        self.drivers = (DriverVersions("nvidia", found, library),)

    def _xid(self, item: str, at: float) -> None:
        if item == "xid stop":
            self.repeating = None
            return
        match = re.fullmatch(
            r"xid (\d+) on (\w+)(?: x(\d+))?( repeating)?(?: at (\S+))?( from kernel)?", item
        )
        if match is None:
            raise ValueError(f"{item!r} is no xid")
        uuid = None if match[2] == "node" else uuid_of(int(match[2]))
        if match[4]:
            self.repeating = (int(match[1]), uuid)
            return
        when = self.moment(at if match[5] is None else seconds(match[5])).wall
        source = "kernel log" if match[6] else "nvml"
        event = Event(EventKind.XID, uuid, when, int(match[1]), source=source)
        self.events += [event] * int(match[3] or 1)
