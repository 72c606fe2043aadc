"""Labels and numbers in the exposition format."""

import re
from functools import lru_cache

from andon.errors import Invalid
from andon.settings.kinds import WORD

# Surrogates cannot be encoded, and for some readers a NUL ends the text.
_HARMFUL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
LONGEST_VALUE = 200


@lru_cache(maxsize=4096)
def label(name: str, value: str) -> str:
    """`name="value"`, escaped, whatever the value contains."""
    shown = _HARMFUL.sub("\N{REPLACEMENT CHARACTER}", value[:LONGEST_VALUE])
    return f'{name}="{shown.translate(_ESCAPES)}"'


def labels(**values: str | None) -> str:
    """Several labels; an unknown one is left out, which means the same as empty."""
    return ",".join(label(name, value) for name, value in values.items() if value)


def number(value: float) -> str | None:
    """A value as text; None if it is not a finite number."""
    if type(value) is int:  # most of them
        return str(value)
    if isinstance(value, bool):
        return str(int(value))
    if value - value != 0:  # infinite, or not a number
        return None
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))


def checked_prefix(prefix: str) -> str:
    """The prefix of every metric's name; Invalid if the format does not allow it."""
    try:
        WORD.read(prefix)
    except ValueError as exc:
        raise Invalid(f"{prefix!r} is not a valid metric prefix", hint=WORD.words) from exc
    return prefix
