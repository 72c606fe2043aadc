"""Conversions between what machines count (bytes, seconds) and what people read."""

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise

MIB = 1024**2
GIB = 1024**3

LONGEST_SECONDS = 100 * 366 * 86400.0  # 100 years: every clock and calendar can represent it
LARGEST_BYTES = 2**63 - 1
_SHOWN = 40  # characters of the input quoted in a message
SYMBOLS = {
    "percent": "%", "bytes": "bytes", "celsius": "°C", "watts": "W", "mhz": "MHz", "joules": "J",
    "seconds": "s", "bytes_per_second": "bytes/s",
}  # fmt: skip
"""How each unit is written; the name of a value ends in its unit."""
_SECONDS = {
    "": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
    "w": 604800.0,
}  # fmt: skip
_SECONDS |= {
    name: _SECONDS[unit]
    for unit, names in {
        "s": "sec secs second seconds", "m": "mins minute minutes", "h": "hr hrs hour hours",
        "d": "day days", "w": "week weeks",
    }.items()
    for name in names.split()
}  # fmt: skip
_PART = r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*"
_QUANTITY = r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*"
_SPACES = str.maketrans("\t\n\r", "   ")


def unit_of(name: str) -> str:
    """Returns the unit in which a name ends: `watts` of `power_watts`; empty if it has none."""
    return max((unit for unit in SYMBOLS if name.endswith(f"_{unit}")), key=len, default="")


@lru_cache(1024)
def symbol_of(name: str) -> str:
    """Returns the unit of a value as people write it: `W` of `power_watts`."""
    return SYMBOLS.get(unit_of(name), "")


def parse_seconds(text: str) -> float:
    """Parses `90`, `1.5h`, `1h30m`, `5 d 2 h`; ValueError if it is none or exceeds 100 years."""
    match = re.fullmatch(_QUANTITY, text)
    parts = [match.groups()] if match else _parts(text)
    factors = [_SECONDS.get(unit.lower(), 0.0) for _, unit in parts]
    descend = all(large > small for large, small in pairwise(factors))
    if not parts or 0.0 in factors or not descend:
        raise ValueError(f"{text[:_SHOWN]!r} is not a duration (use 90s, 10m, 1h30m)")
    seconds = (float(part[0]) * factor for part, factor in zip(parts, factors, strict=True))
    return check_seconds(sum(seconds))


def seconds_of(value: float | str) -> float:
    """Returns a duration that a program gave as a number of seconds or as a text."""
    return parse_seconds(value) if isinstance(value, str) else check_seconds(float(value))


def _parts(text: str) -> list[tuple[str, ...]]:
    """Returns numbers with their units, one after the other; none if there is anything else."""
    found, place = [], 0
    part = re.compile(_PART)
    while match := part.match(text, place):
        found.append(match.groups())
        place = match.end()
    return found if place == len(text) else []


def has_unit(text: str) -> bool:
    """Whether a quantity has a unit; 0 needs none."""
    match = re.fullmatch(_QUANTITY, text)
    return match is None or bool(match[2]) or not float(match[1])


def check_seconds(seconds: float) -> float:
    """Returns the duration; raises ValueError if it is negative, not a number, or too long."""
    if not seconds >= 0:
        raise ValueError("a duration must be 0 or more")
    if seconds > LONGEST_SECONDS:
        raise ValueError("a duration must not exceed 100 years (36600d)")
    return seconds


_BYTES = {
    "b": 1, "kib": 1024, "mib": MIB, "gib": GIB, "tib": 1024 * GIB,
    "k": 1024, "m": MIB, "g": GIB, "t": 1024 * GIB,
    "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
}  # fmt: skip


def parse_bytes(text: str) -> int:
    """Parses `10GiB`, `512M` (binary) or `80GB` (decimal); a number without a unit is no size."""
    match = re.fullmatch(_QUANTITY, text)
    factor = _BYTES.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text[:_SHOWN]!r} is not a size")
    size = float(match[1]) * factor
    if size > LARGEST_BYTES:
        raise ValueError(f"{text[:_SHOWN]!r} is larger than any GPU memory")
    return int(size)


