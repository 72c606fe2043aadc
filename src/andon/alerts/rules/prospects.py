"""An alert as its latest reading shows it: its level now, when it fires, and when it clears."""

from msgspec.structs import replace

from andon.alerts.rules.episodes import clear_seconds, is_calm, level_now
from andon.alerts.rules.state import Episode
from andon.explain.conditions.condition import Condition, severity
from andon.explain.conditions.stated import for_seconds
from andon.model.alert import Level, Phase
from andon.model.thresholds import Thresholds


def with_prospects(episode: Episode, rule: Condition, figures: Thresholds, now: float) -> Episode:
    """The episode whose alert says when it fires or clears; neither while there is no data.

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
