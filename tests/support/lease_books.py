"""A lease book of a test's own."""

from pathlib import Path

import pytest

from andon.leases import places
from andon.leases.book import Book


def a_book(path: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    monkeypatch.setenv("HOME", "/nonexistent")
    for name in ("SYSTEM_BOOK", "COMMON_BOOK"):
        monkeypatch.setattr(places, name, Path("/nonexistent/andon"))
    monkeypatch.setenv("ANDON_LEASE_DIR", str(path))
    return Book()
