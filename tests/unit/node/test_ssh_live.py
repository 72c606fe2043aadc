"""What a host over SSH leaves to whoever asks: verdicts and lamps that follow from its readings."""

from typing import Any

import pytest

from andon.alerts.rules.lamps_from_sample import lamps_from_sample
from andon.errors import Unavailable
from andon.explain.conditions.rulebook import Rulebook, thresholds
from andon.leases.rules.verdict import by_readings
from andon.model import wire
from andon.model.device import Snapshot
from andon.node.ssh.client import SshHost
from andon.node.ssh.failures import without_andon
from andon.node.ssh.live import SshLive
from tests.support.snapshots import farm

OWN = Rulebook(thresholds(thermal_celsius=10.0))
"""Thresholds of whoever asks, which are not those of the host."""


def live_after(**judged: Any) -> tuple[SshLive, Snapshot]:
    live = SshLive(SshHost("lab1"), lambda: OWN)
    said = wire.loads(wire.struct_text(wire.snapshot_to_json(farm())), wire.ANSWER)
    return live, live.take({**said, **judged})


def test_without_leases_there_verdicts_follow_from_the_readings() -> None:
    live, snapshot = live_after(judged={"verdicts": None, "lamps": None})
    assert live.verdicts() == by_readings(snapshot.devices) != ()
    assert live.free() == sum(one.kind == "free" for one in live.verdicts())


def test_lamps_are_by_the_thresholds_of_the_host() -> None:
    live, snapshot = live_after(judged={"verdicts": None, "lamps": None})
    assert (
        live.lamps(snapshot)
        == lamps_from_sample(snapshot, Rulebook())
        != lamps_from_sample(snapshot, OWN)
    )
    lamp = {"uuid": "a", "index": 0, "lamp": "red", "status": "too hot"}
    live, snapshot = live_after(judged={"verdicts": [], "lamps": [lamp]})
    assert [one.status for one in live.lamps(snapshot)] == ["too hot"]


def test_what_a_host_says_about_its_devices_is_taken() -> None:
    held = {"uuid": "a", "index": 0, "label": "0", "kind": "held", "by": "eve"}
    live, _ = live_after(judged={"verdicts": [held], "lamps": None})
    assert [(one.by, one.kind) for one in live.verdicts()] == [("eve", "held")]
    live, _ = live_after(judged={"verdicts": [], "unknown": "the book cannot be read"})
    with pytest.raises(Unavailable, match="andon there: the book cannot be read"):
        live.verdicts()
    assert live.free() is None
    live, _ = live_after(judged={"verdicts": [{"uuid": 7}]})
    with pytest.raises(Unavailable, match="runs andon"):
        live.verdicts()


def test_a_reading_without_them_says_nothing_about_leases() -> None:
    live, snapshot = live_after()
    assert live.verdicts() == ()
    assert live.free() is None
    assert live.lamps(snapshot) == lamps_from_sample(snapshot, OWN)


def test_gpus_of_other_vendors_need_andon_there() -> None:
    for name in ("amd", "intel"):
        assert "GPUs need andon there" in without_andon(name).reason
    assert without_andon("\x1b[2J").reason == "no andon and no nvidia-smi there"
