"""A disk that fails while a command runs: the command goes on, and its end is known."""

import os
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from andon.errors import Denied
from andon.host.state import user_folder
from andon.standalone import STANDALONE
from andon.work.lease_watch import LeaseWatch
from tests.support.replaced import answers


def refused(*args: object, **more: object) -> Any:
    raise OSError(30, "Read-only file system")


def test_a_supervisor_goes_on_where_the_lease_cannot_be_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(STANDALONE))  # as the supervisor finds it
    work = import_module("supervised_work")
    file = os.open(tmp_path / "lease", os.O_RDWR | os.O_CREAT)
    folder = os.open(tmp_path, os.O_RDONLY)
    lease = work.HeldLease({"lease_file": "lease"}, [file, folder])
    monkeypatch.setattr(os, "utime", refused)
    lease.add_work(5, 6)
    lease.begin(3600.0)  # the file says that it ends now, as after the clock was set
    lease.follow()
    assert 3590.0 < lease.deadline - work.boot_seconds() <= 3600.0
    lease.release()


def test_a_run_goes_on_where_its_book_cannot_be_read() -> None:
    held: Any = SimpleNamespace(
        hold=SimpleNamespace(), lease=SimpleNamespace(id="k7qm2"), countdown=None,
        left_seconds=lambda: None,
    )  # fmt: skip
    watch = LeaseWatch(held, print)
    watch._presence = SimpleNamespace(check=refused)  # type: ignore[assignment]
    assert watch.check() is None


def test_a_state_folder_on_a_read_only_file_system_is_said_to_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not that permission is denied, which root cannot understand."""
    user_folder.open_state_folder()
    answers(monkeypatch, os, "access", False)
    for flag, words in ((os.ST_RDONLY, "Read-only file system"), (0, "Permission denied")):
        found = SimpleNamespace(f_flag=flag)
        answers(monkeypatch, os, "statvfs", found)
        with pytest.raises(Denied, match=words):
            user_folder.open_state_folder()
