"""The simulation is deterministic, consistent with itself, and goes wrong as its script says."""

import json
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from andon.drivers.sim.backend import Simulation
from andon.drivers.sim.rules import behaviour
from andon.drivers.sim.rules.behaviour import CONTEXT_BYTES, FIRST_PID, POWERED_ON, Specimen
from andon.drivers.sim.rules.scenarios import SCENARIOS, Script, ScriptedFault, parse_faults
from andon.drivers.sim.rules.workloads import MODELS, PROFILES, Workload
from andon.errors import Gone, Invalid, Unavailable
from andon.model import wire, wire_in
from andon.model.device import SAMPLE_VALUES, Card, Reading, Sample
from andon.ports import Backend
from andon.registry import BACKENDS, load
from andon.units import GIB

NOON = 1_763_035_200.0
THROTTLE = {
    "gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost",
    "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown",
    "display_clock_setting",
}  # fmt: skip

times = st.floats(POWERED_ON, POWERED_ON + 1e9)
seeds = st.integers(0, 2**32)
specimens = st.builds(
    behaviour.make_specimen,
    st.integers(0, 15),
    seeds,
    st.sampled_from(list(MODELS.values())),
    st.sampled_from(Workload),
)


def playing(workload: Workload, model: str = "H200", seed: int = 1) -> Specimen:
    return behaviour.make_specimen(0, seed, MODELS[model], workload)


def film(specimen: Specimen, seconds: int = 600, step: float = 1.0) -> list[Sample]:
    return [behaviour.sample(specimen, NOON + step * i) for i in range(int(seconds / step))]


def busy(samples: list[Sample]) -> list[int]:
    return [s.utilization_percent for s in samples if s.utilization_percent is not None]


def opened(*faults: str, count: int = 5, scenario: str = "training") -> tuple[Backend, list[Card]]:
    backend: Backend = Simulation(count, scenario=scenario, faults=faults, origin=NOON)
    return backend, list(backend.open())


def read(backend: Backend, card: Card, elapsed: float, watched: bool = False) -> Reading:
    (reading,) = backend.read(card, NOON + elapsed, watched)
    return reading


class TestTheWholeNode:
    def test_the_same_arguments_say_the_same_in_every_process(self) -> None:
        first, second = Simulation(10, seed=7, origin=NOON), Simulation(10, seed=7, origin=NOON)
        for one, other in zip(first.open(), second.open(), strict=True):
            assert one == other
            assert first.read(one, NOON + 33.3, True) == second.read(other, NOON + 33.3, True)

    def test_another_seed_is_another_node(self) -> None:
        keys = {card.key for seed in range(50) for card in Simulation(8, seed=seed).open()}
        assert len(keys) == 400
        assert all(key.startswith("SIM-") for key in keys)

    def test_more_devices_do_not_change_those_that_were_there(self) -> None:
        assert Simulation(8).glance()[:3] == Simulation(3).glance()

    def test_it_is_in_the_registry_and_starts_from_json(self) -> None:
        options = json.loads(
            '{"count": 2, "seed": 3, "scenario": "idle", "models": ["t4"], "faults": ["slow:1=0"]}'
        )
        backend: Backend = load(BACKENDS, "sim")(**options)
        names = [backend.describe(card)[0].name for card in backend.open()]
        assert names == ["Tesla T4 (simulated)"] * 2
        backend.close()
        backend.close()

    def test_every_device_says_that_it_is_simulated(self) -> None:
        backend, cards = opened(count=10, scenario="mixed")
        devices = [device for card in cards for device in backend.describe(card)]
        assert {device.vendor for device in devices} == {"sim"}
        assert all(device.name.endswith("(simulated)") for device in devices)
        assert {device.pci for device in devices} == {None}
        assert [device.index for device in devices] == list(range(10))

    def test_the_mixed_scenario_plays_every_workload_and_every_card(self) -> None:
        assert {workload for _, workload in SCENARIOS["mixed"].parts} == set(Workload)
        assert {model for model, _ in SCENARIOS["mixed"].parts} == set(MODELS)

    @pytest.mark.parametrize("name", ["RTX 4090", "rtx4090", "rtx-4090", "Rtx_4090"])
    def test_a_model_is_found_however_it_is_typed(self, name: str) -> None:
        (card,) = Simulation(1, models=[name]).open()
        assert card.name == "NVIDIA GeForce RTX 4090 (simulated)"

    def test_models_are_dealt_in_turn(self) -> None:
        cards = Simulation(4, models=["T4", "L4"]).open()
        assert [str(card.name).split()[1] for card in cards] == ["T4", "L4", "T4", "L4"]

    def test_a_node_may_have_no_device(self) -> None:
        assert list(Simulation(0, scenario="faulty").open()) == []

    def test_every_mistake_is_named_at_once(self) -> None:
        with pytest.raises(Invalid) as caught:
            Simulation(-1, scenario="calm", models=["H200", "Voodoo"], faults=["burn:1"])
        assert len(caught.value.mistakes) == 4
        assert any("Voodoo" in mistake for mistake in caught.value.mistakes)

    def test_a_card_that_is_not_its_own_is_gone(self) -> None:
        backend, _ = opened(count=1)
        with pytest.raises(Gone):
            backend.read(Card("SIM-other", 0), NOON, False)

    def test_before_it_is_opened_nothing_can_be_read(self) -> None:
        backend = Simulation(1)
        with pytest.raises(Unavailable):
            backend.read(backend.glance()[0], NOON, False)


