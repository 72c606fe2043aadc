"""How a finding becomes an alert that people read: the numbers, the sentence, the people."""

from dataclasses import replace

from andon.core.conditions import words
from andon.core.conditions.finding import Judgement
from andon.core.conditions.lease_words import holders_of, strangers_of
from andon.core.conditions.rules import BY_NAME
from andon.model.alert import Alert, Event, Party
from andon.model.device import DeviceStatus, Process, Snapshot, device_labels

VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


class AlertRenderer:
    """Draws alerts against one snapshot; what it needs is made when it is first needed."""

    def __init__(self, snapshot: Snapshot, before: Snapshot | None = None) -> None:
        self.snapshot, self._before = snapshot, before
        self._labels: dict[str, str] | None = None
        self._statuses: dict[str, DeviceStatus] | None = None

    def named(self, alert: Alert) -> Alert:
        """The alert with the number and the name that its device has now."""
        status = self._status(alert.subject)
        if status is None:
            return replace(alert, where=alert.where or self._called(alert.subject))
        number = self._number(alert.subject)
        where = f"GPU {number} ({status.device.name})"
        return replace(alert, where=where, device=status.device.index)

    def drawn(self, alert: Alert, finding: Judgement) -> Alert:
        """The alert with the numbers, the words and the people of a finding."""
        alert, rule, subject = self.named(alert), alert.rule, alert.subject
        status = self._status(subject)
        it = self._called(subject) if status is None else f"GPU {self._number(subject)}"
        lasted = self.snapshot.at - alert.since
        return replace(
            alert,
            value=finding.value,
            threshold=finding.threshold,
            limit=finding.limit,
            unit=BY_NAME[rule].unit,
            message=words.message(rule, it, finding, lasted, self._devices(finding)),
            advice=words.advice(rule, self._number(subject), finding),
            affected=_reported(finding)
            or _concerned(finding, words.parties(self._people(subject, status, finding)))
            or alert.affected,
            evidence=words.evidence(rule, finding),
        )

    def _people(
        self, subject: str, status: DeviceStatus | None, finding: Judgement
    ) -> tuple[Process, ...]:
        """The processes on it; of a device that fell silent, those of the look before."""
        found = status.processes if status else ()
        if not found and self._before is not None and (status is None or not status.answered):
            found = next(
                (s.processes for s in self._before.devices if s.device.uuid == subject), ()
            )
        event = finding.details[0] if finding.details else None
        named = event.pids if isinstance(event, Event) else ()
        return tuple(p for p in found if p.pid in named) or found

    def _devices(self, finding: Judgement) -> str:
        """`GPU 0, 1`: the devices of the claim that a finding is about."""
        held = holders_of(finding)
        numbers = [self._number(uuid) for uuid in held[0].devices] if held else []
        return f"GPU {', '.join(numbers)}" if numbers else ""

    def _status(self, subject: str) -> DeviceStatus | None:
        if self._statuses is None:
            self._statuses = {status.device.uuid: status for status in self.snapshot.devices}
        return self._statuses.get(subject)

    def _number(self, subject: str) -> str:
        if self._labels is None:
            self._labels = device_labels(self.snapshot.devices)
        return self._labels.get(subject, "?")

    def _called(self, subject: str) -> str:
        kind, _, name = subject.partition(":")
        if kind == "reader":
            return f"The {VENDORS.get(name, name)} driver"
        if kind == "node":
            return f"node {self.snapshot.node}" if self.snapshot.node else "this node"
        if kind == "lease":
            return f"lease {name}"
        return {"store": "the history", "sampler": "the sampler"}.get(subject, subject)


def _concerned(finding: Judgement, there: tuple[Party, ...]) -> tuple[Party, ...]:
    """With those who hold the device: the owner of an idle lease is told of it, and whoever
    shares a device without knowing."""
    strangers = words.parties(strangers_of(finding))
    holders = tuple(party for held in holders_of(finding) for party in held.who)
    first = strangers[: words.MOST_PARTIES - 1] or ()
    others = () if strangers else tuple(p for p in there if p.pid not in {h.pid for h in holders})
    return (*first, *holders, *others)[: words.MOST_PARTIES]


def _reported(finding: Judgement) -> tuple[Party, ...]:
    """Who ran when a device reported an error: the culprit has often ended by the next look."""
    event = finding.details[0] if finding.details else None
    return event.who[: words.MOST_PARTIES] if isinstance(event, Event) else ()
