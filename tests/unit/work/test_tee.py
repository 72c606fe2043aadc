"""The copy of a command's error output: its end is known whatever the terminal and the load do."""

import os
import signal
import threading
import time
from contextlib import suppress

import pytest

from andon.standalone.tee import PIECE_BYTES, SHOWN_BYTES, TAIL_BYTES, copy
from andon.work.tap import Tap

OOM = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"


class Played:
    """A copy in a thread, between pipes."""

    def __init__(self) -> None:
        self.source_out, self.source = os.pipe()
        self.asker_out, self.asker = os.pipe()
        self.answer, answer_in = os.pipe()
        self.target, self.target_in = os.pipe()  # last: no other gets the number of a closed one
        arguments = (self.source_out, self.target_in, self.asker_out, answer_in)
        self.thread = threading.Thread(target=copy, args=arguments, daemon=True)

    def asked(self) -> bytes:
        os.write(self.asker, b"?")
        self.thread.start()
        return self.told()

    def told(self) -> bytes:
        found = b""
        while piece := os.read(self.answer, PIECE_BYTES):
            found += piece
        return found


def test_the_tail_is_known_although_nobody_reads_the_terminal() -> None:
    """Everything is there before the copy runs at all, and its target is full."""
    played = Played()
    os.set_blocking(played.target_in, False)
    with suppress(BlockingIOError):
        while os.write(played.target_in, b"x" * PIECE_BYTES):
            pass
    os.set_blocking(played.target_in, True)
    os.write(played.source, OOM)
    assert played.asked() == OOM
    os.write(played.source, b"more")  # which goes through when there is room
    os.close(played.source)
    seen = b""
    while not seen.endswith(OOM + b"more"):
        seen += os.read(played.target, PIECE_BYTES)
    played.thread.join()


@pytest.mark.parametrize("ask", [True, False])
def test_all_goes_through_and_the_end_is_kept(ask: bool) -> None:
    played = Played()
    if ask:
        played.thread.start()
        os.write(played.source, b"y" * 1000)
        assert os.read(played.target, PIECE_BYTES) == b"y" * 1000
        os.write(played.source, OOM)
        os.write(played.asker, b"?")
        assert played.told() == b"y" * 1000 + OOM
        os.close(played.source)
    else:
        os.write(played.source, b"y" * 1000 + OOM)
        os.close(played.source)
        played.thread.start()
        assert played.told() == b"y" * 1000 + OOM
    played.thread.join()


def test_a_target_that_is_gone_costs_the_command_nothing() -> None:
    """Its descriptor is closed, or nobody reads it any more."""
    for gone in ("target_in", "target"):
        played = Played()
        os.close(getattr(played, gone))
        os.write(played.source, OOM * (TAIL_BYTES // len(OOM) // 2))
        os.close(played.source)
        played.thread.start()
        assert played.told().endswith(OOM)
        played.thread.join()


@pytest.mark.process
def test_the_last_part_is_read_while_the_command_writes() -> None:
    tap = Tap()
    assert tap.recent()[0] == "", "nothing was written"
    os.write(tap.entrance, b"x" * 3 * SHOWN_BYTES + b"\r 45%|#| 450/1000 [01:23<01:41, 5.4it/s]")
    until = time.monotonic() + 60
    while not tap.recent()[0].endswith("5.4it/s]") and time.monotonic() < until:
        os.sched_yield()
    found, at = tap.recent()
    assert found.endswith("450/1000 [01:23<01:41, 5.4it/s]")
    assert len(found) == SHOWN_BYTES
    assert abs(time.time() - at) < 600, "the time of the wall clock"
    assert tap._shown is not None
    os.pwrite(tap._shown, b"y" * 100, 4000)
    assert tap.recent()[0] == "", "half of what was there before and half of what is new"
    tap.started()
    tap.tail()


@pytest.mark.process
@pytest.mark.slow
def test_a_copy_that_is_not_scheduled_for_a_while_is_waited_for() -> None:
    """Stopped for longer than it was once waited for."""
    tap = Tap()
    os.write(tap.entrance, OOM)
    tap.started()
    os.kill(tap._process.pid, signal.SIGSTOP)
    continues = threading.Timer(1.3, os.kill, (tap._process.pid, signal.SIGCONT))
    continues.start()
    assert tap.tail() == OOM.decode()
    continues.join()
    tap._process.wait(60)  # beside heavy work it takes longer than a tail waits for its end
