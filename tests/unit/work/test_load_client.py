"""The client of a load: when what it reads has arrived, and what if it does not start."""

import select
import socket
from time import perf_counter

import pytest

from andon.errors import AndonError
from andon.work.load.client import SO_TIMESTAMPNS, StampedSocket
from andon.work.load.driver import DrivenLoad
from andon.work.rules.load import LoadOrder


def test_an_answer_has_arrived_when_the_kernel_received_it_not_when_it_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, StampedSocket() as reads:
        reads.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        reads.connect(server.getsockname())
        theirs, _ = server.accept()
        with theirs:
            for _ in range(1000):  # the kernel begins to stamp soon, not at once
                before = perf_counter()
                theirs.send(b"word")
                select.select([reads], [], [])
                received = perf_counter()
                assert reads.recv(100) == b"word"
                if reads.arrived is not None:
                    break
            assert reads.arrived is not None
            assert before - 1.0 < reads.arrived <= received


@pytest.mark.process
def test_a_client_that_ends_before_it_has_its_order_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "andon.work.load.driver.process_command", lambda name: ["sh", "-c", "exit 3"]
    )
    order = LoadOrder("http://127.0.0.1:1/v1/completions", "m", ("a long prompt " * 100_000,))
    with pytest.raises(AndonError, match="a client of the load ended with code 3"):
        DrivenLoad(order, clients=2).run()
