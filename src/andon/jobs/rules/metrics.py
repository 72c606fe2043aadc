"""Figures that a job prints: the patterns that find them, and when they say that it is hopeless."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from math import isfinite

from msgspec import Struct

from andon.errors import Invalid
from andon.units import human_seconds, parse_seconds

LONGEST_PATTERN = 500
LONGEST_LINE = 4096  # the rest of a longer line is ignored
MOST_METRICS = 50
TRIALS = tuple(one * 2000 + "!" for one in ("a", "0", " ", "1.", "a "))
"""Lines on which a pattern that backtracks without end shows itself."""
_NAME = re.compile(r"[A-Za-z_][\w./-]{0,62}", re.ASCII)
_STOP = re.compile(
    r"\s*([A-Za-z_][\w./-]{0,62})\s*(>=|<=|>|<)\s*([^\s]+)(?:\s+after\s+(.+?))?\s*", re.ASCII
)
_TESTS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip


def parse_metric(text: str) -> tuple[str, str]:
    """Parses NAME=REGEX. A REGEX that is only a group follows the NAME in the output, as in
    `loss=([\\d.]+)`, which finds `loss=0.4`, `loss: 0.4` and `loss 0.4`."""
    name, equals, pattern = text.partition("=")
    if not equals or not pattern or _NAME.fullmatch(name) is None:
        hint = r"use --metric 'loss=([\d.]+)'"
        raise Invalid(f"{text[:60]!r} is not NAME=REGEX", hint=hint)
    compiled(name, pattern)  # as it was typed: a mistake is named by its place there
    if pattern.startswith("("):
        pattern = rf"(?<![\w.-]){re.escape(name)}\s*[=:]?\s*{pattern}"
    compiled(name, pattern)
    return name, pattern


def compiled(name: str, pattern: str) -> re.Pattern[str]:
    """Returns the compiled pattern; raises Invalid if it is invalid, or has no group."""
    if len(pattern) > LONGEST_PATTERN:
        raise Invalid(f"the pattern of {name} has more than {LONGEST_PATTERN} characters")
    try:
        found = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as wrong:
        raise Invalid(f"the pattern of {name} is not a regular expression: {wrong}") from None
    if found.groups < 1:
        hint = r"put the number into parentheses: loss ([\d.]+)"
        raise Invalid(f"the pattern of {name} has no group", hint=hint)
    return found


def found_in(
    lines: Iterable[str], patterns: Mapping[str, re.Pattern[str]]
) -> list[dict[str, float]]:
    """Returns the values of each line that has any; of several in a line the last counts."""
    out = []
    for line in lines:
        values = {}
        for name, pattern in patterns.items():
            for match in pattern.finditer(line[:LONGEST_LINE]):
                try:
                    values[name] = float(match[1])
                except (ValueError, TypeError):
                    continue
        if values:
            out.append(values)
    return out


class StopRule(Struct, frozen=True):
    """When a job is hopeless: `loss>2 after 10m`."""

    name: str
    test: str
    limit: float
    after_seconds: float = 0.0

    def met_by(self, value: float, ran_seconds: float) -> bool:
        """Whether the job is to be cancelled; a value that is no number is hopeless as well."""
        if ran_seconds < self.after_seconds:
            return False
        return not isfinite(value) or _TESTS[self.test](value, self.limit)

    def reason(self, value: float) -> str:
        after = f" after {human_seconds(self.after_seconds)}" if self.after_seconds else ""
        return f"cancelled: {self.name} is {value:g}, {self.test} {self.limit:g}{after}"


def parse_stop(text: str) -> StopRule:
    match = _STOP.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        limit = float(match[3])
        after = parse_seconds(match[4]) if match[4] else 0.0
        if not isfinite(limit):
            raise ValueError
    except ValueError:
        hint = "use 'loss>2 after 10m'"
        raise Invalid(f"{text[:60]!r} does not say when to stop", hint=hint) from None
    return StopRule(match[1], match[2], limit, after)
