"""What the server says of runs: who sees what, the list and its filters, one run in each form."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from andon.access.roles import ALL_SEEING, BLIND, Sight
from andon.model.job.progress import WorkProgress
from andon.model.run.record import (
    GitState,
    ItemState,
    RunAlert,
    RunCandidate,
    RunDevice,
    RunEvent,
    RunFacts,
    RunItem,
    RunKind,
    RunRow,
    RunSample,
    RunSeries,
    RunState,
)
from andon.model.shapes import shape_of, to_json
from andon.node import run_schemas
from andon.node.run_schemas import RecordExtent, RunDetails, RunEntry, RunPage
from andon.node.seen.runs import SeenRuns
from andon.node.seen.sights import details_seen_by, entry_seen_by, marks_seen_by, not_seen
from andon.node.watched import run_list
from andon.node.watched.run_details import columns_between, details_of, marks_of
from andon.node.watched.runs import FoundRuns, ServedRuns
from andon.runs.growing import MarkLine
from andon.runs.rules.fold import RunFold, row_of
from andon.runs.rules.matching import RunQuery
from andon.units import GIB
from tests.support.described import check
from tests.support.rows import rows
from tests.support.run_records import BEGAN, DEVICES, begin, end, sample, used
from tests.support.served_runs import index_of

ADA, BOB = Sight(user="ada"), Sight(user="bob")
NOW = BEGAN + 60
SECRET = "s3cret"


def row(**changed: Any) -> RunRow:
    fold = RunFold()
    first = begin(command=f"python train.py --key {SECRET}", params={"data": f"/home/ada/{SECRET}"})
    last = end(message=f"ValueError: {SECRET}", last_values={SECRET: 1.0})
    fold.add_all([first, sample(1), last])
    return replace(row_of(first, fold, f"/home/ada/{SECRET}.jsonl", alive=False), **changed)


def details(sight: Sight, *lines: Any, state: RunState | None = None, **begun: Any) -> RunDetails:
    fold = RunFold()
    first = begin(working_directory=f"/home/ada/{SECRET}", **begun)
    fold.add_all([first, *lines])
    found = row_of(first, fold, f"/home/ada/{SECRET}", alive=state is RunState.RUNNING)
    read = RecordExtent(10, 10, 0, None)
    return details_seen_by(sight, details_of(found, fold, read, NOW))


def entry_of(sight: Sight, row: RunRow) -> RunEntry:
    return entry_seen_by(sight, run_list.entry_of(row, NOW))


def test_how_far_a_run_is_is_for_those_who_may_see_its_output() -> None:
    far = WorkProgress(450, 1000, SECRET)
    running = row(state=RunState.RUNNING, progress=far)
    assert entry_of(ADA, running).progress == far
    assert entry_of(BOB, running).progress is None
    assert entry_of(BLIND, running).progress is None


def page_of(sight: Sight, rows: list[RunRow], query: RunQuery, search: str = "") -> RunPage:
    found = FoundRuns(index_of(rows))
    runs = ServedRuns(lambda: found, "of ada", clock=lambda: NOW)
    return SeenRuns(runs, sight).page(query, search)


def listed(sight: Sight, rows: list[RunRow], search: str = "", **query: Any) -> list[str]:
    page = page_of(sight, rows, RunQuery(**query), search)
    return [entry.id for entry in page.items]


@pytest.mark.parametrize(
    ("sight", "shown"), [(ALL_SEEING, True), (ADA, True), (BOB, False), (BLIND, False)]
)
def test_a_stranger_sees_neither_command_nor_folders_nor_parameters(
    sight: Sight, shown: bool
) -> None:
    entry = entry_of(sight, row(note=f"the {SECRET} one"))
    assert (entry.note is not None) is shown
    facts = RunFacts(BEGAN, GitState(SECRET), versions_reason=f"{SECRET} has none of torch")
    items: list[MarkLine] = [
        RunItem(BEGAN + 1, ItemState.FAILED, 3, SECRET, output=SECRET),
        RunEvent(BEGAN + 2, SECRET, {"path": SECRET}),
    ]
    last = end(message=f"KeyError: {SECRET}", last_values={SECRET: 0.5})
    one = details(sight, facts, sample(1), last, command=SECRET, params={"key": SECRET})
    for shows in (entry, one):
        assert (bool(shows.message), bool(shows.last_values)) == (shown, shown)
    said = json.dumps(
        [to_json(v) for v in (entry, one, *marks_seen_by(sight, "ada", marks_of(begin(), items)))]
    )
    assert (SECRET in said) is shown
    assert (entry.hidden is None) is shown
    assert one.downloadable is shown
    assert entry.name == "train"


def test_a_search_does_not_find_what_is_hidden() -> None:
    assert listed(ADA, [row()], SECRET) == ["kqzvmtra"]
    assert listed(BOB, [row(note=SECRET)], SECRET) == []
    assert listed(BOB, [row()], "TRAIN h200") == ["kqzvmtra"]


@pytest.mark.parametrize("sight", [BOB, BLIND])
def test_what_a_jobs_run_is_called_is_hidden_as_in_the_list_of_jobs(sight: Sight) -> None:
    job = row(kind=RunKind.JOB, name=SECRET, tags=(SECRET,), group=SECRET)
    page = page_of(sight, [job], RunQuery())
    assert SECRET not in json.dumps(to_json(page))
    assert (page.items[0].name, page.items[0].tags) == ("hidden", [])
    assert listed(sight, [job], SECRET) == listed(sight, [job], tag=SECRET) == []
    assert listed(sight, [job], group=SECRET) == []
    assert listed(ADA, [job], SECRET) == listed(ADA, [job], tag=SECRET) == [job.id]
    assert entry_of(ADA, job).name == SECRET


def test_tags_are_for_those_who_see_the_command() -> None:
    rows = [row(tags=("acme-merger",))]
    for sight, tags in ((ADA, ["acme-merger"]), (BOB, []), (BLIND, [])):
        page = page_of(sight, rows, RunQuery())
        assert page.items[0].tags == tags
        assert [one.value for one in page.choices.tags] == tags
        assert len(listed(sight, rows, tag="acme-merger")) == len(tags)
        assert len(listed(sight, rows, "acme")) == len(tags)


def test_the_list_is_filtered_counted_and_cut_the_latest_first() -> None:
    small = RunDevice("GPU-c", 0, "0", "NVIDIA A100-SXM4-80GB")
    rows = [
        row(id="a", began=1.0, tags=("x",), group="g"),
        row(id="b", began=3.0, devices=(small,), state=RunState.FAILED),
        row(id="c", began=2.0, tags=("x", "y"), devices=()),
    ]
    assert listed(ADA, rows) == ["b", "c", "a"]
    assert listed(ADA, rows, limit=1, offset=1) == ["c"]
    assert listed(ADA, rows, tag="x") == ["c", "a"]
    assert listed(ADA, rows, group="g") == ["a"]
    assert listed(ADA, rows, state=RunState.FAILED) == ["b"]
    assert listed(ADA, rows, model="A100") == ["b"]
    page = page_of(ADA, rows, RunQuery(limit=1, tag="x"))
    assert (page.total, page.all, page.limit, page.whose) == (2, 3, 1, "of ada")
    assert [(c.value, c.count) for c in page.choices.models] == [("A100-SXM4", 1), ("H200", 1)]
    assert [(c.value, c.count) for c in page.choices.tags] == [("x", 2), ("y", 1)]
    assert [c.value for c in page.choices.states] == ["failed", "succeeded"]
    check(to_json(page), shape_of(run_schemas.RunPage))


@pytest.mark.parametrize(
    ("changed", "gpus", "telemetry", "reason"),
    [
        ({}, "2 × H200", True, None),
        ({"devices": DEVICES[:1]}, "1 × H200", True, None),
        ({"devices": ()}, None, False, "it used no GPU"),
        ({"samples": 0, "no_samples_reason": "too short"}, "2 × H200", False, "too short"),
        ({"samples": 0}, "2 × H200", False, "ended before"),
        ({"samples": None, "state": RunState.RUNNING}, "2 × H200", True, None),
    ],
)
def test_the_gpu_column_says_what_there_was_and_why_there_is_no_telemetry(
    changed: dict[str, Any], gpus: str | None, telemetry: bool, reason: str | None
) -> None:
    entry = entry_of(ADA, row(**changed))
    assert (entry.gpus, entry.telemetry) == (gpus, telemetry)
    assert (entry.telemetry_reason is None) is (reason is None)
    assert (reason or "") in (entry.telemetry_reason or "")


def test_what_goes_on_lasts_until_now_and_what_is_unknown_stays_unknown() -> None:
    going = row(state=RunState.RUNNING, duration_seconds=None, ended=None)
    assert entry_of(ADA, going).duration_seconds == 60.0
    lost = row(state=RunState.LOST, duration_seconds=None)
    assert entry_of(ADA, lost).duration_seconds is None


def test_parameters_are_plain_values() -> None:
    entry = entry_of(ADA, row(params={"lr": 0.1, "on": True, "b": [8, 16], "none": None}))
    assert entry.params == {"lr": 0.1, "on": True, "b": "[8,16]", "none": None}


def test_the_choice_of_devices_is_told_with_every_candidate() -> None:
    taken = [RunCandidate(d.index, d.name, 1000.0, 3.0, 0.9, d.uuid) for d in DEVICES]
    busy = RunCandidate(7, "NVIDIA H200", 5.0, 99.0, 0.1, "GPU-z", "in use by bob")
    one = details(
        ADA, end(), candidates=(*taken, busy), allocation_method="most free", world_size=4
    )
    info = to_json(one.gpu_info)
    assert {name: info[name] for name in ("model", "count", "device_ids", "world_size")} == {
        "model": "NVIDIA H200", "count": 2, "device_ids": ["0", "1"], "world_size": 4,
    }  # fmt: skip
    chosen = info["gpu_info"]
    assert (chosen["count"], chosen["indices"]) == (2, [0, 1])
    assert chosen["allocation_method"] == "most free"
    assert chosen["details"][2] == {
        "index": 7, "name": "NVIDIA H200", "memory_free_mb": 5.0, "utilization_percent": 99.0,
        "availability_score": 0.1, "chosen": False, "obstacle": "in use by bob",
    }  # fmt: skip
    assert [one["chosen"] for one in chosen["details"]] == [True, True, False]


def test_what_was_measured_has_the_kept_shape() -> None:
    memory = {"min": GIB, "max": 4 * GIB, "mean": 2 * GIB, "p95": None}
    summary = {"GPU-a": {**used(40.0), "memory_used_bytes": memory, "power_watts": None}}
    one = details(ADA, end(summary=summary, duration_seconds=12.5, samples=10))
    found = to_json(one.metrics)["gpu_monitoring"]
    assert found["monitoring_duration_seconds"] == 12.5
    assert found["sample_count"] == 10
    unknown = {"min": None, "max": None, "mean": None}
    assert found["gpu_stats"] == {
        "0": {
            "name": "NVIDIA H200",
            "utilization": {"min": 0, "max": 100, "mean": 40.0, "samples": 10},
            "memory_used_mb": {"min": 1024.0, "max": 4096.0, "mean": 2048.0},
            "memory_usage_percent": unknown,
            "temperature_c": unknown,
            "power_draw_w": unknown,
        }
    }
    check(to_json(one), shape_of(run_schemas.RunDetails))


def test_every_partition_of_a_board_is_measured() -> None:
    parts = tuple(RunDevice(f"MIG-{n}", 0, f"0:{n}", "H200 MIG 1g.18gb") for n in range(2))
    one = details(ADA, end(summary={"MIG-0": used(40.0), "MIG-1": used(60.0)}), devices=parts)
    stats = to_json(one.metrics)["gpu_monitoring"]["gpu_stats"]
    assert {label: used["utilization"]["mean"] for label, used in stats.items()} == {
        "0:0": 40.0, "0:1": 60.0,
    }  # fmt: skip


def test_without_samples_nothing_is_called_measured() -> None:
    one = details(ADA, end(samples=0, summary={}, no_samples_reason="too short"))
    assert one.metrics.gpu_monitoring is None
    assert one.telemetry_reason == "too short"
    assert [use.readings["power_watts"].mean for use in one.uses] == [None, None]
    assert (one.series.at, one.series.devices) == ([], {})


def test_a_run_that_goes_on_has_what_was_read_so_far() -> None:
    one = details(ADA, sample(1, 40), sample(2, 60), state=RunState.RUNNING)
    assert one.state is RunState.RUNNING
    assert one.uses[0].readings["utilization_percent"].max == 60
    assert one.series.at
    assert set(one.series.devices["GPU-a"]) == {
        "utilization_percent", "memory_used_bytes", "temperature_celsius", "power_watts",
    }  # fmt: skip


def test_a_finished_run_is_drawn_by_the_series_of_its_end() -> None:
    drawn = {"power_watts": (300.0, None), "sm_clock_mhz": (1980.0, 1980.0)}
    series = RunSeries((0.0, 5.0), {"GPU-a": drawn})
    one = details(ADA, end(series=series))
    assert one.series.at == [0.0, 5.0]
    assert one.series.devices == {"GPU-a": {"power_watts": [300.0, None]}}


def test_news_are_points_and_a_silent_device_is_a_gap() -> None:
    silent = RunSample(BEGAN + 2, {"GPU-a": {"state": "stale"}, "GPU-b": {"state": "ok"}})
    found = columns_between(begin(), [sample(1, 40), silent])
    assert found.at == [1.0, 2.0]
    assert found.devices["GPU-a"]["utilization_percent"] == [40, None]
    assert found.devices["GPU-b"]["utilization_percent"] == [40, None]


def test_what_happened_is_in_order_and_a_failure_is_one() -> None:
    lines: list[MarkLine] = [
        RunItem(BEGAN + 5, ItemState.FAILED, 3, "c.txt", runtime_seconds=2.0),
        RunAlert(BEGAN + 4, "thermal", "critical", "firing", "GPU 0 is hot"),
        RunEvent(BEGAN - 1, "epoch"),
    ]
    marks = marks_of(begin(), lines)
    assert [(m.at, m.kind, m.title) for m in marks] == [
        (0.0, "event", "epoch"), (4.0, "alert", "GPU 0 is hot"), (5.0, "item", "item 3 failed"),
    ]  # fmt: skip
    assert [m.failed for m in marks] == [False, False, True]
    assert marks[2].detail == "c.txt (2 s)"
    assert marks[1].level == "critical"


@rows(
    "sight, shared, said",
    [
        (ALL_SEEING, True, ("there is no run 'x'", "to list them: andon runs")),
        (BLIND, False, ("there is no run 'x'", "to list them: andon runs")),
        (BLIND, True, ("there is no run 'x' that may be shown before you sign in",
                       "sign in: andon open")),
        (ADA, True, ("ada has no run 'x' here",
                     "those of others are shown only to root; yours: andon runs")),
    ],
)  # fmt: skip
def test_what_is_not_there_may_only_be_hidden_and_that_is_said(
    sight: Sight, shared: bool, said: tuple[str, str]
) -> None:
    found = not_seen("run 'x'", sight, shared, "andon runs")
    assert (found.reason, found.hint) == said
