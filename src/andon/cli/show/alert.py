"""One alert as text: in every detail, and as a line of `--follow`; pure."""

import time

from andon.cli.show.alerts import about, hung, lamp, people
from andon.cli.show.text import say
from andon.model.alert import Alert, Level, Phase
from andon.units import SYMBOLS, human_bytes, human_seconds


def render_alert(alert: Alert, width: int, color: bool, now: float) -> str:
    """Everything that is known about it."""
    lines = hung(lamp(alert) + say(" "), alert.message, "bold", width)
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
        *(_evidence(name, value) for name, value in alert.evidence.items()),
        *(("affected", people([party])) for party in alert.affected),
        ("what to do", alert.advice),
    ]
    for name, text in rows:
        if text:
            lines += hung(say("  ") + say(f"{name:<10}  ", "dim"), text, "", width)
    return "".join(line.paint(color) + "\n" for line in lines)


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


def _evidence(name: str, value: float | str) -> tuple[str, str]:
    """`slowdown_in_seconds` 1260 is "slowdown in 21 min"."""
    text, _, unit = name.rpartition("_")
    shown = value if isinstance(value, str) else measured(value, unit if text else "")
    return "evidence", f"{(text or name).replace('_', ' ')} {shown}"


def render_change(alert: Alert, name: str, width: int, color: bool, at: float) -> str:
    """One line for `--follow`, with what to do for a new warning or critical alert."""
    word = "acknowledged" if alert.acknowledged else "silenced" if alert.silenced_until else ""
    state = {Phase.RESOLVED: "ended"}.get(alert.state, str(alert.state))
    when = say(time.strftime("%H:%M:%S", time.localtime(at)), "dim")
    head = when + say("  ") + lamp(alert) + say(f" {state:<8} ", "" if word else "bold")
    name_and = f"{name} ({word}): " if word else f"{name}: "
    lines = hung(head, name_and + alert.message, "", width)
    if alert.state is Phase.FIRING and alert.level is not Level.INFO and not word:
        lines += hung(say(" " * head.width) + say("what to do  ", "dim"), alert.advice, "", width)
    return "".join(line.paint(color) + "\n" for line in lines)
