"""A hub that is killed while its node has something to tell: the node tells it, and nobody else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.serving import serving
from tests.support.homes import own_folders
from tests.support.postgres import server
from tests.support.receiving import notifying, receiving, status
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.process, pytest.mark.long]


def test_each_trouble_is_told_by_one_of_both(tmp_path: Path) -> None:
    url = server().schema("away")
    book = {"ANDON_LEASE_DIR": str(tmp_path / "book"), "ANDON_NODE": "hub"}
    with receiving(status(200)) as people:
        config = notifying(tmp_path, "hub", people)
        hub_of = (tmp_path / "hub", "--store", url, "--config", config)
        with serving(*hub_of, simulate=None, **book) as hub:  # type: ignore[arg-type]
            port = hub.port
            made = hub.ask(
                "/api/nodes", "POST", '{"name": "n40"}', Content_Type="application/json",
                **hub.bearer,
            ).json()  # fmt: skip
            more = {**own_folders(tmp_path / "n40"), "ANDON_HUB_TOKEN": made["token"],
                    "ANDON_NODE": "n40", "ANDON_SIMULATE_FAULTS": "lost:0@1,lost:1@60"}  # fmt: skip
            agent = subprocess.Popen(
                [sys.executable, "-m", "andon.cli", "agent", "--hub", hub.url, "--simulate", "2",
                 "--quiet", "--config", notifying(tmp_path, "node", people)],
                env={**os.environ, **more},
            )  # fmt: skip
            wait_for(lambda: people.got, 90)
            # One that is killed before it has noted that a notice was sent sends it again.
            wait_for(lambda: server().sql("SELECT * FROM outbox", url) == [], 60)
            hub.process.kill()
        try:
            wait_for(lambda: len(people.got) > 1, 180)
            with serving(*hub_of, simulate=None, port=port, **book) as hub:  # type: ignore[arg-type]

                def is_back() -> bool:
                    rows = hub.ask("/api/nodes", **hub.bearer).json()["nodes"]
                    return any(row["name"] == "n40" and row["state"] == "sick" for row in rows)

                wait_for(is_back, 90)
                wait_for(lambda: server().sql("SELECT count(*) FROM news", url) == [(0,)], 60)
        finally:
            agent.terminate()
            agent.wait(30)
        told = [(one.path, b"GPU 0" in one.body, b"GPU 1" in one.body) for one in people.got]
        assert told == [("/hub", True, False), ("/node", False, True)]
