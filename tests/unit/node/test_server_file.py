"""Where a server is: the file it leaves, when that file is stale, and one server for a folder."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from andon.errors import Conflict, Denied
from andon.host.state import server_file
from andon.host.state.server_file import (
    Announced,
    announce,
    announced,
    find,
    sole_server,
    stale,
    withdraw,
)
from andon.model.lease import PidScope

URL = "http://127.0.0.1:9"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    announce(tmp_path, URL, "127.0.0.1")
    return tmp_path


def change(folder: Path, **fields: object) -> None:
    said = announced(folder)
    assert said is not None
    (folder / server_file.NAME).write_text(json.dumps({**asdict(said), **fields}))


def test_a_server_that_runs_is_found(folder: Path) -> None:
    assert find(folder) == URL
    assert stale(folder) is None
    assert (folder / server_file.NAME).stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == [server_file.NAME]


def test_an_address_for_all_is_told_as_one_of_this_machine(tmp_path: Path) -> None:
    announce(tmp_path, "https://node17:7000", "::")
    assert find(tmp_path) == "https://[::1]:7000"


def test_a_draft_that_a_killed_server_left_does_not_stop_the_next(tmp_path: Path) -> None:
    (tmp_path / f".{server_file.NAME}").write_text("half")
    announce(tmp_path, URL, "127.0.0.1")
    assert find(tmp_path) == URL


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"started_ticks": 1}, "ended without removing"),  # its number is another process's now
        ({"started_ticks": None}, "ended without removing"),
        ({"boot": "another"}, "before the last boot"),
        ({"boot": None}, "before the last boot"),
        ({"boot": "another", "node": "node17"}, "was started on 'node17'"),
    ],
)
def test_what_is_left_of_a_server_is_recognised_and_named(
    folder: Path, fields: dict[str, object], says: str
) -> None:
    change(folder, **fields)
    assert find(folder) is None
    told = stale(folder)
    assert told is not None
    for words in (says, URL, f"pid {os.getpid()}"):
        assert words in told


@pytest.mark.process
def test_a_process_that_is_gone_is_no_server(folder: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    change(folder, pid=child)
    assert find(folder) is None


def test_a_server_in_another_container_may_run(folder: Path) -> None:
    """Its numbers say nothing here; it has to prove itself anyway."""
    change(folder, pid_namespace="pid:[1]", pid=1, started_ticks=1)
    assert find(folder) == URL


def test_without_proc_the_process_has_to_be_there() -> None:
    for pid, runs in ((os.getpid(), True), (server_file.MOST_PIDS, False)):
        assert server_file._runs(server_file.Announced(URL, pid), PidScope()) is runs


def test_a_server_takes_back_only_what_it_said_itself(folder: Path) -> None:
    for fields in ({"pid": os.getppid()}, {"started_ticks": 1}, {"boot": "another"}):
        announce(folder, URL, "127.0.0.1")
        change(folder, **fields)
        withdraw(folder)
        assert announced(folder) is not None
    announce(folder, URL, "127.0.0.1")
    withdraw(folder)
    assert announced(folder) is None


def test_where_nothing_can_be_written_it_is_done_without(tmp_path: Path) -> None:
    announce(tmp_path / "nowhere", URL, "127.0.0.1")
    withdraw(tmp_path / "nowhere")
    assert find(tmp_path / "nowhere") is None


# What is in the file is input.


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "[" * 4000, '{"url": 5, "pid": 1}', '{"url": "x"}', "\0", "1" * 5000],
)
def test_a_file_that_makes_no_sense_is_no_server(folder: Path, text: str) -> None:
    (folder / server_file.NAME).write_text(text)
    assert announced(folder) is None
    assert find(folder) is None
    withdraw(folder)


@pytest.mark.parametrize(
    "fields",
    [{"pid": -1}, {"pid": 0}, {"pid": True}, {"pid": 2**62}, {"pid": "1"}, {"url": "x"},
     {"url": "ftp://h"}, {"url": "http://h:99999"}, {"url": "http://[x"}, {"boot": 5},
     {"started_ticks": -1}, {"started_ticks": 1.5}, {"node": []}],
)  # fmt: skip
def test_one_wrong_field_spoils_the_file(folder: Path, fields: dict[str, object]) -> None:
    change(folder, **fields)
    assert announced(folder) is None


_ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text())


@given(st.dictionaries(st.sampled_from([*Announced.__struct_fields__, "more"]), _ANY))
def test_no_content_breaks_it(said: dict[str, Any]) -> None:
    found = server_file.parse(said)
    assert found is None or 0 < found.pid <= server_file.MOST_PIDS
    if found is not None:
        server_file.gone(found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
@pytest.mark.parametrize("what", [".", server_file.NAME])
def test_what_another_user_wrote_is_not_believed(folder: Path, what: str) -> None:
    os.chown(folder / what, 65534, 65534)
    assert find(folder) is None


def test_a_link_or_a_pipe_in_its_place_is_no_file(folder: Path) -> None:
    path = folder / server_file.NAME
    path.rename(folder / "moved")
    path.symlink_to(folder / "moved")
    assert find(folder) is None
    path.unlink()
    os.mkfifo(path)
    assert find(folder) is None


# One server for a folder.


def test_a_folder_has_one_server_at_a_time(tmp_path: Path) -> None:
    with sole_server(tmp_path):
        with pytest.raises(Conflict) as starting, sole_server(tmp_path):
            pass
        announce(tmp_path, URL, "127.0.0.1")
        with pytest.raises(Conflict) as running, sole_server(tmp_path):
            pass
    assert f"pid {os.getpid()}, an agent or a server that is starting" in starting.value.reason
    assert f"pid {os.getpid()}, {URL}" in running.value.reason
    assert "XDG_STATE_HOME" in running.value.hint
    with sole_server(tmp_path):
        pass


@pytest.mark.process
def test_the_lock_ends_with_its_process_and_its_file_is_for_its_owner(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        sole_server(tmp_path).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    path = tmp_path / server_file.LOCK
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == str(child)
    with sole_server(tmp_path):
        assert path.read_text() == str(os.getpid())


def test_a_pipe_in_the_place_of_the_lock_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / server_file.LOCK)
    with pytest.raises(Denied, match=server_file.LOCK), sole_server(tmp_path):
        pass
