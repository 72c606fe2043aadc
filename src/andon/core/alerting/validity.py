"""What must be true of every state of the alerts; tests ask after every step."""

from andon.core.conditions.rules import BY_NAME
from andon.core.conditions.state import AlertState, Episode
from andon.model.alert import Level, Phase


def validate(state: AlertState) -> None:
    """Raise ValueError where a state contradicts itself."""
    ids = set()
    for subject, on in state.episodes.items():
        if not on:
            raise ValueError(f"{subject} has no alert and is kept")
        for rule, episode in on.items():
            if (episode.alert.rule, episode.alert.subject) != (rule, subject):
                raise ValueError(f"{episode.alert.id} stands under {rule}@{subject}")
            if episode.alert.id in ids:
                raise ValueError(f"{episode.alert.id} stands twice")
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
        "it is over and kept": alert.state is Phase.RESOLVED,
        "one time for each rung": not len(episode.held) == len(episode.calm) == len(rungs),
        "it fires and nothing counts": firing and not episode.up,
        "something counts and it does not fire": bool(episode.up) and not firing,
        "firing without a time": firing != (episode.fired is not None)
        or firing != (alert.fired is not None),
        "its level is that of no rung": firing
        and alert.level not in [r.level for n, r in enumerate(rungs) if episode.up >> n & 1],
        "information was told": told is not None and told <= Level.INFO.rank,
        "told and not counted": (told is not None) != (alert.notified > 0),
        "covered and not acknowledged": (episode.covered is None) != (alert.acknowledged is None),
        "dark and not shown so": (episode.dark is None) != (alert.no_data_since is None),
    }
    return [wrong for wrong, is_so in checks.items() if is_so]
