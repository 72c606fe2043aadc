"""A simulated lab: its works, and what its GPUs do at any time."""

import functools
from itertools import pairwise

import pytest

from andon.drivers.sim.backend import Simulation
from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.demo import (
    CORDONED,
    FREE,
    HOT,
    IDLE_HOLDER,
    LOST,
    ME,
    SERVING,
    Demo,
    DemoOutcome,
    DemoWork,
)
from andon.errors import Gone, Unavailable
from andon.history.rules.seeding import specimens
from andon.model.device import HOST_VALUES, State

NOW = 1_790_000_000.0
DAY_SECONDS = 86_400.0

SEEDS = [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))]


@functools.cache
def demo(seed: int = 1) -> Demo:
    return Demo(seed, NOW, specimens(8, seed, "lab"))


def test_a_seed_always_makes_the_same_lab() -> None:
    assert demo.__wrapped__(3).works == demo(3).works
    assert demo(3).works != demo(1).works


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gpu_never_runs_two_works_at_once(seed: int) -> None:
    made = demo(seed)
    for gpu in range(8):
        mine = sorted((w.began, w.ended) for w in made.works if gpu in w.gpus)
        assert all(begin < end for begin, end in mine)
        assert all(before[1] <= after[0] for before, after in pairwise(mine))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_of_work_and_person_is_there(seed: int) -> None:
    made = demo(seed)
    past = [work for work in made.works if work.ended < NOW]
    assert {work.outcome for work in past} == set(DemoOutcome)
    assert {work.user for work in made.works} == {"alice", "bob", "carol", "dora", ME}
    assert {"lr-sweep", "distill"} <= {work.group for work in past}
    assert len([work for work in made.works if work.array]) > 2
    waiting = [work for work in made.works if work.submitted < NOW < work.began]
    assert len([work for work in waiting if work.why]) > 2


def test_each_gpu_shows_something_else_when_the_lab_is_opened() -> None:
    made = demo()
    by_gpu = {gpu: work for work in made.running(NOW) for gpu in work.gpus}
    assert by_gpu[0] is by_gpu[1]
    assert by_gpu.keys() == {0, 1, HOT, SERVING, IDLE_HOLDER}
    assert not {FREE, LOST, CORDONED} & by_gpu.keys()
    hottest = max(
        behaviour.temperature_celsius(made.device(HOT, NOW - s), NOW - s) for s in range(240)
    )
    assert hottest > 85
    idle = [
        behaviour.utilization_percent(made.device(IDLE_HOLDER, NOW - s), NOW - s)
        for s in range(0, 3600, 60)
    ]
    assert set(idle) == {0}


def test_counters_only_rise_and_nothing_jumps_when_works_change() -> None:
    made = demo()
    for gpu in range(8):
        changes = [t for w in made.works if gpu in w.gpus for t in (w.began, w.ended)]
        for at in (t for t in changes if t < NOW):
            before, after = made.device(gpu, at - 0.01), made.device(gpu, at + 0.01)
            energy = [
                behaviour.energy_joules(d, t) for d, t in ((before, at - 0.01), (after, at + 0.01))
            ]
            assert 0 <= energy[1] - energy[0] < 50
            heat = [
                behaviour.temperature_celsius(d, t)
                for d, t in ((before, at - 0.01), (after, at + 0.01))
            ]
            assert abs(heat[1] - heat[0]) < 1


def test_a_process_belongs_to_the_person_whose_work_it_is() -> None:
    made = demo()
    for work in made.running(NOW):
        for gpu in work.gpus:
            (process,) = behaviour.processes(made.device(gpu, NOW), NOW)
            assert (process.user, process.command) == (work.user, work.command)
            assert process.started == work.began
            assert process.pid > 2**22  # of no process on any machine


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_waits_for_a_gpu_that_is_free(seed: int) -> None:
    """A work that says not what it waits for starts within seconds, now and later."""
    waits = [w for w in demo(seed).works if w.is_job and not w.why and not w.begins_later]
    late = [w for w in waits if w.began > NOW - 3600 and w.began - w.submitted > 10]
    assert late == []


def test_the_lost_gpu_is_known_as_it_was_when_it_was_lost() -> None:
    sim = Simulation(8, 1, "lab", origin=NOW)
    card = sim.open()[LOST]
    assert sim.describe(card)
    for at in (NOW, NOW + 2, NOW + DAY_SECONDS):
        (found,) = sim.read(card, at, watched=False)
        assert (found.state, found.processes) == (State.LOST, ())
        assert found.sample is not None
        assert found.sample.at == demo().lost_at
        assert "fallen off the bus" in (found.reason or "")


def test_the_backend_reads_what_the_lab_says() -> None:
    sim, made = Simulation(8, 1, "lab", origin=NOW), demo()
    for card in sim.open():
        (read,) = sim.read(card, NOW, watched=True)
        expected = behaviour.processes(made.device(card.index, NOW), NOW)
        assert read.processes == expected


def busy_percent(made: Demo, work: DemoWork, seconds: float = 0.0, each: int = 5) -> float:
    gpu, times = work.gpus[0], range(int(work.began), int(work.ended), each)
    found = [behaviour.sample(made.device(gpu, t), t, seconds).utilization_percent for t in times]
    return sum(one or 0 for one in found) / len(found)


@pytest.mark.slow
def test_a_seed_gives_one_value_of_a_run_whenever_the_lab_is_opened() -> None:
    found = []
    for origin in (NOW, NOW + 5_003.0, NOW + 86_417.0):
        made = Demo(1, origin, specimens(8, 1, "lab"))
        found.append([
            round(busy_percent(made, work, 300.0, 300))
            for work in made.works if origin - 6 * 3600 < work.began < work.ended < origin
        ])  # fmt: skip
    assert found[0] == found[1] == found[2]


@pytest.mark.slow
def test_the_mean_of_some_seconds_is_that_of_the_readings_in_them() -> None:
    made = demo()
    works = {work.workload: work for work in made.works if work.ended < NOW and work.is_job}
    assert len(works) > 3
    for work in works.values():
        assert abs(busy_percent(made, work, 360.0, 360) - busy_percent(made, work)) < 3


def test_the_machine_of_the_lab_has_values_of_its_own() -> None:
    made = demo()
    host = made.host(NOW)
    assert host == demo.__wrapped__().host(NOW)
    assert host.cpu_percent is not None
    assert 0 < host.cpu_percent < 100
    assert 0 < (host.memory_used_bytes or 0) < (host.memory_total_bytes or 0)
    for name in HOST_VALUES:
        assert (getattr(host, name) is None) == (name in host.missing)


def test_a_simulated_fault_says_what_to_do_and_that_it_is_simulated() -> None:
    for fault in ("lost:0@0", "unavailable@0"):
        sim = Simulation(1, 1, "idle", faults=[fault], origin=NOW)
        with pytest.raises((Gone, Unavailable)) as caught:
            sim.read(sim.open()[0], NOW + 2, watched=False)
        advice, _, rest = caught.value.hint.partition(" (")
        assert "simulated" not in advice
        assert advice.startswith(("find the cause", "load the driver"))
        assert f"simulated by {fault}: nothing is broken" in rest
