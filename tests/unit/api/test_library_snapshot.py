"""`andon.snapshot()`: what a process of its own cannot know comes from this machine's server."""

import time

import pytest
from msgspec.structs import replace

import andon
from andon.api.watch import Shared
from andon.model.device import Snapshot, State
from andon.node.local.live import LocalLive
from andon.sampling.rules.told import ServerSnapshot
from tests.support.replaced import answers
from tests.support.snapshots import h200, silent


def test_a_lost_device_is_lost_since_the_server_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = silent(1, State.LOST, "it has fallen off the bus", "reboot", 88)
    now = replace(before, since=time.time(), sample=None)
    answers(monkeypatch, Shared, "once", Snapshot("n", time.time(), devices=(h200(0), now)))
    told = Snapshot("n", time.time(), devices=(h200(0), before))
    answers(monkeypatch, LocalLive, "told_now", ServerSnapshot(told, 1.0))
    assert andon.snapshot().devices[1].since == before.since
    answers(monkeypatch, LocalLive, "told_now", None)
    assert andon.snapshot().devices[1] == now
