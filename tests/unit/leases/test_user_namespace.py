"""Uids across user namespaces: whose they are on the machine, and who is its root."""

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from andon.host import users
from andon.leases.book import contents, places
from andon.leases.book.files import BookFile
from andon.leases.policy_file import limits_for
from andon.leases.rules.policy import policy_from
from andon.model import wire
from andon.model.codec import document
from tests.support.homes import books_at
from tests.support.replaced import constants
from tests.support.sharing_parts import ticket

NOBODY = users.overflow_uid()
POLICY = policy_from("max_gpus_per_user = 1\n[users.root]\nmax_gpus_per_user = 8\n", "p")


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A namespace with this map, in which /proc/sys belongs to this uid."""

    def enter(uid_map: str, roots: int = NOBODY) -> None:
        (tmp_path / "map").write_text(uid_map)
        constants(monkeypatch, users, _MAP=tmp_path / "map")
        monkeypatch.setattr(
            users, "os", SimpleNamespace(stat=lambda path: SimpleNamespace(st_uid=roots))
        )
        users.uid_map.cache_clear()

    yield enter
    users.uid_map.cache_clear()


@pytest.mark.parametrize(
    ("uid_map", "roots", "uid", "machines", "most"),
    [
        ("0 0 4294967295", 0, 0, 0, 8),
        ("0 0 4294967295", 0, 30001, 30001, 1),
        ("0 30001 1", NOBODY, 0, 30001, 1),  # unshare -Ur
        ("5 30001 1", NOBODY, 5, 30001, 1),  # unshare --map-user=5
        ("0 0 1", NOBODY, 0, NOBODY, 1),  # one within another
        ("5 0 1", NOBODY, 5, NOBODY, 1),
        ("0 0 1", 0, 0, 0, 8),  # made by root
        ("0 30001 1\n1 100000 65536", NOBODY, 7, 100006, 1),  # a rootless container
        ("0 30001 1", NOBODY, 9, NOBODY, 1),
    ],
)
def test_limits_go_by_the_machines_number_of_a_user(
    inside: Any, uid_map: str, roots: int, uid: int, machines: int, most: int
) -> None:
    inside(uid_map, roots)
    assert users.machine_uid(uid) == machines
    assert limits_for(POLICY, uid).max_gpus_per_user == most
    assert users.is_root(uid) is (machines == 0)


def test_the_machines_book_is_known_by_its_place_where_root_is_nobody(
    inside: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, tmp = tmp_path / "run", tmp_path / "tmp"
    for folder, mode in ((run, 0o755), (tmp, 0o1777)):
        (folder / "andon").mkdir(parents=True)
        folder.chmod(mode)
    books_at(monkeypatch, run / "andon", tmp / "andon")
    monkeypatch.setattr(places, "_owner", lambda path: NOBODY if path.is_dir() else None)
    lstat = Path.lstat

    def nobodys(path: Path) -> Any:
        facts = list(lstat(path))
        facts[4] = NOBODY
        return os.stat_result(facts)

    monkeypatch.setattr(Path, "lstat", nobodys)
    assert not places.is_set_up(), "on the machine itself nobody is another user"
    inside("0 30001 1")
    assert places.is_set_up()
    assert places.books({}) == (run / "andon", tmp / "andon"), "either may be root's"
    run.chmod(0o777)
    assert not places.is_set_up()


def test_users_whom_a_namespace_cannot_tell_apart_do_not_share_their_turns(inside: Any) -> None:
    def read(uid: int, name: str) -> int:
        text = wire.dumps(document(ticket(name, uid=uid)))
        found = contents.ticket_in(BookFile(f"{name}-1", NOBODY, True, 1.0, 1.0, 9, 9, text))
        assert found is not None
        return found.owner.uid

    assert read(30001, "a") == read(30002, "b") == NOBODY
    inside("0 30003 1")
    assert len({read(30001, "a"), read(30002, "b"), 0}) == 3
