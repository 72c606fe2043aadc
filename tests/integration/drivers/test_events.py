"""Xids on their whole way: the driver or the kernel's log, a reader process, every session once."""

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from andon.app.sampler import open_sampler
from andon.app.settings import load_settings
from andon.model.device import State
from andon.model.event import Event
from andon.sampling.bus import Subscription
from andon.sampling.sampler import Sampler
from tests.integration.conftest import is_alive, states, until
from tests.standin import StandIn, StandInProcess, lost
from tests.support.waiting import wait_for

WAIT = "nvmlEventSetWait_v2"


def listening(node: StandIn) -> None:
    """The thread waits in the driver with every card registered."""
    wait_for(lambda: node.calls().get("nvmlDeviceRegisterEvents", 0) >= 8)
    wait_for(lambda: node.calls().get(WAIT, 0) >= 1)


def next_events(session: Subscription, count: int = 1) -> list[Event]:
    found: list[Event] = []
    end = time.monotonic() + 60
    while len(found) < count:
        assert time.monotonic() < end, "they never came"
        snapshot = session.get(20)
        assert snapshot is not None
        found += snapshot.events
    return found


def test_two_sessions_of_their_own_pace_hear_each_event_once(
    node: StandIn, sampler: Sampler
) -> None:
    node.change(3, processes=(StandInProcess(os.getpid(), memory=1 << 30),))
    with sampler.subscribe(0.05) as quick, sampler.subscribe(0.4) as slow:
        listening(node)
        node.xid(3, 31)
        (first,) = next_events(quick)
        assert (first.code, first.uuid) == (31, node.node[3].uuid)
        assert [party.pid for party in first.who] == [os.getpid()]
        node.xid(5, 13)
        node.ecc(0)
        told = Counter(event.code for event in [first, *next_events(quick, 2)])
        assert Counter(event.code for event in next_events(slow, 3)) == told
        sampler.once()
    assert not [e for session in (quick, slow) for s in session for e in s.events], "once each"


def test_who_ran_is_told_even_where_the_device_is_lost_with_it(
    node: StandIn, sampler: Sampler
) -> None:
    node.change(2, processes=(StandInProcess(os.getpid(), memory=1 << 30),))
    with sampler.subscribe(0.05) as session:
        listening(node)
        until(sampler, lambda s: bool(s.devices[2].processes))
        node.set_faults(lost(2))
        until(sampler, lambda s: states(s)[2] is State.LOST)
        node.xid(2, 79)
        (event,) = next_events(session)
    assert event.code == 79
    assert [party.pid for party in event.who] == [os.getpid()]


def test_a_new_reader_hears_too_and_the_old_ones_thread_goes_with_it(
    node: StandIn, sampler: Sampler
) -> None:
    with sampler.subscribe(0.05) as session:
        listening(node)
        (reader,) = sampler.reader_pids()
        os.kill(reader, signal.SIGKILL)
        wait_for(lambda: sampler.reader_pids() not in ([], [reader]))
        node.reset_calls()
        listening(node)
        node.xid(1, 48)
        assert next_events(session)[0].code == 48
        (newer,) = sampler.reader_pids()
    sampler.close()
    wait_for(lambda: not is_alive(newer))


def test_a_driver_reload_ends_and_begins_it_again(node: StandIn, sampler: Sampler) -> None:
    with sampler.subscribe(0.05) as session:
        listening(node)
        node.reset_calls()
        node.uninitialise()
        listening(node)
        node.xid(4, 62)
        assert next_events(session)[0].code == 62


def test_a_look_at_the_devices_does_not_open_the_queue(node: StandIn, sampler: Sampler) -> None:
    sampler.once()
    sampler.close()
    assert "nvmlEventSetCreate" not in node.calls()


def test_the_kernels_log_and_the_driver_tell_one_event_together(
    node: StandIn, kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = kernel / "dev/kmsg"
    log.parent.mkdir()
    log.write_text("4,1,1,-;NVRM: Xid (PCI:0000:1b:00): 13, long ago\n")
    node.change(0, processes=(StandInProcess(os.getpid(), memory=1 << 30),))
    with open_sampler(load_settings({}).settings) as sampler, sampler.subscribe(0.05) as session:
        listening(node)
        with log.open("a") as file:
            file.write("4,2,2,-;NVRM: Xid (PCI:0000:1b:00): 79, pid=77, name=python, words\n")
        (event,) = next_events(session)
        node.xid(0, 79)
        node.xid(7, 31)
        (other,) = next_events(session)
    assert (event.code, event.uuid, event.pids) == (79, node.node[0].uuid, (77,))
    assert event.source == "kernel log"
    assert [party.pid for party in event.who] == [77, os.getpid()]
    assert (other.code, other.uuid) == (31, node.node[7].uuid), "79 is not told a second time"
