"""The past of a node: what it sends, once, and what a hub refuses of it."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from andon.alerts.rules.overview import AlertOverview
from andon.errors import Invalid, Unavailable
from andon.fleet.link import HubLink
from andon.fleet.rules.past import (
    LENGTH,
    MOST_ROW_BYTES,
    SCHEMA,
    PastPart,
    due_windows,
    of_hub,
    packed_past,
    runs_since,
    unpacked_past,
)
from andon.fleet.sending import MARKS_FILE, PastSender, read_marks
from andon.history.rules.codec import pack_points
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import NodeReadings
from andon.history.rules.tiers import Extent, Retention, StoredBlock, Tier
from andon.history.writer import Maintainer
from andon.model.device import Device
from andon.model.run.record import RunKind, RunRow, RunState
from andon.model.shapes import to_json
from andon.model.wire import dumps
from andon.node.watched.past import ServedPast
from andon.ports import Store
from andon.settings.store_url import parse_store_url
from andon.stores.sqlite_kind import SqliteKind
from tests.support.notices import HOT

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
    now = BEGIN + 1_800_000
    assert due_windows(extents, (), {}, 10, now) == every
    assert due_windows(extents, (BEGIN + 1_200_000,), {}, 10, now) == every[:2]
    assert due_windows(extents, (), {Tier.RAW: BEGIN + 600_000}, 10, now) == every[1:]
    assert due_windows(extents, (), {}, 1, now) == every[:1]


def test_windows_that_a_wrong_clock_dated_later_are_not_sent() -> None:
    year_2109 = BEGIN + 83 * 365 * 86_400_000
    extents = {Tier.RAW: Extent(BEGIN, year_2109)}
    every = [(Tier.RAW, BEGIN + n * 600_000) for n in range(4)]
    assert due_windows(extents, (), {}, 100, BEGIN + 1_800_000) == every


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


def node_of(store: Store, runs: Sequence[RunRow] = (), note: str | None = None) -> Any:
    """A node with this history, these runs and one alert; `note`: why those of the past are
    missing."""
    page = AlertOverview("n17", AT, (replace(HOT, since=AT, fired=AT),), note=note)
    return SimpleNamespace(
        past=ServedPast(lambda: store),
        alerts=SimpleNamespace(page=lambda wanted: page),
        runs=SimpleNamespace(find=lambda query: runs),
    )


def windows(parts: Sequence[PastPart]) -> list[tuple[Tier, int]]:
    raw = {(one[2], one[3]) for part in parts for one in part.blocks if one[2] is Tier.RAW}
    return sorted(raw)


def test_what_was_acknowledged_is_not_sent_again_after_a_restart(tmp_path: Path) -> None:
    store = SqliteKind.open(parse_store_url(f"sqlite:///{tmp_path}/h.sqlite"), "n17")
    ticks = [NodeReadings(AT + n, (("GPU-1", ("power_watts",), (n,)),)) for n in range(0, 3600, 10)]
    store.write(ticks, (), [DEVICE])
    Maintainer(store, Retention()).finish(AT + 3600)

    def sender() -> PastSender:
        return PastSender(tmp_path, node_of(store), lambda: AT + 3600)

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


def test_a_run_that_begins_goes_to_the_hub_after_the_next_report(tmp_path: Path) -> None:
    store = SqliteKind.open(parse_store_url(f"sqlite:///{tmp_path}/h.sqlite"), "n17")
    runs, hub = list[RunRow](), Hub()
    sender = PastSender(tmp_path, node_of(store, runs), lambda: AT)
    sender(hub, 0.0)
    runs.append(RunRow("kqzvmtra", "train", RunKind.COMMAND, RunState.RUNNING, "x", AT, "/a"))
    sender(hub, 0.0)
    store.close()
    assert [one.id for part in hub.taken for one in part.runs] == ["kqzvmtra"]


def test_while_alerts_of_the_past_cannot_be_read_nothing_counts_as_sent(tmp_path: Path) -> None:
    store = SqliteKind.open(parse_store_url(f"sqlite:///{tmp_path}/h.sqlite"), "n17")
    hub = Hub()
    with pytest.raises(Unavailable, match="past alerts cannot be read"):
        PastSender(tmp_path, node_of(store, note="past alerts cannot be read"))(hub, 0.0)
    assert (hub.taken, read_marks(tmp_path).at) == ([], 0.0)
    PastSender(tmp_path, node_of(store), lambda: AT)(hub, 0.0)
    store.close()
    assert [one.id for part in hub.taken for one in part.alerts] == [HOT.id]
    assert read_marks(tmp_path).at == AT


@pytest.mark.parametrize(
    "marks",
    [
        {"tiers": {"0": BEGIN + 10**12}, "at": AT + 2.6e9},
        {"tiers": {"x": 1, "99": 2, "-1": 3}, "at": 1.0},
        {"tiers": {"0": 10**40}},
    ],
    ids=["of a wrong clock", "of no tier", "of no number"],
)
def test_marks_that_cannot_be_do_not_stop_what_follows(tmp_path: Path, marks: object) -> None:
    store = SqliteKind.open(parse_store_url(f"sqlite:///{tmp_path}/h.sqlite"), "n17")
    ticks = [NodeReadings(AT + n, (("GPU-1", ("power_watts",), (n,)),)) for n in range(0, 1800, 10)]
    store.write(ticks, (), [DEVICE])
    Maintainer(store, Retention()).finish(AT + 1800)
    hub = Hub()
    assert isinstance(marks, dict)
    (tmp_path / MARKS_FILE).write_text(json.dumps({"hub": hub.url, **marks}))
    PastSender(tmp_path, node_of(store), lambda: AT + 1800)(hub, 0.0)
    assert len(windows(hub.taken)) == 3
    assert read_marks(tmp_path).at == AT + 1800
    store.close()


def test_a_part_has_a_size(tmp_path: Path) -> None:
    store = SqliteKind.open(parse_store_url(f"sqlite:///{tmp_path}/h.sqlite"), "n17")
    ticks = [NodeReadings(AT + n, (("GPU-1", ("power_watts",), (n,)),)) for n in range(0, 1800, 10)]
    store.write(ticks, (), [DEVICE])
    Maintainer(store, Retention()).finish(AT + 1800)
    hub = Hub()
    sender = PastSender(tmp_path, node_of(store), lambda: AT + 1800, most_bytes=1)
    for _ in range(4):  # with the window of minutes
        sender(hub, 0.0)
        assert all(len({one[3] for one in part.blocks}) <= 1 for part in hub.taken)
    assert len(windows(hub.taken)) == 3
    store.close()


def test_what_lies_after_tomorrow_is_left_out_and_the_rest_is_taken() -> None:
    run = RunRow("a", "x", RunKind.COMMAND, RunState.SUCCEEDED, "n", AT, "", "eve", AT)
    far = HOT.since + 2 * 86_400
    runs = [run, replace(run, id="b", began=far), replace(run, id="c", ended=far)]
    use = UsageInterval("GPU-1", 7, AT, None, None, AT, AT)
    uses = [use, replace(use, last=far), replace(use, first=far)]
    alerts = [HOT, replace(HOT, since=far), replace(HOT, resolved=far)]
    body = packed_past(PastPart((), (), uses, alerts, runs))
    found = unpacked_past(body, HOT.since + 3600)
    assert ([one.id for one in found.runs], list(found.uses)) == (["a"], [use])
    assert [one.id for one in found.alerts] == [HOT.id]


def test_a_run_that_is_too_large_for_a_list_is_there_without_what_is_large() -> None:
    small = RunRow("a", "x", RunKind.COMMAND, RunState.SUCCEEDED, "n", AT, "", "eve", AT)
    assert of_hub(small, "n") == small
    large = replace(small, params={"p": "x" * 1_000_000}, command="c")
    found = of_hub(large, "n")
    assert (found.params, found.command, found.note) == (
        {}, "c", "too large for a hub: andon runs show a",
    )  # fmt: skip
    worst = replace(
        large, command="\x01" * 16_000, message="\x01" * 16_000, tags=("t" * 500,) * 900
    )
    assert len(dumps(to_json(of_hub(worst, "n")))) < MOST_ROW_BYTES


def test_a_part_of_many_values_or_levels_is_refused() -> None:
    deep = json.loads('{"a":' * 900 + "{}" + "}" * 900)
    row = {"id": "a", "name": "x", "kind": "command", "state": "succeeded", "node": "n",
           "began": AT, "path": "", "params": deep}  # fmt: skip
    headers: list[dict[str, Any]] = [{"runs": [row]}, {"x": [[]] * 300_000}]
    for header in headers:
        head = json.dumps(header).encode()
        with pytest.raises(Invalid):
            unpacked_past(SCHEMA + LENGTH.pack(len(head)) + head, AT)
