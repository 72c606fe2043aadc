"""What the board draws: columns, uses, the last minutes, and types that are true."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from andon.history.notes import NoteBook
from andon.history.rules.intervals import UsageInterval
from andon.history.rules.series import NodeReadings, throttle_mask
from andon.model.device import State
from andon.node.watched.recorded_past import NoPast, RecordedPast
from andon.ports import Store
from andon.stores.memory import MemoryStore
from andon.web.answers import schemas
from andon.web.answers.description import ANSWERS
from andon.web.routes import charts
from tests.conftest import REPOSITORY
from tests.support import snapshots as drawn
from tests.support.described import check
from tests.support.run_records import write_record
from tests.support.served_runs import row_at, runs_of
from tests.support.web_parts import TOKEN, Caller, Parts, served

GPU = drawn.uuid(0)


class Kept(NoPast):
    """A memory with a store that a test filled, and notes."""

    book = NoteBook()

    def __init__(self, store: Store | None) -> None:
        super().__init__("the disk is full", "make room")
        if store is not None:
            self.store = lambda: store


def _tick(at: float, percent: int, reasons: tuple[str, ...]) -> NodeReadings:
    names = ("utilization_percent", "throttle", *(f"throttle:{one}" for one in reasons))
    return NodeReadings(
        at, ((GPU, names, (percent, throttle_mask(reasons), *(1 for _ in reasons))),)
    )


def filled() -> MemoryStore:
    store = MemoryStore()
    hot, capped = ("sw_thermal_slowdown",), ("sw_power_cap", "gpu_idle")
    readings = [(0, 10, ()), (1, 90, hot), (2, 50, capped), (7, 70, ())]
    ticks = [_tick(100.0 + at, percent, reasons) for at, percent, reasons in readings]
    store.write(ticks, [UsageInterval(GPU, 7, 50.0, "alice", "train.py", 101.0, 105.0, 400)])
    return store


def asked(tmp_path: Path, path: str, store: Store | None) -> Any:
    parts = Parts(tmp_path, [drawn.farm()], memory=Kept(store))
    with served(parts) as client:
        return client.get(path)


def test_several_readings_come_in_columns_with_gaps(tmp_path: Path) -> None:
    said = asked(
        tmp_path,
        "/api/devices/0/charts?metrics=utilization_percent,power_watts&since=100&until=110&points=5",
        filled(),
    ).json()
    assert said["at"] == [100, 102, 104, 106, 108]
    assert said["series"]["utilization_percent"] == {
        "min": [10, 50, None, 70, None],
        "mean": [50, 50, None, 70, None],
        "max": [90, 50, None, 70, None],
    }
    assert said["series"]["power_watts"]["mean"] == [None] * 5
    assert said["throttle"] == {
        "sw_thermal_slowdown": [0.5, 0, None, 0, None],
        "sw_power_cap": [0, 1, None, 0, None],
    }
    assert said["readings"] == [2, 1, 0, 1, 0]


def test_one_reading_of_every_device_comes_at_once(tmp_path: Path) -> None:
    said = asked(
        tmp_path, "/api/charts?metric=utilization_percent&since=100&until=110&points=5", filled()
    ).json()
    assert said["at"] == [100, 102, 104, 106, 108]
    assert list(said["devices"]) == [status.device.uuid for status in drawn.farm().devices]
    assert said["devices"][GPU]["max"] == [90, 50, None, 70, None]
    others = [band["mean"] for uuid, band in said["devices"].items() if uuid != GPU]
    assert others
    assert all(mean == [None] * 5 for mean in others)


@pytest.mark.parametrize(
    "query", ["metric=nonsense", "metric=throttle", "points=401", "since=5&until=4"]
)
def test_nonsense_about_every_device_is_told_as_such(tmp_path: Path, query: str) -> None:
    assert asked(tmp_path, f"/api/charts?{query}", filled()).status_code == 422


def test_who_was_there_is_told_with_the_peak(tmp_path: Path) -> None:
    said = asked(tmp_path, "/api/devices/0/usage?since=100&until=110", filled()).json()
    assert [(use["user"], use["first"], use["last"], use["peak_memory_bytes"])
            for use in said["items"]] == [("alice", 101.0, 105.0, 400)]  # fmt: skip
    assert said["omitted"] == 0


@pytest.mark.parametrize("path", ["/api/devices/0/usage", "/api/usage"])
def test_what_was_running_is_told_to_those_who_may_see_command_lines(
    tmp_path: Path, path: str
) -> None:
    recorder: Any = SimpleNamespace(store=filled(), close=lambda: None)
    parts = Parts(tmp_path, [drawn.farm()], memory=RecordedPast(recorder))
    with served(parts) as client:
        for headers, name in (({}, None), ({"Authorization": f"Bearer {TOKEN}"}, "train.py")):
            said = client.get(f"{path}?since=100&until=110", headers=headers).json()
            assert [(use["user"], use["name"]) for use in said["items"]] == [("alice", name)]


def test_the_last_minutes_have_gaps_where_a_device_was_silent() -> None:
    farm = drawn.farm()
    first = farm.devices[0]
    silent = replace(farm, at=farm.at + 1, devices=(replace(first, state=State.STALE),))
    said = charts.lately([farm, silent], "utilization_percent")
    assert said["at"] == [farm.at, farm.at + 1]
    assert said["devices"] == {first.device.uuid: [87, None]}
    assert charts.lately([], "utilization_percent")["devices"] == {}


def test_the_last_minutes_begin_in_the_history_so_that_a_tile_is_whole(tmp_path: Path) -> None:
    farm, store = drawn.farm(), MemoryStore()
    store.write([_tick(farm.at - ago, 40, ()) for ago in (200, 198, 100, 1)], [])
    parts = Parts(tmp_path, [farm], memory=Kept(store))
    with served(parts) as client:
        said = client.get("/api/recent?seconds=300").json()
    column = said["devices"][GPU]
    assert len(said["at"]) == len(column) == 61
    assert said["at"] == sorted(said["at"])
    assert farm.at - said["at"][0] == 300
    assert [round(farm.at - at) for at, value in zip(said["at"], column, strict=True)
            if value == 40] == [200, 100, 5]  # fmt: skip
    assert column[-1] == 87  # the latest sample itself


def test_the_last_hours_are_means_of_two_minutes(tmp_path: Path) -> None:
    farm, store = drawn.farm(), MemoryStore()
    store.write([_tick(farm.at - ago, busy, ()) for ago, busy in ((7_000, 40), (6_990, 60))], [])
    with served(Parts(tmp_path, [farm], memory=Kept(store))) as client:
        said = client.get("/api/recent?seconds=10800").json()
    column = said["devices"][GPU]
    assert len(said["at"]) == len(column) == 91
    assert farm.at - said["at"][0] == 10_800
    assert [value for value in column if value is not None] == [50, 87]


def test_without_a_history_the_last_minutes_are_those_in_memory(tmp_path: Path) -> None:
    said = asked(tmp_path, "/api/recent?seconds=300", None).json()
    assert len(said["at"]) == 1
    assert said["devices"][GPU] == [87]


@pytest.mark.parametrize(
    "path",
    ["charts?metrics=nonsense", "charts?metrics=", "charts?since=5&until=4",
     "usage?since=5&until=4", "charts?points=0", "charts?metrics=throttle"],
)  # fmt: skip
def test_nonsense_is_told_as_such(tmp_path: Path, path: str) -> None:
    answer = asked(tmp_path, f"/api/devices/0/{path}", filled())
    assert answer.status_code == 422
    assert answer.json()["error"]["hint"]


def test_each_user_has_hours_and_days(tmp_path: Path) -> None:
    found = asked(tmp_path, "/api/users?since=90&until=120", filled()).json()
    (alice,) = found["items"]
    assert (alice["user"], alice["device_seconds"]) == ("alice", 4.0)
    assert (alice["idle_share"], alice["energy_joules"]) == (0.0, None)
    assert [one["device_seconds"] for one in alice["days"]] == [4.0]
    assert found["price_per_kwh"] is None
    month = asked(tmp_path, "/api/users?since=90&until=120&each=month&by=group", filled()).json()
    (group,) = month["items"]
    assert [(one["day"], one["device_seconds"], one["idle_share"]) for one in group["days"]] == [
        ("1970-01", 4.0, 0.0)
    ]
    assert asked(tmp_path, "/api/users?by=nonsense", filled()).status_code == 422
    refused = asked(tmp_path, "/api/users?since=5&until=4", filled())
    assert refused.status_code == 422
    assert refused.json()["error"]["hint"] == "since must be before until"


@pytest.mark.parametrize("path", ["charts", "usage"])
def test_a_dead_store_is_a_reason_and_not_an_empty_chart(tmp_path: Path, path: str) -> None:
    answer = asked(tmp_path, f"/api/devices/0/{path}", None)
    assert answer.status_code == 503
    assert answer.json()["error"]["reason"] == "the disk is full"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("state")
    runs = runs_of([row_at(write_record(folder / "train.jsonl"))])
    parts = Parts(folder, [drawn.farm()], memory=Kept(filled()), runs=runs)
    with served(parts) as found:
        yield found


OF_A_HUB = ("/api/nodes/items", "/api/nodes/courses", "/api/checks/fleet")
"""tests/integration/fleet asks these of a real hub."""
ASKED = [
    path for method, path in ANSWERS
    if method == "get" and path not in ("/api/alerts/{alert}", *OF_A_HUB)
]  # fmt: skip


@pytest.mark.parametrize("path", ASKED)
def test_the_described_types_are_what_is_said(client: Caller, path: str) -> None:
    named = {"{device}": "0", "{name}": "thermal", "{run}": "kqzvmtra", "{job}": "1"}
    asked = path
    for place, name in named.items():
        asked = asked.replace(place, name)
    more = {"/api/run-courses": "?runs=kqzvmtra,nothing", "/api/history/changes": "?device=0"}
    asked += more.get(path, "")
    said = client.get(asked, headers={"Authorization": f"Bearer {TOKEN}"})
    check(said.json(), ANSWERS["get", path])


def test_features_name_every_place(client: Caller) -> None:
    said = client.get("/api/features").json()["features"]
    assert set(said) == {"alerts", "leases", "jobs", "runs", "nodes", "demo"}
    without = ("alerts", "nodes", "demo")
    empty = [name for name, there in said.items() if not there and name not in without]
    for name in empty:
        assert "yet" in client.get(f"/api/{name}").json()["note"]


def test_the_golden_description_is_what_the_board_is_made_from(client: Caller) -> None:
    """`make golden` writes it anew; the board's types follow when it is built."""
    from tests.support.snapshots import assert_golden

    said = client.get("/openapi.json").json()
    said["info"]["version"] = "0"
    text = json.dumps(said, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert_golden(str(REPOSITORY / "frontend" / "openapi.json"), text)


def test_types_have_a_sentence_each() -> None:
    models = [one for one in vars(schemas).values() if isinstance(one, type)]
    assert all(model.__doc__ for model in models)
