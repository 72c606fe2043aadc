"""What goes to a hub and to other systems is read from the files that its sender leaves."""

import os
from pathlib import Path

import pytest

from andon.doctor.inspection.reporting import read_reporting
from andon.doctor.rules.facts import OutgoingReports, Reporting
from andon.errors import Denied
from andon.fleet.sending import note_trouble
from andon.host.spool import Spool
from andon.host.state.server_file import sole_server
from andon.settings.exports import ExportSettings

EXPORT = ExportSettings("grafana", "otlp", "http://db:1/v1/metrics?key=s3cret")


def test_a_machine_that_sends_nothing_has_nothing_to_show(tmp_path: Path) -> None:
    assert read_reporting(tmp_path) == Reporting()
    (seen,) = read_reporting(tmp_path, [EXPORT]).links
    assert seen == OutgoingReports("export grafana", "http://db:1/v1/metrics", "andon serve")


def test_the_queue_of_an_export_is_read_while_another_process_uses_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path / EXPORT.queue, clock=lambda: 1000.0)
    for body in (b"a", b"b", b"c"):
        spool.put(body)
    with sole_server(tmp_path):
        found = read_reporting(tmp_path, [EXPORT])
        assert (found.sends, found.links[0].acknowledged) == (True, None)
        spool.done(1)
        (seen,) = read_reporting(tmp_path, [EXPORT]).links
    assert (seen.waiting, seen.since, seen.size_bytes > 3) == (2, 1000.0, True)
    assert seen.acknowledged is not None
    spool.done(3)
    (seen,) = read_reporting(tmp_path, [EXPORT]).links
    assert (seen.waiting, seen.since) == (0, None)
    spool.close()


def test_the_hub_and_its_last_acknowledgement(tmp_path: Path) -> None:
    (tmp_path / "hub-sent.json").write_text('{"hub": "https://hub:1", "tiers": {}, "at": 1000.0}')
    (seen,) = read_reporting(tmp_path).links
    assert (seen.place, seen.acknowledged, seen.since) == ("https://hub:1", 1000.0, 1000.0)
    assert seen.start == "andon agent --hub https://hub:1"


def test_a_hub_that_never_took_anything_is_named_with_its_refusal(tmp_path: Path) -> None:
    refused = Denied("https://hub:1: no node of this hub has this token", hint="andon nodes add")
    note_trouble(tmp_path, "https://hub:1", refused)
    (seen,) = read_reporting(tmp_path).links
    assert (seen.place, seen.acknowledged) == ("https://hub:1", None)
    assert seen.trouble == (refused.reason, refused.hint)
    note_trouble(tmp_path, "https://hub:1", None)
    assert read_reporting(tmp_path) == Reporting()


@pytest.mark.parametrize("pid", ["", "nonsense", "999999999"])
def test_a_sender_that_is_gone(tmp_path: Path, pid: str) -> None:
    (tmp_path / "server.lock").write_text(pid)
    assert not read_reporting(tmp_path, [EXPORT]).sends
    (tmp_path / "server.lock").write_text(str(os.getpid()))
    assert read_reporting(tmp_path, [EXPORT]).sends
