"""One libnvidia-ml.so.1: which of several the loader uses, and its version.

It imports little: a sampler asks for the version, too.
"""

import re
from collections.abc import Iterable

from msgspec import Struct

_VERSION = re.compile(r"\.so\.(\d{2,4}\.\d+(?:\.\d+)?)$")


class Library(Struct, frozen=True):
    """A libnvidia-ml.so.1. `source` says how the loader finds it; empty if it does not."""

    path: str
    source: str = ""
    target: str = ""  # the file that the links resolve to
    size_bytes: int = 1
    fits: bool | None = None  # whether it is for this processor


def loaders_choice(libraries: Iterable[Library]) -> Library | None:
    """Returns the library that the loader uses: it skips those for another processor."""
    return next((one for one in libraries if one.source and one.fits is not False), None)


def version_of(library: Library) -> str | None:
    """Returns the version: the file name that a driver library's links resolve to contains it."""
    found = _VERSION.search(library.target or library.path)
    return found[1] if found else None
