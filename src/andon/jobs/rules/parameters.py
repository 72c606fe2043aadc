"""The parameters of a sweep: their values, every combination, and what each job then needs."""

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import product
from math import isfinite, prod

from msgspec.structs import replace

from andon.errors import Invalid
from andon.estimate.rules.command_line import understood
from andon.estimate.rules.options import MODEL_OPTIONS, option_named, spelled
from andon.estimate.rules.task_need import task_need
from andon.model.job.device_request import MOST_GPUS, DeviceRequest
from andon.units import MIB
from andon.work.rules.shell_text import NAMED, filled_command

Value = str | int | float | bool
Axes = Mapping[str, Sequence[Value]]
Parameters = Mapping[str, Value]
MOST_COMBINATIONS = 10_000
MOST_WITHOUT_YES = 1000
"""Jobs that are queued without --yes."""
MOST_VALUES = 10_000
LONGEST_VALUE = 200
PARALLEL = frozenset({"tp", "pp", "dp", "cp", "dcp"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", re.ASCII)
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_END = rf"(?:{_NUMBER}|[+-]?(?:nan|inf))"
_RANGE = re.compile(rf"((?:{_END})?)\.\.({_END})(?:/([^/]*))?", re.ASCII | re.IGNORECASE)
_HINT = "use lr=0.1,0.01 or seed=1..5 or lr=0.1..1.0/4 or prompt=@FILE"


def parse_parameter(text: str, read: Callable[[str], str]) -> tuple[str, tuple[Value, ...]]:
    """Parses NAME=VALUES; `read` returns the text of a file with a value on each line."""
    name, equals, given = text.partition("=")
    if not equals or not given or _NAME.fullmatch(name) is None:
        raise Invalid(f"{text[:60]!r} is not a parameter with values", hint=_HINT)
    if given.startswith("@"):
        lines = (line.rstrip("\r") for line in read(given[1:]).split("\n"))
        texts = [line for line in lines if line.strip()]
        if not texts:
            raise Invalid(f"{given[1:]} has no values", hint="write one on each line")
        return name, checked_values(name, [scalar(word) for word in texts])
    if (match := _RANGE.fullmatch(given)) is not None:
        return name, _in_range(name, given, *match.groups())
    return name, checked_values(name, [scalar(word.strip()) for word in given.split(",")])


def scalar(word: str) -> Value:
    """A number if it is written as Python writes it, so that the command gets what was typed;
    else the text."""
    for kind in (int, float):
        try:
            number = kind(word)
        except ValueError:
            continue
        return number if str(number) == word and isfinite(number) else word
    return word


def checked_values(name: str, values: Sequence[Value]) -> tuple[Value, ...]:
    """Returns the values; raises Invalid for a value that cannot be shown, for duplicates, and for
    too many."""
    if len(values) > MOST_VALUES:
        raise Invalid(f"{name} has {len(values):,} values, more than {MOST_VALUES:,}")
    seen = set[str]()
    for value in values:
        text = text_of(value)
        if not text or len(text) > LONGEST_VALUE or not text.isprintable():
            why = f"not a text of 1 to {LONGEST_VALUE} characters that can be shown"
            raise Invalid(f"{name} has a value that is {why}: {text[:40]!r}", hint=_HINT)
        if text in seen:
            raise Invalid(f"{name} has the value {text[:40]!r} twice", hint="name each value once")
        seen.add(text)
    return tuple(values)


def _in_range(name: str, text: str, first: str, last: str, count: str | None) -> tuple[Value, ...]:
    start, end = float(first or "nan"), float(last)
    if not start <= end or not isfinite(end - start):
        raise Invalid(f"{name}={text} is not a range", hint="the smaller number comes first: 1..5")
    if count is None:
        if not (isinstance(scalar(first), int) and isinstance(scalar(last), int)):
            raise Invalid(f"{name}={text}: how many values?", hint=f"write {text}/4 for 4 of them")
        if end - start >= MOST_VALUES:
            raise Invalid(f"{name}={text} has more than {MOST_VALUES:,} values")
        return tuple(range(int(start), int(end) + 1))
    steps = int(count) if re.fullmatch(r"[0-9]{1,5}", count) else 0
    if steps < 2 or start == end:
        raise Invalid(f"{name}={text} needs at least 2 values", hint="0.1..1.0/4 has 4")
    made = [scalar(f"{start + (end - start) * i / (steps - 1):.10g}") for i in range(steps)]
    return checked_values(name, made)


def text_of(value: Value) -> str:
    """Returns the value as it stands in a command."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# Combinations.


def combinations(
    axes: Axes, pairs: bool = False, sample: int | None = None, seed: int = 0
) -> list[Parameters]:
    """Every combination, the first parameter changing slowest; with `pairs` the first values
    together, then the second ones; with `sample` so many of them, the same for the same seed."""
    names, values = list(axes), list(axes.values())
    if pairs and len({len(one) for one in values}) > 1:
        counts = ", ".join(f"{name} {len(axes[name])}" for name in names)
        raise Invalid(f"--zip needs as many values of each parameter: {counts}")
    count = len(values[0]) if pairs and values else prod(len(one) for one in values)
    wanted = count if sample is None else min(sample, count)
    if wanted > MOST_COMBINATIONS or count > 100 * MOST_COMBINATIONS:
        raise Invalid(f"{count:,} combinations; at most {MOST_COMBINATIONS:,}")
    rows = zip(*values, strict=True) if pairs else product(*values)
    if wanted == count:
        return [dict(zip(names, row, strict=True)) for row in rows]
    order = sorted(range(count), key=lambda place: blake2b(b"%d %d" % (seed, place)).digest())
    chosen = set(order[:wanted])
    made = (dict(zip(names, row, strict=True)) for row in rows)
    return [one for place, one in enumerate(made) if place in chosen]


def refuse_many(count: int, agreed: bool) -> None:
    if count > MOST_WITHOUT_YES and not agreed:
        raise Invalid(f"this makes {count:,} jobs", hint="add --yes if that is meant")


def command_of(argv: Sequence[str], values: Parameters) -> tuple[str, ...]:
    """Returns the command of one job."""
    return filled_command(argv, {name: text_of(value) for name, value in values.items()})


def check_use(names: Sequence[str], argv: Sequence[str], also: Sequence[str] = ()) -> None:
    """Raises Invalid for a parameter that the command does not use, and for a `{a}` that is no
    parameter; `also` are names that are filled in later."""
    text = "\n".join(argv)
    used = set(NAMED.findall(text))
    if unknown := used.difference(names, also):
        hint = f"the parameters are: {', '.join(names)}"
        raise Invalid(f"{{{min(unknown)}}} in the command names no parameter", hint=hint)
    for name in (name for name in names if name not in used):
        raise Invalid(
            f"nothing uses the parameter {name}", hint=f"write {{{name}}} into the command"
        )


# What a job needs.


def fitted(
    request: DeviceRequest,
    argv: Sequence[str],
    values: Parameters,
    gpus: bool = True,
    memory: bool = True,
) -> DeviceRequest:
    """Returns the request of one job: a parameter that is an option of the estimator, in any
    spelling, changes how many GPUs it takes and how much memory; `gpus` and `memory` say
    whether they may be changed."""
    rows = [row for name in values if (row := option_named(name)) is not None]
    if not rows:
        return request
    given, model = _server_options(argv)
    named = next((str(v) for k, v in values.items() if spelled(k) in MODEL_OPTIONS), model)
    need = task_need({"model": named, "parameters": {**given, **values}})
    if gpus and any(row.name in PARALLEL for row in rows):
        if need.gpus > MOST_GPUS:
            raise Invalid(f"{need.gpus:,} GPUs for one job; at most {MOST_GPUS:,}")
        request = replace(request, least=need.gpus, most=need.gpus)
    if memory and named:
        request = replace(request, memory_bytes=need.memory_mib * MIB)
    return request


def _server_options(argv: Sequence[str]) -> tuple[Mapping[str, object], str]:
    try:
        found = understood(argv)
    except Invalid:
        return {}, ""
    return found.given, found.model or ""
