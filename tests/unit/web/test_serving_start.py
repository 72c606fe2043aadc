"""What a server does at its start about files that it cannot write."""

import logging
import os
from pathlib import Path

import pytest

from andon.app.servers.door import audit_started
from andon.errors import Invalid
from andon.host.state.server_file import LOCK, sole_server
from andon.web.listening import ServeOptions, check_certificate
from andon.web.transport.audit import Audit
from tests.support.disks import file_limit


def test_an_audit_log_that_cannot_be_written_stops_changes_and_not_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with caplog.at_level(logging.WARNING):
        audit_started(Audit(tmp_path), "127.0.0.1", 1)
    [record] = caplog.records
    assert "every change is refused until it can" in record.getMessage()


def test_a_lock_without_room_for_a_pid_is_a_lock(tmp_path: Path) -> None:
    with file_limit(0), sole_server(tmp_path):
        assert (tmp_path / LOCK).read_bytes() == b""


@pytest.mark.parametrize("which", ["certificate", "key"])
def test_a_pipe_in_place_of_a_certificate_is_refused_at_once(tmp_path: Path, which: str) -> None:
    """OpenSSL waits for its other end, and nothing is served meanwhile."""
    files = {name: tmp_path / name for name in ("certificate", "key")}
    for name, file in files.items():
        os.mkfifo(file) if name == which else file.touch()
    with pytest.raises(Invalid, match="not a regular file"):
        check_certificate(ServeOptions("127.0.0.1", 0, files["certificate"], files["key"]))
