"""The weekly digest: sent once by real servers that start again, and shown by a command."""

import json
import sqlite3
import sys
import time
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from andon.app.alerts import open_alert_store
from andon.settings.table import Settings
from tests.integration.fleet.reporting import reporting
from tests.integration.serving import Served, andon, serving
from tests.support.postgres import server
from tests.support.waiting import wait_for

TELL = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
pytestmark = pytest.mark.timeout(300)


def configured(folder: Path, weekly: str, by: str = "mine") -> str:
    command = json.dumps([sys.executable, "-c", TELL, str(folder / "heard")])
    file = folder / "andon.toml"
    file.write_text(
        f'[alerts]\ntime_zone = "UTC"\n[history]\nstore = "sqlite://{folder / "h.db"}"\n'
        f'[reports]\nweekly = "{weekly}"\nby = ["{by}"]\n'
        f'[[alerts.notifier]]\nname = "mine"\nkind = "command"\ncommand = {command}\n'
    )
    return str(file)


def heard(folder: Path) -> list[str]:
    file = folder / "heard"
    bodies = [
        json.loads(one)["body"] for one in (file.read_text().splitlines() if file.exists() else [])
    ]
    return [one for one in bodies if "What broke:" in one]


def marked(folder: Path) -> float | None:
    """When the last digest was made, as the store has it."""
    with closing(sqlite3.connect(folder / "h.db")) as database:
        try:
            rows = database.execute("SELECT body FROM alert_state").fetchall()
        except sqlite3.OperationalError:
            return None
    found: list[float | None] = [json.loads(body)["reported"] for (body,) in rows]
    return found[0] if found else None


def test_a_digest_that_was_due_while_no_server_ran_is_sent_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state, ANDON_CONFIG=configured(tmp_path, "Mon 08:00")):
        wait_for(lambda: marked(tmp_path) is not None, what="the beginning")
    assert heard(tmp_path) == []
    began = marked(tmp_path)
    assert began is not None
    wait_for(lambda: time.time() > began + 2, what="the time of the digest")
    file = configured(tmp_path, time.strftime("%a %H:%M:%S", time.gmtime(began + 1)))
    with serving(state, ANDON_CONFIG=file) as served:
        wait_for(lambda: len(heard(tmp_path)) == 1, what="the digest")
        shown = andon(state, "who", "--digest", "--url", served.url, ANDON_CONFIG=file)
    assert shown.code == 0
    sent = marked(tmp_path)
    assert sent is not None
    assert sent > began + 1
    with serving(state, ANDON_CONFIG=file) as served:
        assert andon(state, "status", "--url", served.url, ANDON_CONFIG=file).code == 0
    assert marked(tmp_path) == sent
    (text,) = heard(tmp_path)
    assert text.splitlines()[0].startswith("SIMULATED")
    assert "What broke:" in shown.out
    assert "week to" in shown.out


def test_a_notifier_that_is_not_there_is_refused_at_the_start(tmp_path: Path) -> None:
    file = configured(tmp_path, "Mon 08:00", by="nobody")
    done = andon(tmp_path / "state", "serve", "--simulate", "1", "--port", "0", ANDON_CONFIG=file)
    assert done.code == 2
    assert "reports.by: no notifier that takes digests is named 'nobody'" in done.err
    assert "notifiers: mine" in done.err


@pytest.mark.process
def test_a_hub_sends_one_digest_of_all_its_nodes(tmp_path: Path) -> None:
    state, url = tmp_path / "state", server().schema("digest")

    def hub(weekly: str) -> AbstractContextManager[Served]:
        file = configured(tmp_path, weekly)
        return serving(
            state, "--store", url, simulate=None, ANDON_CONFIG=file, ANDON_NODE="hub",
            ANDON_LEASE_DIR=str(tmp_path / "book"),
        )  # fmt: skip

    with hub("Mon 08:00") as served, reporting(served, count=1):
        store = open_alert_store(Settings(history_store=url, node="hub"))
        wait_for(lambda: (seen := store.load()) and seen.state.get("reported"), what="the mark")
        store.close()
        began = time.time()
    wait_for(lambda: time.time() > began + 2, what="the time of the digest")
    with hub(time.strftime("%a %H:%M:%S", time.gmtime(began + 1))):
        wait_for(lambda: len(heard(tmp_path)) == 1, what="the digest")
    (text,) = heard(tmp_path)
    assert "• hub: " in text
    assert "• r0: " in text
