"""A hub that was restarted while its database is away: it knows no token, and says so."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.integration.fleet.reporting import added
from tests.integration.serving import Served, serving
from tests.support.homes import own_folders
from tests.support.postgres import Server, server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.process

BEAT = "/api/heartbeat"


def own_folder() -> Path:
    """Where the user of PostgreSQL may enter."""
    folder = Path(tempfile.mkdtemp(prefix="andon-pg."))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def agent(folder: Path, hub: Served, token: str, name: str) -> Iterator[subprocess.Popen[bytes]]:
    more = {**own_folders(folder), "ANDON_HUB_TOKEN": token, "ANDON_NODE": name}
    with (folder.parent / f"{name}.out").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "andon.cli", "agent", "--hub", hub.url, "--simulate", "1"],
            env={**os.environ, **more}, stdout=said, stderr=said,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def andon(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "andon.cli", *words], capture_output=True, text=True, timeout=60,
        env={**os.environ, **own_folders(folder), **more}, check=False,
    )  # fmt: skip


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_good_tokens_are_not_refused_while_the_database_is_away(tmp_path: Path) -> None:
    database = Server(own_folder()).init().start()
    hub_of = (tmp_path / "hub", "--store", database.url())
    book = {"ANDON_LEASE_DIR": str(tmp_path / "book"), "ANDON_NODE": "hub"}
    try:
        with serving(*hub_of, simulate=None, **book) as hub:  # type: ignore[arg-type]
            port = hub.port
            n50, n51 = added(hub, "n50"), added(hub, "n51")
            named = andon(
                tmp_path / "cli", "token", "add", "ci", "--role", "read", "--url", hub.url,
                ANDON_TOKEN=hub.token,
            ).stdout.strip()  # fmt: skip
            assert hub.ask(BEAT, "POST", "", **bearer("x" * 43)).status == 401
        database.stop()
        with ExitStack() as stack:
            hub = stack.enter_context(serving(*hub_of, simulate=None, port=port, **book))  # type: ignore[arg-type]
            for _ in range(3):
                answer = hub.ask(BEAT, "POST", "", **bearer(n50))
                assert answer.status == 503, answer
                assert answer.headers["retry-after"] == "5"
                assert "cannot check tokens" in answer.body
            answer = hub.ask("/api/nodes", **bearer(named))
            assert (answer.status, "retry-after" in answer.headers) == (503, True)
            done = andon(tmp_path / "cli", "nodes", "--url", hub.url, ANDON_TOKEN=named)
            assert (done.returncode, "cannot check tokens" in done.stderr) == (3, True), done
            process = stack.enter_context(agent(tmp_path / "n50", hub, n50, "n50"))
            board = stack.enter_context(
                serving(
                    tmp_path / "n51",
                    "--hub",
                    hub.url,
                    ANDON_HUB_TOKEN=n51,
                    ANDON_NODE="n51",
                    ANDON_LEASE_DIR=str(tmp_path / "book51"),
                )
            )
            wait_for(lambda: "cannot check tokens" in (tmp_path / "n50.out").read_text(), 60)
            wait_for(lambda: board.ask("/api/health").json()["hub"]["reason"] is not None, 60)
            told = andon(tmp_path / "n50", "doctor", "--json", "--simulate", "1").stdout
            assert "the hub cannot check tokens now" in told
            assert process.poll() is None
            database.start_again()

            def reporting() -> set[str]:
                rows = hub.ask("/api/nodes", **bearer(named))
                found = rows.json()["nodes"] if rows.status == 200 else []
                return {row["name"] for row in found if row["state"] == "healthy"}

            wait_for(lambda: {"n50", "n51"} <= reporting(), 90)
            assert process.poll() is None
            assert hub.ask(BEAT, "POST", "", **bearer("x" * 43)).status == 401
            database.stop()
            wait_for(lambda: hub.ask(BEAT, "POST", "", **bearer("x" * 43)).status == 503, 60)
            assert hub.ask(BEAT, "POST", "", **bearer(n50)).status == 200, "it is known from before"
            assert hub.ask("/api/runs", **bearer(named)).status != 401
    finally:
        database.stop()


def test_a_refused_node_goes_on_with_the_token_that_replaces_it(tmp_path: Path) -> None:
    url = server().schema("refused")
    book = {"ANDON_LEASE_DIR": str(tmp_path / "book"), "ANDON_NODE": "hub"}
    with (
        serving(tmp_path / "hub", "--store", url, simulate=None, **book) as hub,  # type: ignore[arg-type]
        agent(tmp_path / "n52", hub, "x" * 43, "n52") as process,
    ):
        wait_for(lambda: "no node of this hub" in (tmp_path / "n52.out").read_text(), 60)
        told = andon(tmp_path / "n52", "doctor", "--json", "--simulate", "1").stdout
        assert "andon nodes add NAME prints the token of a node" in told
        pasted = andon(tmp_path / "n52", "agent", "--hub", hub.url, "--simulate", "1",
                       ANDON_HUB_TOKEN=added(hub, "n52"), ANDON_NODE="n52")  # fmt: skip
        assert pasted.returncode == 6, "one agent runs already"
        wait_for(lambda: "Heartbeat sent" in (tmp_path / "n52.out").read_text(), 60)
        assert process.poll() is None
        told = andon(tmp_path / "n52", "doctor", "--json", "--simulate", "1").stdout
        assert "no node of this hub" not in told
