"""A server whose disk is full, or whose files are odd, watches on and says what is missing."""

import sqlite3
from pathlib import Path

from andon.web.transport.keys import make_token
from tests.integration.serving import Served, andon, serving
from tests.support.disks import disk as disk
from tests.support.disks import fill
from tests.support.waiting import wait_for


def test_on_a_full_disk_and_with_a_newer_index_it_serves_and_says_so(disk: Path) -> None:
    assert andon(disk, "runs").code == 0
    make_token(disk / "andon")
    [index] = disk.glob("andon/nodes/*/runs.db")
    with sqlite3.connect(index) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = index.read_bytes()
    fill(disk / "filler")
    log = disk.parent / "log"
    with (
        log.open("wb") as errors,
        serving(disk, errors=errors, ANDON_HISTORY=str(disk / "history.db")) as served,
    ):
        wait_for(lambda: _states(served) == ("degraded", "failing"))
        assert len(served.ask("/api/snapshot").json()["devices"]) == 2
        runs = served.ask("/api/runs")
        assert (runs.status, runs.json()["error"]["kind"]) == (503, "unavailable")
    said = log.read_text()
    assert "Traceback" not in said
    assert "runs are not shown: the index of runs was written by a newer andon" in said
    assert index.read_bytes() == before, "what a newer andon wrote is not touched"


def _states(served: Served) -> tuple[str, str]:
    health = served.ask("/api/health").json()
    return health["status"], health["store"]["state"]


def test_without_room_for_a_token_it_says_so_and_ends(disk: Path) -> None:
    fill(disk / "filler")
    done = andon(disk, "serve", "--simulate", "1", "--port", "0")
    assert done.code == 4
    assert done.err.startswith("andon: the token cannot be written")
    assert len(done.err.splitlines()) == 2, "the sentence and its hint"
