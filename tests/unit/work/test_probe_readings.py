"""What a probe reads of its devices, and what it says where that is not enough."""

from collections.abc import Iterator, Mapping

import pytest
from msgspec.structs import replace

from andon.model.device import Device, DeviceStatus, Sample, Snapshot, State
from andon.model.probe import TrialState
from andon.model.request import Ring, RunAccount
from andon.runs.rules.sampled import run_devices
from andon.sampling.bus import Subscription
from andon.units import GIB
from andon.work.probe import shelf
from andon.work.probe.prober import Prober
from andon.work.probe.trial_readings import NEVER_READ, MemoryReturn, TrialMeter
from andon.work.rules.probe import ProbePlan, TrialEnd

CARD = Device("GPU-1", 0, "nvidia", "NVIDIA H200", memory_total_bytes=140 * GIB)


class PlannedSource:
    """Has one memory reading after the other; the last one stays. Its sessions stay empty."""

    def __init__(self, *used: int | None) -> None:
        self._used: Iterator[int | None] = iter(used)
        self._now: int | None = None
        self._at = 0.0

    def once(
        self,
        expensive_fields: bool = False,
        with_host: bool = True,
        account: RunAccount = RunAccount.NONE,
    ) -> Snapshot:
        self._now, self._at = next(self._used, self._now), self._at + 1.0
        sample = Sample(self._at, memory_used_bytes=self._now, utilization_percent=50)
        return Snapshot("n", self._at, devices=(DeviceStatus(CARD, State.OK, 0.0, sample=sample),))

    def subscribe(self, interval_seconds: float, watching: bool = False) -> Subscription:
        return Subscription(interval_seconds, watching, 4, lambda: None)

    def account(self, wanted: RunAccount) -> None:
        """Nothing is counted here."""

    def rings(self) -> Mapping[str, Ring]:
        return {}


DEVICES = run_devices(PlannedSource().once(), [CARD.uuid])


@pytest.mark.parametrize(
    ("used", "words"),
    [
        ((GIB, 90 * GIB, GIB), None),
        ((GIB, GIB + 10), None),
        ((GIB, 9 * GIB), "GPU 0 still held 9.0 GiB 0 s after the trial before this one (1.0 GiB"),
        ((GIB, None), "the memory of GPU 0 could not be read"),
    ],
)
def test_the_next_trial_waits_for_the_memory_of_the_last(
    used: tuple[int | None, ...], words: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("andon.work.probe.trial_readings.BACK_SECONDS", 0.02)
    back = MemoryReturn(PlannedSource(*used), DEVICES, simulated=False)
    said = back.wait()
    assert said == words if words is None or said is None else said.startswith(words)


def test_simulated_memory_is_not_waited_for() -> None:
    assert MemoryReturn(PlannedSource(1, 9 * GIB), DEVICES, simulated=True).wait() is None


def test_a_trial_that_ended_before_a_sample_has_no_numbers_but_a_reason() -> None:
    read = TrialMeter(PlannedSource(GIB), DEVICES).close()
    assert (read.peak_memory_bytes, read.utilization_percent, read.samples) == (None, None, 0)
    assert read.missing["peak_memory_bytes"] == read.missing["utilization_percent"] == NEVER_READ
    assert read.energy_joules is None
    assert read.missing["energy_joules"]


PLAN = ProbePlan("t", "t {n}", "NVIDIA H200", 1, "n", 1, 64)


def test_a_search_ends_at_the_trial_that_decides_nothing() -> None:
    def attempt(size: int) -> TrialEnd:
        return TrialEnd(0 if size < 4 else 3, None, 0.1, f"line of {size}\n")

    told: list[int] = []
    outcome = Prober(
        PLAN, attempt, PlannedSource(0), DEVICES, lambda one: told.append(one.size)
    ).run()
    assert told == [1, 2, 4]
    assert outcome.broken is not None
    assert (outcome.broken.state, outcome.output) == (TrialState.FAILED, "line of 4\n")
    assert (outcome.probe.largest, outcome.probe.complete) == (2, False)
    assert outcome.probe.trials[0].missing["throughput"]


def test_a_probe_replaces_an_earlier_one_of_the_same_command_and_model() -> None:
    assert shelf.stored_probes() == []
    outcome = Prober(PLAN, lambda size: TrialEnd(0, None, 0.1, ""), PlannedSource(0), DEVICES).run()
    path = shelf.store_probe(outcome.probe)
    newer = replace(outcome.probe, at=outcome.probe.at + 1, largest=32)
    assert shelf.store_probe(newer) == path
    other = replace(outcome.probe, model="NVIDIA A100")
    assert shelf.store_probe(other) != path
    (path.parent / "broken.json").write_text("{")
    assert shelf.stored_probes() == [newer, other]
    assert oct(path.stat().st_mode & 0o777) == "0o600"
