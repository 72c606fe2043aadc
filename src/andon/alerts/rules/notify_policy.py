"""Which alerts inhibit others, which are silenced, and when people are notified."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from andon.alerts.rules.episodes import is_calm
from andon.alerts.rules.state import NEVER, Episode, Location
from andon.explain.conditions.catalogue import BY_NAME, RULES
from andon.explain.evidence.observation import Moment
from andon.model.alert import Alert, Level, NoticeKind, Phase, Silence

LONGEST_SECONDS = 86_400.0
NOT_BEHIND_A_HANG = frozenset({"driver_hung", "device_lost", "xid", "ecc"})
INHIBITORS = frozenset(
    {"device_lost", "driver_hung", "xid", "idle"} | {name for one in RULES for name in one.behind}
)

Episodes = Mapping[str, Mapping[str, Episode]]


def may_inhibit(on: Mapping[str, Episode]) -> bool:
    """Whether one of a subject's alerts can inhibit another, or be inhibited by its reader's or its
    lease's."""
    return not INHIBITORS.isdisjoint(on)


def inhibitor(
    episode: Episode, episodes: Episodes, place: Location | None, holder: str | None = None
) -> str | None:
    """The id of the alert that inhibits this one; `holder` is the claim that holds its device."""
    alert = episode.alert
    own, rule = episodes[alert.subject], alert.rule
    found = own.get("device_lost") if rule != "device_lost" else None
    if found is None and place is not None and place.parent is not None:
        found = episodes.get(place.parent, {}).get("device_lost")
    if found is None and rule not in NOT_BEHIND_A_HANG:
        hung = own.get("driver_hung")
        found = hung if hung is not None and hung.fired is not None else None
    if found is None and rule == "driver_hung" and place is not None:
        found = episodes.get(f"reader:{place.vendor}", {}).get("driver_hung")
    if found is None:
        found = next((own[name] for name in BY_NAME[rule].behind if name in own), None)
    if found is None and rule == "idle":
        return _lease_inhibitor(alert, episodes.get(holder or "", {}).get("idle_lease"), holder)
    if found is None and rule == "ecc":
        return _xid_inhibitor(alert, own.get("xid"))
    return None if found is None else found.alert.id


def _lease_inhibitor(alert: Alert, lease: Episode | None, holder: str | None) -> str | None:
    """Returns the id of an idle lease, which inhibits the alerts of its devices, even while the
    holder is unknown."""
    if lease is not None and lease.fired is not None:
        return lease.alert.id
    before = alert.inhibited_by
    return before if holder is None and before is not None and "idle_lease@" in before else None


def _xid_inhibitor(alert: Alert, xid: Episode | None) -> str | None:
    """Returns the id of a critical Xid: it and the ECC counter are one problem, until the
    counter's episode ends."""
    if xid is not None and xid.fired is not None and xid.alert.level is Level.CRITICAL:
        return xid.alert.id
    before = alert.inhibited_by
    return before if before is not None and before.startswith("xid@") else None


def silenced_until(silences: Iterable[Silence], alert: Alert, wall: float) -> float | None:
    """When the last matching silence ends; None if there is none."""
    ends = [
        silence.until
        for silence in silences
        if wall < silence.until
        and silence.rule in (None, alert.rule)
        and silence.subject in (None, alert.subject)
    ]
    return max(ends, default=None)


def due(episode: Episode, moment: Moment, renotify_seconds: float) -> NoticeKind | None:
    """The notice that is due for this episode now."""
    alert = episode.alert
    if alert.state is not Phase.FIRING or alert.level is Level.INFO:
        return None
    if alert.silenced_until is not None or alert.inhibited_by is not None:
        return None
    if episode.covered is not None:
        return None
    if episode.notified_rank is None:
        new = episode.notifiable and not _ends(episode)
        return NoticeKind.FIRING if new else None
    if alert.level.rank > episode.notified_rank:
        return NoticeKind.WORSE if not _ends(episode) else None
    return NoticeKind.REMINDER if moment.steady >= remind_at(episode, renotify_seconds) else None


def mark_notified(episode: Episode, kind: NoticeKind, moment: Moment) -> Episode:
    """The episode after a notice was sent."""
    alert = replace(episode.alert, notified=episode.alert.notified + 1, last_notified=moment.wall)
    again = kind is NoticeKind.REMINDER
    return replace(
        episode,
        alert=alert,
        notified_rank=max(
            alert.level.rank, -1 if episode.notified_rank is None else episode.notified_rank
        ),
        notified_at=moment.steady,
        reminders=episode.reminders + 1 if again else 0,
    )


def uncovered(episode: Episode) -> Episode:
    """Removes the acknowledgement of an alert that has become worse than what was acknowledged."""
    if episode.covered is None or episode.fired is None:
        return episode
    if episode.alert.level.rank <= episode.covered:
        return episode
    return replace(episode, covered=None, alert=replace(episode.alert, acknowledged=None))


def _ends(episode: Episode) -> bool:
    """Whether an episode is already calm; events never are."""
    return not BY_NAME[episode.alert.rule].momentary and episode.dark is None and is_calm(episode)


def remind_at(episode: Episode, renotify_seconds: float) -> float:
    """When a reminder is due if it still fires; intervals double, up to a day."""
    if renotify_seconds <= 0 or episode.notified_at is None:
        return NEVER
    longest = max(renotify_seconds, LONGEST_SECONDS)
    wait: float = min(renotify_seconds * 2 ** min(episode.reminders, 16), longest)
    return episode.notified_at + wait