def fixed(value: float, digits: int = 0) -> str:
    """Formats a number with this many digits after the point; halves go away from zero, as on
    the board.

    frontend/tests/figures.json has the cases of both.
    """
    if not math.isfinite(value):
        return f"{value:.{digits}f}"
    count, each = abs(value).as_integer_ratio()
    scaled, rest = divmod(count * 10**digits, each)
    if 2 * rest != each:
        return f"{value:.{digits}f}"
    text = str(scaled + 1).rjust(digits + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{text[:-digits]}.{text[-digits:]}" if digits else sign + text


def human_bytes(count: float) -> str:
    """Formats three significant digits and a binary unit: `61.2 GiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1000:
            return (
                f"{fixed(size)} {unit}"
                if unit == "B" or size >= 100
                else f"{fixed(size, 1)} {unit}"
            )
        size /= 1024
    return f"{fixed(size, 1)} TiB"


def distinct_bytes(first: float, second: float) -> tuple[str, str]:
    """Formats two sizes so that they differ if the sizes do: `81,306 MiB` and `81,307 MiB`."""
    texts = human_bytes(first), human_bytes(second)
    if texts[0] != texts[1] or first == second:
        return texts
    unit, name = (MIB, "MiB") if abs(first - second) >= MIB else (1, "bytes")
    return f"{first // unit:,.0f} {name}", f"{second // unit:,.0f} {name}"


def human_rate(per_second: float, space: str = " ", unit: str = "B/s") -> str:
    """Formats a rate in decimal units, as links are rated: `2.5 GB/s`, `610 MB/s`, `0 B/s`."""
    size, factors = float(per_second), ["", "k", "M", "G"]
    while size >= 999.5 and len(factors) > 1:
        size /= 1000
        factors.pop(0)
    digits = 0 if size >= 99.5 or len(factors) == 4 else 1
    return f"{fixed(size, digits)}{space}{factors[0]}{unit}"


def human_seconds(seconds: float) -> str:
    """Formats how long something has lasted: `45 s`, `1 min 30 s`, `12 min`, `3 h 20 min`, `5 d
    2 h`.

    Rounded. The board has the same rule; frontend/tests/durations.json has the cases of both.
    """
    whole = _nearest(seconds)
    if whole < 120:
        return f"{whole} s" if whole < 60 else _two(whole, 60, "min", "s")
    minutes = _nearest(seconds / 60)
    return f"{minutes} min" if minutes < 60 else _hours(seconds)


def measured_seconds(seconds: float) -> str:
    """Formats how long something took, fine enough to compare: `67 ms`, `1.94 s`, `12 min 6 s`."""
    thousandths, hundredths, tenths = (_nearest(seconds * parts) for parts in (1000, 100, 10))
    if thousandths < 100:
        return f"{thousandths} ms" if thousandths else "0 s"
    if hundredths < 1000:
        return f"{hundredths / 100:g} s"
    if tenths < 600:
        return f"{tenths / 10:g} s"
    whole = _nearest(seconds)
    return _two(whole, 60, "min", "s") if whole < 3600 else _hours(seconds)


def _hours(seconds: float) -> str:
    minutes = _nearest(seconds / 60)
    if minutes < 1440:
        return _two(minutes, 60, "h", "min")
    return _two(_nearest(seconds / 3600), 24, "d", "h")


def _two(count: int, each: int, large: str, small: str) -> str:
    rest = count % each
    return f"{count // each} {large}" + (f" {rest} {small}" if rest else "")


def _nearest(value: float) -> int:
    """Rounds to the nearest integer; halves go up, as in JavaScript."""
    return max(0, math.floor(value + 0.5))


def iso(at: float) -> str:
    """Formats `2026-11-15T03:00:00.250+00:00`."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def iso_utc(at: float) -> str:
    """Formats `2026-11-15T03:00:00.250Z`, as spreadsheets and people read it."""
    return iso(at).replace("+00:00", "Z")


def _joule_digits(joules: float) -> int:
    return 0 if joules >= 10 or not joules else 1 if joules >= 1 else 2


def gpu_hours(seconds: float) -> str:
    """Formats GPU hours, and few of them as a time: `27.0`, `44 s`, `5 min`. The board has the same
    rule, with a unit."""
    return human_seconds(seconds) if 0 < seconds < 360 else fixed(seconds / 3600, 1)


def human_joules(joules: float, is_estimate: bool = False) -> str:
    """Formats energy: `0.70 J`, `504 J`, `12.4 Wh`, `0.09 kWh`; kilowatt hours from 50 Wh on;
    `~504 J` of an estimate. The board has the same rule."""
    if is_estimate:
        return "~" + human_joules(joules)
    hours = joules / 3600
    if hours < 1:
        return f"{fixed(joules, _joule_digits(joules))} J"
    return f"{fixed(hours, 1)} Wh" if hours < 50 else f"{fixed(hours / 1000, 2)} kWh"


def printable(text: str) -> str:
    """Replaces line breaks and tabs by spaces, and other control characters by visible escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text.translate(_SPACES))


def whole_number(text: str, digits: int = 18) -> int | None:
    """A whole number that another program printed; None for more digits and anything else."""
    return int(text) if len(text) <= digits and text.isascii() and text.isdecimal() else None


def sh(word: object) -> str:
    """Quotes an argument for a command that is pasted into a shell; one with control characters is
    replaced by a name that nothing has."""
    from shlex import quote

    text = str(word)
    return quote(text if text.isprintable() else "(a name with control characters)")


def shell_line(*arguments: object) -> str:
    """Returns a command line of quoted arguments. Over ssh a shell parses them twice."""
    return " ".join(map(sh, arguments))


def valid_text(word: str) -> str:
    """Returns text that can be encoded: a path or a value may have bytes that are none."""
    return word.encode(errors="replace").decode()


def plain(text: str, longest: int) -> str:
    """Returns at most this many characters; one that cannot be printed becomes a question mark."""
    text = text[:longest]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def counted(count: int, thing: str) -> str:
    """Returns `1 GPU`, `2 GPUs`."""
    return f"{count} {thing}{'' if count == 1 else 's'}"


def fitting(count: int, one: str, several: str) -> str:
    """Returns the word that fits a count: `is` or `are`."""
    return one if count == 1 else several


def and_more(left: int, things: str = "") -> str:
    """Returns ` and 2 more`, or ` and 2 more users`: what follows the first of a list."""
    return f" and {left} more {things}".rstrip() if left > 0 else ""


def command_name(argv: Sequence[str]) -> str:
    """Returns the name of a command: the script's rather than its interpreter's."""
    first, *more = (word.rpartition("/")[2] for word in argv[:2])
    if first.startswith("python") and more and not argv[1].startswith("-"):
        return more[0]
    return first
