"""A command with `{n}` in place of the size."""

import re
from collections.abc import Sequence

from andon.errors import Invalid

PLACE = "{n}"


def check_template(command: Sequence[str]) -> None:
    """Invalid if the command has no place for the size."""
    if not any(PLACE in word for word in command):
        raise Invalid(
            f"the command has no {PLACE}, so every trial would be the same",
            hint="write {n} in place of the size: andon probe -- python train.py --batch {n}",
        )
    if PLACE in command[0]:
        raise Invalid(f"{PLACE} cannot be part of the program's name")


def filled(command: Sequence[str], size: int) -> list[str]:
    """The command of one trial."""
    return [word.replace(PLACE, str(size)) for word in command]


def check_pattern(option: str, text: str) -> "re.Pattern[str]":
    """A regular expression as typed; Invalid if it is none."""
    try:
        return re.compile(text)
    except re.error as exc:
        raise Invalid(
            f"{option} {text[:60]!r} is not a regular expression: {exc.msg}",
            hint=r"write ( ) [ ] . * + ? \ with a \ before them where they are meant literally",
        ) from exc


def number_of(found: "re.Match[str]") -> float | None:
    """The number in the first group, or in the whole match; None if it is not a number."""
    text = found[1] if found.re.groups else found[0]
    try:
        value = float((text or "").replace(",", ""))
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None
