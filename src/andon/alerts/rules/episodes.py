"""How one episode advances: pending, firing, resolved, with durations on the steady clock.

Time without data is not evidence: of the time since the last sample with data, at most half a
minute counts, both for what holds and for what is calm.
"""

from collections.abc import Callable

from msgspec.structs import replace

from andon.alerts.rules.state import NEVER, Episode, Times
from andon.explain.conditions.condition import Condition, Rung, severity
from andon.explain.conditions.finding import (
    BETWEEN,
    CALM,
    ENDED,
    EVENT,
    HOLDS,
    NEITHER,
    NO_DATA,
    ONE,
    UNKNOWN,
    Finding,
    Rungs,
    RungState,
)
from andon.explain.conditions.with_figures import for_seconds
from andon.explain.evidence.observation import Moment
from andon.model.alert import Alert, Level, Phase
from andon.model.thresholds import Thresholds

SEEN_SECONDS = 30.0
FORGET_SECONDS = 300.0
FLAP_SECONDS = 3600.0
MOST_FACTOR = 16
RESTART_CLEAR_SECONDS = 60.0

Render = Callable[[Alert, Finding], Alert]
"""Writes the numbers, the text and the people of a finding into an alert."""


def begin(
    alert: Alert,
    rule: Condition,
    finding: Finding,
    moment: Moment,
    figures: Thresholds,
    render: Render,
    factor: int,
) -> Episode:
    """Returns the episode after the first sample in which a rung holds."""
    none: Times = (None,) * len(rule.rungs)
    new, now = Episode(alert, none, none), moment.steady
    return _advanced(new, rule, finding, moment, now, figures, render, factor)


def is_calm(episode: Episode) -> bool:
    """Whether every active rung is calm, on its way to being resolved."""
    return all(
        since is not None for place, since in enumerate(episode.calm) if episode.up >> place & 1
    )


def level_now(episode: Episode, rule: Condition) -> Level | None:
    """Returns the highest level of the active rungs that are not calm; None if all are calm.

    A lower rung that holds and has not held long enough yet counts where no active one is left.
    """
    active = [place for place, _ in enumerate(rule.rungs) if episode.up >> place & 1]
    held = sum(1 << place for place in active if episode.calm[place] is None)
    return _level(rule, held or _holding(episode.rungs))


def is_settled(episode: Episode, finding: Finding | None, now: float) -> bool:
    """Whether a sample soon after the last one changes nothing, as most do."""
    if now >= episode.due or episode.dark is not None:
        return False
    before = episode.rungs
    if finding is None:
        return before == _ALIKE[CALM][len(before)]
    rungs = finding.rungs
    if not rungs:
        return finding is NEITHER and before == _ALIKE[BETWEEN][len(before)]
    if rungs != before:
        return False
    worst, value = episode.worst, finding.value
    if worst is not None and value is not None and value > worst:
        return False
    # An event starts its calm again.
    return rungs is ONE or (EVENT not in rungs and NO_DATA not in rungs)


def with_worst(episode: Episode, finding: Finding | None) -> Episode:
    """Returns the episode with the highest value that it had while it held."""
    value, worst = None if finding is None else finding.value, episode.worst
    if finding is None or value is None or (worst is not None and value <= worst):
        return episode
    return replace(episode, worst=value) if finding.holds else episode


def advance(
    episode: Episode,
    rule: Condition,
    finding: Finding | None,
    moment: Moment,
    last: float,
    figures: Thresholds,
    render: Render,
    factor: int = 1,
) -> Episode | None:
    """Returns the episode after one more sample: the same object if nothing changed, None if it was
    pending and is dropped. `last` is the previous sample; `factor` applies if it fires now."""
    now = moment.steady
    if finding is not None and (finding is UNKNOWN or finding.is_unknown):
        return _without_data(episode, moment, last)
    last = last if episode.dark is None else episode.dark
    if now - last > SEEN_SECONDS:
        gap = now - last
        if gap > FORGET_SECONDS and episode.fired is None:
            return None
        episode = _moved(episode, gap)
    if finding is ENDED:
        return _resolved(episode, moment) if episode.fired is not None else None
    if episode.fired is None and not _may_go_on(finding):
        return None
    return _advanced(episode, rule, finding, moment, last, figures, render, factor)


def _may_go_on(finding: Finding | None) -> bool:
    """Whether a pending alert stays: a rung holds, or cannot be judged."""
    return finding is not None and (finding.holds or NO_DATA in finding.rungs)


def _advanced(
    episode: Episode,
    rule: Condition,
    finding: Finding | None,
    moment: Moment,
    last: float,
    figures: Thresholds,
    render: Render,
    factor: int,
) -> Episode:
    """Returns the episode after one more sample; the same object if nothing changed."""
    now, rungs = moment.steady, _rungs(finding, len(rule.rungs))
    held, calm = _times(episode, rungs, now, min(now - last, SEEN_SECONDS))
    up = _up(episode, rule, held, calm, now, figures)
    same = held == episode.held and calm == episode.calm and up == episode.up
    due = _due(episode, rule, held, calm, up, figures)
    if same and rungs == episode.rungs and due == episode.due and episode.dark is None:
        return episode
    new = replace(episode, held=held, calm=calm, up=up, rungs=rungs, due=due)
    return _changed(new, rule, finding, moment, render, factor)


