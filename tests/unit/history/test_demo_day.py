"""The day of a simulated lab in a store: charts of any length have no holes."""

import json
from pathlib import Path

import pytest

from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.demo import LOST, Demo
from andon.history.rules import demo as day
from andon.history.rules.seeding import specimens
from andon.stores.memory import MemoryStore
from andon.web.demo.jobs import is_recorded, run_id
from andon.web.demo.runs import DemoRuns

NOWS = [
    1_790_000_000.0,
    pytest.param(1_790_006_401.0, marks=pytest.mark.slow),
    pytest.param(1_790_007_190.0, marks=pytest.mark.slow),
]
"""In the middle of a window of two hours, just after one began, and just before one ends."""


@pytest.fixture(scope="module", params=NOWS)
def filled(request: pytest.FixtureRequest) -> tuple[Demo, MemoryStore]:
    now: float = request.param
    demo = Demo(1, now, specimens(8, 1, "lab"))
    store = MemoryStore()
    store.load([behaviour.describe(one) for one in demo.devices], day.blocks(demo, now))
    store.write(day.last_ticks(demo, now, now), day.uses(demo, now))
    return demo, store


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [300, 1800, 7200, 43_200, 86_400])
@pytest.mark.parametrize("metric", ["utilization_percent", "power_watts", "energy_joules"])
def test_a_chart_has_a_reading_in_every_span(
    filled: tuple[Demo, MemoryStore], seconds: int, metric: str
) -> None:
    demo, store = filled
    points = max(30, min(360, seconds // 5))
    found = store.history(demo.devices[0].uuid, metric, demo.origin - seconds, demo.origin, points)
    assert [one.count > 0 for one in found] == [True] * points


@pytest.mark.slow
def test_a_lost_gpu_has_no_readings_since_then(filled: tuple[Demo, MemoryStore]) -> None:
    demo, store = filled
    uuid, lost = demo.devices[LOST].uuid, demo.lost_at
    after = store.history(uuid, "utilization_percent", lost + 420, demo.origin, 10)
    before = store.history(uuid, "utilization_percent", lost - 3600, lost - 60, 10)
    assert not any(one.count for one in after)
    assert all(one.count for one in before)


@pytest.mark.slow
def test_the_counter_of_energy_never_falls(filled: tuple[Demo, MemoryStore]) -> None:
    demo, store = filled
    for device in demo.devices[:4]:
        found = store.history(device.uuid, "energy_joules", demo.origin - 86_400, demo.origin, 200)
        means = [one.mean for one in found if one.mean is not None]
        assert means == sorted(means)


@pytest.mark.slow
def test_uses_are_those_of_the_works(filled: tuple[Demo, MemoryStore]) -> None:
    demo, store = filled
    found = store.usage(None, demo.origin - 86_400, demo.origin)
    assert {use.user for use in found} == {work.user for work in demo.works}
    names = {use.name for use in found}
    assert {"finetune.py", "pretrain.py", "vllm serve"} <= names
    assert all((use.peak_memory_bytes or 0) > 2**30 for use in found)


@pytest.mark.slow
def test_history_and_record_agree_on_how_busy_a_run_was(
    filled: tuple[Demo, MemoryStore], tmp_path: Path
) -> None:
    demo, store = filled
    now = demo.origin
    DemoRuns(demo, tmp_path).write(now)
    works = [w for w in demo.works if w.ended < now and w.ended - w.began > 2400 and w.is_job]
    recorded = [work for work in works if is_recorded(demo, work)]
    assert len(recorded) > 10
    for work in recorded:
        (path,) = tmp_path.glob(f"*_{run_id(work)}.jsonl")
        uuid = demo.devices[work.gpus[0]].uuid
        ended = json.loads(path.read_text().splitlines()[-1])
        mean = ended["summary"][uuid]["utilization_percent"]["mean"]
        (chart,) = store.history(uuid, "utilization_percent", work.began + 360, work.ended - 360, 1)
        assert chart.mean is not None
        assert abs(mean - chart.mean) < 4, work


def test_a_demo_that_starts_across_the_end_of_a_window_has_no_gap() -> None:
    packed = 1_795_125_599.0  # a second before ten minutes are full
    demo = Demo(1, packed, specimens(8, 1, "lab"))
    ticks = day.last_ticks(demo, packed, packed + 4)
    assert ticks[0].at <= packed - 590
    assert ticks[-1].at >= packed + 2
