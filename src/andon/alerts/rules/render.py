"""Turns a finding into an alert for people: its numbers, its sentence, who is affected."""

from collections.abc import Mapping

from msgspec.structs import replace

from andon.alerts.rules.state import Episode
from andon.explain.conditions.condition import described, recovering
from andon.explain.conditions.description import ConditionFacts, Description
from andon.explain.conditions.finding import Finding
from andon.explain.conditions.judging import OnReading
from andon.explain.conditions.rulebook import BY_NAME, Rulebook
from andon.explain.evidence.blame import MOST_PARTIES, parties
from andon.explain.evidence.observation import HeldDevices
from andon.explain.evidence.phrasing import Clause
from andon.explain.evidence.track import Track
from andon.explain.evidence.view import View, is_divided
from andon.model.alert import Alert, Phase
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.model.event import Event, Party
from andon.model.naming import device_labels, node_title, title
from andon.model.vendors import vendor_of
from andon.units import human_seconds

NO_TRACKS: Mapping[str, Track] = {}
SHOWN_ELSEWHERE = ("process.", "processes.", "users.", "threshold")
"""Evidence for which an alert has fields: `affected`, `threshold`."""


class AlertRenderer:
    """Renders alerts against one snapshot; lookup tables are built on first use."""

    def __init__(
        self,
        snapshot: Snapshot,
        rulebook: Rulebook,
        before: Snapshot | None = None,
        tracks: Mapping[str, Track] = NO_TRACKS,
        steady: float | None = None,
    ) -> None:
        self.snapshot, self._rulebook = snapshot, rulebook
        self._before, self._tracks, self._steady = before, tracks, steady
        self._labels: dict[str, str] | None = None
        self._statuses: dict[str, DeviceStatus] | None = None
        self._views: dict[str, View] = {}

    def named(self, alert: Alert) -> Alert:
        """Returns the alert with the current number and name of its device."""
        status = self._status(alert.subject)
        if status is None:
            return replace(alert, where=alert.where or self._subject_name(alert.subject))
        where = title(self._number(alert.subject), status.device.name)
        return replace(alert, where=where, device=status.device.index)

    def rendered(self, alert: Alert, finding: Finding) -> Alert:
        """Returns the alert with the numbers, the text and the people of a finding."""
        alert, condition = self.named(alert), BY_NAME[alert.rule]
        description = described(condition, self._facts(alert, finding))
        description = Description(Clause(condition.title)) if description is None else description
        return replace(
            alert,
            value=finding.value,
            threshold=finding.threshold,
            limit=finding.limit,
            unit=condition.unit,
            message=description.text.text,
            advice=description.advice or condition.advice,
            affected=self._affected(alert, finding) or self._remaining(alert),
            evidence=_evidence_of(description),
        )

    def current(self, episode: Episode, finding: Finding | None) -> Alert:
        """Returns the alert of an episode as it is now, by this sample's finding."""
        if finding is not None and finding.holds:
            return self.rendered(episode.alert, finding)
        return self.recovered(episode)

    def recovered(self, episode: Episode) -> Alert:
        """Returns the alert of an episode that does not hold now: its worst value and this one."""
        alert, condition = self.named(episode.alert), BY_NAME[episode.alert.rule]
        firing = alert.state is Phase.FIRING and alert.no_data_since is None
        alert = replace(alert, affected=self._remaining(alert))
        if not firing or condition.momentary:
            return alert
        measure, view, left = condition.measure, self._view(alert.subject), alert.clears_in_seconds
        now = measure(view) if measure and view is not None and view.status.answered else None
        clears = f"clears after {human_seconds(condition.clear_seconds * episode.factor)}"
        clears = clears if left is None else f"clears in {human_seconds(left)}"
        it = self._title(alert.subject)
        description = recovering(condition, it, episode.worst, now, clears)
        if description is None:
            return alert
        alert = replace(alert, message=description.text.text)
        return replace(alert, value=now, evidence=_evidence_of(description)) if measure else alert

    def _facts(self, alert: Alert, finding: Finding) -> ConditionFacts:
        subject, lasted = alert.subject, self.snapshot.at - alert.since
        view, gpus = self._view(subject), self._devices(finding)
        return ConditionFacts(
            self._title(subject), finding, view, self._number(subject), gpus, lasted
        )

    def _view(self, subject: str) -> View | None:
        found, status = self._views.get(subject), self._status(subject)
        if found is None and status is not None:
            found = self._views[subject] = self._view_of(status)
        return found

    def _view_of(self, status: DeviceStatus) -> View:
        """Returns the view of a device without command lines, because everyone sees the texts of
        alerts."""
        subject = status.device.uuid
        public = tuple(replace(process, command=None) for process in status.processes)
        figures = self._rulebook.for_device(status.device)
        track = self._tracks.get(subject) or Track(0.0)
        steady = self._steady
        reasons = track.throttle if steady is None else track.reasons(steady)
        return View(
            self.snapshot, replace(status, processes=public), figures, track, reasons,
            is_divided(self.snapshot, subject),
        )  # fmt: skip

    def _title(self, subject: str) -> str:
        known = self._status(subject) is not None
        return title(self._number(subject)) if known else self._subject_name(subject)

    def _affected(self, alert: Alert, finding: Finding) -> tuple[Party, ...]:
        """Returns who is affected: the people of an event first, then holders and processes."""
        event = _event(finding)
        if event is not None and event.who:
            return event.who[:MOST_PARTIES]  # the culprit has often exited since
        named: tuple[Process, ...] = getattr(finding.about, "processes", ())
        present = parties(named or self._processes(alert.subject, event))
        return _concerned(finding, present)

    def _remaining(self, alert: Alert) -> tuple[Party, ...]:
        """Returns the people of an alert about a reading: those there now, if known."""
        status = self._status(alert.subject)
        if not isinstance(BY_NAME[alert.rule].judged, OnReading) or status is None:
            return alert.affected
        known = status.answered and "processes" not in status.missing
        return parties(status.processes) if known else alert.affected

    def _processes(self, subject: str, event: Event | None) -> tuple[Process, ...]:
        """Returns the processes on it; if it stopped answering, those of the previous sample."""
        status = self._status(subject)
        found = status.processes if status else ()
        if not found and self._before is not None and (status is None or not status.answered):
            found = next(
                (s.processes for s in self._before.devices if s.device.uuid == subject), ()
            )
        named = () if event is None else event.pids
        return tuple(p for p in found if p.pid in named) or found

    def _devices(self, finding: Finding) -> str:
        """Returns the devices of the claim or reservation that a finding is about: `GPU 0, 1`."""
        held = _holders(finding)
        uuids = held[0].devices if held else getattr(finding.about, "devices", ())
        numbers = [self._number(uuid) for uuid in uuids]
        return title(", ".join(numbers)) if numbers else ""

    def _status(self, subject: str) -> DeviceStatus | None:
        if self._statuses is None:
            self._statuses = {status.device.uuid: status for status in self.snapshot.devices}
        return self._statuses.get(subject)

    def _number(self, subject: str) -> str:
        if self._labels is None:
            self._labels = device_labels(self.snapshot.devices)
        return self._labels.get(subject, "?")

    def _subject_name(self, subject: str) -> str:
        kind, _, name = subject.partition(":")
        if kind == "reader":
            return f"The {vendor_of(name).title} driver"
        if kind == "node":
            return node_title(self.snapshot.node)
        if kind in ("lease", "reservation"):
            return f"{kind} {name}"
        if kind == "notifier":
            return f"Notifier {name}"
        if kind in ("node_silent", "node_doubtful", "node_version"):
            return f"Node {name}"
        return {"store": "the history", "sampler": "the sampler"}.get(subject, subject)


def _evidence_of(description: Description) -> dict[str, str | float]:
    return {
        one.name: one.value
        for one in description.evidence
        if one.value is not None and not one.name.startswith(SHOWN_ELSEWHERE)
    }


def holder_in(finding: Finding) -> str | None:
    """Returns the id of the claim that a finding is about."""
    held = _holders(finding)
    return held[0].id if held else None


def _event(finding: Finding) -> Event | None:
    event = getattr(finding.about, "event", None)
    return event if isinstance(event, Event) else None


def _holders(finding: Finding) -> tuple[HeldDevices, ...]:
    found: tuple[HeldDevices, ...] = getattr(finding.about, "holders", ())
    return found


def _concerned(finding: Finding, there: tuple[Party, ...]) -> tuple[Party, ...]:
    """Returns the people affected, strangers and holders first: those are to know that a lease is
    idle, or that a device is shared."""
    strangers = parties(getattr(finding.about, "strangers", ()))
    holders = tuple(party for held in _holders(finding) for party in held.who)
    first = strangers[: MOST_PARTIES - 1] or ()
    others = () if strangers else tuple(p for p in there if p.pid not in {h.pid for h in holders})
    return (*first, *holders, *others)[:MOST_PARTIES]
