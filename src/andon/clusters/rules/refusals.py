"""What the words mean with which a cluster refuses: each kind has a table of its own."""

from collections.abc import Mapping
from typing import NamedTuple

from andon.errors import AndonError


class Meaning(NamedTuple):
    """An error of andon's, its sentence, and what would help."""

    error: type[AndonError]
    sentence: str
    hint: str = ""


Refusals = Mapping[tuple[str, ...], Meaning]
"""By phrases in small letters; the first that is in the cluster's words counts."""


def refused(said: str, words: str, table: Refusals, otherwise: Meaning) -> AndonError:
    """Returns the error for all that a cluster said; `words` are those that are shown."""
    small = said.lower()
    known = (one for phrases, one in table.items() if any(phrase in small for phrase in phrases))
    found = next(known, otherwise)
    return found.error(f"{found.sentence}: {words}" if words else found.sentence, found.hint)
