"""Evaluates one sample: what each condition finds for each subject."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import chain

from andon.alerts.rules.findings import judge_events, lease_findings, reservation_findings
from andon.alerts.rules.state import AlertState, Episode
from andon.explain.conditions.catalogue import BY_NAME, RULES
from andon.explain.conditions.description import Reported
from andon.explain.conditions.finding import ENDED, HOLDS, NEITHER, UNKNOWN, Finding
from andon.explain.conditions.judging import (
    Counted,
    OnEvents,
    OnFault,
    OnHeld,
    OnNode,
    OnReading,
    OnReport,
    OnState,
)
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import HeldDevices, Moment, Observation
from andon.explain.evidence.track import Reasons, Track, updated_track
from andon.explain.evidence.view import View
from andon.model.device import SAMPLER, DeviceStatus, Sample
from andon.model.device import State as DeviceState
from andon.model.utilisation import ZERO_READING
from andon.model.vendors import vendor_of_backend

READERS = "reader:"
JUDGED_STATES = (DeviceState.OK, DeviceState.STALE)  # the others were not read, or are lost
LEAST_READERS = 2  # one device that does not respond says nothing about its vendor
DEVICE_JUDGES = {r.name: r.judged for r in RULES if isinstance(r.judged, OnReading)}
HELD_JUDGES = tuple((r.name, r.judged.judge) for r in RULES if isinstance(r.judged, OnHeld))
STATE_JUDGES = tuple((r.name, r.judged) for r in RULES if isinstance(r.judged, OnState))
COUNTED = tuple(
    (r.name, r.judged.count, r.judged.judge_count)
    for r in RULES
    if isinstance(r.judged, OnEvents) and r.judged.count is not None and r.judged.judge_count
)
STAYING = frozenset(
    r.name for r in RULES if isinstance(r.judged, OnEvents) and r.judged.until_it_works
)
NODE_JUDGES = tuple((r.name, r.judged.judge) for r in RULES if isinstance(r.judged, OnNode))
FAULT_JUDGES = tuple((r.name, r.judged.judge) for r in RULES if isinstance(r.judged, OnFault))
READING_RULES = frozenset(DEVICE_JUDGES)
GATED = frozenset(name for name, judged in DEVICE_JUDGES.items() if judged.reasons is not None)
HELD_RULES = frozenset(name for name, _ in HELD_JUDGES)
FAULT_RULES = frozenset(name for name, _ in FAULT_JUDGES)
LOST_WITH_DRIVER = frozenset(r.name for r in RULES if not FAULT_RULES.isdisjoint(r.behind))
"""Conditions that are not judged for single devices while their driver cannot be read."""

Found = dict[str, dict[str, Finding]]
Judges = tuple[tuple[str, Callable[[View], Finding | None]], ...]


@lru_cache(maxsize=256)
def judges_for(reasons: Reasons | None) -> Judges:
    """Returns the judges that can find something while these throttle reasons are active."""
    return tuple(
        (name, judged.judge)
        for name, judged in DEVICE_JUDGES.items()
        if judged.reasons is None or reasons is None or _may_hold(judged.reasons, reasons)
    )


ALL_JUDGES = judges_for(None)


def _may_hold(wanted: frozenset[str], reasons: Reasons) -> bool:
    return not wanted.isdisjoint(reasons) if wanted else not reasons


class Evaluation:
    """The findings of one sample, and what the next one needs to know of the devices."""

    def __init__(
        self, state: AlertState, observation: Observation, moment: Moment, rulebook: Rulebook
    ) -> None:
        self.state, self.moment, self.rulebook = state, moment, rulebook
        self.observation, self.snapshot = observation, observation.snapshot
        self.found: Found = {}
        self.statuses: dict[str, DeviceStatus] = {}
        self.tracks: dict[str, Track] = {}
        self.ecc: Mapping[str, int] = state.ecc
        self.xids = state.xids
        self.reset: set[tuple[str, str]] = set()  # rules and devices whose counter was reset
        self._divided = frozenset(
            parent for s in self.snapshot.devices if (parent := s.device.parent) is not None
        )
        self._held = _holders(observation.leases)
        rulebook.learn_labels(self.snapshot.devices)
        for status in self.snapshot.devices:
            self._device(status)
        self._leases()
        self._unlisted()
        self._readers()
        if self.snapshot.faults:
            self._faults()
        self._rest()

    def add(self, subject: str, rule: str, finding: Finding) -> None:
        self.found.setdefault(subject, {})[rule] = finding

    def _on(self, subject: str) -> Mapping[str, Episode]:
        return self.state.episodes.get(subject, _NOTHING)

    def _device(self, status: DeviceStatus) -> None:
        uuid = status.device.uuid
        self.statuses[uuid] = status
        state = self.state
        track = updated_track(state.tracks.get(uuid), status, self.moment.steady, state.steady)
        self.tracks[uuid] = track
        on = state.episodes.get(uuid, _NOTHING)
        if status.state is DeviceState.OK and status.sample is not None:
            self._readings(status, status.sample, track, on)
        elif on:
            self._silent(status, on)
        if status.state is not DeviceState.OK:
            self._states(self._view(status, track, None), on)

    def _readings(
        self, status: DeviceStatus, sample: Sample, track: Track, on: Mapping[str, Episode]
    ) -> None:
        uuid = status.device.uuid
        reasons = track.throttle if not track.faded else track.reasons(self.moment.steady)
        seen = self._view(status, track, reasons)
        found: dict[str, Finding] = {}
        # What has an alert is judged although its throttle reasons are gone.
        gated = not on or GATED.isdisjoint(on)
        for name, judge in judges_for(reasons) if gated else ALL_JUDGES:
            finding = judge(seen)
            # One that cannot be judged has no rungs: the most frequent of those that are not calm.
            if finding is not None and (name in on or (finding.rungs and finding.holds)):
                found[name] = finding
        unused = seen.held is not None and sample.utilization_percent == ZERO_READING
        if unused or (on and not HELD_RULES.isdisjoint(on)):
            self._holding(seen, on, found)
        if found:
            self.found[uuid] = found
        for name, counter, judge_count in COUNTED:
            count = counter(sample)
            if count is not None and count != self.ecc.get(uuid):
                self._counted(uuid, name, judge_count(self.ecc.get(uuid), count))
                self.ecc = {**self.ecc, uuid: count}

    def _counted(self, uuid: str, name: str, counted: Counted) -> None:
        if counted.finding is not None:
            self.add(uuid, name, counted.finding)
        if counted.was_reset:
            self.reset.add((name, uuid))

    def _view(self, status: DeviceStatus, track: Track, reasons: Reasons | None) -> View:
        uuid = status.device.uuid
        held = self._held.get(uuid) if self._held else None
        figures, divided = self.rulebook.for_device(status.device), uuid in self._divided
        return View(self.snapshot, status, figures, track, reasons, divided, held)

    def _holding(self, seen: View, on: Mapping[str, Episode], found: dict[str, Finding]) -> None:
        unwatched = self.observation.leases is None
        for name, judge in HELD_JUDGES:
            finding = UNKNOWN if unwatched else judge(seen)
            if name in on or finding.holds:
                found[name] = finding

    def _silent(self, status: DeviceStatus, on: Mapping[str, Episode]) -> None:
        """Judges a device without a reading: its alerts are unknown, and calm if it sleeps."""
        asleep = status.state is DeviceState.ASLEEP
        for name in on:
            if name in HELD_RULES:
                free = self._held is not None and status.device.uuid not in self._held
                self.add(status.device.uuid, name, ENDED if free else UNKNOWN)
            elif name in READING_RULES and not asleep:
                self.add(status.device.uuid, name, UNKNOWN)

    def _states(self, seen: View, on: Mapping[str, Episode]) -> None:
        """Judges whether a device is lost or does not respond; while one holds, the other is
        unknown."""
        status, found = seen.status, {name: judged.judge(seen) for name, judged in STATE_JUDGES}
        silent = any(finding is not None for finding in found.values())
        for name, finding in found.items():
            if finding is not None:
                self.add(status.device.uuid, name, finding)
            elif silent and name in on:
                self.add(status.device.uuid, name, UNKNOWN)

    def _leases(self) -> None:
        found = lease_findings(
            self.observation, self.statuses, self._divided, self.state.episodes,
            self.rulebook.thresholds,
        )  # fmt: skip
        reserved = reservation_findings(
            self.observation, self.statuses, self.state.episodes, self.rulebook
        )
        for subject, rule, finding in chain(found, reserved):
            if finding.holds or rule in self._on(subject):
                self.add(subject, rule, finding)

    def holder_of(self, uuid: str) -> str | None:
        """Returns the id of the claim that holds a device, if any."""
        held = self._held.get(uuid) if self._held else None
        return None if held is None else held.id

    def _unlisted(self) -> None:
        """Judges devices with alerts but not in the snapshot: no data, unless removed."""
        for subject, on in self.state.episodes.items():
            place = self.state.places.get(subject)
            if place is None or subject in self.statuses:
                continue
            parent = self.statuses.get(place.parent or "")
            if parent is None or not parent.answered:
                for name in on:
                    if not BY_NAME[name].momentary:
                        self.add(subject, name, UNKNOWN)

    def _readers(self) -> None:
        """Judges the readers: if no device of a vendor responds, its driver hangs rather than a
        device."""
        states: dict[str, list[DeviceState]] = {}
        for status in self.snapshot.devices:
            if status.device.parent is None and status.state in JUDGED_STATES:
                states.setdefault(status.device.vendor, []).append(status.state)
        many = {vendor: set(seen) for vendor, seen in states.items() if len(seen) >= LEAST_READERS}
        for name, judged in STATE_JUDGES:
            finding = judged.all_silent
            for vendor, seen in many.items():
                if finding is not None and seen == {judged.of_all}:
                    self.add(f"{READERS}{vendor}", name, finding)

    def _faults(self) -> None:
        """Judges drivers that cannot be read at all; unknown if sampling failed."""
        for fault in self.snapshot.faults:
            vendor = vendor_of_backend(fault.source).name
            for name, judge in FAULT_JUDGES:
                finding = judge(fault, self.snapshot)
                if finding is not None:
                    self.add(f"{READERS}{vendor}", name, finding)
                    self._not_lost(vendor)
            if fault.source == SAMPLER:
                self._unknown_drivers()

    def _not_lost(self, vendor: str) -> None:
        """Removes the findings that single devices are lost if their whole driver cannot be read,
        or makes them unknown."""
        for uuid, status in self.statuses.items():
            found = self.found.get(uuid, {}) if status.device.vendor == vendor else {}
            for name in LOST_WITH_DRIVER.intersection(found):
                if name in self._on(uuid):
                    found[name] = UNKNOWN
                else:
                    del found[name]

    def _unknown_drivers(self) -> None:
        for subject, on in self.state.episodes.items():
            for name in FAULT_RULES.intersection(on):
                self.add(subject, name, UNKNOWN)

    def _rest(self) -> None:
        figures, state = self.rulebook.thresholds, self.state
        on = self._on("node")
        for name, judge in NODE_JUDGES:
            finding = judge(self.snapshot, figures)
            if finding is not None and (finding.holds or name in on):
                self.add("node", name, finding)
        self._reports()
        if self.observation.events:
            known = self.statuses.keys() | state.ecc.keys() | state.places.keys()
            taken, self.xids = judge_events(
                self.observation.events, self.moment.wall, known, state.xids
            )
            for subject, rule, finding in taken:
                self.add(subject, rule, finding)
        for subject, alerts in state.episodes.items():
            self._after_a_boot(subject, alerts)
        if self.rulebook.turns_off:
            self._turn_off()

    def _reports(self) -> None:
        """Judges every part of andon that reports a problem."""
        for trouble in self.observation.troubles:
            rule = trouble.subject.partition(":")[0]
            if rule in BY_NAME and isinstance(BY_NAME[rule].judged, OnReport):
                about = Reported(trouble.reason, trouble.hint)
                self.add(trouble.subject, rule, Finding((HOLDS,), about=about))

    def _after_a_boot(self, subject: str, on: Mapping[str, Episode]) -> None:
        """Keeps an error from before a reboot until the device works."""
        status, found = self.statuses.get(subject), self.found.get(subject, _NO_FINDING)
        if subject == "node" or (status is not None and status.state is DeviceState.OK):
            return
        for name in STAYING.intersection(on).difference(found):
            if on[name].restarted:
                self.add(subject, name, NEITHER)

    def _turn_off(self) -> None:
        """Ends the alerts of conditions that are off: they find nothing."""
        for subject in {*self.found, *self.state.episodes}:
            status, on = self.statuses.get(subject), self._on(subject)
            book = self.rulebook
            off = (book.for_device(status.device) if status else book.thresholds).off
            found = self.found.get(subject, {})
            for rule in off.intersection(on):
                self.add(subject, rule, ENDED)
            for rule in off.intersection(found).difference(on):
                del found[rule]


def _holders(leases: tuple[HeldDevices, ...] | None) -> dict[str, HeldDevices] | None:
    """Returns who holds each device and could release it; the latest if there are several."""
    if leases is None:
        return None
    ordered = sorted((h for h in leases if not h.orphaned), key=lambda held: held.since)
    return {uuid: held for held in ordered for uuid in held.devices}


_NOTHING: Mapping[str, Episode] = {}
_NO_FINDING: Mapping[str, Finding] = {}
