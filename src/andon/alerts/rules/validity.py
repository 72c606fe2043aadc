"""Invariants of the alert state; tests check them after every step."""

from andon.alerts.rules.state import AlertState, Episode
from andon.explain.conditions.catalogue import BY_NAME
from andon.model.alert import Level, Phase


def validate(state: AlertState) -> None:
    """Raise ValueError if the state contradicts itself."""
    ids = set()
    for subject, on in state.episodes.items():
        if not on:
            raise ValueError(f"{subject} is kept without an alert")
        for rule, episode in on.items():
            if (episode.alert.rule, episode.alert.subject) != (rule, subject):
                raise ValueError(f"{episode.alert.id} is filed under {rule}@{subject}")
            if episode.alert.id in ids:
                raise ValueError(f"{episode.alert.id} is listed twice")
            ids.add(episode.alert.id)
            for wrong in _wrongs(episode):
                raise ValueError(f"{episode.alert.id}: {wrong}")
    for key, newest in state.seconds.items():
        if any(i.startswith(f"{key}#") and int(i.rpartition("#")[2]) > newest for i in ids):
            raise ValueError(f"{key} has an id of a later second")


def _wrongs(episode: Episode) -> list[str]:
    alert, rungs = episode.alert, BY_NAME[episode.alert.rule].rungs
    firing = alert.state is Phase.FIRING
    told = episode.notified_rank
    checks = {
        "it is resolved but kept": alert.state is Phase.RESOLVED,
        "needs one time for each rung": not len(episode.held) == len(episode.calm) == len(rungs),
        "it fires without an active rung": firing and not episode.up,
        "it has an active rung but does not fire": bool(episode.up) and not firing,
        "firing without a time": firing != (episode.fired is not None)
        or firing != (alert.fired is not None),
        "its level is not that of an active rung": firing
        and alert.level not in [r.level for n, r in enumerate(rungs) if episode.up >> n & 1],
        "a notice was sent for information": told is not None and told <= Level.INFO.rank,
        "notified but not counted": (told is not None) != (alert.notified > 0),
        "covered but not acknowledged": (episode.covered is None) != (alert.acknowledged is None),
        "without data but not marked so": (episode.dark is None) != (alert.no_data_since is None),
    }
    return [wrong for wrong, is_so in checks.items() if is_so]
