"""Plays a timeline through the state machine and compares, row by row."""

import re
from collections import Counter
from dataclasses import dataclass, field

from andon.alerts.rules import commands
from andon.alerts.rules.commands import acknowledge, current, raised, unacknowledge, unsilence
from andon.alerts.rules.lamps import board
from andon.alerts.rules.persistence import dump, restore
from andon.alerts.rules.state import EMPTY, AlertState, StepResult
from andon.alerts.rules.state_machine import step
from andon.errors import AndonError
from andon.explain.conditions.catalogue import BY_NAME, FIGURES
from andon.explain.conditions.rulebook import Rulebook, thresholds
from andon.model.alert import Alert, Level, Notice, NoticeKind, Phase, Silence
from tests.support.invariants import check_alerts
from tests.timelines.grammar import Row, Timeline, labels, seconds, settings
from tests.timelines.world import World, uuid_of

PAUSES = re.compile(r"(restart|suspend|reboot) (\S+)(?: wall ([+-]\d+))?")
_MOVES = re.compile(r"~|\.\.|repeating")
COMMANDS = ("ack ", "unack ", "silence ", "unsilence")
NEW_BOOT_STEADY = 30.0
AFTER_SECONDS, BEFORE_SECONDS = 45.0, 30.0  # of a row: nearer than these, every look is taken
VOUCHES_SECONDS = 30.0


