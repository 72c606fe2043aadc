"""Every setting in one table: where it is written, what it may be, and what it does.

A flag beats an `ANDON_*` variable, which beats the file, which beats the default. All mistakes of
all places are reported at once. An empty variable counts as not set.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from andon.errors import Invalid
from andon.units import parse_seconds

OTHERS = frozenset(
    {
        "ANDON_BUILD_BOARD",
        "ANDON_CONFIG",
        "ANDON_LEASE",
        "ANDON_LEASE_DIR",
        "ANDON_STANDIN",
        "ANDON_TOKEN",
        "ANDON_UPDATE_GOLDEN",
    }
)
"""Variables that belong to other parts of andon and are no settings."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person may choose; the defaults are here and nowhere else."""

    node: str = ""
    root: str = "/"
    backends: tuple[str, ...] = ("auto",)
    simulate: int = 0
    simulate_seed: int = 1
    simulate_scenario: str = "mixed"
    simulate_faults: tuple[str, ...] = ()
    replay: str = ""
    replay_speed: float = 1.0
    replay_loop: bool = False
    interval_seconds: float = 1.0
    deadline_seconds: float = 1.0
    cache_seconds: float = 2.0
    score_memory_weight: float = 0.6
    score_utilization_weight: float = 0.4
    share_labels: tuple[str, ...] = ()
    color: str = "auto"
    history_path: str = ""
    history_flush_seconds: float = 5.0
    history_raw_days: float = 7.0
    history_minute_days: float = 90.0
    history_hour_days: float = 730.0
    history_megabytes: int = 250


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings in force, and where each comes from."""

    settings: Settings
    origin: Mapping[str, str]
    """name -> "default", "file andon.toml", "ANDON_INTERVAL" or "flag"."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """What a value must be, in words, and how it is read; a reader raises ValueError."""

    words: str
    read: Callable[[object], object]


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError
    return value


def _folder(value: object) -> str:
    if not _text(value).startswith("/"):
        raise ValueError
    return _text(value)


def _names(value: object) -> tuple[str, ...]:
    listed = value.split(",") if isinstance(value, str) else value
    if not isinstance(listed, list | tuple) or not listed:
        raise ValueError
    names = tuple(_text(name).strip() for name in listed)
    if not all(names):
        raise ValueError
    return names


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    return int(value)


def _yes_or_no(value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
            value.lower()
        )
    if not isinstance(value, bool):
        raise ValueError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _seconds(value: object) -> float:
    return _number(parse_seconds(value) if isinstance(value, str) else value)


TEXT = Kind("text", _text)
FOLDER = Kind("a folder that begins with /", _folder)
NAMES = Kind('a list of names such as ["nvidia"]', _names)
LABELS = Kind('a list such as ["quiet:3"]', _names)
SCRIPTS = Kind('a list such as ["lost:2@10"]', _names)
WHOLE = Kind("a whole number", _whole)
YES_OR_NO = Kind("true or false", _yes_or_no)
NUMBER = Kind("a number", _number)
SECONDS = Kind("a number of seconds such as 1 or 500ms", _seconds)


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the table."""

    name: str
    place: str  # section.key in the file
    variable: str
    kind: Kind
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.variable.removeprefix("ANDON_").lower().replace("_", "-")

    @property
    def default(self) -> object:
        return _DEFAULTS[self.name]


_DEFAULTS: dict[str, object] = {f.name: f.default for f in fields(Settings)}

