"""One step: evaluate a sample, advance every episode, and return the changes and notices."""

from collections.abc import Mapping

from msgspec.structs import replace

from andon.alerts.rules.episodes import (
    FLAP_SECONDS,
    MOST_FACTOR,
    SEEN_SECONDS,
    advance,
    begin,
    is_settled,
    with_worst,
)
from andon.alerts.rules.evaluate import HELD_RULES, Evaluation
from andon.alerts.rules.notify_policy import (
    due,
    inhibitor,
    is_sent,
    mark_notified,
    may_inhibit,
    remind_at,
    silenced_until,
    uncovered,
)
from andon.alerts.rules.render import AlertRenderer, holder_in
from andon.alerts.rules.state import (
    NEVER,
    AlertState,
    Episode,
    LastEnd,
    Location,
    StepResult,
)
from andon.explain.conditions.catalogue import BY_NAME, RULES
from andon.explain.conditions.finding import ENDED, Finding
from andon.explain.conditions.rulebook import Rulebook
from andon.explain.evidence.observation import Moment, Observation
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase
from andon.model.thresholds import Thresholds

SOME_SECONDS, MOST_SECONDS = 256, 4096  # pairs of rule and subject: the second in the latest id
OLD_SECONDS = 2 * 86_400.0
RECOVERING = frozenset(rule.name for rule in RULES if rule.measure is not None)
"""The rules whose alerts show the worst value while they recover."""
MOST_OWED = 256


def step(
    state: AlertState, observation: Observation, moment: Moment, rulebook: Rulebook
) -> StepResult:
    """Returns the state after this sample. Any state and observation can be combined."""
    if state.steady is not None and moment.steady < state.steady:
        moment = Moment(moment.wall, state.steady)  # the clock stepped back: treat it as stopped
    return _Step(state, observation, moment, rulebook).outcome()