class TestConsistency:
    @given(specimens, times)
    def test_memory_adds_up(self, specimen: Specimen, at: float) -> None:
        s, held = behaviour.sample(specimen, at), behaviour.processes(specimen, at)
        used, free, reserved = s.memory_used_bytes, s.memory_free_bytes, s.memory_reserved_bytes
        assert used is not None
        assert free is not None
        assert reserved is not None
        assert used + free + reserved == specimen.model.memory_bytes
        assert used >= 0
        assert free >= 0
        assert used - sum(p.memory_bytes or 0 for p in held) == CONTEXT_BYTES * len(held)

    @given(specimens, times)
    def test_power_stays_within_the_limit(self, specimen: Specimen, at: float) -> None:
        s = behaviour.sample(specimen, at)
        assert s.power_watts is not None
        assert s.power_limit_watts is not None
        assert 0 < s.power_watts <= s.power_limit_watts <= specimen.model.power_watts

    @given(specimens, times)
    def test_idle_is_zero_and_zero_is_idle(self, specimen: Specimen, at: float) -> None:
        s = behaviour.sample(specimen, at)
        assert s.throttle is not None
        assert set(s.throttle) <= THROTTLE
        assert (s.utilization_percent == 0) == (s.throttle == ("gpu_idle",))
        assert (s.utilization_percent == 0) == (s.sm_clock_mhz == specimen.model.idle_clock_mhz)

    @given(specimens, times)
    def test_clocks_fall_only_for_a_reason(self, specimen: Specimen, at: float) -> None:
        s = behaviour.sample(specimen, at)
        assert s.sm_clock_mhz is not None
        assert s.sm_clock_mhz <= specimen.model.sm_clock_mhz
        if s.sm_clock_mhz < 0.9 * specimen.model.sm_clock_mhz:
            assert s.throttle

    @given(specimens, times)
    def test_every_number_is_in_its_range(self, specimen: Specimen, at: float) -> None:
        s = behaviour.sample(specimen, at)
        for name in SAMPLE_VALUES:
            if name.endswith("_percent"):
                assert 0 <= getattr(s, name) <= 100
        assert s.temperature_celsius is not None
        assert 20 <= s.temperature_celsius <= specimen.model.slowdown_celsius + 4

    @given(specimens, times, times)
    def test_the_fan_follows_the_temperature(
        self, specimen: Specimen, one: float, other: float
    ) -> None:
        a, b = behaviour.sample(specimen, one), behaviour.sample(specimen, other)
        assert a.temperature_celsius is not None
        assert b.temperature_celsius is not None
        assert a.fan_percent is not None
        assert b.fan_percent is not None
        if a.temperature_celsius > b.temperature_celsius:
            assert a.fan_percent >= b.fan_percent

    @given(specimens, times, st.floats(0.001, 1e6))
    def test_energy_never_falls_nor_outruns_the_limit(
        self, specimen: Specimen, at: float, seconds: float
    ) -> None:
        first = behaviour.energy_joules(specimen, at)
        second = behaviour.energy_joules(specimen, at + seconds)
        assert 0 <= first <= second
        assert second - first <= specimen.limit_watts * seconds + 0.01

    @given(specimens, times)
    def test_a_new_cycle_goes_on_where_the_last_one_ended(
        self, specimen: Specimen, at: float
    ) -> None:
        began = behaviour.locate(specimen, at).began
        before, after = began - 0.01, began + 0.01
        energy = [behaviour.energy_joules(specimen, moment) for moment in (before, after)]
        heat = [behaviour.temperature_celsius(specimen, moment) for moment in (before, after)]
        assert energy[0] < energy[1] <= energy[0] + specimen.limit_watts * 0.021
        assert heat[1] == pytest.approx(heat[0], abs=0.3)

    @pytest.mark.slow
    @given(specimens, st.floats(NOON, NOON + 1e6))
    @settings(deadline=None)
    def test_energy_is_the_integral_of_power(self, specimen: Specimen, at: float) -> None:
        steps = 4000
        width = 200.0 / steps
        times = (at + (i + 0.5) * width for i in range(steps))
        watts = (behaviour.sample(specimen, each).power_watts or 0 for each in times)
        grown = behaviour.energy_joules(specimen, at + 200) - behaviour.energy_joules(specimen, at)
        assert sum(watts) * width == pytest.approx(grown, rel=0.005)

    @given(st.sampled_from(Workload), st.floats(0, 1, exclude_max=True))
    def test_every_cycle_lasts_as_long_and_takes_as_much(self, kind: Workload, luck: float) -> None:
        phases, profile = PROFILES[kind].phases(luck), PROFILES[kind]
        assert all(phase.seconds > 0 for phase in phases)
        assert sum(p.seconds for p in phases) == pytest.approx(profile.period_seconds)
        power = sum(p.power * p.seconds for p in phases) / profile.period_seconds
        assert power == pytest.approx(profile.mean_power)

    @given(specimens, times)
    def test_temperature_does_not_jump(self, specimen: Specimen, at: float) -> None:
        now = behaviour.temperature_celsius(specimen, at)
        assert abs(behaviour.temperature_celsius(specimen, at + 0.1) - now) < 0.5

    @given(specimens, times)
    def test_processes_began_before_now_and_cannot_be_real(
        self, specimen: Specimen, at: float
    ) -> None:
        found = behaviour.processes(specimen, at)
        assert len({p.pid for p in found}) == len(found)
        for process in found:
            assert process.pid > 2**22  # the most that Linux gives
            assert process.started is not None
            assert process.started <= at + 0.01
            assert process.name
            assert process.user
            assert process.command
        assert sum(p.utilization_percent or 0 for p in found) == (
            behaviour.utilization_percent(specimen, at)
        )

    @given(st.sampled_from(list(SCENARIOS)), times, st.booleans(), seeds)
    @settings(max_examples=min(30, 2 * settings().max_examples))
    def test_what_is_missing_has_a_reason_and_travels(
        self, scenario: str, at: float, watched: bool, seed: int
    ) -> None:
        backend = Simulation(10, seed=seed, scenario=scenario, origin=at + 1)
        for card in backend.open():
            (reading,) = backend.read(card, at, watched)
            absent = {n for n in SAMPLE_VALUES if getattr(reading.sample, n) is None}
            assert absent == set(reading.missing)
            assert wire_in.reading_from_json(
                wire.loads(wire.dumps(wire.reading_to_json(reading)), wire.ANSWER)
            ) == (reading)


