"""Homes of tests: their state folder and lease book, and where state lies in it."""

from pathlib import Path

import pytest

from andon.host.machine_id import node_key
from andon.leases.book import places

NOWHERE = Path("/nonexistent/andon")


def own_folders(folder: Path) -> dict[str, str]:
    """The variables that name a state folder and a lease book in this folder."""
    return {
        "XDG_STATE_HOME": str(folder / "state"),
        "ANDON_LEASE_DIR": str(folder / "book"),
    }


def no_other_book(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process no lease book exists but the one that the environment names. A grant locks
    this machine's books as well, where it has any: a test that stops whoever has a lock, or has
    many wait for one, would hold up the tests beside it."""
    monkeypatch.setenv("HOME", "/nonexistent")
    books_at(monkeypatch, NOWHERE, NOWHERE)


def books_at(monkeypatch: pytest.MonkeyPatch, system: Path, common: Path) -> None:
    """Where the books of this machine would be."""
    for name, path in (("SYSTEM_BOOK", system), ("COMMON_BOOK", common)):
        monkeypatch.setattr(places, name, path)


def node_state(state: Path) -> Path:
    """This machine's folder in a state home, whether it exists or not."""
    return state / "andon" / "nodes" / node_key()


def made_node_state(state: Path) -> Path:
    """The same folder, made as andon makes it."""
    folder = node_state(state)
    for one in (folder.parent.parent, folder.parent, folder):
        one.mkdir(0o700, exist_ok=True, parents=True)
        one.chmod(0o700)
    return folder
