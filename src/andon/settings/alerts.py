"""The tables of the alert settings: thresholds for some devices, and notifiers."""

import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, field

from andon.explain.conditions.catalogue import FIGURES, RULES_OF
from andon.explain.conditions.catalogue import RULES as CONDITION_RULES
from andon.model.alert import Level
from andon.model.redaction import redact
from andon.settings.kinds import (
    NUMBER,
    NUMBER_OR_OFF,
    QUIET,
    RULES,
    SECONDS,
    TEXT,
    TableKey,
    ValueKind,
    repr_without,
)
from andon.settings.notifier_kinds import (
    EVERY_KEY,
    KINDS,
    OWN_KEYS,
    SECRETS,
    addressed,
    wrong_keys,
)

TIMEOUT_SECONDS = 30.0
LONGEST_TIMEOUT_SECONDS = 600.0
HIDDEN = "***"
_NAME = re.compile(r"[\w.-]{1,40}")
_DEVICE = re.compile(
    r"\d{1,4}(:\d{1,4})?|[A-Za-z]{2,8}[-@][0-9A-Za-z.:/-]+"
    r"|([0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)")


class OverrideSettings(Struct, frozen=True):
    """Other thresholds for one device or model, and the rules that are off for it."""

    device: str | int | None = None
    model: str | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    disabled_rules: tuple[str, ...] = ()


class NotifierSettings(Struct, frozen=True):
    """One notifier. Its address is a secret and never in a `repr`."""

    __repr__ = repr_without("url", "command")
    name: str
    kind: str
    url: str = ""
    command: tuple[str, ...] = ()
    minimum_level: Level | None = None
    rules: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    quiet_hours: str | None = None
    bypass_quiet_hours: str = str(Level.CRITICAL)
    timeout_seconds: float = TIMEOUT_SECONDS