FIELDS = (
    Field("node", "node.name", "ANDON_NODE", TEXT, "the node's name; empty means its host name"),
    Field("root", "node.root", "ANDON_ROOT", FOLDER, "where the host's /proc and /sys are mounted"),
    Field(
        "backends", "devices.backends", "ANDON_BACKENDS", NAMES,
        'the backends that are asked; "auto" means all that find something',
    ),
    Field(
        "simulate", "simulation.devices", "ANDON_SIMULATE", WHOLE,
        "how many simulated devices are shown instead of real ones", 0, 512,
    ),
    Field(
        "simulate_seed", "simulation.seed", "ANDON_SIMULATE_SEED", WHOLE,
        "the same seed gives the same simulation",
    ),
    Field(
        "simulate_scenario", "simulation.scenario", "ANDON_SIMULATE_SCENARIO", TEXT,
        "what the simulated devices do",
    ),
    Field(
        "simulate_faults", "simulation.faults", "ANDON_SIMULATE_FAULTS", SCRIPTS,
        'what goes wrong with them, such as ["lost:2@10", "hung:3@5..30"]',
    ),
    Field(
        "replay", "replay.file", "ANDON_REPLAY", TEXT,
        "a recorded file that is played instead of reading this node",
    ),
    Field(
        "replay_speed", "replay.speed", "ANDON_REPLAY_SPEED", NUMBER,
        "how many times as fast as it was recorded", 0.01, 1000,
    ),
    Field(
        "replay_loop", "replay.loop", "ANDON_REPLAY_LOOP", YES_OR_NO,
        "whether it begins again when it has ended",
    ),
    Field(
        "interval_seconds", "sampling.interval", "ANDON_INTERVAL", SECONDS,
        "the time from one look at the devices to the next", 0.1, 3600,
    ),
    Field(
        "deadline_seconds", "sampling.deadline", "ANDON_DEADLINE", SECONDS,
        "how long a device may take to answer before it counts as stale", 0.1, 60,
    ),
    Field(
        "cache_seconds", "sampling.cache", "ANDON_CACHE", SECONDS,
        "how long an answer may be given again instead of a new look", 0, 3600,
    ),
    Field(
        "score_memory_weight", "score.memory_weight", "ANDON_SCORE_MEMORY_WEIGHT", NUMBER,
        "how much free memory counts when a device is chosen", 0, 1,
    ),
    Field(
        "score_utilization_weight", "score.utilization_weight",
        "ANDON_SCORE_UTILIZATION_WEIGHT", NUMBER,
        "how much idleness counts when a device is chosen", 0, 1,
    ),
    Field(
        "share_labels", "share.labels", "ANDON_SHARE_LABELS", LABELS,
        "labels of devices by index or UUID, for --label and --prefer",
    ),
    Field(
        "color", "display.color", "ANDON_COLOR", TEXT,
        "whether the output is coloured", choices=("auto", "always", "never"),
    ),
    Field(
        "history_path", "history.path", "ANDON_HISTORY", TEXT,
        'the file of the history; empty means andon/history.db in the state folder, '
        '":memory:" keeps it in memory alone',
    ),
    Field(
        "history_flush_seconds", "history.flush", "ANDON_HISTORY_FLUSH", SECONDS,
        "how often what was read is committed: at most this much is lost to a crash", 0.1, 60,
    ),
    Field(
        "history_raw_days", "history.raw_days", "ANDON_HISTORY_RAW_DAYS", NUMBER,
        "how many days every single reading is kept", 0.25, 3650,
    ),
    Field(
        "history_minute_days", "history.minute_days", "ANDON_HISTORY_MINUTE_DAYS", NUMBER,
        "how many days least, mean and most of each minute are kept", 11, 3650,
    ),
    Field(
        "history_hour_days", "history.hour_days", "ANDON_HISTORY_HOUR_DAYS", NUMBER,
        "how many days least, mean and most of each hour are kept, and who used a device",
        11, 36500,
    ),
    Field(
        "history_megabytes", "history.megabytes", "ANDON_HISTORY_MEGABYTES", WHOLE,
        "how large the history may grow; above that the finest readings go first", 16, 1_000_000,
    ),
)  # fmt: skip
"""The table; docs, `andon config` and the checks are made from it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One setting as text, for the docs and `andon config`."""

    name: str
    place: str
    variable: str
    allowed: str
    default: str
    help: str


def describe() -> list[Row]:
    """The table as people read it."""
    return [
        Row(f.name, f.place, f.variable, _allowed(f), _quoted(f.default), f.help) for f in FIELDS
    ]


def resolve(
    file: tuple[str, str] | None,
    env: Mapping[str, str],
    flags: Mapping[str, object],
    strict: bool = True,
) -> Resolved:
    """The settings in force. `file` is its path and its text; raises Invalid with every mistake.

    A variable that is not ours to know is only a warning where `strict` is off: somebody else's
    typo must not end the monitoring.
    """
    mistakes: list[str] = []
    strange: list[str] = []
    values: dict[str, Any] = {}
    origin = {f.name: "default" for f in FIELDS}
    for given in (
        _from_file(file, mistakes),
        _from_env(env, mistakes if strict else strange),
        _from_flags(flags, mistakes),
    ):
        for field, place, source, raw in given:
            try:
                values[field.name] = _read(field, raw)
                origin[field.name] = source
            except ValueError as exc:
                mistakes.append(f"{place}: {exc}")
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
    except (ValueError, OverflowError):
        raise ValueError(f"{_quoted(raw)} is not {field.kind.words}") from None
    if field.choices and value not in field.choices:
        raise ValueError(f"{_quoted(raw)} is not one of {', '.join(field.choices)}")
    if isinstance(value, int | float):
        if field.low is not None and value < field.low:
            raise ValueError(f"{_quoted(raw)} is less than {field.low:g}")
        if field.high is not None and value > field.high:
            raise ValueError(f"{_quoted(raw)} is more than {field.high:g}")
    return value


