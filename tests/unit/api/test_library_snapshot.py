"""The library: what a process cannot know comes from this machine's server; a run has a name."""

import sys
import time

import pytest
from msgspec.structs import replace

import andon
from andon.api.run import _program
from andon.api.watch import Shared
from andon.model.device import Snapshot, State
from andon.node.latest_snapshot import ServerReply
from andon.node.local.live import LocalLive
from andon.node.local_server import LocalServer
from andon.sampling.rules.server_snapshot import ServerSnapshot
from tests.support.replaced import answers
from tests.support.rows import rows
from tests.support.snapshots import h200, silent


def test_a_lost_device_is_lost_since_the_server_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = silent(1, State.LOST, "it has fallen off the bus", "reboot", 88)
    now = replace(before, since=time.time(), sample=None)
    answers(monkeypatch, Shared, "once", Snapshot("n", time.time(), devices=(h200(0), now)))
    told = Snapshot("n", time.time(), devices=(h200(0), before))
    server = LocalServer(1, {}, lambda: None)
    answers(monkeypatch, LocalLive, "ask_server", ServerReply(ServerSnapshot(told, 1.0), server))
    assert andon.snapshot().devices[1].since == before.since
    answers(monkeypatch, LocalLive, "ask_server", None)
    assert andon.snapshot().devices[1] == now


@rows(
    "argument, name",
    [("-", "python"), ("-c", "python"), ("", "python"), ("a/train.py", "train.py")],
)
def test_a_program_without_a_file_is_called_python(
    argument: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [argument])
    assert _program() == name
