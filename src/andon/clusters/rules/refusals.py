"""Translates the message with which a cluster refuses into an error; each kind has its own
table."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.errors import AndonError


class Meaning(NamedTuple):
    """What a message means: an error class, its sentence and a hint."""

    error: type[AndonError]
    sentence: str
    hint: str = ""


Refusals = Mapping[tuple[str, ...], Meaning]
"""By phrases in lower case; the first one that is in the output counts."""


def refused(output: str, shown: str, table: Refusals, otherwise: Meaning) -> AndonError:
    """Returns the error for the output of a refusal; `shown` is the part that people see."""
    small = output.lower()
    known = (one for phrases, one in table.items() if any(phrase in small for phrase in phrases))
    found = next(known, otherwise)
    return found.error(f"{found.sentence}: {shown}" if shown else found.sentence, found.hint)
