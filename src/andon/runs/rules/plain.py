"""What a program logs about its run, as JSON that any reader accepts."""

import math
from collections.abc import Callable, Mapping
from itertools import islice
from numbers import Integral, Real
from typing import Any

from andon.model.codec import NAME
from andon.model.redaction import HIDDEN, is_secret_name
from andon.model.run.record import RunState
from andon.runs.rules.oom import complaint
from andon.units import printable

LONGEST_TEXT = 2000
MOST_ENTRIES = 200
MOST_NUMBERS = 2000  # of one call: more than a run's names, so that those beyond are refused
DEEPEST = 4
MOST_LETTERS = 500_000  # of a whole table: a line of a record has its bound too
NUMBER_LETTERS = 8


def plain_table(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, bounded in depth and size; a value whose name suggests a secret is hidden."""
    found = plain_value(values, -1, [MOST_LETTERS])
    return found if isinstance(found, dict) else {}


def plain_value(value: Any, depth: int, room: list[int]) -> Any:
    """Returns numbers, strings, lists and tables as they are, everything else as text. `room` is
    how many characters are left for all."""
    try:
        found = _plain_value(value, depth, room)
    except Exception:  # noqa: BLE001 - the program's own class
        found = plain_text(value)
    room[0] -= len(found) if isinstance(found, str) else NUMBER_LETTERS
    return found


def _plain_value(value: Any, depth: int, room: list[int]) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):  # of a class of its own too, which no encoder takes: numpy's
        return whole if abs(whole := int(value)) < 2**63 else plain_text(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping) and depth < DEEPEST:
        return _table(value, depth + 1, room)
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return [plain_value(one, depth + 1, room) for one in first(value) if room[0] > 0]
    return plain_text(value)


def _table(values: Mapping[Any, Any], depth: int, room: list[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for given, value in first(values.items()):
        if room[0] > 0:
            name = plain_text(given)
            room[0] -= len(name)
            found[name] = HIDDEN if is_secret_name(name) else plain_value(value, depth, room)
    return found


def plain_text(value: Any, longest: int = LONGEST_TEXT, shown: Callable[[Any], str] = str) -> str:
    """Returns one line that any file and terminal can show."""
    try:
        text = shown(value)
    except Exception:  # noqa: BLE001 - the program's own class, or a number with too many digits
        text = f"{type(value).__name__} without a text"
    return printable(text)[:longest]


def first(values: Any) -> list[Any]:
    return list(islice(values, MOST_ENTRIES))


def plain_numbers(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns the finite numbers, and other values as text: a loss of NaN should be shown too.

    A tensor with one element counts as its number.
    """
    numbers: dict[str, float] = {}
    others: dict[str, str] = {}
    for given, value in islice(values.items(), MOST_NUMBERS):
        name = plain_text(given, NAME)
        try:
            number = float(value)
        except Exception:  # noqa: BLE001 - the program's own class
            others[name] = plain_text(value)
            continue
        if math.isfinite(number):
            numbers[name] = number
        else:
            others[name] = str(number)
    return numbers, others


# How a part of a program ended, from the error that left it.

LONGEST_MESSAGE = 500
TERMINATED = ("StoppedBySigterm", "SIGTERMException")  # ours and Lightning's


def ending_of(error: BaseException | None, printed: str) -> tuple[RunState, int | None, str | None]:
    """Returns state, exit code and message; `printed` is the error as Python prints it."""
    if error is None:
        return RunState.SUCCEEDED, None, None
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        return (RunState.FAILED if code else RunState.SUCCEEDED), code, None
    if isinstance(error, KeyboardInterrupt):
        return RunState.STOPPED, None, "interrupted"
    if isinstance(error, GeneratorExit):
        return RunState.STOPPED, None, "left early"
    if type(error).__name__ in TERMINATED:
        return RunState.STOPPED, None, "stopped by SIGTERM"
    if complaint(printed) is not None:
        return RunState.DEVICE_OUT_OF_MEMORY, None, plain_text(printed.strip(), LONGEST_MESSAGE)
    if isinstance(error, MemoryError):
        return RunState.HOST_OUT_OF_MEMORY, None, "out of host memory"
    return RunState.FAILED, None, plain_text(printed.strip(), LONGEST_MESSAGE)