class _Step:
    """The work of one step; discarded afterwards."""

    def __init__(
        self, state: AlertState, observation: Observation, moment: Moment, rulebook: Rulebook
    ) -> None:
        self.state, self.moment, self.rulebook = state, moment, rulebook
        self.snapshot = observation.snapshot
        self.evaluation = Evaluation(state, observation, moment, rulebook)
        self.renderer = AlertRenderer(
            self.snapshot, rulebook, state.snapshot, self.evaluation.tracks, moment.steady
        )
        self.last = moment.steady if state.steady is None else state.steady
        self.episodes: dict[str, Mapping[str, Episode]] = dict(state.episodes)
        self.changed: dict[str, Alert] = {}
        self.notices: list[Notice] = []
        self.ended: dict[str, LastEnd] = dict(state.ended)
        self.seconds: dict[str, int] = dict(state.seconds)
        self.owed: list[Alert] = []
        self.silences = tuple(s for s in state.silences if moment.wall < s.until)
        self.places: dict[str, Location] = dict(state.places)
        self.same_book = state.book is rulebook
        self.touched = not self.same_book or bool(state.silences)
        self.remind_at = state.remind_at

    def outcome(self) -> StepResult:
        found = self.evaluation.found
        for subject in (*found, *(s for s in self.state.episodes if s not in found)):
            self._advance(subject, found.get(subject, _NOTHING_FOUND))
        if self.touched:
            self._settle_places()
            self._mark()
        if self.touched or self.moment.steady >= self.remind_at:
            self._notify_due()
        self._notify_owed()
        return StepResult(self._state(), tuple(self.changed.values()), tuple(self.notices))

    def _advance(self, subject: str, found: Mapping[str, Finding]) -> None:
        on = self.episodes.get(subject, _NOTHING_ON)
        fresh: dict[str, Episode] | None = None
        now = self.moment.steady
        close = self.same_book and now - self.last <= SEEN_SECONDS
        for rule, episode in on.items():
            finding = found.get(rule)
            if rule in HELD_RULES:
                finding = self._handed_over(subject, rule, finding)
            if close and is_settled(episode, finding, now):
                continue
            after = self._after(subject, rule, episode, finding)
            if after is episode:
                continue
            fresh = dict(on) if fresh is None else fresh
            if after is None or after.alert.state is Phase.RESOLVED:
                del fresh[rule]
                self._end(episode, after)
            else:
                fresh[rule] = after
                self._changed(episode, after)
        current = on if fresh is None else fresh
        for rule, finding in found.items():
            if rule not in current and finding.holds:
                fresh = dict(on) if fresh is None else fresh
                fresh[rule] = self._begin(subject, rule, finding)
        if fresh is None:
            return
        self.touched = True
        if fresh:
            self.episodes[subject] = fresh
        else:
            self.episodes.pop(subject, None)

    def _after(
        self, subject: str, rule: str, episode: Episode, finding: Finding | None
    ) -> Episode | None:
        if (rule, subject) in self.evaluation.reset and not episode.restarted:
            episode = replace(episode, restarted=True, calm=(None,) * len(episode.calm))
        elif episode.restarted and finding is not None and finding.holds:
            episode = replace(episode, restarted=False)
        if rule in RECOVERING:
            episode = with_worst(episode, finding)
        return advance(
            episode, BY_NAME[rule], finding, self.moment, self.last, self._figures(subject),
            self.renderer.rendered, self._factor(rule, subject),
        )  # fmt: skip

    def _begin(self, subject: str, rule: str, finding: Finding) -> Episode:
        key, wall = f"{rule}@{subject}", self.moment.wall
        second = max(int(wall), self.seconds.get(key, -1) + 1)
        self.seconds.pop(key, None)
        self.seconds[key] = second  # the newest last: the oldest are dropped first
        alert = Alert(
            f"{key}#{second}", rule, subject, Level.INFO, Phase.PENDING, since=wall,
            silenced_until=None,
        )  # fmt: skip
        new = begin(
            alert, BY_NAME[rule], finding, self.moment, self._figures(subject),
            self.renderer.rendered, self._factor(rule, subject),
        )  # fmt: skip
        self.changed[new.alert.id] = new.alert
        return with_worst(new, finding) if rule in RECOVERING else new

    def _end(self, before: Episode, after: Episode | None) -> None:
        """Resolves an alert, or drops one that was only pending."""
        moment = self.moment
        if after is None:
            alert = replace(before.alert, state=Phase.RESOLVED, resolved=moment.wall)
            self.changed[alert.id] = alert
            return
        alert = after.alert
        key = f"{alert.rule}@{alert.subject}"
        self.ended[key] = LastEnd(moment.steady, after.factor)
        if after.notified_rank is not None and not BY_NAME[alert.rule].to_owner:
            if silenced_until(self.silences, alert, moment.wall) is not None:
                self.owed.append(alert)
            else:
                alert = self._notify(alert, NoticeKind.RESOLVED)
        self.changed[alert.id] = alert

    def _changed(self, before: Episode, after: Episode) -> None:
        was, now = before.alert, after.alert
        if was is not now and (
            was.state is not now.state
            or was.level is not now.level
            or was.no_data_since != now.no_data_since
        ):
            self.changed[now.id] = now

    def _mark(self) -> None:
        """Marks which alerts are inhibited by others, and which are silenced."""
        silences, wall = self.silences, self.moment.wall
        for subject, on in self.episodes.items():
            place = self.places.get(subject)
            behind = may_inhibit(on) or (place is not None and place.parent is not None)
            for rule, episode in on.items():
                alert = episode.alert
                front = alert.inhibited_by
                if behind or front is not None:
                    front = inhibitor(
                        episode, self.episodes, place, self.evaluation.holder_of(subject)
                    )
                until = silenced_until(silences, alert, wall) if silences else None
                if front != alert.inhibited_by or until != alert.silenced_until:
                    alert = replace(alert, inhibited_by=front, silenced_until=until)
                    self._put(subject, rule, replace(episode, alert=alert))

    def _notify_due(self) -> None:
        renotify = self.rulebook.renotify_seconds
        self.remind_at = NEVER
        for subject, on in list(self.episodes.items()):
            for rule, episode in on.items():
                if episode.fired is None or not is_sent(episode.alert):
                    continue
                after = uncovered(episode)
                kind = due(after, self.moment, renotify)
                if kind is not None:
                    after = mark_notified(after, kind, self.moment)
                    self._notice(self._current(after), kind)
                if after is not episode:
                    self._put(subject, rule, after)
                if after.notified_rank is not None and after.alert.level is not Level.INFO:
                    self.remind_at = min(self.remind_at, remind_at(after, renotify))

    def _current(self, episode: Episode) -> Alert:
        """Returns the alert with the current numbers."""
        alert = episode.alert
        if alert.fired == self.moment.wall:
            return alert
        found = self.evaluation.found.get(alert.subject, _NOTHING_FOUND)
        return self.renderer.current(episode, found.get(alert.rule))

    def _put(self, subject: str, rule: str, episode: Episode) -> None:
        self.episodes[subject] = {**self.episodes[subject], rule: episode}
        self.changed[episode.alert.id] = episode.alert

    def _notify_owed(self) -> None:
        """Sends notices of what resolved during a silence that has ended."""
        for alert in self.state.owed:
            if silenced_until(self.silences, alert, self.moment.wall) is not None:
                self.owed.append(alert)
            else:
                alert = self._notify(alert, NoticeKind.RESOLVED)
                self.changed[alert.id] = alert

    def _notify(self, alert: Alert, kind: NoticeKind) -> Alert:
        count = alert.notified + 1
        alert = replace(alert, notified=count, last_notified=self.moment.wall)
        self._notice(alert, kind)
        return alert

    def _notice(self, alert: Alert, kind: NoticeKind) -> None:
        self.notices.append(
            Notice(
                id=f"{alert.id}/{alert.notified}-{kind}",
                kind=kind,
                alert=alert,
                at=self.moment.wall,
                node=self.snapshot.node,
                simulated=self.snapshot.simulated,
            )
        )

    def _handed_over(self, subject: str, rule: str, finding: Finding | None) -> Finding | None:
        """Returns the finding; ENDED if the lease has a new holder, whose idle time starts at 0."""
        before = self.state.findings.get(subject, _NOTHING_FOUND).get(rule)
        if finding is None or before is None:
            return finding
        was, now = holder_in(before), holder_in(finding)
        return finding if was is None or now is None or was == now else ENDED

    def _factor(self, rule: str, subject: str) -> int:
        last = self.ended.get(f"{rule}@{subject}") if self.ended else None
        if last is None or BY_NAME[rule].momentary:
            return 1
        if self.moment.steady - last.at > FLAP_SECONDS:
            return 1
        return min(MOST_FACTOR, 2 * last.factor)

    def _figures(self, subject: str) -> Thresholds:
        status = self.evaluation.statuses.get(subject)
        return self.rulebook.for_device(status.device) if status else self.rulebook.thresholds

    def _settle_places(self) -> None:
        known = self.evaluation.statuses
        for subject in self.episodes:
            status = known.get(subject)
            if status is not None and subject not in self.places:
                self.places[subject] = Location(status.device.vendor, status.device.parent)
        for subject in [s for s in self.places if s not in self.episodes]:
            del self.places[subject]

    def _state(self) -> AlertState:
        now = self.moment.steady
        ended = {k: e for k, e in self.ended.items() if now - e.at <= FLAP_SECONDS}
        seconds = self.seconds
        more = len(seconds) > len(self.state.seconds)
        if more and len(seconds) > SOME_SECONDS:  # a clock set back further reuses no id
            old = self.moment.wall - OLD_SECONDS
            remaining = [item for item in seconds.items() if item[1] > old]
            seconds = dict(remaining[-MOST_SECONDS:])
        return AlertState(
            episodes=self.episodes,
            silences=self.silences,
            owed=tuple(self.owed[-MOST_OWED:]),
            ended=ended,
            seconds=seconds,
            places=self.places,
            ecc=self.evaluation.ecc,
            xids=self.evaluation.xids,
            tracks=self.evaluation.tracks,
            findings=self.evaluation.found,
            snapshot=self.snapshot,
            book=self.rulebook,
            remind_at=self.remind_at,
            wall=self.moment.wall,
            steady=now,
            boot=self.snapshot.boot,
        )


_NOTHING_ON: Mapping[str, Episode] = {}
_NOTHING_FOUND: Mapping[str, Finding] = {}
