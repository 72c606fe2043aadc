"""What a node keeps of its hub for the next start."""

import errno
import logging
from pathlib import Path

import pytest

from andon.app import uplink
from andon.app.uplink import PIN_FILE, TOKEN_FILE, TOKEN_VARIABLE, hub_link
from andon.errors import Invalid
from andon.host.state.node_folder import open_node_folder
from andon.settings.resolution import Settings
from tests.support.homes import own_folders
from tests.support.replaced import fails


def test_a_token_that_cannot_be_kept_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in {**own_folders(tmp_path), TOKEN_VARIABLE: "x" * 43}.items():
        monkeypatch.setenv(name, value)
    full = OSError(errno.ENOSPC, "No space left on device")
    fails(monkeypatch, uplink, "replace_file", full)
    with caplog.at_level(logging.WARNING, "andon.uplink"):
        link = hub_link(Settings(), "http://127.0.0.1:9")
    assert link.url == "http://127.0.0.1:9"
    assert [one.getMessage() for one in caplog.records] == [
        "the token of the hub is not kept for the next start: No space left on device"
    ]
    assert not list(tmp_path.rglob(TOKEN_FILE))


def test_a_damaged_pin_is_named_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in own_folders(tmp_path).items():
        monkeypatch.setenv(name, value)
    file = open_node_folder() / PIN_FILE
    file.write_text("sha256:12\n")
    with pytest.raises(Invalid, match=f"{PIN_FILE} is not a fingerprint"):
        hub_link(Settings(), "https://127.0.0.1:9")
