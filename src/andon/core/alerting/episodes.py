"""How one episode advances: pending, firing, resolved, with durations on the steady clock.

Time without data is not evidence: of the time since the last sample with data, at most half a
minute counts, both for what holds and for what is calm.
"""

from collections.abc import Callable
from dataclasses import replace

from andon.core.conditions.finding import ALL, ENDED, UNKNOWN, Judgement
from andon.core.conditions.rules import Rule, Rung, severity
from andon.core.conditions.state import NEVER, Episode, Moment, Times
from andon.core.conditions.stated import for_seconds
from andon.core.conditions.thresholds import Thresholds
from andon.model.alert import Alert, Level, Phase

SEEN_SECONDS = 30.0
FORGET_SECONDS = 300.0
FLAP_SECONDS = 3600.0
MOST_FACTOR = 16
RESTART_CLEAR_SECONDS = 60.0

Render = Callable[[Alert, Judgement], Alert]
"""Writes the numbers, the text and the people of a finding into an alert."""


def begin(
    alert: Alert,
    rule: Rule,
    finding: Judgement,
    moment: Moment,
    figures: Thresholds,
    render: Render,
    factor: int,
) -> Episode:
    """The episode after the first sample in which a rung holds."""
    none: Times = (None,) * len(rule.rungs)
    return _advanced(Episode(alert, none, none), rule, finding, moment, figures, render, factor)


def is_calm(episode: Episode) -> bool:
    """Whether every active rung is calm, on its way to being resolved."""
    return all(
        since is not None for place, since in enumerate(episode.calm) if episode.up >> place & 1
    )


def is_settled(episode: Episode, finding: Judgement | None, now: float) -> bool:
    """Whether a sample soon after the last one changes nothing, as most do."""
    if now >= episode.due or episode.dark is not None:
        return False
    if finding is None:
        return not episode.holds and episode.quiet == episode.up
    if finding.blind or finding is ENDED or finding.holds != episode.holds:
        return False
    if finding.holds & finding.calm:
        return False  # an event: its calm starts again
    return finding.calm & episode.up == episode.quiet


def advance(
    episode: Episode,
    rule: Rule,
    finding: Judgement | None,
    moment: Moment,
    last: float,
    figures: Thresholds,
    render: Render,
    factor: int = 1,
) -> Episode | None:
    """The episode after one more sample: the same object if nothing changed, None if it was
    pending and is dropped. `last` is the previous sample; `factor` applies if it fires now."""
    now = moment.steady
    if finding is UNKNOWN:
        return _without_data(episode, moment, last)
    last = last if episode.dark is None else episode.dark
    if now - last > SEEN_SECONDS:
        gap = now - last
        if gap > FORGET_SECONDS and episode.fired is None:
            return None
        episode = _moved(episode, gap)
    if finding is ENDED:
        return _resolved(episode, moment) if episode.fired is not None else None
    if episode.fired is None and (finding is None or not (finding.holds or finding.blind)):
        return None
    return _advanced(episode, rule, finding, moment, figures, render, factor)


def _advanced(
    episode: Episode,
    rule: Rule,
    finding: Judgement | None,
    moment: Moment,
    figures: Thresholds,
    render: Render,
    factor: int,
) -> Episode:
    """The episode with one more sample; the same object if nothing changed."""
    now, holds = moment.steady, 0 if finding is None else finding.holds
    held, calm = _times(episode, finding, now)
    up = _up(episode, rule, held, calm, now, figures)
    same = held == episode.held and calm == episode.calm and up == episode.up
    due = _due(episode, rule, held, calm, up, figures)
    if same and holds == episode.holds and due == episode.due and episode.dark is None:
        return episode
    new = replace(episode, held=held, calm=calm, up=up, holds=holds, due=due)
    return _changed(new, rule, finding, moment, render, factor)


def _changed(
    episode: Episode,
    rule: Rule,
    finding: Judgement | None,
    moment: Moment,
    render: Render,
    factor: int,
) -> Episode:
    up, holds = episode.up, episode.holds
    if episode.fired is not None and not up:
        if not holds:
            return _resolved(episode, moment)
        up = holds  # a lower rung that has not held long enough yet: a drop sends no notice
    alert = episode.alert
    if finding is not None and (finding.holds or finding.value is not None):
        alert = render(alert, finding)
    level = _level(rule, up or _prompt(rule, holds)) or episode.alert.level
    alert = replace(alert, level=level, severity=severity(level, rule), no_data_since=None)
    fires = bool(up) and episode.fired is None
    if fires:
        alert = replace(alert, state=Phase.FIRING, fired=moment.wall)
    notifies = any(rung.notify and up >> place & 1 for place, rung in enumerate(rule.rungs))
    quiet = sum(1 << place for place, since in enumerate(episode.calm) if since is not None)
    return replace(
        episode,
        alert=alert,
        up=up,
        quiet=quiet & up,
        dark=None,
        fired=moment.steady if fires else episode.fired,
        factor=factor if fires else episode.factor,
        notifiable=episode.notifiable or notifies,
    )


