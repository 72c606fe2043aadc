"""Files that another process may have swapped: a pipe or a link costs an error, never a wait."""

import errno
import os
from pathlib import Path

import pytest

from andon.app.settings import check_settings, load_settings
from andon.errors import Invalid
from andon.host.files import (
    NotRegular,
    is_regular,
    open_regular,
    read_regular,
    replace_file,
)
from andon.host.state.user_folder import config_path
from tests.support.disks import file_limit
from tests.support.replaced import fails
from tests.support.surroundings import anothers


def test_a_regular_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"text")
    assert read_regular(file) == b"text"
    descriptor = open_regular(file)
    assert os.get_blocking(descriptor)
    os.close(descriptor)


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.O_RDWR])
def test_a_pipe_is_refused_at_once(tmp_path: Path, flags: int) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(NotRegular) as told:
        open_regular(pipe, flags)
    assert told.value.strerror == "not a regular file"


def test_a_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, Path("/dev/zero")):
        with pytest.raises(NotRegular):
            open_regular(path)
    with pytest.raises(NotRegular):
        open_regular(tmp_path, os.O_WRONLY)


def test_a_link_is_followed_only_where_that_is_asked_for(tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    target.write_bytes(b"text")
    link.symlink_to(target)
    assert read_regular(link, follow=True) == b"text"
    with pytest.raises(OSError) as told:
        open_regular(link)
    assert told.value.errno == errno.ELOOP


def test_a_dangling_link_makes_no_target(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        open_regular(link, os.O_WRONLY | os.O_CREAT)
    assert not (tmp_path / "target").exists()


def test_a_file_that_is_too_large_is_an_error_and_not_cut(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_regular(file, 5) == b"12345"
    with pytest.raises(OSError) as told:
        read_regular(file, 4)
    assert told.value.errno == errno.EFBIG


def test_a_path_that_no_file_can_have_is_not_one(tmp_path: Path) -> None:
    assert not is_regular("a" * 5000)
    assert not is_regular("a\0b")
    assert not is_regular(tmp_path)


def test_settings_in_a_pipe_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "andon.toml"
    os.mkfifo(pipe)
    monkeypatch.setenv("ANDON_CONFIG", str(pipe))
    with pytest.raises(Invalid) as told:
        load_settings({})
    assert "not a regular file" in told.value.reason


@pytest.mark.parametrize("path", ["a" * 5000, "/" + "a/" * 5000, "~nobody-of-that-name/x", "/dev"])
def test_absurd_paths_of_settings_are_one_plain_error(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANDON_CONFIG", path)
    with pytest.raises(Invalid) as told:
        check_settings({})
    assert len(told.value.reason) < 300


def test_an_absurd_folder_of_settings_holds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANDON_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", "/" + "a" * 5000)
    assert config_path() in (None, Path("/etc/andon/andon.toml"))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path, before = tmp_path / "file", os.umask(0o777)
    try:
        replace_file(path, b"one")
        replace_file(path, b"two", 0o644)
    finally:
        os.umask(before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o644)

    with file_limit(4), pytest.raises(OSError, match="File too large"):
        replace_file(path, b"three")
    assert path.read_bytes() == b"two"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_what_did_not_reach_the_disk_replaces_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    replace_file(path, b"one")
    fails(monkeypatch, os, "fsync", OSError(errno.EIO, "Input/output error"))
    with pytest.raises(OSError, match="Input/output"):
        replace_file(path, b"two")
    assert path.read_bytes() == b"one"


def test_a_file_of_another_user_is_none_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"text")
    assert read_regular(file, own=True) == b"text"
    anothers(monkeypatch, file)
    assert read_regular(file) == b"text"
    with pytest.raises(PermissionError, match="belongs to another user"):
        read_regular(file, own=True)
