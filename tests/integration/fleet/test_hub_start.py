"""What a hub needs to start and to be believed: a database, a certificate, and to be a hub."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from andon.errors import Invalid, Unavailable
from andon.fleet.link import HubLink
from andon.settings.store_url import parse_store_url
from andon.stores.postgres_kind import PostgresKind
from tests.integration.serving import andon, make_certificate, serving
from tests.support.homes import own_folders
from tests.support.postgres import server
from tests.support.waiting import wait_for

pytestmark = pytest.mark.process


def test_what_cannot_start_says_why_in_one_line(tmp_path: Path) -> None:
    database = server()
    newer = database.schema("newer")
    PostgresKind.open_nodes(parse_store_url(newer)).close()
    database.sql("INSERT INTO andon_schema VALUES (999)", newer)
    for command, words in (
        (("hub", "--port", "0", "--store", newer), "was written by a newer andon (format 999"),
        (("agent", "--hub", "http://"), "http://"),
        (("nodes", "--url", "http://"), "http://"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "andon.cli", *command],
            capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, **own_folders(tmp_path)},
        )  # fmt: skip
        assert done.returncode in (2, 3, 4)
        assert words in done.stderr, done.stderr
        assert len(done.stderr.splitlines()) <= 2, "a sentence and a hint"


def test_a_hub_with_a_certificate_of_its_own_is_pinned(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    book = own_folders(tmp_path / "tls")["ANDON_LEASE_DIR"]
    with serving(
        tmp_path / "tls", "--store", server().schema("tls"), "--tls-cert", str(certificate),
        "--tls-key", str(key), simulate=None, ANDON_LEASE_DIR=book, ANDON_NODE="tls",
    ) as hub:  # fmt: skip
        done = andon(
            tmp_path / "tls", "nodes", "add", "n30", "--url", hub.url,
            SSL_CERT_FILE=str(certificate),
        )  # fmt: skip
        assert done.code == 0, done.err
        token, pin, *command = done.out.split()
        assert command == ["andon", "agent", "--hub", hub.url]
        secret, pinned = token.partition("=")[2], pin.partition("=")[2]
        link = HubLink(hub.url, secret, pin=pinned)
        assert link.send("/api/heartbeat", b"")["drained"] is False
        link.close()
        with pytest.raises(Unavailable, match="another certificate"):
            HubLink(hub.url, secret, pin="sha256:" + "0" * 64).send("/api/heartbeat", b"")
        with pytest.raises(Unavailable, match="certificate is refused: self-signed"):
            HubLink(hub.url, secret).send("/api/heartbeat", b"")


def test_a_run_on_one_hubs_machine_is_listed_by_the_other(tmp_path: Path) -> None:
    url, book = server().schema("tworuns"), str(tmp_path / "book")
    with serving(tmp_path / "a", "--store", url, ANDON_NODE="hub-a", ANDON_LEASE_DIR=book):
        command = ("run", "--simulate", "2", "--gpus", "1", "--name", "sweep 3", "--", "true")
        done = andon(tmp_path / "a", *command, ANDON_NODE="hub-a", ANDON_LEASE_DIR=book)
        assert done.code == 0, done.err
        with serving(tmp_path / "b", "--store", url, simulate=None, ANDON_NODE="hub-b") as other:

            def listed() -> list[dict[str, object]]:
                rows = other.ask("/api/runs", **other.bearer).json()["items"]
                return [row for row in rows if row["name"] == "sweep 3"]

            wait_for(listed, 30)
            run = listed()[0]["id"]
            found = other.ask(f"/api/runs/{run}", **other.bearer).json()
            assert (found["path"], found["downloadable"]) == (None, False), "it is not here"
            assert found["telemetry_reason"].startswith("the record is on hub-a")


def test_one_of_two_hubs_leads() -> None:
    url = parse_store_url(server().schema("lead"))
    first, second = PostgresKind.open_pasts(url), PostgresKind.open_pasts(url)
    assert (first.leads(), second.leads(), first.leads()) == (True, False, True)
    first.close()
    wait_for(second.leads, 20)
    second.close()


def test_a_server_that_is_not_a_hub_is_named(tmp_path: Path) -> None:
    with serving(tmp_path / "plain", simulate=1) as plain:
        link = HubLink(plain.url, "x" * 40)
        with pytest.raises(Invalid, match="is not a hub"):
            link.send("/api/heartbeat", b"")
        link.close()
        answer = plain.ask("/api/nodes", **plain.bearer).json()
        assert (answer["hub"], len(answer["nodes"])) == (False, 1)
        below = plain.ask("/api/nodes/x/snapshot", **plain.bearer)
        assert (below.status, "not a hub" in below.body) == (404, True)
