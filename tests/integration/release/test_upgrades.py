"""What a release left on a disk is read by later ones; two versions share it; older ones refuse it.

`make freeze` wrote tests/fixtures/released with each release's own commands. That a migration which
is killed goes on is shown by tests/unit/stores/test_migrations.py.
"""

import fcntl
import hashlib
import json
import os
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from dev.release import freeze, freeze_hub, freezing

from tests.conftest import REPOSITORY
from tests.support.archives import unpack
from tests.support.homes import node_state
from tests.support.replaced import constants
from tests.support.waiting import wait_for
from tests.support.wall_clock import WallClock

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what was left is root's")
RELEASED = sorted(freeze.FIXTURES.iterdir())


class Left:
    """What a release left, unpacked as if this machine had run it, when it was left."""

    def __init__(self, fixture: Path, folder: Path) -> None:
        self.facts = json.loads((fixture / "seen.json").read_text(encoding="utf-8"))
        with tarfile.open(fixture / "left.tar.xz") as opened:
            unpack(opened, folder, "fully_trusted")
        self.state = node_state(folder / "state")
        for part in ("state", "hub", "agent"):
            (folder / part / "andon/nodes" / self.facts["node"]).rename(node_state(folder / part))
        self._locks = [held(path) for path in folder.glob("book/leases/*") if path.is_file()]
        clock = WallClock(folder)
        clock.step(int(self.facts["at"] - time.time()))
        self.env = {**freezing.environment(), **clock.environment}

    def seen(self) -> dict[str, Any]:
        return freeze.seen(self.facts["at"], self.env)

    def expected(self) -> dict[str, Any]:
        """What the release itself saw; the records of runs lie elsewhere here."""
        text = json.dumps(self.facts["seen"])
        here = f'"path": "{freezing.FOLDER}/'
        return dict(json.loads(text.replace('"path": "/tmp/andon-released/', here)))

    def close(self) -> None:
        for descriptor in self._locks:
            os.close(descriptor)


def held(path: Path) -> int:
    """Locks the file of a lease, as the process of the release did that held it."""
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


@pytest.fixture(params=RELEASED, ids=lambda path: path.name)
def left(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Left]:
    constants(monkeypatch, freezing, FOLDER=tmp_path)
    with closing(Left(request.param, tmp_path)) as unpacked:
        yield unpacked
    freezing.andon("jobs", "pause", code=None)


@pytest.fixture
def newer(tmp_path: Path) -> str:
    """This andon as if it were a later version."""
    source = tmp_path / "newer"
    shutil.copytree(
        REPOSITORY / "src/andon", source / "andon", ignore=shutil.ignore_patterns("static")
    )
    (source / "andon/version.py").write_text('"""Later."""\n\n__version__ = "9.0.0"\n')
    return str(source)


def lacking(old: Any, new: Any, place: str = "") -> list[str]:
    """Where something that was there is gone or other; what a later version adds is no matter."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            found
            for name, value in old.items()
            for found in lacking(value, new.get(name, "gone"), f"{place}/{name}")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [found for n, pair in pairs for found in lacking(*pair, f"{place}/{n}")]
    return [] if old == new else [f"{place}: {old!r:.200} became {new!r:.200}"]


def digests(folder: Path) -> dict[str, str]:
    """The files of a folder; a database's shared memory and empty log are not content."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
        and not path.name.endswith(("-shm", ".lock"))
        and (path.stat().st_size or not path.name.endswith("-wal"))
    }


def test_the_comparison_notices_what_is_gone_or_other() -> None:
    old = {"runs": [{"id": "a", "began": 1.0}], "gone": 1}
    new = {"runs": [{"id": "a", "began": 2.0, "more": 1}]}
    assert lacking(old, new) == ["/runs/0/began: 1.0 became 2.0", "/gone: 1 became 'gone'"]
    assert lacking(old, {**old, "more": 1}) == []


def test_the_newest_code_finds_what_a_release_left(left: Left) -> None:
    assert lacking(left.expected(), left.seen()) == []
    assert freeze.spooled() == left.facts["spooled"]


def test_a_server_goes_on_with_what_a_release_left(left: Left) -> None:
    """Sessions stay signed in, alerts go on, and what waits to be sent still waits."""
    with freezing.served({**left.env, **freezing.with_gpus()}) as address:
        session = freezing.asked(address, "/api/session", left.facts["secret"])
        assert (session["user"], session["role"]) == ("root", "owner")
        assert freezing.asked(address, "/api/session")["role"] != "owner"

        def lost() -> list[str]:
            now = freeze.firing(address, left.facts["secret"])
            return lacking(left.facts["alerts"], now)

        wait_for(lambda: lost() == [], 60.0)
        assert freeze.spooled() >= left.facts["spooled"]
    assert lacking(left.expected()["history"], left.seen()["history"]) == []


