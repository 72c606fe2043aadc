"""Which alerts inhibit others, which are silenced, and when people are notified."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from andon.alerts.rules.episodes import is_calm
from andon.alerts.rules.state import NEVER, Episode, Location
from andon.explain.conditions.catalogue import BY_NAME, RULES
from andon.explain.conditions.condition import Condition, Front
from andon.explain.conditions.judging import OnState
from andon.explain.evidence.observation import Moment
from andon.model.alert import Alert, Level, NoticeKind, Phase, Silence

LONGEST_SECONDS = 86_400.0
STATES = tuple((r.name, r.judged) for r in RULES if isinstance(r.judged, OnState))
FRONTS = {rule.name: rule.part_of for rule in RULES if rule.part_of is not None}
INHIBITORS = frozenset(
    {name for name, _ in STATES}
    | {name if front.of_lease else front.name for name, front in FRONTS.items()}
    | {name for rule in RULES for name in rule.behind}
)

Episodes = Mapping[str, Mapping[str, Episode]]


def may_inhibit(on: Mapping[str, Episode]) -> bool:
    """Whether one of a subject's alerts can inhibit another, or be inhibited by its reader's or its
    lease's."""
    return not INHIBITORS.isdisjoint(on)


def inhibitor(
    episode: Episode, episodes: Episodes, place: Location | None, holder: str | None = None
) -> str | None:
    """Returns the id of the alert that inhibits this one; `holder` is the claim on its device."""
    own, rule = episodes[episode.alert.subject], BY_NAME[episode.alert.rule]
    found = _by_state(rule, own, episodes, place)
    if found is None:
        found = next((own[name] for name in rule.behind if name in own), None)
    if found is None and rule.part_of is not None:
        of_lease = rule.part_of.of_lease
        return _front(
            episode, rule.part_of, episodes.get(holder or "", {}) if of_lease else own, holder
        )
    return None if found is None else found.alert.id


def _by_state(
    rule: Condition, own: Mapping[str, Episode], episodes: Episodes, place: Location | None
) -> Episode | None:
    """Returns the alert about the state of the device, its board or its whole driver, which makes
    the others redundant."""
    mine = isinstance(rule.judged, OnState)
    board = episodes.get(place.parent, {}) if place is not None and place.parent else {}
    for name, judged in STATES:
        state = own.get(name) if name != rule.name else None
        if judged.hides_all and (state or name in board):
            return state or board[name]
        if state is not None and state.fired is not None and not (mine or rule.momentary):
            return state
    if isinstance(rule.judged, OnState) and rule.judged.of_all and place is not None:
        return episodes.get(f"reader:{place.vendor}", {}).get(rule.name)
    return None


def _front(
    episode: Episode, front: Front, on: Mapping[str, Episode], holder: str | None
) -> str | None:
    """Returns the id of the alert that an alert is part of. It stays part of it once that has
    cleared; for a lease, while the holder is unknown."""
    found, before = on.get(front.name), episode.alert.inhibited_by
    if found is not None and found.fired is not None and found.alert.level.rank >= front.level.rank:
        return found.alert.id
    stays = not front.of_lease or holder is None
    return before if stays and before is not None and before.startswith(f"{front.name}@") else None


def silenced_until(silences: Iterable[Silence], alert: Alert, wall: float) -> float | None:
    """Returns when the last matching silence ends; None if there is none."""
    ends = [
        silence.until
        for silence in silences
        if wall < silence.until
        and silence.rule in (None, alert.rule)
        and silence.subject in (None, alert.subject)
    ]
    return max(ends, default=None)


def is_sent(alert: Alert) -> bool:
    """Whether people are notified of an alert of this level: of information only its owner."""
    return alert.level is not Level.INFO or BY_NAME[alert.rule].to_owner


def due(episode: Episode, moment: Moment, renotify_seconds: float) -> NoticeKind | None:
    """Returns the kind of notice that is due for this episode now; None if none is."""
    alert = episode.alert
    if alert.state is not Phase.FIRING or not is_sent(alert):
        return None
    if alert.silenced_until is not None or alert.inhibited_by is not None:
        return None
    if episode.covered is not None:
        return None
    if episode.notified_rank is None:
        new = episode.notifiable and not _ends(episode)
        return NoticeKind.FIRING if new else None
    if _rank(episode) > episode.notified_rank:
        again = NoticeKind.REMINDER if BY_NAME[alert.rule].each_rung else NoticeKind.WORSE
        return again if not _ends(episode) else None
    if alert.level is Level.INFO:
        return None
    return NoticeKind.REMINDER if moment.steady >= remind_at(episode, renotify_seconds) else None


def mark_notified(episode: Episode, kind: NoticeKind, moment: Moment) -> Episode:
    """Returns the episode after a notice was sent."""
    alert = replace(episode.alert, notified=episode.alert.notified + 1, last_notified=moment.wall)
    again = kind is NoticeKind.REMINDER
    return replace(
        episode,
        alert=alert,
        notified_rank=max(
            _rank(episode), -1 if episode.notified_rank is None else episode.notified_rank
        ),
        notified_at=moment.steady,
        reminders=episode.reminders + 1 if again else 0,
    )


def _rank(episode: Episode) -> int:
    """Returns how bad an alert is, as far as people are notified again of what is worse."""
    each = BY_NAME[episode.alert.rule].each_rung
    return episode.up.bit_length() if each else episode.alert.level.rank


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
    """Returns when a reminder is due if it still fires; intervals double, up to a day."""
    if renotify_seconds <= 0 or episode.notified_at is None:
        return NEVER
    longest = max(renotify_seconds, LONGEST_SECONDS)
    wait: float = min(renotify_seconds * 2 ** min(episode.reminders, 16), longest)
    return episode.notified_at + wait
