"""The alert rules as text, from a server's answer or this node's settings."""

from collections.abc import Iterator, Sequence

from andon.cli.show.alerts import ENDED, UNBROKEN, hung, level_lamp, measured
from andon.cli.show.render import paragraph
from andon.cli.show.table import TableColumn, TableRow, draw
from andon.cli.show.text import Text, styled
from andon.model.naming import title
from andon.model.wire import Json
from andon.units import human_seconds

WIDE = 150  # from this width there is room for the condition
LONGEST_QUERY = 300  # beyond this, PromQL is unreadable here


def render_rules(found: Json, width: int, everything: bool = False) -> list[Text]:
    """A line per rule; inactive rules come last, with the reason, then what `why` alone says."""
    lines = _rules(found["rules"], width)
    others = found["explained_only"]
    if everything:
        lines += [Text(), *paragraph("Never alerts: only andon why mentions them", width, "dim", 0)]
        lines += draw(_EXPLAINED, [TableRow(one) for one in others], width)[1:]
    elif others:
        note = f"{len(others)} more that only andon why mentions: andon alerts rules --all"
        lines += [Text(), *paragraph(note, width, "dim", indent=0)]
    return lines


_EXPLAINED: list[TableColumn[Json]] = [
    TableColumn("", lambda one: styled(*ENDED)),
    TableColumn("", lambda one: styled(one["name"], "bold"), gap=1),
    TableColumn("", lambda one: styled(one["title"]), elastic=16),
]


def _rules(rules: Sequence[Json], width: int) -> list[Text]:
    columns: list[TableColumn[Json]] = [
        TableColumn("", lambda rule: styled(*level_lamp(rule["level"]))),
        TableColumn("RULE", lambda rule: styled(rule["name"], "bold"), gap=1),
        TableColumn("MAX LEVEL", lambda rule: styled(rule["level"]), rank=3),
        TableColumn("THRESHOLD", _threshold, rank=1, right=True),
        TableColumn("AFTER", lambda rule: _lasting(rule["for_seconds"]), rank=2, right=True),
        TableColumn("DESCRIPTION", lambda rule: styled(rule["title"]), elastic=16),
    ]
    if width >= WIDE:
        columns.append(
            TableColumn("CONDITION", lambda rule: styled(_condition(rule), "dim"), elastic=20)
        )
    awake = [TableRow(rule) for rule in rules if rule["active"]]
    asleep = [TableRow(rule, style="dim") for rule in rules if not rule["active"]]
    lines = draw(columns, awake, width)
    if asleep:
        waiting: list[TableColumn[Json]] = [
            TableColumn("", lambda rule: styled(*ENDED)),
            columns[1],
            columns[5],
            TableColumn("", lambda rule: styled(rule["inactive_reason"]), elastic=20),
        ]
        lines += [Text(), *draw(waiting, asleep, width)[1:]]
    return lines


def render_rule(rule: Json, width: int) -> list[Text]:
    """One condition in full: what it means, its levels and thresholds, its reasons and queries."""
    lamp = ENDED if rule["level"] is None else level_lamp(rule["level"])
    lines = hung(styled(*lamp) + styled(" "), rule["title"], "bold", width)
    rows = [("name", rule["name"]), ("why", rule["why"]), ("what to do", rule["advice"])]
    if not rule["active"]:
        rows.append(("inactive", rule["inactive_reason"]))
    rows += [("level", _rung(rung)) for rung in rule["levels"]]
    if rule["label"]:
        rows.append(("lamp", rule["label"]))
    if any(rung["notify"] for rung in rule["levels"]):
        rows += [("not sent", f"while {name} fires for it") for name in rule["behind"]]
    rows += [("threshold", _figure(figure)) for figure in rule["figures"]]
    rows += _by_device(rule)
    rows += [("why says", _reason(reason)) for reason in rule["reasons"]]
    rows += [("prometheus", _query(one)) for one in rule["queries"]]
    if rule["no_query_reason"]:
        rows.append(("prometheus", f"no query: {rule['no_query_reason']}"))
    for name, text in rows:
        lines += hung(styled("  ") + styled(f"{name:<10}  ", "dim"), text, "", width)
    return lines


def _condition(rule: Json) -> str:
    """The condition of the lowest level."""
    return str(rule["levels"][0]["condition"])


def _threshold(rule: Json) -> Text:
    return styled(measured(rule["threshold"], rule["unit"]))


def _lasting(seconds: float) -> Text:
    return styled(human_seconds(seconds)) if seconds else styled("at once", "dim")


def _rung(rung: Json) -> str:
    lasts = f"after {human_seconds(rung['for_seconds'])}" if rung["for_seconds"] else "at once"
    sent = "" if rung["notify"] else "; shown, not sent"
    calm = f"clears after {human_seconds(rung['clear_seconds'])} of: {rung['clear_condition']}"
    return f"{rung['level']} {lasts}: {rung['condition']}{sent}; {calm}"


def _figure(figure: Json) -> str:
    """Returns `alerts.thermal_celsius = 75 °C (default 80 °C): the temperature from which …`."""
    value, default = _value(figure, "value"), _value(figure, "default")
    given = "default" if value == default else f"default {default}"
    text = f"{figure['setting']} = {value} ({given}): {figure['help']}"
    return f"{text}; {figure['variable']}"


def _value(figure: Json, name: str) -> str:
    return "off" if figure[name] is None else measured(figure[name], figure["unit"])


def _by_device(rule: Json) -> Iterator[tuple[str, str]]:
    """The threshold of each device, and what the tables of the settings change for it."""
    units = {figure["name"]: figure["unit"] for figure in rule["figures"]}
    main = next((one["name"] for one in rule["figures"] if one["can_be_off"]), rule["name"])
    overrides = {(one["uuid"], one["figure"]): one for one in rule["overrides"]}
    for one in rule["devices"]:
        text = "off" if one["disabled"] else measured(one["threshold"], units[main])
        if one["limit"] is not None and not one["disabled"]:
            text += f"; its own limit is {measured(one['limit'], units[main])}"
        own = overrides.pop((one["uuid"], main), None)
        yield title(one["label"]), text if own is None else f"{text}; {_set_by(own)}"
    for one in overrides.values():
        unit = units.get(one["figure"], "")
        value = "off" if one["value"] is None else measured(one["value"], unit)
        yield title(one["label"]), f"{one['figure']} = {value}; {_set_by(one)}"


def _set_by(override: Json) -> str:
    return f"set by {override['place'].replace(' = ', f'{UNBROKEN}={UNBROKEN}')}"


def _reason(reason: Json) -> str:
    return f"{reason['code']}: {reason['means']}{'' if reason['problem'] else '; not a problem'}"


def _query(one: Json) -> str:
    query = one["query"] if len(one["query"]) <= LONGEST_QUERY else "a long query: see --json"
    return f"{one['alert']} ({one['level']}): {query}"