# Each place gives (field, where a mistake is, what the origin is called, the raw value).

Given = Iterator[tuple[Field, str, str, object]]


def _from_flags(flags: Mapping[str, object], mistakes: list[str]) -> Given:
    by_name = {f.name: f for f in FIELDS}
    for name, raw in flags.items():
        if name not in by_name:
            mistakes.append(
                f"flag {_quoted(name)}: there is no such setting{_meant(name, by_name)}"
            )
        elif raw is not None and raw != ():  # what click gives where the flag was not given
            yield by_name[name], by_name[name].flag, "flag", raw


def _from_env(env: Mapping[str, str], strange: list[str]) -> Given:
    by_variable = {f.variable: f for f in FIELDS}
    for variable in sorted(name for name in env if name.startswith("ANDON_")):
        field = by_variable.get(variable)
        if field is not None and env[variable] != "":
            yield field, variable, variable, env[variable]
        elif field is None and variable not in OTHERS:
            meant = _meant(variable, [*by_variable, *OTHERS])
            strange.append(f"{_plain(variable)}: there is no such setting{meant}")


def _from_file(file: tuple[str, str] | None, mistakes: list[str]) -> Given:
    if file is None:
        return
    path, text = file
    by_place = {f.place: f for f in FIELDS}
    for place, raw in _leaves(path, text, mistakes):
        where = f"{path}{_line_of(place, text)}: {_plain(place)}"
        if place in by_place:
            yield by_place[place], where, f"file {path}", raw
        else:
            mistakes.append(f"{where}: {_unknown_place(place, by_place)}")


def _leaves(path: str, text: str, mistakes: list[str]) -> Iterator[tuple[str, object]]:
    """`section.key` and its value; what stands outside a known section comes as it is."""
    import tomllib  # only where a file is given

    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as exc:  # ValueError: a number of 5,000 digits, too
        line = re.search(r"at line (\d+)", str(exc))
        at = f":{line[1]}" if line else ""
        mistakes.append(f"{path}{at}: this is not TOML: {exc}")
        return
    sections = {f.place.partition(".")[0] for f in FIELDS}
    for section, body in document.items():
        if section in sections and isinstance(body, dict):
            yield from ((f"{section}.{key}", raw) for key, raw in body.items())
        else:
            yield section, body


def _unknown_place(place: str, places: Mapping[str, Field]) -> str:
    sections = {known.partition(".")[0] for known in places}
    if place in sections:
        return f"this is a section: write [{place}] and its settings below it"
    by_key = {known.rpartition(".")[2]: known for known in places}
    if place in by_key:
        return f"there is no such setting: did you mean {by_key[place]}?"
    return f"there is no such setting{_meant(place, [*places, *sections])}"


def _line_of(place: str, text: str) -> str:
    """`:12` where the line can be found without a parser of our own, else nothing."""
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


def _meant(name: str, known: Any) -> str:
    from difflib import get_close_matches  # only where there is a mistake

    close = get_close_matches(name, list(known), n=1)
    return f": did you mean {close[0]}?" if close else ""


def _allowed(field: Field) -> str:
    if field.choices:
        return ", ".join(field.choices)
    if field.low is None or field.high is None:
        return field.kind.words
    return f"{field.kind.words}, {field.low:g} to {field.high:g}"


def _quoted(value: object) -> str:
    """As it stands in the file, and short."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(_quoted(item) for item in value[:8])}]"
    if isinstance(value, dict):
        return "a section"
    if isinstance(value, str):
        return f'"{_plain(value)}"'
    return f"{value:g}" if isinstance(value, float) else str(value)[:80]


def _plain(text: str) -> str:
    shown = text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
    return shown[:80]
