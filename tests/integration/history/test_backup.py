"""Backup and restore as docs/admin.md types them, while a server writes its history."""

import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from tests.conftest import REPOSITORY, need
from tests.integration.serving import Served, serving
from tests.standin import StandIn
from tests.support.waiting import wait_for

PAGE = (REPOSITORY / "docs/admin.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("To copy the history while the server runs")[2].partition("\n## ")[0]
BACKUP, STOP, RESTORE, START = re.findall(r"^    sudo (.*)$", SECTION, re.MULTILINE)


def here(command: str, folder: Path) -> str:
    """A command of the page with this test's places."""
    found = command.replace("/var/lib/andon", f"{folder}/andon").replace("/root", str(folder))
    assert found != command
    return found


def run(command: str) -> None:
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def ticks(database: Path) -> list[int]:
    """When each row of readings was taken; also that the file is whole."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as opened:
        assert opened.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [at for (at,) in opened.execute("SELECT DISTINCT at FROM head ORDER BY at")]


def has_ticks(database: Path) -> bool:
    try:
        return bool(ticks(database))
    except sqlite3.OperationalError:  # it is being made
        return False


def history_of(server: Served) -> Path:
    return next((server.state / "andon/nodes").iterdir()) / "history.db"


def test_what_was_copied_while_it_was_written_is_there_again(tmp_path: Path, node: StandIn) -> None:
    need("sqlite3")
    assert (STOP, START) == ("systemctl stop andon", "systemctl start andon")
    with serving(tmp_path, simulate=None, ANDON_INTERVAL="0.1", ANDON_HISTORY_FLUSH="1") as server:
        live = history_of(server)
        wait_for(lambda: has_ticks(live))
        before = ticks(live)
        run(here(BACKUP, tmp_path))
        copied = ticks(tmp_path / "history.db")
        assert copied[: len(before)] == before
        wait_for(lambda: ticks(live)[-1] > copied[-1])  # the server goes on writing
    live.write_bytes(b"a damaged disk" * 1000)  # and its -wal, if there is one, is of another file
    run(here(RESTORE, tmp_path))
    assert live.stat().st_mode & 0o777 == 0o600
    assert ticks(live) == copied
    with serving(tmp_path, simulate=None, ANDON_INTERVAL="0.1", ANDON_HISTORY_FLUSH="1") as server:
        wait_for(lambda: ticks(live)[-1] > copied[-1])
        health = server.ask("/api/health", **server.bearer).json()
        assert health["store"]["state"] == "ok"