class TestWorkloads:
    def test_training_is_busy_between_checkpoints_and_holds_its_memory(self) -> None:
        samples = film(playing(Workload.TRAINING))
        working = [s for s in samples if (s.utilization_percent or 0) >= 95]
        assert 0.85 < len(working) / len(samples) < 0.97
        assert min(busy(samples)) < 15
        assert len({s.memory_used_bytes for s in samples}) == 1
        assert all((s.power_watts or 0) / (s.power_limit_watts or 1) > 0.9 for s in working)

    @pytest.mark.slow
    def test_training_that_is_healthy_is_never_throttled(self) -> None:
        for model in MODELS:
            assert {s.throttle for s in film(playing(Workload.TRAINING, model))} == {()}

    def test_inference_comes_in_bursts_and_keeps_its_memory(self) -> None:
        specimen = playing(Workload.INFERENCE)
        samples = film(specimen)
        assert min(busy(samples)) == 0
        assert max(busy(samples)) >= 95
        assert len({min(u // 10, 9) for u in busy(samples)}) >= 6
        shares = {(s.memory_used_bytes or 0) / specimen.model.memory_bytes for s in samples}
        assert len(shares) == 1
        assert shares.pop() == pytest.approx(0.9, abs=0.01)

    def test_an_idle_card_is_empty_and_cool(self) -> None:
        for s in film(playing(Workload.IDLE), 60):
            assert (s.utilization_percent, s.memory_used_bytes) == (0, 0)
            assert (s.temperature_celsius or 99) < 40

    def test_an_idle_gaming_card_naps_with_its_desktop_on_it(self) -> None:
        specimen = playing(Workload.IDLE, "RTX 4090")
        (s,) = film(specimen, 1)
        assert (s.performance_state, s.pcie_generation, s.fan_percent) == (8, 1, 0)
        assert [p.kind for p in behaviour.processes(specimen, NOON)] == ["graphics"]

    def test_a_leak_grows_until_the_card_is_full_then_the_process_dies_and_returns(self) -> None:
        specimen = playing(Workload.LEAKING, "L4")
        runs: dict[int, list[int]] = {}
        gaps = 0
        for i in range(1300):
            held = behaviour.processes(specimen, NOON + i)
            gaps += not held
            for process in held:
                runs.setdefault(process.pid, []).append(process.memory_bytes or 0)
        assert len(runs) >= 2
        assert 10 <= gaps <= 30
        whole = max(runs.values(), key=len)
        steps = [b - a for a, b in pairwise(whole)]
        assert min(steps) > 0
        assert max(steps) - min(steps) <= 2  # linear, but for whole bytes
        assert whole[-1] > 0.95 * specimen.model.memory_bytes

    @pytest.mark.parametrize("model", list(MODELS))
    def test_an_overheating_card_climbs_to_its_slowdown_and_loses_its_clock(
        self, model: str
    ) -> None:
        specimen = playing(Workload.OVERHEATING, model)
        samples = film(specimen, 300, step=2.0)
        hot = [s for s in samples if "hw_thermal_slowdown" in (s.throttle or ())]
        warm = [s for s in samples if s.throttle == ("sw_thermal_slowdown",)]
        assert len(hot) > 30
        assert warm
        assert min(s.temperature_celsius or 0 for s in samples) < 80
        for s in hot:
            assert (s.temperature_celsius or 0) >= specimen.model.slowdown_celsius
            assert (s.sm_clock_mhz or 0) <= specimen.model.sm_clock_mhz / 2

    def test_a_power_cap_costs_more_than_a_fifth_of_the_clock(self) -> None:
        specimen = playing(Workload.POWER_CAPPED)
        for s in film(specimen, 200):
            assert s.throttle == ("sw_power_cap",)
            assert (s.power_limit_watts or 0) < 0.7 * specimen.model.power_watts
            assert (s.sm_clock_mhz or 9999) < 0.8 * specimen.model.sm_clock_mhz

    @pytest.mark.parametrize("model", ["H200", "H100", "A100", "MI300X"])
    def test_a_held_card_does_nothing_with_much_memory(self, model: str) -> None:
        specimen = playing(Workload.HELD, model)
        assert {s.utilization_percent for s in film(specimen, 120)} == {0}
        (process,) = behaviour.processes(specimen, NOON)
        assert (process.memory_bytes or 0) >= 40 * GIB

    def test_a_process_keeps_its_identity_through_its_run(self) -> None:
        specimen = playing(Workload.TRAINING)
        (first,) = behaviour.processes(specimen, NOON)
        (later,) = behaviour.processes(specimen, (first.started or 0) + 3600)
        assert (first.pid, first.started, first.user) == (later.pid, later.started, later.user)
        assert first.pid >= FIRST_PID

    def test_dear_counters_are_read_only_while_someone_watches(self) -> None:
        backend, (card, *_) = opened()
        watched, alone = read(backend, card, 1, True), read(backend, card, 1, False)
        assert watched.sample is not None
        assert watched.sample.tensor_active_percent is not None
        assert alone.missing["tensor_active_percent"] == "read only while someone is watching"
        assert alone.missing["fan_percent"] == "not supported by this device"


class TestScripts:
    def test_the_grammar(self) -> None:
        texts = ("lost:2@10..20", "hung:3@5", "slow:1=0.3", "ecc:4@1.5=2", "crash@10")
        assert parse_faults(texts) == (
            Script(ScriptedFault.LOST, 2, 10.0, 20.0, text="lost:2@10..20"),
            Script(ScriptedFault.HUNG, 3, 5.0, text="hung:3@5"),
            Script(ScriptedFault.SLOW, 1, value="0.3", text="slow:1=0.3"),
            Script(ScriptedFault.ECC, 4, 1.5, value="2", text="ecc:4@1.5=2"),
            Script(ScriptedFault.CRASH, since=10.0, text="crash@10"),
        )

    @pytest.mark.parametrize(
        "text",
        [
            "", "lost", "lost:", "lost:x", "lost:9", "lost:1@20..10", "lost:1@5..5", "lost:1=3",
            "explode:1", "slow:1", "slow:1=fast", "ecc:1=0", "ecc:1=-1", "unsupported:1=charm",
            "unsupported:1", "crash:1@5", "crash@5..6", "unavailable:2", "lost:1@-3", "LOST:1",
        ],
    )  # fmt: skip
    def test_nonsense_is_refused_with_its_text(self, text: str) -> None:
        with pytest.raises(Invalid) as caught:
            parse_faults([text], count=4)
        assert repr(text) in caught.value.mistakes[0]

    def test_all_mistakes_come_together(self) -> None:
        with pytest.raises(Invalid) as caught:
            parse_faults(["lost", "slow:9=x", "hung:1@3"], count=4)
        assert len(caught.value.mistakes) == 3

    @given(st.text("lostcrahungecw:@.=0123_ ", max_size=20))
    def test_any_text_is_a_script_or_invalid(self, text: str) -> None:
        try:
            (script,) = parse_faults([text])
        except Invalid:
            return
        assert script.trouble in ScriptedFault

    def test_a_lost_device_is_gone_and_comes_back(self) -> None:
        backend, cards = opened("lost:2@10..20")
        for elapsed in (0, 9.9, 20, 30):
            assert read(backend, cards[2], elapsed).sample is not None
        for elapsed in (10, 19.9):
            assert read(backend, cards[1], elapsed).sample is not None
            with pytest.raises(Gone) as caught:
                read(backend, cards[2], elapsed)
            assert "lost:2@10..20" in caught.value.hint

    def test_a_device_that_is_lost_now_cannot_be_described(self) -> None:
        backend = Simulation(2, faults=["lost:1@0"])
        healthy, lost = backend.open()
        assert backend.describe(healthy)
        with pytest.raises(Gone):
            backend.describe(lost)

    def test_an_unavailable_vendor_refuses_everything(self) -> None:
        backend, cards = opened("unavailable@5..8")
        assert read(backend, cards[0], 4.9).sample is not None
        with pytest.raises(Unavailable):
            read(backend, cards[0], 5)
        assert read(backend, cards[0], 8).sample is not None
        with pytest.raises(Unavailable):
            Simulation(1, faults=["unavailable@0"]).open()

    def test_an_ecc_error_is_counted_from_its_time_even_on_a_card_without_ecc(self) -> None:
        backend = Simulation(1, models=["RTX 4090"], faults=["ecc:0@15=2"], origin=NOON)
        (card,) = backend.open()
        before, after = read(backend, card, 14), read(backend, card, 15)
        assert before.sample is not None
        assert before.sample.ecc_uncorrected is None
        assert after.sample is not None
        assert after.sample.ecc_uncorrected == 2
        assert "ecc_uncorrected" not in after.missing

    def test_a_reading_can_be_taken_away(self) -> None:
        backend, cards = opened("unsupported:0=power_watts", "unsupported:0=processes")
        reading = read(backend, cards[0], 1)
        assert reading.sample is not None
        assert reading.sample.power_watts is None
        assert reading.processes == ()
        assert {"power_watts", "processes"} <= reading.missing.keys()
        assert read(backend, cards[1], 1).processes

    def test_a_slow_device_takes_its_time(self) -> None:
        backend, cards = opened("slow:1=0.05")
        began = time.monotonic()
        read(backend, cards[1], 1)
        assert time.monotonic() - began >= 0.05

    def test_a_hung_read_returns_when_the_script_ends(self) -> None:
        backend, cards = opened("hung:3@5..5.05")
        began = time.monotonic()
        assert read(backend, cards[3], 5).sample is not None
        assert time.monotonic() - began >= 0.04

    def test_a_hung_device_holds_its_own_thread_and_no_other(self) -> None:
        backend, cards = opened("hung:3@5")
        asked, returned = threading.Event(), threading.Event()

        def ask() -> None:
            asked.set()
            read(backend, cards[3], 5)
            returned.set()

        threading.Thread(target=ask, daemon=True).start()
        assert asked.wait(60)
        backend.close()
        assert read(backend, cards[2], 6).sample is not None
        assert not returned.wait(0.05)

    @pytest.mark.process
    @pytest.mark.parametrize(("origin", "code"), [("None", -signal.SIGSEGV), ("0.0", 0)])
    def test_a_crash_kills_the_process_once(self, origin: str, code: int) -> None:
        """With an origin long ago the crash has happened, and a new reader lives."""
        program = (
            "import time; from andon.drivers.sim.backend import Simulation\n"
            f"sim = Simulation(1, faults=['crash@10'], origin={origin})\n"
            "card = sim.open()[0]; now = time.time()\n"
            "sim.read(card, now + 5, False); sim.read(card, now + 15, False)"
        )
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == code

    def test_the_faulty_scenario_has_one_of_each(self) -> None:
        backend, cards = opened(count=4, scenario="faulty")
        sick = read(backend, cards[0], 1)
        assert sick.sample is not None
        assert sick.sample.ecc_uncorrected == 1
        with pytest.raises(Gone):
            read(backend, cards[1], 1)
        assert read(backend, cards[3], 1).sample is not None
        assert "hung:2@0" in SCENARIOS["faulty"].faults

    def test_scenarios_keep_their_faults_to_the_devices_that_exist(self) -> None:
        (card,) = Simulation(1, scenario="faulty").open()
        assert card.index == 0
