"""The service manager: its variables, what is said to it, and when the watchdog is fed."""

import os
import socket
import threading
from pathlib import Path

import pytest

from andon.errors import Invalid
from andon.host.rules.service_variables import (
    LONGEST_TURN_SECONDS,
    VARIABLES,
    given_sockets,
    is_working,
    notify_address,
    watchdog_seconds,
)
from andon.host.service_manager import taken
from andon.model.device import Host
from andon.sampling.rules.masks import Visibility
from andon.sampling.sampler import NodeIdentity, Sampler
from andon.web.listening import given
from tests.support.rows import rows
from tests.support.waiting import wait_for


@rows("given, address, seconds, sockets", [
    ({}, None, None, ()),
    ({"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "60000000"}, "/run/x", 60.0, ()),
    ({"NOTIFY_SOCKET": "@a", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "7"}, "\0a", 1e-6, ()),
    ({"NOTIFY_SOCKET": "relative", "WATCHDOG_USEC": "0"}, None, None, ()),
    ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "8"}, None, None, ()),  # another process's
    ({"WATCHDOG_USEC": "9" * 400, "LISTEN_FDS": "-1", "LISTEN_PID": "7"}, None, None, ()),
    ({"LISTEN_FDS": "2", "LISTEN_PID": "7"}, None, None, (3, 4)),
    ({"LISTEN_FDS": "2", "LISTEN_PID": "8"}, None, None, ()),
    ({"LISTEN_FDS": "2"}, None, None, ()),
    ({"LISTEN_FDS": "99999", "LISTEN_PID": "7"}, None, None, tuple(range(3, 19))),
])  # fmt: skip
def test_the_variables_are_for_one_process(
    given: dict[str, str], address: str | None, seconds: float | None, sockets: tuple[int, ...]
) -> None:
    assert notify_address(given) == address
    assert watchdog_seconds(given, 7) == seconds
    assert given_sockets(given, 7) == sockets


def test_messages_arrive_and_children_do_not_inherit_the_variables(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        given = {
            "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000", "OTHER": "1",
            "LISTEN_FDS": "1", "LISTEN_PID": "1",
        }  # fmt: skip
        service = taken(given)
        assert given == {"OTHER": "1"}
        assert (service.feed_seconds, service.sockets) == (1.0, ())
        service.ready("serving")
        service.works()
        service.stopping()
        said = [manager.recv(1000) for _ in range(3)]
    assert said == [b"READY=1\nSTATUS=serving", b"WATCHDOG=1", b"STOPPING=1"]
    service.works()  # nobody listens any more: nothing happens
    assert not {*VARIABLES} & os.environ.keys()


def test_a_loop_feeds_it_at_the_turns_that_are_due(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        for micros, fed in (("3600000000", 1), ("1", 5), ("0", 0)):
            turn = taken(
                {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": micros}
            ).feed_by_turns()
            for _ in range(5):
                turn()
            for _ in range(fed):
                assert manager.recv(100) == b"WATCHDOG=1"
            with pytest.raises(BlockingIOError):
                manager.recv(100)


@rows("turn_seconds, runs, fed", [
    (0.0, True, True),
    (LONGEST_TURN_SECONDS - 1, True, True),
    (LONGEST_TURN_SECONDS, True, False),
    (0.0, False, False),
])  # fmt: skip
def test_the_watchdog_is_fed_while_the_loop_turns(
    turn_seconds: float, runs: bool, fed: bool
) -> None:
    assert is_working(turn_seconds, runs) is fed


def test_a_loop_that_hangs_has_a_turn_that_grows() -> None:
    over = threading.Event()

    class HungHost:
        def read(self) -> Host:
            over.wait()
            return Host()

    sampler = Sampler({}, HungHost(), NodeIdentity("n", None), lambda _: Visibility({}))
    assert (sampler.turn_seconds(), sampler.runs) == (0.0, False)
    with sampler.subscribe(1.0):
        wait_for(lambda: sampler.turn_seconds() > 0.0)
        began = sampler.turn_seconds()
        wait_for(lambda: sampler.turn_seconds() > began)
        assert sampler.runs
        over.set()
        wait_for(lambda: sampler.turn_seconds() == 0.0)
    sampler.close()


def test_only_a_listening_tcp_socket_is_served() -> None:
    with socket.socket() as opened, socket.socket(socket.AF_UNIX) as local:
        with pytest.raises(Invalid), given(opened.fileno()):
            pass  # nobody listens
        with pytest.raises(Invalid), given(local.fileno()):
            pass
        opened.bind(("127.0.0.1", 0))
        opened.listen()
        with given(opened.fileno()) as served:
            assert served.getsockname() == opened.getsockname()
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1  # it stays open