def _due(
    episode: Episode, rule: Rule, held: Times, calm: Times, up: int, figures: Thresholds
) -> float:
    """When time alone activates or clears a rung."""
    found = NEVER
    for place, rung in enumerate(rule.rungs):
        since = held[place]
        if since is not None and not up >> place & 1:
            found = min(found, since + for_seconds(rung, figures))
        since = calm[place]
        if since is not None:
            found = min(found, since + clear_seconds(rung, episode))
    return found


def _times(episode: Episode, finding: Judgement | None, now: float) -> tuple[Times, Times]:
    """Since when each rung has held and been calm, after this sample."""
    holds, calm, blind = (
        (0, ALL, 0) if finding is None else (finding.holds, finding.calm, finding.blind)
    )
    held_times, calm_times = [], []
    for place, (was_held, was_calm) in enumerate(zip(episode.held, episode.calm, strict=True)):
        if blind >> place & 1:
            held_times.append(was_held)
            calm_times.append(was_calm)
            continue
        holding = bool(holds >> place & 1)
        held_times.append((now if was_held is None else was_held) if holding else None)
        # An event is instantaneous: its calm counts from the event itself.
        counts = holding or episode.up >> place & 1
        start = now if was_calm is None or holding else was_calm
        calm_times.append(start if counts and calm >> place & 1 else None)
    return tuple(held_times), tuple(calm_times)


def _up(
    episode: Episode, rule: Rule, held: Times, calm: Times, now: float, figures: Thresholds
) -> int:
    """The active rungs: those that have held long enough and have not cleared since."""
    up = episode.up
    for place, rung in enumerate(rule.rungs):
        since = held[place]
        if since is not None and now - since >= for_seconds(rung, figures):
            up |= 1 << place
        since = calm[place]
        if since is not None and now - since >= clear_seconds(rung, episode):
            up &= ~(1 << place)
    return up


def clear_seconds(rung: Rung, episode: Episode) -> float:
    """How long it must be calm: longer if it keeps recurring, shorter after a reset."""
    plain = rung.clear_seconds
    if episode.restarted:
        return min(plain, RESTART_CLEAR_SECONDS)
    return plain if episode.factor == 1 else min(plain * episode.factor, max(plain, FLAP_SECONDS))


def _level(rule: Rule, rungs: int) -> Level | None:
    found = [rung.level for place, rung in enumerate(rule.rungs) if rungs >> place & 1]
    return max(found, key=lambda level: level.rank) if found else None


def _prompt(rule: Rule, holds: int) -> int:
    """Without the rungs that only differ from a lower one in duration: they do not hold yet."""
    for place, rung in enumerate(rule.rungs):
        if any(lower.for_seconds < rung.for_seconds for lower in rule.rungs[:place]):
            holds &= ~(1 << place)
    return holds


def _moved(episode: Episode, gap: float) -> Episode:
    """After a gap: half a minute of it counts, and after a long gap any calm starts again."""
    shift = gap - SEEN_SECONDS
    held = tuple(None if t is None else t + shift for t in episode.held)
    calm = tuple(None if t is None else t + shift for t in episode.calm)
    if gap > FORGET_SECONDS:
        calm = (None,) * len(calm)
    return replace(episode, held=held, calm=calm)


def _without_data(episode: Episode, moment: Moment, last: float) -> Episode | None:
    """No data: the state stays. Missing data is neither trouble nor recovery."""
    since = last if episode.dark is None else episode.dark
    if episode.fired is None and moment.steady - since > FORGET_SECONDS:
        return None
    if episode.dark is not None:
        return episode
    alert = replace(episode.alert, no_data_since=moment.wall)
    return replace(episode, alert=alert, dark=since)


def _resolved(episode: Episode, moment: Moment) -> Episode:
    alert = replace(
        episode.alert, state=Phase.RESOLVED, resolved=moment.wall, no_data_since=None,
        inhibited_by=None,
    )  # fmt: skip
    return replace(episode, alert=alert, up=0, dark=None)
