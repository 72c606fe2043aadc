"""Evaluates one sample: what each rule finds for each subject, if it finds anything."""

from collections.abc import Mapping

from andon.core.conditions.device_view import DeviceView
from andon.core.conditions.events import judge_ecc_count, judge_events
from andon.core.conditions.finding import ENDED, NEITHER, UNKNOWN, Judgement
from andon.core.conditions.judges import DEVICE_JUDGES, idle
from andon.core.conditions.node import node_findings, trouble_findings
from andon.core.conditions.rulebook import Rulebook
from andon.core.conditions.sharing import sharing_findings
from andon.core.conditions.state import AlertState, Episode, HeldDevices, Moment, Observation
from andon.core.conditions.track import Track, updated_track
from andon.core.sampling.idleness import ZERO_READING
from andon.model.device import DeviceStatus, Sample
from andon.model.device import State as DeviceState

READERS = "reader:"
READING_RULES = frozenset(name for name, _ in DEVICE_JUDGES)
LEAST_READERS = 2  # one device that does not respond says nothing about its vendor

Found = dict[str, dict[str, Judgement]]


class Evaluation:
    """The findings of one sample, and what is kept about the devices for the next."""

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
        self.reset: set[str] = set()  # devices whose error counter was reset
        self._divided = frozenset(
            parent for s in self.snapshot.devices if (parent := s.device.parent) is not None
        )
        self._held = _holders(observation.leases)
        rulebook.learn_labels(self.snapshot.devices)
        for status in self.snapshot.devices:
            self._device(status)
        self._sharing()
        self._unlisted()
        self._readers()
        self._rest()

    def add(self, subject: str, rule: str, finding: Judgement) -> None:
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
            self._states(status, on)

    def _readings(
        self, status: DeviceStatus, sample: Sample, track: Track, on: Mapping[str, Episode]
    ) -> None:
        uuid = status.device.uuid
        reasons = track.throttle if not track.faded else track.reasons(self.moment.steady)
        held = self._held.get(uuid) if self._held else None
        figures = self.rulebook.for_device(status.device)
        seen = DeviceView(status, sample, figures, track, reasons, uuid in self._divided, held)
        found: dict[str, Judgement] = {}
        for name, judge in DEVICE_JUDGES:
            finding = judge(seen)
            if finding is not None and (finding.holds or name in on):
                found[name] = finding
        if "idle" in on or (held is not None and sample.utilization_percent == ZERO_READING):
            unwatched = self.observation.leases is None
            found["idle"] = UNKNOWN if unwatched else idle(seen)
        if found:
            self.found[uuid] = found
        count = sample.ecc_uncorrected
        if count is not None and count != self.ecc.get(uuid):
            self._errors(uuid, count)

    def _silent(self, status: DeviceStatus, on: Mapping[str, Episode]) -> None:
        """A device without a reading: calm if asleep, otherwise unknown."""
        asleep = status.state is DeviceState.ASLEEP
        for name in on:
            if name == "idle":
                free = self._held is not None and status.device.uuid not in self._held
                self.add(status.device.uuid, name, ENDED if free else UNKNOWN)
            elif name in READING_RULES and not asleep:
                self.add(status.device.uuid, name, UNKNOWN)

    def _states(self, status: DeviceStatus, on: Mapping[str, Episode]) -> None:
        uuid, state = status.device.uuid, status.state
        reasons = (status.reason, status.hint)
        if state is DeviceState.LOST:
            self.add(uuid, "device_lost", Judgement(1, details=reasons))
            if "driver_hung" in on:
                self.add(uuid, "driver_hung", UNKNOWN)
        elif state is DeviceState.STALE:
            self.add(uuid, "driver_hung", Judgement(0b11, details=reasons))
            if "device_lost" in on:
                self.add(uuid, "device_lost", UNKNOWN)

    def _errors(self, uuid: str, count: int) -> None:
        before = self.ecc.get(uuid)
        self.ecc = {**self.ecc, uuid: count}
        finding, was_reset = judge_ecc_count(before, count)
        if finding is not None:
            self.add(uuid, "ecc", finding)
        if was_reset:
            self.reset.add(uuid)

    def _sharing(self) -> None:
        seen = self.observation
        found = sharing_findings(
            seen.leases, seen.sharing, self.statuses, self._divided, self.state.episodes,
            self.rulebook,
        )  # fmt: skip
        for subject, rule, finding in found:
            if finding is not None and (finding.holds or rule in self._on(subject)):
                self.add(subject, rule, finding)

    def holder_of(self, uuid: str) -> str | None:
        """The id of the claim that holds a device, if any."""
        held = self._held.get(uuid) if self._held else None
        return None if held is None else held.id

    def _unlisted(self) -> None:
        """Devices with alerts that are not in the snapshot: no data, unless they were removed."""
        for subject, on in self.state.episodes.items():
            place = self.state.places.get(subject)
            if place is None or subject in self.statuses:
                continue
            parent = self.statuses.get(place.parent or "")
            if parent is None or not parent.answered:
                for name in on:
                    if name not in ("xid", "ecc"):
                        self.add(subject, name, UNKNOWN)

    def _readers(self) -> None:
        """If no device of a vendor responds, its driver hangs rather than a device."""
        stale: dict[str, list[bool]] = {}
        for status in self.snapshot.devices:
            if status.device.parent is None and status.state in (DeviceState.OK, DeviceState.STALE):
                stale.setdefault(status.device.vendor, []).append(status.state is DeviceState.STALE)
        for vendor, silent in stale.items():
            if len(silent) >= LEAST_READERS and all(silent):
                self.add(f"{READERS}{vendor}", "driver_hung", Judgement(0b11, details=(None, None)))

    def _rest(self) -> None:
        figures, state = self.rulebook.thresholds, self.state
        for name, finding in node_findings(self.snapshot, figures).items():
            if finding.holds or name in self._on("node"):
                self.add("node", name, finding)
        for subject, rule, finding in trouble_findings(self.observation.troubles):
            self.add(subject, rule, finding)
        if self.observation.events:
            known = self.statuses.keys() | state.ecc.keys() | state.places.keys()
            taken, self.xids = judge_events(
                self.observation.events, self.moment.wall, known, state.xids
            )
            for subject, rule, finding in taken:
                self.add(subject, rule, finding)
        for subject, on in state.episodes.items():
            self._after_a_boot(subject, on)
        if self.rulebook.turns_off:
            self._turn_off()

    def _after_a_boot(self, subject: str, on: Mapping[str, Episode]) -> None:
        """After a reboot an earlier error clears only while the device works."""
        episode, status = on.get("xid"), self.statuses.get(subject)
        if (
            episode is None
            or not episode.restarted
            or "xid" in self.found.get(subject, _NO_FINDING)
        ):
            return
        if subject != "node" and (status is None or status.state is not DeviceState.OK):
            self.add(subject, "xid", NEITHER)

    def _turn_off(self) -> None:
        """Rules that are off find nothing, and their earlier alerts end."""
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
    """Who holds each device and could release it; the latest if there are several."""
    if leases is None:
        return None
    ordered = sorted((h for h in leases if not h.orphaned), key=lambda held: held.since)
    return {uuid: held for held in ordered for uuid in held.devices}


_NOTHING: Mapping[str, Episode] = {}
_NO_FINDING: Mapping[str, Judgement] = {}
