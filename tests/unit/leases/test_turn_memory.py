"""What requests that do not wait remember of those in front, and what a bad file costs."""

import json
from pathlib import Path

import pytest

from andon.host.clock import boot_seconds
from andon.host.processes.kin import pid_scope
from andon.leases.availability import NAME, TurnMemory
from andon.leases.rules.queue import MEMORY_SECONDS


def test_what_was_written_is_read(tmp_path: Path) -> None:
    memory, since = TurnMemory(tmp_path), boot_seconds() - 5.0
    assert memory.read() == {}
    memory.write({1000: since})
    assert memory.read() == {1000: since}
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0


def test_what_is_old_or_of_another_boot_is_forgotten(tmp_path: Path) -> None:
    memory = TurnMemory(tmp_path)
    memory.write({1: boot_seconds() - MEMORY_SECONDS - 1.0, 2: boot_seconds() + 60.0})
    assert memory.read() == {}
    users = {"1": boot_seconds()}
    (tmp_path / NAME).write_text(json.dumps({"boot": "another", "users": users}))
    assert memory.read() == {}


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "null", '{"boot": 1, "users": 5}', "[" * 5000, "\x00", "x" * 70_000]
)
def test_a_bad_file_is_no_memory(tmp_path: Path, content: str) -> None:
    (tmp_path / NAME).write_text(content)
    assert TurnMemory(tmp_path).read() == {}


@pytest.mark.parametrize("users", [[], {"x": 1.0}, {"1": None}, {"1": "nan"}, {"1": 1e400}])
def test_a_bad_time_is_no_memory(tmp_path: Path, users: object) -> None:
    (tmp_path / NAME).write_text(json.dumps({"boot": pid_scope().boot, "users": users}))
    assert TurnMemory(tmp_path).read() == {}


def test_a_folder_that_is_not_there_costs_nothing(tmp_path: Path) -> None:
    memory = TurnMemory(tmp_path / "missing")
    memory.write({1000: boot_seconds()})
    assert memory.read() == {}
