"""What a program logs about its run, as JSON that any reader accepts."""

import math
from collections.abc import Mapping
from typing import Any

from andon.model.redaction import HIDDEN, is_secret_name, printable
from andon.model.run.record import RunState
from andon.runs.rules.oom import complaint

LONGEST_TEXT = 2000
MOST_ENTRIES = 200
DEEPEST = 4


def plain_table(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, bounded in depth and size; a value whose name suggests a secret is hidden."""
    return _table(values, 0)


def plain_value(value: Any, depth: int = 0) -> Any:
    """Returns numbers, strings, lists and tables as they are; everything else as its text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else plain_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping) and depth < DEEPEST:
        return _table(value, depth + 1)
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return [plain_value(one, depth + 1) for one in first(value)]
    return plain_text(value)


def _table(values: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    return {
        plain_text(name): HIDDEN if is_secret_name(str(name)) else plain_value(value, depth)
        for name, value in first(values.items())
    }


def plain_text(value: Any, longest: int = LONGEST_TEXT) -> str:
    """Returns one line that any file and terminal can show."""
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - the program's own class, or a number with too many digits
        text = f"{type(value).__name__} without a text"
    return printable(text)[:longest]


def first(values: Any) -> list[Any]:
    return list(values)[:MOST_ENTRIES]


def plain_numbers(values: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns the finite numbers, and other values as text: a loss that is NaN is worth a line
    too.

    A tensor with one element counts as its number.
    """
    numbers: dict[str, float] = {}
    others: dict[str, str] = {}
    for name, value in first(values.items()):
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            others[plain_text(name)] = plain_text(value)
            continue
        if math.isfinite(number):
            numbers[plain_text(name)] = number
        else:
            others[plain_text(name)] = str(number)
    return numbers, others


# How a part of a program ended, from the error that left it.

LONGEST_MESSAGE = 500
TERMINATED = ("StoppedBySigterm", "SIGTERMException")  # ours and Lightning's


def ending_of(error: BaseException | None, said: str) -> tuple[RunState, int | None, str | None]:
    """Returns state, exit code and message; `said` is the error as Python prints it."""
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
    if complaint(said) is not None:
        return RunState.DEVICE_OUT_OF_MEMORY, None, plain_text(said.strip(), LONGEST_MESSAGE)
    if isinstance(error, MemoryError):
        return RunState.HOST_OUT_OF_MEMORY, None, "out of host memory"
    return RunState.FAILED, None, plain_text(said.strip(), LONGEST_MESSAGE)
