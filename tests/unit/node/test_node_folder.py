"""A machine's own state: apart from other machines on the same home, and moved there once."""

import hashlib
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from andon.app import store_files
from andon.errors import Conflict, Denied
from andon.host.files import make_private
from andon.host.machine_id import node_key, node_name
from andon.host.processes.kin import here
from andon.host.state import server_file, user_folder
from andon.host.state.node_folder import (
    _draft,
    _earlier,
    node_folder,
    node_path,
    open_node_folder,
)
from andon.host.state.user_folder import is_own, own_token
from andon.leases.availability import TurnMemory
from andon.settings.resolution import Settings
from andon.stores.sqlite import SqliteStore
from tests.support.replaced import answers

BEFORE = Path(__file__).parents[2] / "recorded" / "state-de9bf9b" / "state.tar.gz"
"""Made by that commit: a server of two devices, killed; the history is still in its log."""
MOVED = {"audit.jsonl", "history.db", "history.db-shm", "history.db-wal", "server.json",
         "turns.json"}  # fmt: skip
ID, OTHER = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"


@pytest.fixture
def above(state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state_folder.mkdir()
    on(monkeypatch, ID)
    return state_folder / "andon"


@pytest.fixture
def earlier(above: Path) -> Path:
    """The state folder of the commit before; root unpacks it as its own."""
    with tarfile.open(BEFORE) as packed:
        packed.extractall(above.parent, filter="data")
    for path in (above, *above.iterdir()):
        os.chown(path, os.getuid(), os.getgid())
        path.chmod(0o700 if path.is_dir() else 0o600)
    return above


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def on(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    answers(monkeypatch, user_folder, "node_key", machine[:12])


def recorded(path: Path) -> int:
    store = SqliteStore(path, readonly=True)
    found = store.devices()
    store.close()
    return len(found)


# Which machine.


@pytest.mark.parametrize(
    ("files", "key"),
    [
        ({"etc/machine-id": ID}, ID[:12]),
        ({"etc/machine-id": ID, "var/lib/dbus/machine-id": OTHER}, ID[:12]),
        ({"var/lib/dbus/machine-id": OTHER}, OTHER[:12]),
        ({"etc/machine-id": "uninitialized", "var/lib/dbus/machine-id": OTHER}, OTHER[:12]),
        ({"etc/machine-id": "", "var/lib/dbus/machine-id": OTHER}, OTHER[:12]),
        ({"etc/machine-id": "../../../../etc"}, None),
        ({"etc/machine-id": "0" * 32}, None),
        ({"etc/machine-id": ID + "0"}, None),
        ({}, None),
    ],
)
def test_a_machine_is_known_by_its_id_and_else_by_its_name(
    files: dict[str, str], key: str | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    by_name = hashlib.sha256(node_name().encode()).hexdigest()[:12]
    assert node_key(tmp_path) == key or (key is None and node_key(tmp_path) == by_name)


# Two machines.


def test_two_machines_on_one_home_keep_apart(above: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_node_folder()
    server_file.announce(first, "http://127.0.0.1:1", "127.0.0.1")
    with server_file.sole_server(first):
        on(monkeypatch, OTHER)
        second = open_node_folder()
        with server_file.sole_server(second):
            assert server_file.find(node_path()) is None
            server_file.announce(second, "http://127.0.0.1:2", "127.0.0.1")
    assert server_file.find(first) == "http://127.0.0.1:1"
    assert server_file.find(second) == "http://127.0.0.1:2"
    assert first.parent == second.parent == above / "nodes"
    for folder in (first, second, first.parent, above):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_finding_a_server_creates_nothing(above: Path) -> None:
    assert server_file.find(node_path()) is None
    assert node_folder() == node_path()
    assert TurnMemory().read() == {}
    assert not above.exists()


def test_a_folder_whose_parent_others_can_write_is_not_used(above: Path) -> None:
    folder = open_node_folder()
    assert is_own(folder)
    above.chmod(0o770)
    assert not is_own(folder)
    with pytest.raises(Denied):
        open_node_folder()


# Moved from the old place.


def test_the_state_of_the_commit_before_is_moved_once(earlier: Path) -> None:
    history = store_files(Settings())["history"]
    folder = open_node_folder()
    assert history == folder / "history.db"
    assert names(folder) == MOVED
    assert names(earlier) == {"token", "nodes"}
    assert recorded(history) == 2
    assert own_token(earlier)
    assert json.loads((folder / "turns.json").read_text())["users"].keys() == {"1001"}
    assert names(folder.parent) == {folder.name, ".lock"}


def test_what_a_person_owns_stays(earlier: Path) -> None:
    (earlier / "runs").mkdir()
    (earlier / "history.db.corrupt-20260101T000000Z").touch()
    folder = open_node_folder()
    assert names(earlier) == {"token", "runs", "nodes"}
    assert names(folder) == MOVED | {"history.db.corrupt-20260101T000000Z"}


def draft() -> Path:
    return _draft(node_path())


def interrupted(above: Path, moved: int) -> None:
    """What a kill leaves after so many files were moved: the folder has no name yet."""
    assert _earlier(above) == sorted(MOVED)
    make_private(draft().parent)
    make_private(draft())
    for name in sorted(MOVED)[:moved]:
        (above / name).rename(draft() / name)
    if moved == len(MOVED):
        (above / server_file.LOCK).unlink()


@pytest.mark.parametrize("survived", range(len(MOVED) + 1))
def test_a_move_that_is_interrupted_is_continued(earlier: Path, survived: int) -> None:
    interrupted(earlier, survived)
    assert recorded(store_files(Settings())["history"]) == 2
    assert names(node_path()) == MOVED
    assert names(earlier) == {"token", "nodes"}


def test_a_history_that_an_earlier_andon_began_meanwhile_is_not_mixed_in(earlier: Path) -> None:
    """Killed after the database; then the earlier andon ran again."""
    interrupted(earlier, sorted(MOVED).index("history.db-shm"))
    newer = earlier / "history.db"
    (earlier / "history.db-wal").unlink()
    (earlier / "history.db-shm").unlink()
    with closing(sqlite3.connect(newer)) as connection:
        connection.executescript("PRAGMA journal_mode = WAL; CREATE TABLE newer (x);")
        connection.commit()
        folder = open_node_folder()
        assert newer.exists()
        assert {"history.db-wal", "history.db-shm"} <= names(earlier)
        assert not {"history.db-wal", "history.db-shm"} & names(folder)


def test_a_folder_that_exists_is_never_filled_again(earlier: Path) -> None:
    path = node_path()
    path.mkdir(parents=True, mode=0o700)
    for made in (path.parent, path):
        made.chmod(0o700)
    (path / "history.db").write_text("mine")
    assert open_node_folder() == node_folder() == path
    assert names(path) == {"history.db"}
    assert (path / "history.db").read_text() == "mine"
    assert names(earlier) >= MOVED


@pytest.mark.parametrize("use", [open_node_folder, lambda: store_files(Settings())["history"]])
def test_while_a_server_of_the_earlier_andon_runs_nothing_is_moved(
    earlier: Path, use: Callable[[], Path]
) -> None:
    said = json.loads((earlier / server_file.NAME).read_text())
    (earlier / server_file.NAME).write_text(json.dumps({**said, "boot": here().boot}))
    with server_file.sole_server(earlier):
        with pytest.raises(Conflict, match=f"pid {os.getpid()}"):
            use()
        server_file.announce(earlier, "http://127.0.0.1:5", "127.0.0.1")
        with pytest.raises(Conflict, match=r"http://127\.0\.0\.1:5") as refused:
            use()
        assert "start it again" in refused.value.hint
        TurnMemory().write({1: 1.0})
        assert not node_path().exists()
        assert names(earlier) >= MOVED
    server_file.withdraw(earlier)
    assert use().exists()


def test_a_server_of_another_machine_keeps_its_files(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = json.loads((earlier / "server.json").read_text())
    (earlier / "server.json").write_text(json.dumps({**said, "boot": "another", "node": "n2"}))
    with server_file.sole_server(earlier):
        folder = open_node_folder()
        assert names(folder) == set()
        assert names(earlier) >= MOVED
    on(monkeypatch, OTHER)
    assert names(open_node_folder()) == MOVED


def test_a_folder_that_cannot_be_filled_is_told(earlier: Path) -> None:
    make_private(node_path().parent)
    draft().touch()
    with pytest.raises(Denied, match="cannot be created: File exists"):
        open_node_folder()
    assert names(earlier) >= MOVED
