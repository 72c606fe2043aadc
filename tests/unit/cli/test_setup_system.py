"""`andon setup --system` below a folder: asks, writes, keeps what was edited, removes its own."""

import fcntl
import os
import sys
from pathlib import Path

import pytest

from andon.cli.main import run
from andon.errors import Conflict, Denied, Invalid, Unavailable
from andon.host import system_files
from andon.host.system_files import SOURCES, SYSTEM, sole_setup
from tests.support.disks import disk as disk
from tests.support.disks import file_limit, mount
from tests.support.replaced import constants

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0, reason="units are of an andon that is root's"),
]
SETUP = ("setup", "--system", "--root")


def files(root: Path) -> dict[str, str]:
    return {f"/{p.relative_to(root)}": p.read_text() for p in root.rglob("*") if p.is_file()}


def test_it_writes_every_file_once_and_removes_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SETUP, str(tmp_path), "--dry-run"]) == 0
    assert files(tmp_path) == {}
    assert "ExecStart=" in capsys.readouterr().out
    assert run([*SETUP, str(tmp_path), "--yes"]) == 0
    first = files(tmp_path)
    assert first.keys() == SOURCES.keys()
    assert [text for text in first.values() if "@ANDON@" in text or "@PYTHON@" in text] == []
    capsys.readouterr()
    assert run([*SETUP, str(tmp_path), "--yes"]) == 0
    assert files(tmp_path) == first
    assert capsys.readouterr().out.count("up to date") == len(first)

    edited, other = tmp_path / SYSTEM[1:] / "andon.service", tmp_path / SYSTEM[1:] / "my.service"
    edited.write_text(edited.read_text().replace("WatchdogSec=60", "WatchdogSec=90"))
    other.write_text("mine\n")
    assert run([*SETUP, str(tmp_path), "--yes"]) == 0
    shown = capsys.readouterr().out
    assert "kept: it was edited" in shown
    assert "-WatchdogSec=60" in shown
    assert "+WatchdogSec=90" in shown
    assert "WatchdogSec=90" in edited.read_text()
    assert run([*SETUP, str(tmp_path), "--remove", "--yes"]) == 0
    assert files(tmp_path).keys() == {f"{SYSTEM}/andon.service", f"{SYSTEM}/my.service"}


def test_nobody_who_can_be_asked_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SETUP, str(tmp_path)]) == Invalid.exit_code
    assert files(tmp_path) == {}
    assert "--yes" in capsys.readouterr().err
    assert run(["setup", "--dry-run"]) == Invalid.exit_code  # it belongs to --system


def test_two_at_once_are_refused_and_a_full_disk_leaves_no_half_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    assert run([*SETUP, str(tmp_path), "--yes"]) == Conflict.exit_code
    os.close(folder)
    with file_limit(1000):
        assert run([*SETUP, str(tmp_path), "--yes"]) == Unavailable.exit_code
    assert "andon.service cannot be written: File too large" in capsys.readouterr().err
    assert files(tmp_path).keys() == {f"{SYSTEM}/andon.socket"}
    assert run([*SETUP, str(tmp_path), "--yes"]) == 0
    assert files(tmp_path).keys() == SOURCES.keys()


def test_a_stranger_who_locks_the_root_folder_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    constants(monkeypatch, system_files, LOCK=tmp_path / "lock")
    stranger = os.open("/", os.O_RDONLY)
    fcntl.flock(stranger, fcntl.LOCK_EX)
    with sole_setup(Path("/")):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(Conflict), sole_setup(Path("/")):
            pass
    os.close(stranger)


def test_an_andon_that_others_may_change_is_not_run_as_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python3"
    python.symlink_to(os.path.realpath(sys.executable))
    root = tmp_path / "root"
    root.mkdir()
    os.chown(tmp_path, 1234, -1)
    monkeypatch.setattr("andon.host.system_files.interpreter", lambda: str(python))
    assert run([*SETUP, str(root), "--yes"]) == 4
    assert "units would run it as root" in capsys.readouterr().err
    assert files(root) == {}


def test_an_andon_that_only_this_shell_finds_is_not_started_by_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("andon.cli.commands.setup.system.interpreter", lambda: "/usr/bin/python3")
    assert run([*SETUP, str(tmp_path), "--yes"]) == Unavailable.exit_code
    assert "does not find andon without this shell's variables" in capsys.readouterr().err
    assert files(tmp_path) == {}


def test_whoever_may_not_write_is_told_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run(["setup", "--system", "--yes"]) == Denied.exit_code
    assert "sudo andon setup --system" in capsys.readouterr().err


def test_a_file_system_without_writing_is_named(
    disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert mount("-o", "remount,ro", str(disk)).returncode == 0
    assert run([*SETUP, str(disk), "--yes"]) == Unavailable.exit_code
    assert "andon.socket cannot be written: Read-only file system" in capsys.readouterr().err
