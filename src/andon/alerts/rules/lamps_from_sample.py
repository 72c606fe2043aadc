"""The lamps of one sample, loading only the conditions that may hold in it. They equal those of
`board_from_sample`, whose headline needs every condition.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from andon.alerts.rules.lamps import as_firing, lamps_of
from andon.explain.conditions.rulebook import BY_NAME, Rulebook, may_light
from andon.model.alert import Alert, Level, Phase
from andon.model.device import DeviceStatus, Snapshot
from andon.model.lamp import DeviceLamp

if TYPE_CHECKING:
    from andon.explain.conditions.condition import Condition
    from andon.explain.conditions.finding import Finding


def lamps_from_sample(snapshot: Snapshot, rulebook: Rulebook) -> tuple[DeviceLamp, ...]:
    """Returns the lamp of each device, from the conditions that hold now."""
    if not snapshot.devices:
        return ()
    if snapshot.events or snapshot.faults:  # rare, and judged by more than readings of one device
        from andon.alerts.rules.alerts_from_sample import board_from_sample

        return board_from_sample(snapshot, rulebook).devices
    return lamps_of(snapshot, list(_alerts(snapshot, rulebook)))


def _alerts(snapshot: Snapshot, rulebook: Rulebook) -> Iterator[Alert]:
    rulebook.learn_labels(snapshot.devices)
    for status in snapshot.devices:
        figures = rulebook.for_device(status.device)
        for name in may_light(status, figures):
            finding = None if name in figures.off else _finding(name, status, rulebook, snapshot)
            if finding is not None and finding.holds:
                yield _alert(BY_NAME[name], status, finding, rulebook, snapshot)


def _finding(
    name: str, status: DeviceStatus, rulebook: Rulebook, snapshot: Snapshot
) -> "Finding | None":
    """Returns the finding of a condition from this device's status alone."""
    from andon.explain.conditions.judging import found_on
    from andon.explain.evidence.track import updated_track
    from andon.explain.evidence.view import View, is_divided

    track, divided = (
        updated_track(None, status, 0.0, None),
        is_divided(snapshot, status.device.uuid),
    )
    figures = rulebook.for_device(status.device)
    view = View(snapshot, status, figures, track, track.throttle, divided)
    return found_on(BY_NAME[name].judged, view, rulebook.thresholds)


def _alert(
    rule: "Condition",
    status: DeviceStatus,
    finding: "Finding",
    rulebook: Rulebook,
    snapshot: Snapshot,
) -> Alert:
    """Returns the alert of a finding, as the state machine creates it in its first step."""
    from andon.alerts.rules.episodes import begin
    from andon.alerts.rules.render import AlertRenderer
    from andon.explain.evidence.observation import Moment

    uuid, moment = status.device.uuid, Moment(snapshot.at, 0.0)
    new = Alert(
        f"{rule.name}@{uuid}", rule.name, uuid, Level.INFO, Phase.PENDING, snapshot.at,
        silenced_until=None,
    )  # fmt: skip
    render, figures = AlertRenderer(snapshot, rulebook).rendered, rulebook.for_device(status.device)
    episode = begin(new, rule, finding, moment, figures, render, factor=1)
    return as_firing(episode.alert, rule, finding.rungs, status.since)
