"""Turns a finding into an alert for people: its numbers, its sentence, who is affected."""

from dataclasses import replace

from andon.core.conditions import texts
from andon.core.conditions.finding import Judgement
from andon.core.conditions.lease_texts import holders_of, strangers_of
from andon.core.conditions.rules import BY_NAME
from andon.model.alert import Alert, Event, Party
from andon.model.device import DeviceStatus, Process, Snapshot
from andon.model.naming import device_labels, title
from andon.model.vendors import vendor_of


class AlertRenderer:
    """Renders alerts against one snapshot; lookup tables are built on first use."""

    def __init__(self, snapshot: Snapshot, before: Snapshot | None = None) -> None:
        self.snapshot, self._before = snapshot, before
        self._labels: dict[str, str] | None = None
        self._statuses: dict[str, DeviceStatus] | None = None

    def named(self, alert: Alert) -> Alert:
        """The alert with the current number and name of its device."""
        status = self._status(alert.subject)
        if status is None:
            return replace(alert, where=alert.where or self._subject_name(alert.subject))
        where = title(self._number(alert.subject), status.device.name)
        return replace(alert, where=where, device=status.device.index)

    def rendered(self, alert: Alert, finding: Judgement) -> Alert:
        """The alert with the numbers, the text and the people of a finding."""
        alert, rule, subject = self.named(alert), alert.rule, alert.subject
        status = self._status(subject)
        it = self._subject_name(subject) if status is None else title(self._number(subject))
        lasted = self.snapshot.at - alert.since
        return replace(
            alert,
            value=finding.value,
            threshold=finding.threshold,
            limit=finding.limit,
            unit=BY_NAME[rule].unit,
            message=texts.message(rule, it, finding, lasted, self._devices(finding)),
            advice=texts.advice(rule, self._number(subject), finding),
            affected=_reported(finding)
            or _concerned(finding, texts.parties(self._processes(subject, status, finding)))
            or alert.affected,
            evidence=texts.evidence(rule, finding),
        )

    def _processes(
        self, subject: str, status: DeviceStatus | None, finding: Judgement
    ) -> tuple[Process, ...]:
        """The processes on it; if it stopped answering, those of the previous sample."""
        found = status.processes if status else ()
        if not found and self._before is not None and (status is None or not status.answered):
            found = next(
                (s.processes for s in self._before.devices if s.device.uuid == subject), ()
            )
        event = finding.details[0] if finding.details else None
        named = event.pids if isinstance(event, Event) else ()
        return tuple(p for p in found if p.pid in named) or found

    def _devices(self, finding: Judgement) -> str:
        """`GPU 0, 1`: the devices of the claim a finding is about."""
        held = holders_of(finding)
        numbers = [self._number(uuid) for uuid in held[0].devices] if held else []
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
            return f"node {self.snapshot.node}" if self.snapshot.node else "this node"
        if kind == "lease":
            return f"lease {name}"
        if kind == "notifier":
            return f"Notifier {name}"
        return {"store": "the history", "sampler": "the sampler"}.get(subject, subject)


def _concerned(finding: Judgement, there: tuple[Party, ...]) -> tuple[Party, ...]:
    """The people affected, including the holders: the owner of an idle lease is notified, and so is
    whoever shares a device without knowing it."""
    strangers = texts.parties(strangers_of(finding))
    holders = tuple(party for held in holders_of(finding) for party in held.who)
    first = strangers[: texts.MOST_PARTIES - 1] or ()
    others = () if strangers else tuple(p for p in there if p.pid not in {h.pid for h in holders})
    return (*first, *holders, *others)[: texts.MOST_PARTIES]


def _reported(finding: Judgement) -> tuple[Party, ...]:
    """Who was running when a device reported an error: the culprit has often exited since."""
    event = finding.details[0] if finding.details else None
    return event.who[: texts.MOST_PARTIES] if isinstance(event, Event) else ()
