"""Alerts as text; pure, so that golden files can test it."""

import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from andon.alerts.rules import listing
from andon.alerts.rules.listing import Entry, is_handled, lamp_of
from andon.alerts.rules.overview import AlertOverview
from andon.cli.show import cells
from andon.cli.show.render import flow, header, paragraph
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import ELLIPSIS, Text, styled
from andon.explain.conditions.catalogue import BY_NAME
from andon.explain.evidence.labels import IN_SENTENCE, named
from andon.explain.evidence.reasons import Evidence
from andon.model.alert import Alert, Level, Phase
from andon.model.device import Snapshot
from andon.model.event import Party
from andon.model.lamp import Lamp
from andon.model.naming import label_in, range_of
from andon.units import SYMBOLS, and_more, human_bytes, human_seconds, symbol_of

LAMPS = {**cells.LAMPS, Lamp.GREEN: ("i", "dim")}
ENDED = ("○", "dim")
MOST_PARTIES = 3
GATHERED_FROM = 3
SHORT_COMMAND, LONG_COMMAND = 60, 400
UNBROKEN = "\u00a0"  # keeps words on one line; printed as a plain space
FINE = "No active alerts"


def render_alerts(page: AlertOverview, width: int, ended: bool = True) -> list[Text]:
    """Warnings and critical alerts first, each with what to do; then informational ones."""
    names = names_of(page.alerts)
    lines = [header(Snapshot(page.node, page.at, page.simulated), width)]
    lines += flow(summary(page), width)
    rest: list[Alert] = []
    for entry in page.entries:
        if entry.alert.state is Phase.FIRING and entry.level is not Level.INFO:
            lines += [Text(), *_in_full(entry, names, page.at, width)]
        elif entry.alert.state is Phase.FIRING or entry.level is not Level.INFO:
            rest.append(entry.alert)
    now = [alert for alert in rest if alert.state is not Phase.RESOLVED]
    gone = [a for a in page.listed if a.state is Phase.RESOLVED] if ended else []
    for group in (now, gone):
        if group:
            found = _gathered([_brief(alert, names, page.at) for alert in group])
            lines += [Text(), *_brief_lines(found, width)]
    if page.silences:
        lines += [Text(), *_silences(page, width)]
    if page.note:
        lines += [Text(), *paragraph(page.note, width, "dim", indent=0)]
    return lines


def summary(page: AlertOverview) -> list[Text]:
    """How many of each level, or that there are none."""
    counts = listing.counts(page.entries)
    levels = listing.level_counts(counts)
    styles = [LAMPS[Lamp.RED if "critical" in word else Lamp.AMBER][1] for word in levels]
    parts = [styled(word, style) for word, style in zip(levels, styles, strict=True)]
    parts = parts or ([styled(FINE, "green")] if page.is_known else [])
    return parts + [styled(word, "dim") for word in listing.other_counts(counts)]


def names_of(alerts: Sequence[Alert]) -> Mapping[str, str]:
    """A short name for each, which commands accept instead of the id: `thermal@3`.

    Active alerts come first; of the resolved ones only the latest has the name.
    """
    taken: dict[str, str] = {}
    order = sorted(alerts, key=lambda a: (a.state is Phase.RESOLVED, -a.since))
    for alert in order:
        taken.setdefault(short_name(alert), alert.id)
    ids = {number: name for name, number in taken.items()}
    return {alert.id: ids.get(alert.id, short_name(alert)) for alert in alerts}


def short_name(alert: Alert) -> str:
    """`thermal@3`, `thermal@3:0`, `store`, `notifier@phone`."""
    if alert.device is not None:
        number = label_in(alert.where) or str(alert.device)
        return f"{alert.rule}@{number}"
    kind, _, name = alert.subject.partition(":")
    if kind in (alert.rule, "node") and not name:
        return alert.rule
    return f"{alert.rule}@{name or kind}"


def lamp(alert: Alert) -> Text:
    """The level at a glance, by shape and by colour."""
    return styled(*(ENDED if alert.state is Phase.RESOLVED else LAMPS[lamp_of(alert)]))


def level_lamp(level: str) -> tuple[str, str]:
    """The mark of a level, for a rule."""
    return LAMPS[listing.LEVEL_LAMPS[Level(level)]]


