"""The actions on alerts: acknowledge, silence, and undo either."""

from collections.abc import Iterator

from msgspec.structs import replace

from andon.alerts.rules.episodes import clear_seconds, is_calm, level_now
from andon.alerts.rules.listing import order
from andon.alerts.rules.notify_policy import silenced_until
from andon.alerts.rules.render import AlertRenderer
from andon.alerts.rules.state import NEVER, AlertState, Episode, StepResult
from andon.errors import Conflict, Gone, Invalid
from andon.explain.conditions.catalogue import BY_NAME, DEFAULTS
from andon.explain.conditions.condition import Condition, severity
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.conditions.with_figures import for_seconds
from andon.explain.evidence.observation import Moment
from andon.model.alert import Acknowledgement, Alert, Level, Phase, Silence
from andon.model.thresholds import Thresholds

# An alert as its latest reading shows it: its level now, when it fires, and when it clears.


def with_prospects(episode: Episode, rule: Condition, figures: Thresholds, now: float) -> Episode:
    """Returns the episode with an alert that says when it fires or clears, unless there is no data.

    The level follows the reading: a rung that is calm keeps the episode open until its clear time
    is over, and no longer sets its level. An event sets it until then.
    """
    alert = episode.alert
    if episode.dark is not None:
        return episode
    if alert.state is Phase.PENDING:
        alert = replace(alert, fires_in_seconds=_fires_in(episode, rule, figures, now))
        return replace(episode, alert=alert)
    level = alert.level if rule.momentary else level_now(episode, rule)
    if level is None or (rule.momentary and is_calm(episode)):
        alert = replace(alert, clears_in_seconds=_clears_in(episode, rule, now))
    if level is None:
        level = min(alert.level, Level.WARNING, key=lambda one: one.rank)
    if level is not alert.level:
        alert = replace(alert, level=level, severity=severity(level, rule))
    return replace(episode, alert=alert)


def _fires_in(episode: Episode, rule: Condition, figures: Thresholds, now: float) -> float | None:
    pairs = zip(rule.rungs, episode.held, strict=True)
    due = [since + for_seconds(rung, figures) for rung, since in pairs if since is not None]
    return max(0.0, round(min(due) - now, 1)) if due else None


def _clears_in(episode: Episode, rule: Condition, now: float) -> float | None:
    due = [
        since + clear_seconds(rung, episode)
        for place, (rung, since) in enumerate(zip(rule.rungs, episode.calm, strict=True))
        if since is not None and episode.up >> place & 1
    ]
    return max(0.0, round(max(due) - now, 1)) if due else None


MOST_SILENCES = 256
LONGEST_SECONDS = 366 * 86_400.0


def acknowledge(state: AlertState, alert_id: str, by: str, note: str, moment: Moment) -> StepResult:
    """Acknowledges an alert: no further notices unless it gets worse."""
    episode = _find(state, alert_id)
    seen = Acknowledgement(moment.wall, by, note)
    alert = replace(episode.alert, acknowledged=seen)
    return _put(state, replace(episode, alert=alert, covered=alert.level.rank))


def unacknowledge(state: AlertState, alert_id: str, moment: Moment) -> StepResult:
    """Removes the acknowledgement; a reminder that became due is sent at the next sample."""
    episode = _find(state, alert_id)
    if episode.covered is None:
        raise Conflict("this alert is not acknowledged")
    alert = replace(episode.alert, acknowledged=None)
    return _put(state, replace(episode, alert=alert, covered=None))


def silence(state: AlertState, new: Silence, moment: Moment) -> StepResult:
    """Adds a silence: no notices are sent for matching alerts until it ends."""
    if new.until <= moment.wall:
        raise Invalid("this silence would already be over", hint="give a duration, e.g. 2h")
    if new.until - moment.wall > LONGEST_SECONDS:
        raise Invalid("a silence may last a year at most", hint="turn the rule off in the settings")
    if new.rule is not None and new.rule not in BY_NAME:
        raise Invalid(f"there is no rule {new.rule}", hint="list the rules: andon alerts rules")
    if any(old.id == new.id for old in state.silences):
        raise Conflict(f"silence {new.id} already exists")
    if len(state.silences) >= MOST_SILENCES:
        raise Conflict(
            f"there are already {MOST_SILENCES} silences",
            hint="remove some: andon alerts unsilence ID",
        )
    return _silenced(replace(state, silences=(*state.silences, new)), moment)


def unsilence(state: AlertState, silence_id: str, moment: Moment) -> StepResult:
    """Removes a silence; the notices it held back are sent at the next sample."""
    left = tuple(one for one in state.silences if one.id != silence_id)
    if len(left) == len(state.silences):
        raise Gone(f"there is no silence {silence_id}", hint="list them: andon alerts")
    return _silenced(replace(state, silences=left), moment)


def raised(state: AlertState) -> Iterator[Alert]:
    """Yields every pending or firing alert as it was when it last changed: enough to count them."""
    return (episode.alert for episode in _all(state))


def current(state: AlertState) -> tuple[Alert, ...]:
    """Returns all pending and firing alerts, with the numbers of the last sample, worst first."""
    if state.snapshot is None:
        return tuple(sorted((e.alert for e in _all(state)), key=order))
    renderer = AlertRenderer(
        state.snapshot, state.book or Rulebook(), tracks=state.tracks, steady=state.steady
    )
    found = []
    for subject, on in state.episodes.items():
        seen, figures = state.findings.get(subject, {}), _figures(state, subject)
        for rule, episode in on.items():
            if state.steady is not None:
                episode = with_prospects(episode, BY_NAME[rule], figures, state.steady)
            found.append(renderer.current(episode, seen.get(rule)))
    return tuple(sorted(found, key=order))


def _figures(state: AlertState, subject: str) -> Thresholds:
    """Returns the thresholds that the subject was last judged by."""
    if state.book is None or state.snapshot is None:
        return DEFAULTS
    device = next((s.device for s in state.snapshot.devices if s.device.uuid == subject), None)
    return state.book.thresholds if device is None else state.book.for_device(device)


def _silenced(state: AlertState, moment: Moment) -> StepResult:
    changed, episodes = [], dict(state.episodes)
    for episode in _all(state):
        alert = episode.alert
        until = silenced_until(state.silences, alert, moment.wall)
        if until != alert.silenced_until:
            alert = replace(alert, silenced_until=until)
            changed.append(alert)
            on = episodes[alert.subject]
            episodes[alert.subject] = {**on, alert.rule: replace(episode, alert=alert)}
    return StepResult(replace(state, episodes=episodes, remind_at=-NEVER), tuple(changed))


def _find(state: AlertState, alert_id: str) -> Episode:
    for episode in _all(state):
        if episode.alert.id == alert_id:
            return episode
    raise Gone(f"no alert {alert_id} is pending or firing", hint="list them: andon alerts")


def _put(state: AlertState, episode: Episode) -> StepResult:
    alert = episode.alert
    on = {**state.episodes[alert.subject], alert.rule: episode}
    episodes = {**state.episodes, alert.subject: on}
    return StepResult(replace(state, episodes=episodes, remind_at=-NEVER), (alert,))


def _all(state: AlertState) -> Iterator[Episode]:
    for on in state.episodes.values():
        yield from on.values()
