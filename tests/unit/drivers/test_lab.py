"""A simulated lab: its works, and what its GPUs do at any time."""

import functools
from itertools import pairwise

import pytest

from andon.drivers.sim.backend import Simulation
from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.lab import (
    CORDONED,
    FREE,
    HOT,
    IDLE_HOLDER,
    LOST,
    ME,
    SERVING,
    Lab,
    LabOutcome,
)
from andon.history.rules.seeding import specimens
from andon.model.device import State

NOW = 1_790_000_000.0
DAY_SECONDS = 86_400.0

SEEDS = [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 12))]


@functools.cache
def lab(seed: int = 1) -> Lab:
    return Lab(seed, NOW, specimens(8, seed, "lab"))


def test_a_seed_always_makes_the_same_lab() -> None:
    assert lab.__wrapped__(3).works == lab(3).works
    assert lab(3).works != lab(1).works


@pytest.mark.parametrize("seed", SEEDS)
def test_a_gpu_never_runs_two_works_at_once(seed: int) -> None:
    made = lab(seed)
    for gpu in range(8):
        mine = sorted((w.began, w.ended) for w in made.works if gpu in w.gpus)
        assert all(begin < end for begin, end in mine)
        assert all(before[1] <= after[0] for before, after in pairwise(mine))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_kind_of_work_and_person_is_there(seed: int) -> None:
    made = lab(seed)
    past = [work for work in made.works if work.ended < NOW]
    assert {work.outcome for work in past} == set(LabOutcome)
    assert {work.user for work in made.works} == {"alice", "bob", "carol", "dora", ME}
    assert {"lr-sweep", "distill"} <= {work.group for work in past}
    assert len([work for work in made.works if work.array]) > 2
    waiting = [work for work in made.works if work.submitted < NOW < work.began]
    assert len([work for work in waiting if work.why]) > 2


def test_each_gpu_shows_something_else_when_the_lab_is_opened() -> None:
    made = lab()
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
    made = lab()
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
    made = lab()
    for work in made.running(NOW):
        for gpu in work.gpus:
            (process,) = behaviour.processes(made.device(gpu, NOW), NOW)
            assert (process.user, process.command) == (work.user, work.command)
            assert process.started == work.began
            assert process.pid > 2**22  # of no process on any machine


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_waits_for_a_gpu_that_is_free(seed: int) -> None:
    """A work that says not what it waits for starts within seconds, now and later."""
    waits = [w for w in lab(seed).works if w.is_job and not w.why and not w.begins_later]
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
        assert found.sample.at == lab().lost_at
        assert "fallen off the bus" in (found.reason or "")


def test_the_backend_reads_what_the_lab_says() -> None:
    sim, made = Simulation(8, 1, "lab", origin=NOW), lab()
    for card in sim.open():
        (read,) = sim.read(card, NOW, watched=True)
        expected = behaviour.processes(made.device(card.index, NOW), NOW)
        assert read.processes == expected