def _device(value: object) -> str | int:
    """Parses an index, `6:0`, a UUID or its prefix, or a PCI address."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    text = str(value)
    if _DEVICE.fullmatch(text) is None:
        raise ValueError
    return int(text) if text.isdecimal() else text


def _devices(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError
    return tuple(str(_device(one)) for one in value)


def _command(value: object) -> tuple[str, ...]:
    """Parses a list, or a line split as a shell would; no shell ever runs it."""
    if isinstance(value, str):
        value = shlex.split(value)
    if not isinstance(value, list | tuple) or not value or not all(value):
        raise ValueError
    if not all(isinstance(one, str) and "\0" not in one for one in value):
        raise ValueError
    return tuple(value)


def _one_of(*choices: str) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return read


def _name(value: object) -> str:
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise ValueError
    return value


def _level(value: object) -> Level:
    """Parses a level; informational alerts are never sent."""
    if value == Level.INFO:
        raise ValueError
    return Level(str(value))


def _url(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or not _SCHEME.fullmatch(value):
        raise ValueError
    return value


OFF = ValueKind('"off"', _one_of("off"))
DEVICE = ValueKind('a device such as 3, "6:0", "GPU-…" or "1a:00.0"', _device)

NOTIFIER_COLUMNS = (
    TableKey("name", ValueKind("letters, digits, - and _", _name),
             "its name; must be unique"),
    TableKey("kind", ValueKind(f"{', '.join(KINDS)} or a package's own", _name),
             "how it sends"),
    TableKey("url", ValueKind("a URL such as https://…", _url),
             "for slack, webhook, alertmanager and apprise"),
    *OWN_KEYS,
    TableKey("command", ValueKind('a command such as ["/usr/bin/logger"]', _command),
           "for command; it gets the alerts as JSON on standard input"),
    TableKey("minimum_level", ValueKind("warning or critical", _level),
           "the lowest level it is sent; else alerts.minimum_level"),
    TableKey("rules", RULES, "only these rules"),
    TableKey("devices", ValueKind('a list such as [0, "6:0", "GPU-…"]', _devices),
             "only these devices"),
    TableKey("owners", ValueKind('a list of users such as ["ada"]', RULES.read),
           "only alerts that affect these users' processes or leases"),
    TableKey("quiet_hours", QUIET, 'holds alerts meanwhile; "" for none; else alerts.quiet_hours'),
    TableKey("bypass_quiet_hours",
             ValueKind("critical, warning or never", _one_of("critical", "warning", "never")),
           "the lowest level that is sent during quiet hours"),
    TableKey("timeout_seconds", SECONDS, "maximum time to send a message"),
)  # fmt: skip

OVERRIDE_COLUMNS = (
    TableKey("device", DEVICE, "for this device"),
    TableKey("model", TEXT, "for every device with this in its name"),
    TableKey("disabled_rules", RULES, "rules that are off for it"),
)

Mistakes = list[str]


def read_notifiers(raw: object, where: str, mistakes: Mistakes) -> tuple[NotifierSettings, ...]:
    """Parses `[[alerts.notifier]]`; reports every mistake, and no secret."""
    found: list[NotifierSettings] = []
    for place, table in tables_in(raw, where, mistakes):
        before = len(mistakes)
        values = values_in(place, table, NOTIFIER_COLUMNS, mistakes)
        mistakes += [f"{place}: {mistake}" for mistake in _missing(values, table)]
        mistakes += [f"{place}: {mistake}" for mistake in unknown_rules(values.get("rules", ()))]
        if any(one.name == values.get("name") for one in found):
            mistakes.append(f"{place}: another notifier has this name already")
        if len(mistakes) == before:
            found.append(NotifierSettings(**addressed(values["kind"], values)))
    return tuple(found)


def addresses(text: str) -> tuple[NotifierSettings, ...]:
    """Returns the notifiers of a file whose address is usable, even if other settings are wrong."""
    try:
        raw = tomllib.loads(text)["alerts"]["notifier"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()
    found: list[NotifierSettings] = []
    for place, table in tables_in(raw, "notifier", []):
        wanted = {
            name: table[name] for name in ("name", "kind", *sorted(EVERY_KEY)) if name in table
        }
        wrong: Mistakes = []
        values = values_in(place, wanted, NOTIFIER_COLUMNS, wrong)
        kind = values.get("kind", "")
        if kind in KINDS:
            usable = not wrong and not [*wrong_keys(kind, values, wanted)] and kind != "command"
            values = addressed(kind, values) if usable else {}
        if values.get("kind"):
            found.append(NotifierSettings(**{"name": place, **values}))
    return tuple(found)


def read_overrides(raw: object, where: str, mistakes: Mistakes) -> tuple[OverrideSettings, ...]:
    """Parses `[[alerts.override]]`: a device or a model, and its own thresholds."""
    figures = tuple(TableKey(n, NUMBER_OR_OFF if n in RULES_OF else NUMBER, "") for n in FIGURES)
    switches = tuple(TableKey(rule.name, OFF, "") for rule in CONDITION_RULES)
    found: list[OverrideSettings] = []
    for place, table in tables_in(raw, where, mistakes):
        before = len(mistakes)
        values = values_in(place, table, (*OVERRIDE_COLUMNS, *figures, *switches), mistakes)
        if ("device" in table) == ("model" in table):
            mistakes.append(f"{place}: name either a device or a model")
        mistakes += [
            f"{place}: {mistake}" for mistake in unknown_rules(values.get("disabled_rules", ()))
        ]
        off = {
            *values.pop("disabled_rules", ()),
            *(rule.name for rule in CONDITION_RULES if rule.name in values),
        }
        off |= {RULES_OF[n] for n in FIGURES if n in values and values[n] is None}
        if len(mistakes) == before:
            numbers = {n: values[n] for n in FIGURES if values.get(n) is not None}
            who = {key: values[key] for key in ("device", "model") if key in values}
            found.append(
                OverrideSettings(**who, figures=numbers, disabled_rules=tuple(sorted(off)))
            )
    return tuple(found)


def unknown_rules(names: tuple[str, ...]) -> Iterator[str]:
    """Yields what is wrong with a list of rule names."""
    known = [rule.name for rule in CONDITION_RULES]
    for name in names:
        if name not in known:
            yield f"there is no rule {name[:40]!r}{_suggestion(name, known)}"


def masked(url: str) -> str:
    """Returns `slack://***`: the scheme is not a secret, everything after it may be."""
    found = _SCHEME.fullmatch(url)
    return f"{found[1] if found else ''}://{HIDDEN}"


def shown(notifier: NotifierSettings) -> dict[str, object]:
    """Returns a notifier as `andon config` and health may show it."""
    values: dict[str, object] = {
        "name": notifier.name,
        "kind": notifier.kind,
        "minimum_level": notifier.minimum_level,
        "rules": list(notifier.rules),
        "devices": list(notifier.devices),
        "owners": list(notifier.owners),
        "quiet_hours": notifier.quiet_hours,
        "bypass_quiet_hours": notifier.bypass_quiet_hours,
        "timeout_seconds": notifier.timeout_seconds,
    }
    if notifier.command:
        return {**values, "command": redact(notifier.command)}
    return {**values, "url": masked(notifier.url)}


def tables_in(raw: object, where: str, mistakes: Mistakes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the tables of an array with the name of each for messages."""
    if not isinstance(raw, list) or not all(isinstance(one, dict) for one in raw):
        mistakes.append(f"{where}: write it as a table: [[{where.rpartition(' ')[2]}]]")
        return
    for number, table in enumerate(raw, 1):
        name = table.get("name")
        called = f" ({name})" if isinstance(name, str) and _NAME.fullmatch(name) else ""
        yield f"{where} {number}{called}", table


def values_in(
    place: str,
    table: dict[str, Any],
    columns: tuple[TableKey, ...],
    mistakes: Mistakes,
    secrets: Collection[str] = SECRETS,
) -> dict[str, Any]:
    """Returns the valid values of a table; reports every mistake, and no secret."""
    known = {column.name: column for column in columns}
    values: dict[str, Any] = {}
    for key, raw in table.items():
        column = known.get(key)
        if column is None:
            mistakes.append(f"{place}: there is no setting {key[:40]!r}{_suggestion(key, known)}")
            continue
        try:
            values[key] = column.kind.read(raw)
        except (ValueError, OverflowError):
            mistakes.append(
                f"{place}.{key}: {_quoted(key, raw, secrets)} is not {column.kind.expected}"
            )
    return values


def _missing(values: Mapping[str, Any], table: Mapping[str, Any]) -> Iterator[str]:
    for key in ("name", "kind"):
        if key not in table:
            yield f"{key} is missing"
    if "kind" in values:
        yield from wrong_keys(values["kind"], values, table)
    if not 1 <= values.get("timeout_seconds", TIMEOUT_SECONDS) <= LONGEST_TIMEOUT_SECONDS:
        yield f"timeout_seconds: must be from 1 to {LONGEST_TIMEOUT_SECONDS:g}"


def _suggestion(name: str, known: Any) -> str:
    close = get_close_matches(name, list(known), n=1)
    return f": did you mean {close[0]}?" if close else ""


def _quoted(key: str, raw: object, secrets: Collection[str]) -> str:
    """Returns the value as written, unless it may hold a secret."""
    return "the value" if key in secrets else repr(raw)[:80]
