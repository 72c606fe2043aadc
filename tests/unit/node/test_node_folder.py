"""A machine's own state: apart from other machines on the same home."""

import hashlib
from pathlib import Path

import pytest

from andon.errors import Denied
from andon.host.files import make_private
from andon.host.machine_id import node_key, node_name
from andon.host.state import server_file, user_folder
from andon.host.state.node_folder import node_folder, open_node_folder
from andon.host.state.user_folder import is_own, node_path
from andon.leases.availability import TurnMemory
from tests.support.replaced import answers

ID, OTHER = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"


@pytest.fixture
def above(state_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    state_folder.mkdir()
    on(monkeypatch, ID)
    return state_folder / "andon"


def on(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    answers(monkeypatch, user_folder, "node_key", machine[:12])


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


def test_a_folder_that_cannot_be_made_is_named(above: Path) -> None:
    make_private(node_path().parent)
    node_path().touch()
    with pytest.raises(Denied, match="cannot be created: File exists"):
        open_node_folder()