def _changed(
    episode: Episode,
    rule: Condition,
    finding: Finding | None,
    moment: Moment,
    render: Render,
    factor: int,
) -> Episode:
    up, holds = episode.up, _holding(episode.rungs)
    if episode.fired is not None and not up:
        if not holds:
            return _resolved(episode, moment)
        up = holds  # a lower rung that has not held long enough yet: a drop sends no notice
    alert = episode.alert
    shown = finding is not None and finding.value is not None and not finding.notable
    if finding is not None and (finding.holds or shown):
        alert = render(alert, finding)
    level = _level(rule, up or _prompt(rule, holds)) or episode.alert.level
    alert = replace(alert, level=level, severity=severity(level, rule), no_data_since=None)
    fires = bool(up) and episode.fired is None
    if fires:
        alert = replace(alert, state=Phase.FIRING, fired=moment.wall)
    notifies = any(rung.notify and up >> place & 1 for place, rung in enumerate(rule.rungs))
    return replace(
        episode,
        alert=alert,
        up=up,
        dark=None,
        fired=moment.steady if fires else episode.fired,
        factor=factor if fires else episode.factor,
        notifiable=episode.notifiable or notifies,
    )


def _due(
    episode: Episode, rule: Condition, held: Times, calm: Times, up: int, figures: Thresholds
) -> float:
    """Returns when time alone activates or clears a rung."""
    found = NEVER
    for place, rung in enumerate(rule.rungs):
        since = held[place]
        if since is not None and not up >> place & 1:
            found = min(found, since + for_seconds(rung, figures))
        since = calm[place]
        if since is not None:
            found = min(found, since + clear_seconds(rung, episode))
    return found


def _rungs(finding: Finding | None, count: int) -> Rungs:
    """Returns the state of each rung in a sample; all are calm without a finding."""
    if finding is None:
        return _ALIKE[CALM][count]
    return _ALIKE[BETWEEN][count] if finding is NEITHER else finding.rungs


def _holding(rungs: Rungs) -> int:
    """Returns the rungs that hold, as bits."""
    return sum(1 << place for place, state in enumerate(rungs) if state in (HOLDS, EVENT))


def _times(episode: Episode, rungs: Rungs, now: float, seconds: float) -> tuple[Times, Times]:
    """Returns since when each rung has held and been calm, after this sample. For a rung that
    cannot be judged the time since the last sample does not count."""
    held_times, calm_times = [], []
    for place, state in enumerate(rungs):
        held, calm = episode.held[place], episode.calm[place]
        if state is NO_DATA:
            held, calm = _later(held, seconds), _later(calm, seconds)
        else:
            holds = state is HOLDS or state is EVENT
            active = holds or episode.up >> place & 1
            is_calm_now = active and (state is CALM or state is EVENT)
            held = (now if held is None else held) if holds else None
            # An event is instantaneous: its calm counts from the event itself.
            calm = (now if calm is None or holds else calm) if is_calm_now else None
        held_times.append(held)
        calm_times.append(calm)
    return tuple(held_times), tuple(calm_times)


def _later(at: float | None, seconds: float) -> float | None:
    return None if at is None else at + seconds


def _up(
    episode: Episode, rule: Condition, held: Times, calm: Times, now: float, figures: Thresholds
) -> int:
    """Returns the active rungs, as bits: those that have held long enough and not cleared since."""
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
    """Returns how long a rung must be calm: longer if it keeps recurring, shorter after a reset."""
    plain = rung.clear_seconds
    if episode.restarted:
        return min(plain, RESTART_CLEAR_SECONDS)
    return plain if episode.factor == 1 else min(plain * episode.factor, max(plain, FLAP_SECONDS))


def _level(rule: Condition, rungs: int) -> Level | None:
    found = [rung.level for place, rung in enumerate(rule.rungs) if rungs >> place & 1]
    return max(found, key=lambda level: level.rank) if found else None


def _prompt(rule: Condition, holds: int) -> int:
    """Removes rungs that differ from a lower one only in duration: they do not hold yet."""
    for place, rung in enumerate(rule.rungs):
        if any(lower.for_seconds < rung.for_seconds for lower in rule.rungs[:place]):
            holds &= ~(1 << place)
    return holds


def _moved(episode: Episode, gap: float) -> Episode:
    """Moves the start times after a gap, of which half a minute counts; after a long gap calm times
    start again."""
    shift = gap - SEEN_SECONDS
    held = tuple(_later(at, shift) for at in episode.held)
    calm = tuple(_later(at, shift) for at in episode.calm)
    if gap > FORGET_SECONDS:
        calm = (None,) * len(calm)
    return replace(episode, held=held, calm=calm)


def _without_data(episode: Episode, moment: Moment, last: float) -> Episode | None:
    """Returns the episode after a sample without data, which shows neither trouble nor recovery."""
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


_MOST_RUNGS = 8
_ALIKE: dict[RungState, tuple[Rungs, ...]] = {
    state: tuple((state,) * count for count in range(_MOST_RUNGS + 1)) for state in (CALM, BETWEEN)
}
"""All rungs in one state, by their number."""
