"""Explains the state of a device: ranked reasons from the latest snapshot and the recent past."""

from collections.abc import Iterable, Mapping, Sequence

from andon.explain.conditions.catalogue import CODES_OF, CONDITIONS
from andon.explain.conditions.condition import Condition, Subject, described
from andon.explain.conditions.description import ConditionFacts, Description, conclude
from andon.explain.conditions.judging import OnFault, OnRequest, found_on
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.conditions.state.phrases import (
    ALERT,
    healthy,
    nothing_found,
    of_fault,
    unreported,
    vanished,
)
from andon.explain.evidence.departures import NOTHING_KNOWN, EndedProcesses
from andon.explain.evidence.phrasing import Clause
from andon.explain.evidence.reasons import Reason
from andon.explain.evidence.view import View
from andon.model.device import Fault, Snapshot, State
from andon.model.lamp import NOT_URGENT, DeviceLamp
from andon.model.naming import device_labels, node_title, title
from andon.model.thresholds import Thresholds

__all__ = ["explain", "explain_absence", "explain_node", "worst_first"]

EXPLAINED = tuple(one for one in CONDITIONS if one.kinds)
OF_DRIVERS = tuple(one for one in EXPLAINED if isinstance(one.judged, OnFault))


def explain(
    snapshots: Sequence[Snapshot],
    uuid: str,
    rulebook: Rulebook | None = None,
    departures: EndedProcesses = NOTHING_KNOWN,
    lamp: DeviceLamp | None = None,
) -> tuple[Reason, ...]:
    """Returns the reasons for one device, most important first; never empty. Snapshots may be in
    any order. The reason for its lamp is among them, because an alert knows more than the last
    readings.
    """
    past = sorted(snapshots, key=lambda snapshot: snapshot.at)
    book = Rulebook() if rulebook is None else rulebook
    view = View.of(past, uuid, book.for_device, departures) if past else None
    if view is None:
        return _of_the_unlisted(past, uuid)
    if view.status.state is State.UNKNOWN:
        return (unreported(view),)
    found = _of_conditions(view, book.thresholds)
    found += _of_lamp(lamp, found)
    fine = healthy(view)
    if fine is not None and not any(reason.is_trouble for reason in found):
        found.append(fine)
    return ranked(found) or absence(view.snapshot)


def _of_conditions(view: View, of_node: Thresholds) -> list[Reason]:
    """Returns a reason for each condition that finds something, unless another one explains it."""
    label = device_labels(view.snapshot.devices)[view.device.uuid]
    descriptions = ((one, _description(one, view, of_node, label)) for one in EXPLAINED)
    by_name = {one.name: (one, about) for one, about in descriptions if about is not None}
    return [
        _reason(condition, description, view)
        for condition, description in by_name.values()
        if by_name.keys().isdisjoint(condition.behind)
    ]


def _description(
    condition: Condition, view: View, of_node: Thresholds, label: str
) -> Description | None:
    """Returns the condition's description of the device, if it has one."""
    if isinstance(condition.judged, OnRequest):
        return condition.judged.explain(view)
    of_device = condition.subject_kind is Subject.DEVICE
    if condition.name in (view.figures if of_device else of_node).off:
        return None
    finding = found_on(condition.judged, view, of_node)
    if finding is None or not (finding.holds or finding.notable):
        return None
    it = title(label) if of_device else node_title(view.snapshot.node)
    return described(condition, ConditionFacts(it, finding, view, label))


def _reason(condition: Condition, description: Description, view: View | None = None) -> Reason:
    kind, advice = description.kind or condition.kinds[0], description.advice or condition.advice
    return conclude(kind, description, view, advice)


def _of_lamp(lamp: DeviceLamp | None, found: Sequence[Reason]) -> list[Reason]:
    """Returns the reason for the lamp, unless one of these reasons is already about it."""
    if lamp is None or lamp.rule is None or not lamp.reason:
        return []
    if not CODES_OF[lamp.rule].isdisjoint(reason.code for reason in found):
        return []
    return [conclude(ALERT, Description(Clause(lamp.reason), advice=lamp.advice or ""))]


def explain_node(
    snapshots: Sequence[Snapshot],
    rulebook: Rulebook | None = None,
    departures: EndedProcesses = NOTHING_KNOWN,
    lamps: Iterable[DeviceLamp] = (),
) -> Mapping[str, tuple[Reason, ...]]:
    """Returns the reasons for every device of the latest snapshot, in its order."""
    if not snapshots:
        return {}
    past = sorted(snapshots, key=lambda snapshot: snapshot.at)
    lamps_by_uuid = {lamp.uuid: lamp for lamp in lamps}
    uuids = [status.device.uuid for status in past[-1].devices]
    return {
        uuid: explain(past, uuid, rulebook, departures, lamps_by_uuid.get(uuid)) for uuid in uuids
    }


def explain_absence(snapshots: Sequence[Snapshot]) -> tuple[Reason, ...]:
    """Returns why the latest snapshot shows no device."""
    latest = max(snapshots, key=lambda snapshot: snapshot.at, default=None)
    return ranked(absence(latest))


def worst_first(
    explained: Mapping[str, tuple[Reason, ...]], lamps: Iterable[DeviceLamp]
) -> list[str]:
    """Returns the devices by their lamps, then by what their first reason weighs, then as given."""
    urgencies = {lamp.uuid: lamp.urgency for lamp in lamps}
    return sorted(
        explained,
        key=lambda uuid: (urgencies.get(uuid, NOT_URGENT), explained[uuid][0].weight),
        reverse=True,
    )


def ranked(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Sorts by weight, then confidence, then name, so that the order is total."""
    return tuple(sorted(reasons, key=lambda r: (-r.weight, -r.confidence, r.code, r.sentence)))


def absence(snapshot: Snapshot | None) -> tuple[Reason, ...]:
    """Returns why a node shows no device: what each backend reported."""
    if snapshot is None or not snapshot.faults:
        return (nothing_found(),)
    return tuple(_of_fault(fault, snapshot) for fault in snapshot.faults)


def _of_fault(fault: Fault, snapshot: Snapshot) -> Reason:
    for one in OF_DRIVERS:
        finding = one.judged.judge(fault, snapshot) if isinstance(one.judged, OnFault) else None
        if finding is not None:
            description = described(one, ConditionFacts("The driver", finding))
            return (
                of_fault(fault, snapshot.at) if description is None else _reason(one, description)
            )
    return of_fault(fault, snapshot.at)


def _of_the_unlisted(past: Sequence[Snapshot], uuid: str) -> tuple[Reason, ...]:
    seen = [s.at for s in past if any(one.device.uuid == uuid for one in s.devices)]
    if seen:
        return (vanished(uuid, seen[-1], past[-1].at),)
    return ranked(absence(past[-1] if past else None))
