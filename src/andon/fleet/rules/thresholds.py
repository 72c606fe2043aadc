"""The thresholds of a node as it reports them: only what its settings change."""

from collections.abc import Sequence

from msgspec.structs import replace

from andon.explain.conditions.index import FIGURES
from andon.explain.conditions.rulebook import Override, Rulebook, thresholds


def changes_of(book: Rulebook) -> list[Override]:
    """Returns what the settings change for all devices, and for some of them."""
    known = book.thresholds.as_dict().items()
    figures = {name: value for name, value in known if value != FIGURES.get(name)}
    return [Override(figures=figures, off=book.thresholds.off), *book.overrides]


def rulebook_with(changes: Sequence[Override]) -> Rulebook:
    """Returns the thresholds with these changes, ignoring those that this version does not know."""
    known = [
        replace(one, figures={name: one.figures[name] for name in one.figures.keys() & FIGURES})
        for one in changes
    ]
    return Rulebook(thresholds(known[0].off, **known[0].figures), known[1:])