def _in_full(entry: Entry, names: Mapping[str, str], now: float, width: int) -> list[Text]:
    """The message, its state, related alerts, who is affected, and what to do."""
    alert = entry.alert
    style = "dim" if is_handled(alert) else "bold"
    lines = hung(styled(*LAMPS[entry.lamp]) + styled(" "), alert.message, style, width)
    state = " · ".join(_whole([names[alert.id], *about(alert, now)]))
    lines += hung(styled("  "), state, "dim", width)
    for other in entry.related:
        text = f"{_titled(other)} ({names[other.id]})"
        lines += hung(styled("  ") + styled("related     ", "dim"), text, "", width)
    if alert.affected:
        lines += hung(
            styled("  ") + styled("affected    ", "dim"), people(alert.affected), "", width
        )
    if alert.advice:
        lines += hung(styled("  ") + styled("what to do  ", "dim"), alert.advice, "", width)
    return lines


def _whole(parts: Sequence[str]) -> list[str]:
    """Break lines between the parts, and within a part only if it is long."""
    return [part.replace(" ", UNBROKEN) if len(part) <= 40 else part for part in parts]


def hung(mark: Text, text: str, style: str, width: int) -> list[Text]:
    """Text after a mark, wrapped with a hanging indent."""
    rows = textwrap.wrap(text, max(10, width - mark.width), break_on_hyphens=False) or [""]
    plain = [row.replace(UNBROKEN, " ") for row in rows]
    inset = styled(" " * mark.width)
    return [(mark if n == 0 else inset) + styled(row, style) for n, row in enumerate(plain)]


class _Brief(Struct, frozen=True):
    """One line, for informational, pending and resolved alerts."""

    alert: Alert
    name: str
    when: str
    message: str


def _brief(alert: Alert, names: Mapping[str, str], now: float) -> _Brief:
    return _Brief(alert, names[alert.id], about(alert, now)[0], alert.message)


def _gathered(found: Sequence[_Brief]) -> list[_Brief]:
    """Informational alerts of the same rule on several devices become one line."""
    by_rule: dict[str, list[_Brief]] = {}
    for one in found:
        alert = one.alert
        alike = (
            alert.level is Level.INFO and alert.state is Phase.FIRING and alert.device is not None
        )
        by_rule.setdefault(alert.rule if alike else alert.id, []).append(one)
    lines: list[_Brief] = []
    for rule, many in by_rule.items():
        if len(many) < GATHERED_FROM:
            lines += many
            continue
        many.sort(key=lambda one: (one.alert.device or 0, one.name))
        labels = range_of([one.name.partition("@")[2] for one in many])
        oldest = min(many, key=lambda one: one.alert.since)
        message = f"{_titled(oldest.alert)}: {len(many)} devices"
        lines.append(_Brief(oldest.alert, f"{rule}@{labels}", oldest.when, message))
    return lines


def _titled(alert: Alert) -> str:
    """Returns the title of an alert's rule; a newer server may have rules that are unknown here."""
    return BY_NAME[alert.rule].title if alert.rule in BY_NAME else alert.rule


def _brief_lines(found: Sequence[_Brief], width: int) -> list[Text]:
    columns: list[TableColumn[_Brief]] = [
        TableColumn("", lambda one: lamp(one.alert), gap=0),
        TableColumn("", lambda one: styled(one.name), gap=1, elastic=8),
        TableColumn("", lambda one: styled(one.when, "dim"), rank=1),
        TableColumn("", lambda one: styled(one.message), elastic=12),
    ]
    rows = [
        TableRow(one, style=None if one.alert.state is Phase.FIRING else "dim") for one in found
    ]
    return draw(columns, rows, width)[1:]


def about(alert: Alert, now: float) -> list[str]:
    """Returns since when the alert is active, and its state."""
    if alert.state is Phase.RESOLVED:
        ended = alert.resolved if alert.resolved is not None else now
        length = ended - (alert.fired if alert.fired is not None else alert.since)
        return [f"ended {human_seconds(max(0, now - ended))} ago", f"after {human_seconds(length)}"]
    lasted = now - alert.since
    since = "just now" if lasted < 1 else f"for {human_seconds(lasted)}"
    parts = _pending(alert, since) if alert.state is Phase.PENDING else [since]
    if alert.clears_in_seconds is not None:
        parts.append(f"clears in {human_seconds(alert.clears_in_seconds)}")
    if alert.no_data_since is not None:
        parts.append(f"no data for {human_seconds(max(0.0, now - alert.no_data_since))}")
    if alert.acknowledged is not None:
        parts.append(_acknowledged(alert))
    if alert.silenced_until is not None:
        parts.append(f"silenced for {human_seconds(max(0.0, alert.silenced_until - now))} more")
    if alert.inhibited_by is not None:
        parts.append(f"part of {alert.inhibited_by.partition('@')[0]}")
    if alert.notified:
        count = {1: "once", 2: "twice"}.get(alert.notified, f"{alert.notified} times")
        parts.append(f"notified {count}")
    return parts


