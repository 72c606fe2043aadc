"""The alert rules as text, from a server's answer or this node's settings."""

from collections.abc import Sequence

from andon.cli.show.alert import measured
from andon.cli.show.alerts import ENDED, LAMPS, hung
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, say
from andon.model.alert import Level
from andon.model.naming import title
from andon.model.wire import Json
from andon.units import human_seconds

WIDE = 150  # from this width there is room for the condition


def render_rules(rules: Sequence[Json], width: int, color: bool) -> str:
    """A line per rule; inactive rules come last, with the reason."""
    columns: list[TableColumn[Json]] = [
        TableColumn("", lambda rule: say(*LAMPS[Level(rule["level"])])),
        TableColumn("RULE", lambda rule: say(rule["name"], "bold"), gap=1),
        TableColumn("MAX LEVEL", lambda rule: say(rule["level"]), rank=3),
        TableColumn("THRESHOLD", _threshold, rank=1, right=True),
        TableColumn("AFTER", lambda rule: _lasting(rule["for_seconds"]), rank=2, right=True),
        TableColumn("DESCRIPTION", lambda rule: say(rule["title"]), elastic=16),
    ]
    if width >= WIDE:
        columns.append(
            TableColumn("CONDITION", lambda rule: say(_condition(rule), "dim"), elastic=20)
        )
    awake = [TableRow(rule) for rule in rules if rule["active"]]
    asleep = [TableRow(rule, style="dim") for rule in rules if not rule["active"]]
    lines = draw(columns, awake, width)
    if asleep:
        waiting: list[TableColumn[Json]] = [
            TableColumn("", lambda rule: say(*ENDED)),
            columns[1],
            columns[5],
            TableColumn("", lambda rule: say(rule["inactive_reason"]), elastic=20),
        ]
        lines += [Text(), *draw(waiting, asleep, width)[1:]]
    return "".join(line.paint(color) + "\n" for line in lines)


def render_rule(rule: Json, width: int, color: bool) -> str:
    """One rule in detail: its levels, its thresholds by device, why it exists, what to do."""
    lines = hung(say(*LAMPS[Level(rule["level"])]) + say(" "), rule["title"], "bold", width)
    rows = [("name", rule["name"]), ("why", rule["why"]), ("what to do", rule["advice"])]
    if not rule["active"]:
        rows.append(("inactive", rule["inactive_reason"]))
    rows += [("level", _rung(rung)) for rung in rule["levels"]]
    if rule["threshold"] is not None:
        rows.append(("threshold", measured(rule["threshold"], rule["unit"])))
    rows += [_on_device(one, rule) for one in rule["devices"]]
    for name, text in rows:
        lines += hung(say("  ") + say(f"{name:<10}  ", "dim"), text, "", width)
    return "".join(line.paint(color) + "\n" for line in lines)


def _condition(rule: Json) -> str:
    """The condition of the lowest level."""
    return str(rule["levels"][0]["condition"])


def _threshold(rule: Json) -> Text:
    return say(measured(rule["threshold"], rule["unit"]))


def _lasting(seconds: float) -> Text:
    return say(human_seconds(seconds)) if seconds else say("at once", "dim")


def _rung(rung: Json) -> str:
    lasts = f"after {human_seconds(rung['for_seconds'])}" if rung["for_seconds"] else "at once"
    sent = "" if rung["notify"] else "; shown, not sent"
    calm = f"clears after {human_seconds(rung['clear_seconds'])} of: {rung['clear_condition']}"
    return f"{rung['level']} {lasts}: {rung['condition']}{sent}; {calm}"


def _on_device(one: Json, rule: Json) -> tuple[str, str]:
    if one["disabled"]:
        return title(one["label"]), "off"
    text = measured(one["threshold"], rule["unit"])
    if one["limit"] is not None:
        text += f"; its own limit is {measured(one['limit'], rule['unit'])}"
    return title(one["label"]), text
