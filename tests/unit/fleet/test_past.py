"""The past of a node: what it sends, once, and what a hub refuses of it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from andon.errors import Invalid, Unavailable
from andon.fleet.link import HubLink
from andon.fleet.rules.past import (
    PastPart,
    due_windows,
    of_hub,
    packed_past,
    runs_since,
    unpacked_past,
)
from andon.fleet.sending import PastSender
from andon.history.rules.codec import pack_points
from andon.history.rules.series import NodeReadings
from andon.history.rules.tiers import Extent, Retention, StoredBlock, Tier
from andon.history.writer import Maintainer
from andon.model.device import Device
from andon.model.run.record import RunKind, RunRow, RunState
from andon.settings.store_url import parse_store_url
from andon.stores.sqlite_kind import SqliteKind

AT = 1_794_000_000.0
BEGIN = round(AT * 1000)
DEVICE = Device("GPU-1", 0, "sim", "H200")
BLOCK: StoredBlock = ("GPU-1", "power_watts", Tier.RAW, BEGIN, pack_points([0, 1000], [1, 2]))


def test_a_part_is_read_back() -> None:
    part = PastPart((DEVICE,), [BLOCK, (*BLOCK[:3], BEGIN + 600_000, BLOCK[4])])
    found = unpacked_past(packed_past(part), AT)
    assert list(found.blocks) == list(part.blocks)
    assert [one.uuid for one in found.devices] == ["GPU-1"]


def test_runs_come_back_as_the_hub_keeps_them() -> None:
    one = RunRow("kqzvmtra", "train", RunKind.COMMAND, RunState.SUCCEEDED, "x", AT, "/a", "ada", AT)
    rows = [one, replace(one, id="b", ended=AT + 9), replace(one, id="c", ended=None)]
    assert [row.id[-1] for row in runs_since(rows, AT + 5)] == ["b", "c"]
    found = unpacked_past(packed_past(PastPart(runs=rows)), AT).runs
    assert list(found) == rows
    assert (of_hub(found[0], "n17").node, of_hub(found[0], "n17").path) == ("n17", "")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"nonsense", "not a part"),
        (packed_past(PastPart((), [BLOCK])) + b"x", "other lengths"),
        (packed_past(PastPart((), [(*BLOCK[:3], BEGIN + 1, BLOCK[4])])), "no window"),
        (packed_past(PastPart((), [(*BLOCK[:3], BEGIN + 864_000_000, BLOCK[4])])), "no window"),
        (packed_past(PastPart((), [(*BLOCK[:4], b"damaged")])), "."),
        (packed_past(PastPart((), [BLOCK])).replace(b'"tier":0', b'"tier":9'), "tier"),
    ],
)
def test_what_is_not_a_part_is_refused(body: bytes, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        unpacked_past(body, AT)


def test_windows_are_sent_once_they_are_finished_and_once() -> None:
    extents = {Tier.RAW: Extent(BEGIN, BEGIN + 1_800_000)}
    every = [(Tier.RAW, BEGIN + n * 600_000) for n in range(3)]
    assert due_windows(extents, (), {}, 10) == every
    assert due_windows(extents, (BEGIN + 1_200_000,), {}, 10) == every[:2]
    assert due_windows(extents, (), {Tier.RAW: BEGIN + 600_000}, 10) == every[1:]
    assert due_windows(extents, (), {}, 1) == every[:1]


class Hub(HubLink):
    """Keeps what it is sent; may be away."""

    def __init__(self) -> None:
        super().__init__("https://hub:1", "x")
        self.taken: list[PastPart] = []
        self.away = False

    def send(self, path: str, body: bytes) -> dict[str, Any]:
        if self.away:
            raise Unavailable("away")
        self.taken.append(unpacked_past(body, AT))
        return {}


def windows(parts: Sequence[PastPart]) -> list[tuple[Tier, int]]:
    raw = {(one[2], one[3]) for part in parts for one in part.blocks if one[2] is Tier.RAW}
    return sorted(raw)


def test_what_was_acknowledged_is_not_sent_again_after_a_restart(tmp_path: Path) -> None:
    store = SqliteKind.open(parse_store_url(f"sqlite:///{tmp_path}/h.sqlite"), "n17")
    ticks = [NodeReadings(AT + n, (("GPU-1", ("power_watts",), (n,)),)) for n in range(0, 3600, 10)]
    store.write(ticks, (), [DEVICE])
    Maintainer(store, Retention()).finish(AT + 3600)

    def sender() -> PastSender:
        return PastSender(tmp_path, lambda: store, lambda query: (), lambda: AT + 3600)

    hub, first = Hub(), sender()
    hub.away = True
    with pytest.raises(Unavailable):
        first(hub, 0.0)
    with pytest.raises(Unavailable):  # tried again with the next heartbeat
        first(hub, 0.0)
    hub.away = False
    again = sender()
    again(hub, 7200.0)
    assert hub.taken == [], "with a wrong clock nothing is sent"
    again = sender()
    again(hub, 0.0)
    assert windows(hub.taken) == [(Tier.RAW, BEGIN + n * 600_000) for n in range(6)]
    hub.taken.clear()
    sender()(hub, 0.0)
    assert windows(hub.taken) == []
    store.close()


def test_a_part_has_a_size(tmp_path: Path) -> None:
    store = SqliteKind.open(parse_store_url(f"sqlite:///{tmp_path}/h.sqlite"), "n17")
    ticks = [NodeReadings(AT + n, (("GPU-1", ("power_watts",), (n,)),)) for n in range(0, 1800, 10)]
    store.write(ticks, (), [DEVICE])
    Maintainer(store, Retention()).finish(AT + 1800)
    hub = Hub()
    sender = PastSender(tmp_path, lambda: store, lambda query: (), lambda: AT + 1800, most_bytes=1)
    for _ in range(4):  # with the window of minutes
        sender(hub, 0.0)
        assert all(len({one[3] for one in part.blocks}) <= 1 for part in hub.taken)
    assert len(windows(hub.taken)) == 3
    store.close()
