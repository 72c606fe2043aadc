"""One alert as a person reads it: in every detail, and as a line of `--follow`; pure."""

import time

from andon.cli.show.alerts import about, hung, lamp, people
from andon.cli.show.text import say
from andon.model.alert import Alert, Level, Phase
from andon.units import human_bytes, human_seconds

UNITS = {"celsius": "°C", "percent": "%", "watts": "W"}


def render_alert(alert: Alert, width: int, color: bool, now: float) -> str:
    """Everything that is known of it."""
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
        ("its limit", measured(alert.limit, alert.unit)),
        *(_evidence(name, value) for name, value in alert.evidence.items()),
        *(("who", people([party])) for party in alert.affected),
        ("do", alert.advice),
    ]
    for name, words in rows:
        if words:
            lines += hung(say("  ") + say(f"{name:<9}  ", "dim"), words, "", width)
    return "".join(line.paint(color) + "\n" for line in lines)


def clock(at: float | None) -> str:
    """Local time, as people read it."""
    if at is None:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(at)).rstrip()


def measured(value: float | None, unit: str) -> str:
    """A value with its unit; nothing where there is none."""
    if value is None:
        return ""
    if unit == "xid":
        return f"Xid {value:.0f}"
    if unit == "bytes":
        return human_bytes(value)
    if unit == "seconds":
        return human_seconds(value)
    number = f"{value:.0f}" if value == int(value) else f"{value:.1f}"
    return f"{number} {UNITS.get(unit, unit)}".rstrip()


def _evidence(name: str, value: float | str) -> tuple[str, str]:
    """`slowdown_in_seconds` 1260 is "slowdown in 21 min"."""
    words, _, unit = name.rpartition("_")
    told = value if isinstance(value, str) else measured(value, unit if words else "")
    return "evidence", f"{(words or name).replace('_', ' ')} {told}"


def render_change(alert: Alert, name: str, width: int, color: bool, at: float) -> str:
    """One line for `--follow`, and for what begins to need help also what to do."""
    word = "acknowledged" if alert.acknowledged else "silenced" if alert.silenced_until else ""
    state = {Phase.RESOLVED: "ended"}.get(alert.state, str(alert.state))
    when = say(time.strftime("%H:%M:%S", time.localtime(at)), "dim")
    head = when + say("  ") + lamp(alert) + say(f" {state:<8} ", "" if word else "bold")
    name_and = f"{name} ({word}): " if word else f"{name}: "
    lines = hung(head, name_and + alert.message, "", width)
    if alert.state is Phase.FIRING and alert.level is not Level.INFO and not word:
        lines += hung(say(" " * head.width) + say("do  ", "dim"), alert.advice, "", width)
    return "".join(line.paint(color) + "\n" for line in lines)