def test_a_hub_goes_on_with_the_database_that_a_release_left(left: Left) -> None:
    """Its node is known as it was, and reports with the token that it got then."""
    url = freeze_hub.new_database(f"of_{left.facts['version'].replace('.', '_')}")
    freeze_hub.restore(url)
    clock = {name: left.env[name] for name in WallClock.VARIABLES}
    then = left.facts["database"]
    with freeze_hub.hub(url, clock) as address:
        owner = freeze_hub.token("hub")
        assert lacking(left.facts["hub"], freeze_hub.node(address, owner)) == []
        assert lacking(then["history"], freeze_hub.history(url, then["at"], clock)) == []
        with freeze_hub.agent(address, ANDON_HUB_TOKEN="", **clock):
            wait_for(lambda: freeze_hub.state(address, owner) in ("healthy", "sick"), 60.0)


def test_two_versions_share_a_book_and_a_folder_of_jobs(
    left: Left, newer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dispatcher is the older one's; each version sees the other's leases and jobs."""
    gate = freezing.FOLDER / "gate"
    os.mkfifo(gate)
    waits = ("submit", *freezing.LAB, "-d", "1", "--name", "older", "--", "cat", str(gate))
    freezing.andon("uncordon", *freezing.LAB, "1", env=left.env)
    freezing.andon("jobs", "rm", "3", env=left.env, code=None)
    freezing.andon("cancel", "3", env=left.env, code=None)
    freezing.andon(*waits, env=left.env)
    freezing.andon("jobs", "start", env=left.env)

    def states() -> dict[str, str]:
        found = json.loads(freezing.andon("jobs", "--json", env=left.env))["jobs"]
        return {one["name"]: one["state"] for one in found}

    wait_for(lambda: states()["older"] == "running", 60.0)
    monkeypatch.setenv("ANDON_UPGRADED", newer)
    assert freezing.andon("--version", env=left.env).strip() == "andon 9.0.0"
    assert states()["older"] == "running"
    taken = ("run", *freezing.LAB, "-q", "-d", "1", "--no-wait", "--", "true")
    assert freezing.andon(*taken, env=left.env, code=125) == ""
    freezing.andon(
        "submit", *freezing.LAB, "--name", "newer", "--after", "4", "--", "true", env=left.env
    )
    monkeypatch.delenv("ANDON_UPGRADED")
    assert states()["newer"] == "waiting"
    gate.write_text("go on\n")
    wait_for(lambda: states()["newer"] == "succeeded", 60.0)
    assert states()["older"] == "succeeded"


@pytest.mark.parametrize(
    ("file", "words"),
    [("history.db", ("history", "--json")), ("runs.db", ("runs", "--json"))],
)
def test_a_database_of_a_newer_version_is_refused_and_stays_as_it_is(
    left: Left, file: str, words: tuple[str, ...]
) -> None:
    import sqlite3

    connection = sqlite3.connect(left.state / file)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.execute(f"PRAGMA user_version = {version + 1}")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = digests(left.state)
    command = freezing.started(*words, env=left.env)
    assert command.returncode != 0
    assert "was written by a newer andon" in command.stderr
    assert "upgrade andon" in command.stderr
    assert digests(left.state) == before


@pytest.mark.parametrize(
    ("pattern", "words", "noticed"),
    [
        ("state/**/jobs/1/job.json", ("jobs", "--json"), "jobs"),
        ("state/andon/runs/first*", ("runs", "--json"), "runs"),
        ("book/reservations/*", ("reservations", "--json"), "reservations"),
    ],
)
def test_a_file_of_a_newer_version_is_not_taken_for_an_old_one(
    left: Left, pattern: str, words: tuple[str, ...], noticed: str
) -> None:
    """Whoever reads it says so, or leaves it out; nobody changes it."""
    (path,) = freezing.FOLDER.glob(pattern)
    (left.state / "runs.db").unlink()  # an index, which is made again
    text = path.read_text(encoding="utf-8")
    schema = next(
        part for part in ("andon.job/1", "andon.run/1", "andon.reservation/1") if part in text
    )
    path.write_text(text.replace(schema, f"{schema[:-1]}99", 1), encoding="utf-8")
    before = path.read_bytes()
    told = freezing.started(*words, env=left.env)
    listed = json.loads(told.stdout)[noticed]
    assert len(listed) == len(left.expected()[noticed][noticed]) - 1 or "newer" in told.stderr
    assert path.read_bytes() == before