@dataclass
class Player:
    """One timeline, on its way."""

    timeline: Timeline
    state: AlertState = EMPTY
    resolved: list[Alert] = field(default_factory=list)  # since the row before
    notices: list[Notice] = field(default_factory=list)
    episodes: set[str] = field(default_factory=set)
    sent: dict[str, list[NoticeKind]] = field(default_factory=dict)
    notice_ids: set[str] = field(default_factory=set)
    silences: int = 0
    looks: int = 0
    hurry: bool = False

    def __post_init__(self) -> None:
        self.world = World(self.timeline.devices)
        self.settings = dict(self.timeline.settings)
        self.book = self._book()
        self.labels = {uuid_of(line.label): str(line.label) for line in self.timeline.devices}

    def play(self) -> None:
        at = row_at = 0.0
        for row in self.timeline.rows:
            while at < row.at:
                self._look(at)
                at = min(row.at, self._next(at, row_at, row.at))
            pause, row_at = self._row(row), row.at
            at = self._next(row.at, row.at, row.at) if pause is None else row.at + pause

    def _next(self, at: float, before: float, after: float) -> float:
        """The next look. In a hurry, those that cannot show anything new are left out: far from any
        row, while nothing moves, one look in thirty seconds vouches for all between."""
        every = self.timeline.every
        far = self.hurry and at - before >= AFTER_SECONDS and after - at >= BEFORE_SECONDS
        if far and every < VOUCHES_SECONDS and self.world.is_still:
            every = VOUCHES_SECONDS
        return (at // every + 1) * every

    def _row(self, row: Row) -> float | None:
        """Clock, world, commands, the look, the check; then the pause, if there is one."""
        items = list(row.readings)
        for item in [i for i in items if i.startswith("clock ")]:
            self.world.clock += float(item[6:])
        for item in items:
            if item.startswith("set "):
                self.settings |= settings(item[4:])
                self.book = self._book()
            elif not (PAUSES.fullmatch(item) or item.startswith((*COMMANDS, "clock "))):
                self.world.take(item, row.at)
        for item in [i for i in items if i.startswith(COMMANDS)]:
            self._command(item, row.at)
        self._look(row.at)
        self._check(row)
        pauses = [match for item in items if (match := PAUSES.fullmatch(item))]
        return self._pause(pauses[0], row.at) if pauses else None

    def _book(self) -> Rulebook:
        values = dict(self.settings)
        renotify = values.pop("renotify_seconds", 14_400.0)
        assert isinstance(renotify, float)
        off = {name for name, value in values.items() if value == "off"}
        figures = {name: float(value) for name, value in values.items() if name not in off}
        assert off <= set(BY_NAME), off
        assert set(figures) <= set(FIGURES), figures
        return Rulebook(thresholds(**figures, off=frozenset(off)), renotify_seconds=renotify)

    def _look(self, at: float) -> None:
        self.looks += 1
        observation, moment = self.world.observation(at), self.world.moment(at)
        self._take(step(self.state, observation, moment, self.book))

    def _take(self, outcome: StepResult) -> None:
        self.state = outcome.state
        if not outcome.changed and not outcome.notices:
            return
        check_alerts(self.state)
        for alert in outcome.changed:
            if alert.state is Phase.RESOLVED and alert.fired is not None:
                if alert.id not in {one.id for one in self.resolved} | self.episodes:
                    self.resolved.append(alert)
                self.episodes.add(alert.id)
        for notice in outcome.notices:
            self._tell(notice)
        dumped = dump(self.state)
        again = restore(dumped, self.world.moment(1e9), self.world.boot)
        assert dump(again) == dumped

    def _tell(self, notice: Notice) -> None:
        assert notice.id not in self.notice_ids, "a notice's id stands twice"
        self.notice_ids.add(notice.id)
        kind, alert = notice.kind, notice.alert
        before = self.sent.setdefault(alert.id, [])
        assert (kind is NoticeKind.FIRING) == (not before), f"{kind} after {before}"
        assert NoticeKind.RESOLVED not in before, f"{kind} after the end"
        assert (
            kind is NoticeKind.RESOLVED
            or alert.level is not Level.INFO
            or BY_NAME[alert.rule].to_owner
        )
        before.append(kind)
        self.notices.append(notice)

    def _command(self, item: str, at: float) -> None:
        refused = item.endswith(" (refused)")
        try:
            self._obey(item.removesuffix(" (refused)").split(), at)
        except AndonError:
            assert refused, f"{item} was refused"
        else:
            assert not refused, f"{item} was not refused"

    def _obey(self, words: list[str], at: float) -> None:
        moment = self.world.moment(at)
        if words[0] == "ack":
            new = acknowledge(self.state, self._id(words[1]), words[3], "", moment)
        elif words[0] == "unack":
            new = unacknowledge(self.state, self._id(words[1]), moment)
        elif words[0] == "silence":
            new = commands.silence(self.state, self._silence(words[1:], moment.wall), moment)
        else:
            for silence in self.state.silences:
                self._take(unsilence(self.state, silence.id, moment))
            return
        self._take(new)

    def _id(self, name: str) -> str:
        rule, _, label = name.partition("@")
        subject = uuid_of(int(label)) if label.isdigit() else label
        found = [a.id for a in current(self.state) if (a.rule, a.subject) == (rule, subject)]
        return found[0] if found else f"{rule}@{subject}#0"

    def _silence(self, words: list[str], wall: float) -> Silence:
        rule = subject = None
        if words[0] == "device":
            subject, words = uuid_of(int(words[1])), words[1:]
        elif words[0] != "all":
            rule, _, label = words[0].partition("@")
            subject = uuid_of(int(label)) if label else None
        self.silences += 1
        until = wall + seconds(words[1])
        return Silence(f"s{self.silences}", until, rule, subject, since=wall)

    def _pause(self, match: re.Match[str], at: float) -> float:
        kind, lasts = match[1], seconds(match[2])
        if kind == "suspend":
            return lasts
        dumped = dump(self.state)
        if kind == "reboot":
            self.world.reboots += 1
            self.world.boot = f"boot {self.world.reboots}"
            self.world.steady_begins = NEW_BOOT_STEADY - at - lasts
            if match[3] is not None:
                self.world.clock += float(match[3]) - lasts
        self.state = restore(dumped, self.world.moment(at + lasts), self.world.boot)
        check_alerts(self.state)
        return lasts

    def _check(self, row: Row) -> None:
        where = f"{self.timeline.file}.txt:{row.number} ({self.timeline.title}) at {row.at:g} s"
        if row.expect != "*":
            self._check_alerts(row, where)
        kinds = Counter(
            f"{n.kind} {self._name(n.alert)}"
            for n in self.notices
            if n.alert.rule not in self.timeline.ignore
        )
        assert kinds == self._notices(row.notices), f"{where}: notices"
        if row.lamp not in ("-", ""):
            self._check_lamps(row, where)
        self.resolved.clear()
        self.notices.clear()

    def _check_alerts(self, row: Row, where: str) -> None:
        shown, flags = {}, {}
        alerts = [*raised(self.state), *self.resolved]
        for alert in alerts:
            if alert.rule not in self.timeline.ignore:
                name = f"{self._name(alert)} {alert.state}"
                shown[name] = "" if alert.state is Phase.RESOLVED else str(alert.level)
                flags[name] = _flags(alert) if alert.state is Phase.FIRING else set()
        expected, wanted = self._expected(row.expect, shown)
        assert shown == expected, f"{where}: alerts"
        for name, named in wanted.items():
            assert named == {"?"} or flags[name] == named, f"{where}: flags of {name}"

    def _expected(
        self, text: str, shown: dict[str, str]
    ) -> tuple[dict[str, str], dict[str, set[str]]]:
        expected: dict[str, str] = {}
        flags: dict[str, set[str]] = {}
        for item in [] if text == "-" else text.split(";"):
            words, _, rest = item.strip().partition(" [")
            name, state, *level = words.split()
            for one in _each(name):
                key = f"{one} {state}"
                # The level of what is pending may be left out.
                given = level[0] if level else shown.get(key, "") if state == "pending" else ""
                expected[key] = given
                flags[key] = {flag.strip() for flag in rest.rstrip("]").split(",") if flag}
        return expected, flags

    def _notices(self, text: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for item in [] if text == "-" else text.split(";"):
            words = item.split()
            times = 1
            if re.fullmatch(r"\d+x", words[0]):
                times = int(words.pop(0)[:-1])
            for one in _each(words[1]):
                found[f"{words[0]} {one}"] += times
        return found

    def _check_lamps(self, row: Row, where: str) -> None:
        assert self.state.snapshot is not None
        shown = board(self.state.snapshot, current(self.state))
        lamps = {self.labels[lamp.uuid]: str(lamp.lamp) for lamp in shown.devices}
        for item in row.lamp.split(";"):
            name, _, colour = item.strip().partition("=")
            for label in labels(name):
                assert lamps[str(label)] == colour, f"{where}: lamp of {label}"

    def _name(self, alert: Alert) -> str:
        return f"{alert.rule}@{self.labels.get(alert.subject, alert.subject)}"


def looks_at_most(timeline: Timeline) -> float:
    """How many looks it takes in a hurry, roughly: far from any row one in thirty seconds, until
    something moves."""
    every, looks, before = max(timeline.every, VOUCHES_SECONDS), 0.0, 0.0
    for row in timeline.rows:
        far = max(0.0, row.at - before - AFTER_SECONDS - BEFORE_SECONDS)
        looks += (row.at - before - far) / timeline.every + far / every
        before = row.at
        if any(_MOVES.search(reading) for reading in row.readings):
            every = timeline.every
    return looks


def _flags(alert: Alert) -> set[str]:
    found = {
        "inhibited": alert.inhibited_by is not None,
        "acked": alert.acknowledged is not None,
        "silenced": alert.silenced_until is not None,
        "nodata": alert.no_data_since is not None,
    }
    return {name for name, is_set in found.items() if is_set}


def _each(name: str) -> list[str]:
    """`power@0-7` is eight."""
    rule, _, subject = name.partition("@")
    if not re.fullmatch(r"\d+-\d+", subject):
        return [name]
    return [f"{rule}@{label}" for label in labels(subject)]