def _pending(alert: Alert, since: str) -> list[str]:
    left = alert.fires_in_seconds
    if left is None:
        return [f"pending {since}"]
    return [f"pending, alert in {human_seconds(left)}", since]


def _acknowledged(alert: Alert) -> str:
    seen = alert.acknowledged
    by = f" by {seen.by}" if seen is not None and seen.by else ""
    note = f": {seen.note}" if seen is not None and seen.note else ""
    return f"acknowledged{by}{note}"


def people(who: Sequence[Party]) -> str:
    """Users and programs, the first few."""
    longest = SHORT_COMMAND if len(who) > 1 else LONG_COMMAND
    shown = [_person(party, longest) for party in who[:MOST_PARTIES]]
    return ", ".join(shown) + and_more(len(who) - len(shown))


def _person(party: Party, longest: int) -> str:
    program = party.command or party.name or ""
    program = program if len(program) <= longest else program[: longest - 1] + ELLIPSIS
    text = " ".join(part for part in (party.user, program) if part)
    return f"{text} (pid {party.pid})" if text else f"pid {party.pid}"


def _silences(page: AlertOverview, width: int) -> list[Text]:
    lines = paragraph("Active silences (remove one with: andon alerts unsilence ID)", width, "dim")
    for silence in page.silences:
        where = f" on {_subject(silence.subject, page)}" if silence.subject else ""
        left = human_seconds(max(0.0, silence.until - page.at))
        by = f", by {silence.by}" if silence.by else ""
        note = f": {silence.note}" if silence.note else ""
        text = f"{silence.rule or 'everything'}{where} for {left} more{by}{note}"
        lines += hung(styled(f"  {silence.id}  "), text, "dim", width)
    return lines


def _subject(subject: str, page: AlertOverview) -> str:
    known = next((alert.where for alert in page.alerts if alert.subject == subject), None)
    return known or subject


def render_alert(alert: Alert, width: int, now: float) -> list[Text]:
    """Returns everything that is known about one alert."""
    lines = hung(lamp(alert) + styled(" "), alert.message, "bold", width)
    rows: list[tuple[str, str]] = [
        ("id", alert.id),
        ("where", alert.where),
        ("level", f"{alert.level}, severity {alert.severity} of 100"),
        ("state", f"{alert.state}, {', '.join(about(alert, now))}"),
        ("since", clock(alert.since)),
        ("fired", clock(alert.fired)),
        ("ended", clock(alert.resolved)),
        ("value", measured(alert.value, alert.unit)),
        ("threshold", measured(alert.threshold, alert.unit)),
        ("limit", measured(alert.limit, alert.unit)),
        ("evidence", " · ".join(_evidence(alert))),
        *(("affected", people([party])) for party in alert.affected),
        ("what to do", alert.advice),
    ]
    for name, text in rows:
        if text:
            lines += hung(styled("  ") + styled(f"{name:<10}  ", "dim"), text, "", width)
    return lines


def clock(at: float | None) -> str:
    """Local time as text."""
    if at is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at)).rstrip()


def measured(value: float | None, unit: str) -> str:
    """A value with its unit; empty if there is none."""
    if value is None:
        return ""
    if unit == "xid":
        return f"Xid {value:.0f}"
    if unit == "bytes":
        return human_bytes(value)
    if unit == "seconds":
        return human_seconds(value)
    number = f"{value:.0f}" if value == int(value) else f"{value:.1f}"
    return f"{number} {SYMBOLS.get(unit, unit)}".rstrip()


def _evidence(alert: Alert) -> Iterator[str]:
    """Yields the evidence that the message does not mention: `slowdown in 21 min`."""
    for name, value in alert.evidence.items():
        if name not in IN_SENTENCE:
            yield named(Evidence(name, value, symbol_of(name), alert.since))


def render_change(alert: Alert, name: str, width: int, at: float) -> list[Text]:
    """One line for `--follow`, with what to do for a new warning or critical alert."""
    word = "acknowledged" if alert.acknowledged else "silenced" if alert.silenced_until else ""
    state = {Phase.RESOLVED: "ended"}.get(alert.state, str(alert.state))
    when = styled(time.strftime("%H:%M:%S", time.localtime(at)), "dim")
    head = when + styled("  ") + lamp(alert) + styled(f" {state:<8} ", "" if word else "bold")
    name_and = f"{name} ({word}): " if word else f"{name}: "
    lines = hung(head, name_and + alert.message, "", width)
    if alert.state is Phase.FIRING and alert.level is not Level.INFO and not word:
        lines += hung(
            styled(" " * head.width) + styled("what to do  ", "dim"), alert.advice, "", width
        )
    return lines
