"""When time alone changes an alert: when it fires if it lasts, when it clears if it stays calm."""

from dataclasses import replace

from andon.core.alerting.episodes import clear_seconds, is_calm
from andon.core.alerting.state import Episode
from andon.core.conditions.condition import Condition
from andon.core.conditions.stated import for_seconds
from andon.model.alert import Phase
from andon.model.thresholds import Thresholds


def with_prospects(episode: Episode, rule: Condition, figures: Thresholds, now: float) -> Episode:
    """The episode whose alert says when it fires or clears; neither while there is no data."""
    alert = episode.alert
    if episode.dark is not None:
        return episode
    if alert.state is Phase.PENDING:
        alert = replace(alert, fires_in_seconds=_fires_in(episode, rule, figures, now))
    elif is_calm(episode):
        alert = replace(alert, clears_in_seconds=_clears_in(episode, rule, now))
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
