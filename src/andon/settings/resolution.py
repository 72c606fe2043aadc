"""Decides which value of a setting is in force.

A flag beats an `ANDON_*` variable, which beats the file, which beats the default. All mistakes
are reported at once. An empty variable counts as not set.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from andon.errors import Invalid
from andon.settings.table import FIELDS, PORT_VARIABLE, Field, Settings

__all__ = [
    "FIELDS",
    "OTHERS",
    "TABLES",
    "Resolved",
    "SettingRow",
    "Settings",
    "describe",
    "resolve",
]

OTHERS = frozenset(
    {
        "ANDON_ARRAY_INDEX",
        "ANDON_BUILD_BOARD",
        "ANDON_CONFIG",
        "ANDON_HUB_PIN",
        "ANDON_HUB_TOKEN",
        "ANDON_JOB",
        "ANDON_LEASE",
        "ANDON_LEASE_DIR",
        PORT_VARIABLE,
        "ANDON_PYTHONPATH",
        "ANDON_RECORD",
        "ANDON_RUN",
        "ANDON_TOKEN",
        "ANDON_URL",
        "ANDON_WORK",
    }
)
"""Variables of other parts of andon, which are not settings; some are set for commands that it
runs, and a command may run andon again."""


class Resolved(Struct, frozen=True):
    """The settings in force, and where each comes from."""

    settings: Settings
    origin: Mapping[str, str]
    """name -> "default", "file andon.toml", "ANDON_INTERVAL" or "flag"."""
    warnings: tuple[str, ...] = ()

    def shown(self, name: str) -> Any:
        """Returns the value of a setting as it may be printed: without a password."""
        field = next(one for one in _fields(name.startswith(_ALERTS)) if one.name == name)
        return field.kind.show(self.value(field))

    def value(self, field: Field) -> Any:
        """Returns the value of a setting that is in force."""
        if field.figure is None:
            return getattr(self.settings, field.name)
        given = dict(self.settings.alerts_figures)
        return given.get(field.name.removeprefix(_ALERTS), field.figure)

    def origin_of(self, name: str) -> str:
        return self.origin.get(name, "default")


_ALERTS = "alerts_"


def _fields(with_figures: bool) -> tuple[Field, ...]:
    """Returns the settings; those of the conditions only if one of them may be set."""
    if not with_figures:
        return FIELDS
    from andon.settings.figures import every_field

    return every_field()


class SettingRow(Struct, frozen=True):
    """One setting as text, for the docs and `andon config`."""

    name: str
    place: str
    variable: str
    allowed: str
    default: str
    help: str


def describe() -> list[SettingRow]:
    """Returns the table of settings as text."""
    return [
        SettingRow(f.name, f.place, f.variable, _allowed(f), _quoted(f.default), f.help)
        for f in _fields(with_figures=True)
    ]


def resolve(
    file: tuple[str, str] | None,
    env: Mapping[str, str],
    flags: Mapping[str, object],
    strict: bool = True,
) -> Resolved:
    """The settings in force. `file` is its path and its text; raises Invalid with every mistake.

    An unknown variable is only a warning unless `strict`: a typo in someone else's environment
    must not stop monitoring.
    """
    mistakes: list[str] = []
    strange: list[str] = []
    values: dict[str, Any] = {}
    figures: dict[str, Any] = {}
    origin = {f.name: "default" for f in FIELDS}
    for given in (
        _from_file(file, mistakes),
        _from_env(env, mistakes if strict else strange),
        _from_flags(flags, mistakes),
    ):
        for field, place, source, raw in given:
            try:
                value = _read(field, raw)
                if field.figure is None:
                    values[field.name] = value
                else:
                    figures[field.name.removeprefix(_ALERTS)] = value
                origin[field.name] = source
            except ValueError as exc:
                mistakes.append(f"{place}: {exc}")
    values |= _tables(file, mistakes)
    if figures:
        values["alerts_figures"] = tuple(figures.items())
    tables = values.keys() & set(TABLES.values())
    origin |= dict.fromkeys(tables, f"file {file[0]}" if file else "")
    mistakes += _strange_rules(values.get("alerts_disabled_rules", ()), origin)
    if not mistakes and _weightless(settings := Settings(**values)):
        mistakes.append("score: one of memory_weight and utilization_weight must be above 0")
    if mistakes:
        raise _invalid(mistakes)
    return Resolved(settings, origin, tuple(strange))


def _weightless(settings: Settings) -> bool:
    return settings.score_memory_weight + settings.score_utilization_weight == 0


def _invalid(mistakes: list[str]) -> Invalid:
    count = len(mistakes)
    reason = mistakes[0] if count == 1 else f"there are {count} mistakes in the settings"
    return Invalid(reason, hint="see every setting: andon config", mistakes=tuple(mistakes))


def _read(field: Field, raw: object) -> object:
    try:
        value = field.kind.read(raw)
    except Invalid as exc:
        raise ValueError(f"{exc.reason} ({exc.hint})") from None
    except (ValueError, OverflowError):
        raise ValueError(f"{_quoted(field.kind.show(raw))} is not {field.kind.expected}") from None
    if field.choices and value not in field.choices:
        raise ValueError(f"{_quoted(raw)} is not one of {', '.join(field.choices)}")
    if isinstance(value, int | float):
        if field.low is not None and value < field.low:
            raise ValueError(f"{_quoted(raw)} is less than {field.low:.15g}")
        if field.high is not None and value > field.high:
            raise ValueError(f"{_quoted(raw)} is more than {field.high:.15g}")
    return value


# Each source yields (field, where a mistake would be, the name of the source, the raw value).

Given = Iterator[tuple[Field, str, str, object]]


def _from_flags(flags: Mapping[str, object], mistakes: list[str]) -> Given:
    by_name = {f.name: f for f in _fields(any(name.startswith(_ALERTS) for name in flags))}
    for name, raw in flags.items():
        if name not in by_name:
            suggestion = _suggestion(name, by_name)
            mistakes.append(f"flag {_quoted(name)}: there is no such setting{suggestion}")
        elif raw is not None and raw != ():  # what click passes if the flag is absent
            yield by_name[name], by_name[name].flag, "flag", raw


def _from_env(env: Mapping[str, str], strange: list[str]) -> Given:
    given = sorted(name for name in env if name.startswith("ANDON_"))
    figures = any(name.startswith("ANDON_ALERTS_") for name in given)
    by_variable = {f.variable: f for f in _fields(figures)}
    for variable in given:
        field = by_variable.get(variable)
        if field is not None and env[variable] != "":
            yield field, variable, variable, env[variable]
        elif field is None and variable not in OTHERS:
            suggestion = _suggestion(variable, [*by_variable, *OTHERS])
            strange.append(f"{_plain(variable)}: there is no such setting{suggestion}")


def _from_file(file: tuple[str, str] | None, mistakes: list[str]) -> Given:
    if file is None:
        return
    path, text = file
    found = list(_leaves(path, text, mistakes))
    figures = any(place.partition(".")[0] == "alerts" for place, _ in found)
    by_place = {f.place: f for f in _fields(figures)}
    for place, raw in found:
        if place in TABLES:
            continue
        where = f"{path}{_line_of(place, text)}: {_plain(place)}"
        if place in by_place:
            yield by_place[place], where, f"file {path}", raw
        else:
            mistakes.append(f"{where}: {_unknown_place(place, by_place)}")


TABLES = {
    "alerts.override": "alerts_overrides",
    "alerts.notifier": "alerts_notifiers",
    "clusters": "clusters",
    "export": "exports",
    "ssh.groups": "ssh_groups",
}
"""Tables, which only the file can contain."""


def _tables(file: tuple[str, str] | None, mistakes: list[str]) -> dict[str, Any]:
    """Returns the tables in the file; they have their own parsers."""
    if file is None:
        return {}
    found = {place: raw for place, raw in _leaves(*file, []) if place in TABLES}
    if not found:
        return {}
    from andon.settings import alerts, clusters, exports, ssh_groups

    readers: dict[str, Any] = {
        "alerts.override": alerts.read_overrides,
        "alerts.notifier": alerts.read_notifiers,
        "clusters": clusters.read_clusters,
        "export": exports.read_exports,
        "ssh.groups": ssh_groups.read_groups,
    }
    return {
        TABLES[place]: readers[place](raw, f"{file[0]}: {place}", mistakes)
        for place, raw in found.items()
    }


def _strange_rules(names: tuple[str, ...], origin: Mapping[str, str]) -> list[str]:
    if not names:
        return []
    from andon.settings.alerts import unknown_rules

    return [
        f"alerts.disabled_rules ({origin['alerts_disabled_rules']}): {mistake}"
        for mistake in unknown_rules(names)
    ]


def _leaves(path: str, text: str, mistakes: list[str]) -> Iterator[tuple[str, object]]:
    """Yields `section.key` and value of each setting; other keys are yielded unchanged."""
    import tomllib  # only if there is a file

    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # ValueError: a number of 5,000 digits, too
        line = re.search(r"at line (\d+)", str(exc))
        at = f":{line[1]}" if line else ""
        mistakes.append(f"{path}{at}: not valid TOML: {exc}")
        return
    sections = {f.place.partition(".")[0] for f in FIELDS}
    for section, body in document.items():
        if section not in sections or not isinstance(body, dict):
            yield section, body
            continue
        for key, raw in body.items():
            place = f"{section}.{key}"
            if place in _INNER and isinstance(raw, dict):
                yield from ((f"{place}.{inner}", value) for inner, value in raw.items())
            else:
                yield place, raw


_INNER = {found for f in FIELDS if "." in (found := f.place.rpartition(".")[0])}
"""Sections within a section, such as notify.me."""


def _unknown_place(place: str, places: Mapping[str, Field]) -> str:
    sections = {known.partition(".")[0] for known in places}
    if place in sections:
        return f"this is a section: write [{place}] and its settings below it"
    every = (*places, *TABLES)
    section, _, key = place.rpartition(".")
    by_key = {known.rpartition(".")[2]: known for known in every}
    own = {k.rpartition(".")[2]: k for k in every if k.startswith(f"{section}.")}
    # Within a section only the key is compared: all of them have the section in common.
    names = own if section in sections else {one: one for one in sections} | by_key
    near = key if key in by_key else _nearest(key, names)
    suggestion = None if near is None else names.get(near) or by_key[near]
    return "there is no such setting" + (
        "" if suggestion is None else f": did you mean {suggestion}?"
    )


def _line_of(place: str, text: str) -> str:
    """Returns `:12` if the line can be found without a parser of our own, else nothing."""
    wanted_section, _, wanted_key = place.rpartition(".")
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([\w.\"'-]+)\s*\]", line):
            section = header[1].strip("\"'")
            if section == place:
                return f":{number}"
        elif key := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            name = key[1].replace('"', "").replace("'", "")
            if (section, name) == (wanted_section, wanted_key) or (section, name) == ("", place):
                return f":{number}"
    return ""


def _suggestion(name: str, known: Any) -> str:
    near = _nearest(name, known)
    return "" if near is None else f": did you mean {near}?"


def _nearest(name: str, known: Any) -> str | None:
    from difflib import get_close_matches  # only if there is a mistake

    return next(iter(get_close_matches(name, list(known), n=1)), None)


def _allowed(field: Field) -> str:
    if field.choices:
        return ", ".join(field.choices)
    if field.low is None or field.high is None:
        return field.kind.expected
    return f"{field.kind.expected}, {field.low:.15g} to {field.high:.15g}"


def _quoted(value: object) -> str:
    """Returns a value as in the file, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(_quoted(item) for item in value[:8])}]"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, str):
        return f'"{_plain(value)}"'
    return f"{value:.15g}" if isinstance(value, float) else str(value)[:80]


def _plain(text: str) -> str:
    shown = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return shown[:80]
