"""A reader that is started before it is known what it will read."""

import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from andon.app import load_settings, open_sampler
from andon.engine.sampling import spawning
from andon.engine.sampling.spawning import Spawned, start_ahead
from tests.integration.conftest import andon
from tests.standin import StandIn

pytestmark = pytest.mark.cold  # it is about the start itself

SIMULATED = {"simulate": 2}


@pytest.fixture
def ahead() -> Iterator[Spawned]:
    start_ahead()
    [started] = spawning._ahead
    yield started
    spawning._ahead.clear()
    with suppress(ProcessLookupError):
        started.process.kill()
    started.process.wait()
    started.forget()


def test_the_first_that_is_needed_is_the_one_that_was_started(ahead: Spawned) -> None:
    with open_sampler(load_settings(SIMULATED).settings) as sampler:
        sampler.begin()
        snapshot = sampler.once(hasty=True)
        assert len(snapshot.devices) == 2
        assert all(status.answered for status in snapshot.devices)
        assert sampler.reader_pids() == [ahead.process.pid]


def test_one_that_has_died_is_replaced(ahead: Spawned) -> None:
    ahead.process.kill()
    ahead.process.wait()
    with open_sampler(load_settings(SIMULATED).settings) as sampler:
        assert len(sampler.once(hasty=True).devices) == 2
        assert sampler.reader_pids() != [ahead.process.pid]


def test_one_that_nobody_needs_ends_with_its_parent(ahead: Spawned) -> None:
    spawning._ahead.clear()
    ahead.forget()
    assert ahead.process.wait(30) == 0


def test_where_none_can_be_started_ahead_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nonexistent/python")
    start_ahead()
    assert spawning._ahead == []


def test_a_command_starts_one_reader_and_not_two(node: StandIn) -> None:
    """The stand-in counts how often it was opened."""
    assert andon("status").code == 0
    assert node.calls()["nvmlInitWithFlags"] == 1


def test_what_a_reader_writes_on_its_own_is_kept() -> None:
    spawned = Spawned("nonsense", "{}")
    try:
        assert spawned.process.wait(30) != 0
        os.lseek(spawned.errors.fileno(), 0, os.SEEK_SET)
        assert b"nonsense" in os.read(spawned.answers, 4096) + spawned.errors.read()
    finally:
        spawned.forget()
